"""API keys: made, used, replaced, revoked; what a wrong one hears, and that a right one is never told again."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest

from schedkit.api import access
from schedkit.api.attempts import Attempts
from schedkit.model.access import Role, id_in, key_hash, key_text, new_key_id
from schedkit.model.keys import api_key_key
from tests.api.asking import body, refused
from tests.api.keyed import Keyed, keyed
from tests.cases import load

IDEM_03 = next(case for case in load() if case.id == "idem-03")


async def make(there: Keyed, name: str = "deploy", role: str = "operator", **fields: Any) -> dict[str, Any]:
    return await there.ask("admin", "POST", "/v1/keys", json={"name": name, "role": role} | fields)


async def whoami(there: Keyed, secret: str) -> Any:
    return await there.world.api.get("/v1/whoami", headers={"Authorization": f"Bearer {secret}"})


async def test_a_key_that_was_made_says_who_calls() -> None:
    async with keyed() as there:
        made = await make(there, team_id="growth", expires_in_seconds=3_600)
        assert made["secret"].startswith(f"sk_test_{made['key_id']}_")
        assert (made["state"], made["created_by"], made["last_used_at"]) == ("LIVE", there.ids["admin"], None)
        assert (await whoami(there, made["secret"])).json() == {
            "auth": "api-key",
            "tenant_id": "acme",
            "team_id": "growth",
            "role": "operator",
            "key_id": made["key_id"],
            "key_name": "deploy",
            "expires_at": "2026-06-01T13:00:00Z",
        }


async def test_a_secret_is_in_one_answer_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with keyed() as there:
        made = await make(there)
        secret = made["secret"]
        random = secret.rpartition("_")[2]
        forms = [random, random.encode().hex(), base64.b64encode(random.encode()).decode().rstrip("=")[:-2]]
        said = []
        for method, path in [
            ("GET", "/v1/keys"),
            ("GET", f"/v1/keys/{made['key_id']}"),
            ("GET", "/v1/audit"),
            ("POST", f"/v1/keys/{made['key_id']}:rotate"),
            ("DELETE", f"/v1/keys/{made['key_id']}"),
        ]:
            said.append((await there.world.api.request(method, path, headers=there.of("admin"))).text)
        said.append((await whoami(there, secret)).text)
        said.append((await whoami(there, secret[:-1])).text)
        said.append(there.text())
        said.append(caplog.text)
        said.append(repr(there.keyring))
        assert not [form for form in forms for text in said if form in text]


@pytest.mark.parametrize("wrong", ["", "sk_", "Basic", "cut", "flipped", "of another server", "unknown", "é" * 70])
async def test_a_wrong_key_is_refused_and_nothing_is_told(wrong: str) -> None:
    async with keyed() as there:
        secret = (await make(there))["secret"]
        unknown = key_text("test", new_key_id(b"0123456789"), b"x" * 32)
        headers = {
            "": {},
            "Basic": {"Authorization": f"Basic {secret}"},
            "cut": {"Authorization": f"Bearer {secret[:-3]}"},
            "flipped": {"Authorization": f"Bearer {secret[:-9]}{'a' if secret[-9] != 'a' else 'b'}{secret[-8:]}"},
            "of another server": {"Authorization": f"Bearer {key_text('test', secret.split('_')[2], b'y' * 32)}"},
            "unknown": {"Authorization": f"Bearer {unknown}"},
        }.get(wrong, {"Authorization": b"Bearer " + wrong.encode()})
        answer = await there.world.api.get("/v1/jobs", headers=headers)  # type: ignore[arg-type]
        problem = refused(answer, 401, "UNAUTHENTICATED")
        assert "digest" not in answer.text
        known = await whoami(there, key_text("test", secret.split("_")[2], b"y" * 32))
        if wrong == "unknown":
            assert problem["detail"] == known.json()["detail"], "whether an id exists is not told"


async def test_an_id_that_nobody_has_is_compared_like_one_that_somebody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    async with keyed() as there:
        monkeypatch.setattr(access, "same_hash", lambda one, other: compared.append((len(one), len(other))))
        known = there.ids["admin"]
        for key_id in (known, new_key_id(b"0123456789")):
            await whoami(there, key_text("test", key_id, b"y" * 32))
    assert compared == [(64, 64), (64, 64)]


async def test_a_stolen_store_opens_nothing() -> None:
    async with keyed() as there:
        item = await there.world.store.get(api_key_key(there.ids["admin"]))
        assert item is not None
        secret = there.secrets["admin"]
        assert item["hash"] == key_hash(b"a pepper that only the tests know", secret)
        assert item["hash"] != key_hash(b"another pepper", secret)
        refused(await whoami(there, item["hash"]), 401, "UNAUTHENTICATED")


async def test_a_key_ends_when_it_expires_and_when_it_is_revoked() -> None:
    async with keyed() as there:
        short, long = await make(there, expires_in_seconds=60), await make(there)
        await there.world.wait(seconds=59)
        assert (await whoami(there, short["secret"])).status_code == 200
        await there.world.wait(seconds=1)
        assert "has expired" in refused(await whoami(there, short["secret"]), 401, "UNAUTHENTICATED")["detail"]
        for _ in range(2):
            gone = await there.ask("admin", "DELETE", f"/v1/keys/{long['key_id']}")
            assert gone["state"] == "REVOKED"
        told = refused(await whoami(there, long["secret"]), 401, "UNAUTHENTICATED")
        assert "was revoked" in told["detail"]
        assert f"schedkit key create {long['name']} --role {long['role']}" in told["fix"][0], "an ended key has no heir"


async def test_a_successor_takes_over_while_both_are_good() -> None:
    async with keyed() as there:
        old = await make(there, team_id="growth")
        new = await there.ask("admin", "POST", f"/v1/keys/{old['key_id']}:rotate", json={"grace_seconds": 3_600})
        assert (new["name"], new["team_id"], new["role"]) == ("deploy", "growth", "operator")
        for key in (old, new):
            assert (await whoami(there, key["secret"])).status_code == 200
        await there.world.wait(hours=1)
        refused(await whoami(there, old["secret"]), 401, "UNAUTHENTICATED")
        assert (await whoami(there, new["secret"])).status_code == 200
        again = await there.world.api.post(f"/v1/keys/{old['key_id']}:rotate", headers=there.of("admin"))
        refused(again, 409, "KEY_ENDED")


async def test_a_name_has_two_live_keys_at_most_also_when_many_are_made_at_once() -> None:
    async with keyed() as there:
        asked = (
            there.world.api.post("/v1/keys", json={"name": "n", "role": "viewer"}, headers=there.of("admin"))
            for _ in range(9)
        )
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [201, 201, *[409] * 7]
        live = [
            key for key in (await there.ask("admin", "GET", "/v1/keys", params={"name": "n", "live": True}))["items"]
        ]
        assert len(live) == 2
        refused(answers[-1] if answers[-1].status_code == 409 else answers[0], 409, "KEYS_AT_LIMIT", "name")
        third = await there.world.api.post(f"/v1/keys/{live[0]['key_id']}:rotate", headers=there.of("admin"))
        refused(third, 409, "KEYS_AT_LIMIT", "name")
        await there.ask("admin", "DELETE", f"/v1/keys/{live[0]['key_id']}")
        assert (await make(there, "n", "viewer"))["state"] == "LIVE"


async def test_keys_of_one_name_may_do_the_same() -> None:
    async with keyed() as there:
        await make(there)
        for fields in ({"role": "admin"}, {"role": "operator", "team_id": "growth"}):
            other = {"name": "deploy"} | fields
            refused(
                await there.world.api.post("/v1/keys", json=other, headers=there.of("admin")),
                409,
                "NAME_IN_USE",
                "name",
            )


async def test_the_last_use_is_noted_once_a_minute() -> None:
    async with keyed() as there:
        key = await make(there)
        noted = []
        for _ in range(5):
            await whoami(there, key["secret"])
            noted.append((await there.ask("admin", "GET", f"/v1/keys/{key['key_id']}"))["last_used_at"])
            await there.world.wait(seconds=25)
        assert [at[11:19] for at in noted] == ["12:00:00", "12:00:00", "12:00:00", "12:01:15", "12:01:15"]


async def test_who_fails_again_and_again_waits_and_a_right_key_does_not() -> None:
    async with keyed() as there:
        answers = [await whoami(there, "sk_wrong") for _ in range(12)]
        assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
        problem = refused(answers[-1], 429, "QUOTA_EXCEEDED")
        assert problem["scope"] == "address"
        assert int(answers[-1].headers["retry-after"]) == problem["retry_after_seconds"] == 60
        assert (await whoami(there, there.secrets["viewer"])).status_code == 200
        await there.world.wait(minutes=1)
        assert (await whoami(there, "sk_wrong")).status_code == 401


async def test_one_idempotency_key_in_two_tenants_is_two_wishes() -> None:
    """idem-03: a key is its caller's; what it made for one tenant is not another one's answer."""
    async with keyed() as there:
        callers = {"t1": "operator", "t2": "other tenant"}
        said, ids = [], []
        for request in IDEM_03.input["requests"]:
            text = body_with(request["body_raw"])
            headers = there.of(callers[request["tenant"]]) | {
                "Idempotency-Key": request["key"],
                "Content-Type": "application/json",
            }
            answer = await there.world.api.post("/v1/jobs", content=text, headers=headers)
            said.append(answer.status_code)
            ids.append(answer.json()["job_id"])
        names = {ids[0]: "job_a", ids[2]: "job_b"}
        for status, job_id, expected in zip(said, ids, IDEM_03.expected["results"], strict=True):
            assert str(status) in expected
            assert names[job_id] in expected
        team = there.of("other team") | {"Idempotency-Key": "k1"}
        other = await there.world.api.post("/v1/jobs", json=body(payload={"a": 1, "b": 2}), headers=team)
        assert (other.status_code, other.json()["team_id"]) == (201, "growth")


def body_with(payload: str) -> str:
    return json.dumps(body()).removesuffix("}") + f', "payload": {payload}}}'


async def test_a_key_s_text_tells_a_typing_error_from_a_key() -> None:
    text = key_text("dev", new_key_id(b"0123456789"), bytes(range(32)))
    assert id_in(text) == new_key_id(b"0123456789")
    wrong = [text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :] for place in range(len(text))]
    assert [other for other in wrong if id_in(other) is not None] == []
    assert Role.ADMIN.allows(Role.VIEWER)
    assert not Role.VIEWER.allows(Role.OPERATOR)


def wait_of(failures: list[tuple[str, int]]) -> int | None:
    """For how many seconds the last address is to wait, after (address, time in ms) of each failure."""
    attempts = Attempts()
    return [attempts.failed(address, at) for address, at in failures][-1]


def test_addresses_that_fail_are_counted_apart_and_not_for_ever() -> None:
    assert wait_of([("a", 0)] * 11) == 60
    assert wait_of([("a", 0)] * 9 + [("b", 0)] * 2) is None
    assert wait_of([("a", 0)] * 11 + [(f"x{n}", 1) for n in range(5_000)] + [("a", 2)]) is None, "memory is bounded"
