"""Who may call what: every route, by everybody. A route that is not in the table fails here by itself."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest
from fastapi import APIRouter

from schedkit.api.access import Guarded, needs
from schedkit.api.app import ROUTERS
from schedkit.model.access import Role
from schedkit.roles.recovery import recount_all
from tests.api.asking import DAILY, body, refused
from tests.api.keyed import CALLERS, PAST, Keyed, keyed
from tests.documented import app_of
from tests.worlds import URL

RUN: Final = {"epoch": 1}


class Row(NamedTuple):
    """What a route needs, whether it names a thing that is somebody's, a body for it, and whether the run is dead."""

    role: Role | None
    owned: bool = False
    body: Any = None
    dead: bool = False


V, O, A = Role.VIEWER, Role.OPERATOR, Role.ADMIN  # noqa: E741 - a table is read by its columns
ROUTES: Final[dict[str, Row]] = {
    "GET /healthz": Row(None),
    "GET /readyz": Row(None),
    "GET /metrics": Row(V),
    "GET /v1/version": Row(V),
    "GET /v1/whoami": Row(V),
    "GET /v1/ops/snapshot": Row(V),
    "GET /v1/ops/stream": Row(V),
    "POST /v1/schedules:preview": Row(V, body={"schedule": DAILY}),
    "GET /v1/jobs": Row(V),
    "POST /v1/jobs": Row(O, body=body()),
    "POST /v1/jobs:batchCreate": Row(O, body={"jobs": [body()]}),
    "GET /v1/jobs/{ref}": Row(V, owned=True),
    "GET /v1/jobs/{ref}/runs": Row(V, owned=True),
    "GET /v1/jobs/{ref}/next": Row(V, owned=True),
    "GET /v1/jobs/{ref}/ledger": Row(V, owned=True),
    "PATCH /v1/jobs/{ref}": Row(O, owned=True, body={"priority": "LOW"}),
    "DELETE /v1/jobs/{ref}": Row(O, owned=True),
    "POST /v1/jobs/{ref}:pause": Row(O, owned=True),
    "POST /v1/jobs/{ref}:resume": Row(O, owned=True),
    "POST /v1/jobs/{ref}:trigger": Row(O, owned=True),
    "POST /v1/jobs/{ref}:skipNext": Row(O, owned=True),
    "POST /v1/jobs/{ref}:backfill": Row(O, owned=True, body=PAST),
    "GET /v1/backfills": Row(V),
    "GET /v1/backfills/{backfill_id}": Row(V, owned=True),
    "POST /v1/backfills/{backfill_id}:pause": Row(O, owned=True),
    "POST /v1/backfills/{backfill_id}:resume": Row(O, owned=True),
    "POST /v1/backfills/{backfill_id}:stop": Row(O, owned=True),
    "GET /v1/runs": Row(V),
    "GET /v1/runs/{run_id}": Row(V, owned=True),
    "POST /v1/runs/{run_id}:cancel": Row(O, owned=True),
    "POST /v1/runs/{run_id}:retry": Row(O, owned=True, body={"include_unknown": True}, dead=True),
    "POST /v1/runs/{run_id}:resolve": Row(O, owned=True, body={"as": "SUCCEEDED"}, dead=True),
    "GET /v1/dlq": Row(V),
    "GET /v1/dlq/{run_id}": Row(V, owned=True, dead=True),
    "POST /v1/dlq:redrive": Row(O, body={"filter": {}}),
    "POST /v1/dlq:drop": Row(O, body={"filter": {}}),
    "GET /v1/redrives": Row(V),
    "GET /v1/redrives/{redrive_id}": Row(V, owned=True),
    "POST /v1/redrives/{redrive_id}:pause": Row(O, owned=True),
    "POST /v1/redrives/{redrive_id}:resume": Row(O, owned=True),
    "POST /v1/redrives/{redrive_id}:continue": Row(O, owned=True),
    "POST /v1/redrives/{redrive_id}:stop": Row(O, owned=True),
    "DELETE /v1/redrives/{redrive_id}": Row(O, owned=True),
    "POST /v1/task-queues/{task_queue}/tasks:poll": Row(O, body={"worker_id": "w"}),
    "POST /v1/runs/{run_id}:heartbeat": Row(O, owned=True, body=RUN),
    "POST /v1/runs/{run_id}:complete": Row(O, owned=True, body=RUN | {"outcome": "SUCCEEDED"}),
    "POST /v1/runs/{run_id}:release": Row(O, owned=True, body=RUN),
    "POST /v1/runs:batchHeartbeat": Row(O, body={"heartbeats": [RUN | {"run_id": "job_1:x"}]}),
    "POST /v1/runs:batchComplete": Row(O, body={"completions": [RUN | {"run_id": "job_1:x", "outcome": "SUCCEEDED"}]}),
    "GET /v1/workers": Row(V),
    "POST /v1/keys": Row(A, body={"name": "fresh", "role": "viewer"}),
    "GET /v1/keys": Row(A),
    "GET /v1/keys/{key_id}": Row(A, owned=True),
    "DELETE /v1/keys/{key_id}": Row(A, owned=True),
    "POST /v1/keys/{key_id}:rotate": Row(A, owned=True),
    "GET /v1/audit": Row(A),
}
LET_IN: Final = {
    200,
    201,
    202,
    204,
    409,
}  # 409: a run that nobody holds cannot be kept, and that is not said to strangers


def expected(row: Row, who: str) -> set[int]:
    """The statuses that somebody may get."""
    place = CALLERS[who]
    if row.role is None:
        return {200}
    if place is None:
        return {401}
    if not place[2].allows(row.role):
        return {403}
    return {404} if row.owned and who.startswith("other") else LET_IN


async def called(there: Keyed, route: str, who: str) -> Any:
    method, path = route.split(" ")
    row = ROUTES[route]
    options = {} if row.body is None else {"json": row.body}
    names = there.names | ({"run_id": there.names["dead"]} if row.dead else {})
    return await there.world.api.request(method, path.format(**names), headers=there.of(who), **options)


async def test_the_table_has_every_route_with_the_role_that_it_declares() -> None:
    async with keyed() as there:
        document = (await there.world.api.get("/openapi.json")).json()
    declared = {
        f"{method.upper()} {path}": operation["x-role"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert declared == {route: row.role and row.role.value for route, row in ROUTES.items()}


@pytest.mark.parametrize("who", CALLERS)
@pytest.mark.parametrize("route", ROUTES)
async def test_a_route_lets_in_whom_it_should_and_nobody_else_changes_anything(route: str, who: str) -> None:
    async with keyed() as there:
        before = there.stored()
        answer = await called(there, route, who)
        allowed = expected(ROUTES[route], who)
        assert answer.status_code in allowed, answer.text
        if not allowed & LET_IN:
            reasons = {401: "UNAUTHENTICATED", 403: "FORBIDDEN"}
            refused(answer, answer.status_code, reasons.get(answer.status_code, answer.json()["reason"]))
            assert there.stored() == before
        if answer.status_code == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("who", ["other team", "other tenant"])
async def test_what_is_not_there_for_somebody_reads_as_what_never_was(who: str) -> None:
    async with keyed() as there:
        for route, row in ROUTES.items():
            if row.owned and expected(row, who) == {404}:
                theirs = (await called(there, route, who)).json()
                named, there.names = there.names, dict.fromkeys(there.names, "job_01ARZ3NDEKTSV4RRFFQ69G5FAV")
                never = (await called(there, route, who)).json()
                there.names = named
                assert theirs["reason"] == never["reason"], route


@pytest.mark.parametrize("who", ["other team", "other tenant"])
async def test_lists_show_nothing_of_others(who: str) -> None:
    async with keyed() as there:
        for path in (
            "/v1/jobs",
            "/v1/runs",
            "/v1/workers",
            "/v1/dlq",
            "/v1/dlq?group_by=error",
            "/v1/redrives",
            "/v1/backfills",
        ):
            assert (await there.ask(who, "GET", path))["items"] == [], path
        snapshot = await there.ask(who, "GET", "/v1/ops/snapshot")
        assert set(snapshot["jobs"].values()) == {0}
        for by in ({"job": there.names["ref"]}, {"job": "digest"}):
            asked = await there.world.api.get("/v1/runs", params=by, headers=there.of(who))
            refused(asked, 404, "JOB_NOT_FOUND")
        entries = [RUN | {"run_id": there.names["run_id"]}]
        kept = await there.ask(who, "POST", "/v1/runs:batchHeartbeat", json={"heartbeats": entries})
        assert [result["status"] for result in kept["results"]] == [404]


async def test_an_admin_of_the_tenant_sees_every_team_and_no_other_tenant() -> None:
    async with keyed() as there:
        await there.ask("other team", "POST", "/v1/jobs", json=body(name="ads"))
        await there.ask("other tenant", "POST", "/v1/jobs", json=body(name="digest"))
        seen = (await there.ask("admin", "GET", "/v1/jobs"))["items"]
        assert {(job["name"], job["team_id"]) for job in seen} == {("digest", "payments"), ("ads", "growth")}
        assert {job["name"] for job in (await there.ask("viewer", "GET", "/v1/jobs"))["items"]} == {"digest"}
        keys = (await there.ask("other tenant", "GET", "/v1/keys"))["items"]
        assert [key["tenant_id"] for key in keys] == ["globex"]
        assert {record["tenant_id"] for record in await there.records("other tenant")} == {"globex"}


async def test_a_job_and_its_runs_belong_to_the_team_of_the_key_whatever_the_body_says() -> None:
    async with keyed() as there:
        job = await there.ask("operator", "GET", f"/v1/jobs/{there.names['ref']}")
        run = await there.ask("operator", "GET", f"/v1/runs/{there.names['run_id']}")
        assert {(it["tenant_id"], it["team_id"]) for it in (job, run)} == {("acme", "payments")}
        for field in ("tenant_id", "team_id"):
            asked = await there.world.api.post("/v1/jobs", json=body(**{field: "growth"}), headers=there.of("operator"))
            refused(asked, 400, "INVALID_ARGUMENT", field)


async def test_a_tenant_that_is_named_and_is_not_the_key_s_is_refused() -> None:
    async with keyed() as there:
        headers = there.of("operator") | {"Schedkit-Tenant": "globex"}
        refused(await there.world.api.get("/v1/jobs", headers=headers), 403, "FORBIDDEN", "Schedkit-Tenant")
        headers["Schedkit-Tenant"] = "acme"
        assert (await there.world.api.get("/v1/jobs", headers=headers)).status_code == 200


async def test_a_queue_is_a_team_s() -> None:
    async with keyed() as there:
        task = body(target={"type": "TASK_QUEUE", "task_queue": "rebuilds"})
        job = await there.ask("operator", "POST", "/v1/jobs", json=task)
        await there.ask("operator", "POST", f"/v1/jobs/{job['job_id']}:trigger")
        poll = "/v1/task-queues/rebuilds/tasks:poll"
        for who, handed in (("other team", 0), ("other tenant", 0), ("operator", 1)):
            answer = await there.ask(who, "POST", poll, json={"worker_id": "w", "max_tasks": 5})
            assert len(answer["tasks"]) == handed, who
        assert [seen["held"] for seen in (await there.ask("viewer", "GET", "/v1/workers"))["items"]] == [1]


@pytest.mark.parametrize(
    ("who", "place", "status"),
    [
        ("operator", "/run/secrets/acme/payments/billing", 201),
        ("operator", "/run/secrets/acme/growth/billing", 403),
        ("operator", "/run/secrets/globex/payments/billing", 403),
        ("operator", "/run/secrets/billing", 403),
        ("admin", "/run/secrets/acme/payments/billing", 403),
    ],
)
async def test_a_job_names_secrets_of_its_own_team_only(who: str, place: str, status: int) -> None:
    target = {"url": URL, "auth": {"type": "HMAC_SHA256", "secret_ref": f"file:{place}"}}
    async with keyed() as there:
        made = await there.world.api.post("/v1/jobs", json=body() | {"target": target}, headers=there.of(who))
        assert made.status_code == status, made.text
        path, patch = f"/v1/jobs/{there.names['ref']}", {"target": target}
        edited = await there.world.api.patch(path, json=patch, headers=there.of(who))
        assert edited.status_code == (200 if "acme/payments" in place else 403), edited.text


async def test_a_name_of_another_team_is_taken_and_nothing_more_is_told() -> None:
    async with keyed() as there:
        asked = await there.world.api.post("/v1/jobs", json=body(name="digest"), headers=there.of("other team"))
        refused(asked, 409, "NAME_IN_USE", "name")
        assert there.names["ref"] not in asked.text
        assert (await there.ask("other tenant", "POST", "/v1/jobs", json=body(name="digest")))["tenant_id"] == "globex"


async def test_the_demo_targets_are_not_there_where_keys_are_asked_for() -> None:
    async with keyed() as there:
        refused(await there.world.api.post("/_demo/echo", headers=there.of("admin")), 404, "ROUTE_NOT_FOUND")
        for page in ("/docs", "/openapi.json", "/healthz", "/readyz"):
            assert (await there.world.api.get(page)).status_code == 200, page


def test_a_route_that_declares_nothing_cannot_be_made() -> None:
    router = APIRouter(route_class=Guarded)

    async def silent() -> None: ...

    with pytest.raises(TypeError, match="does not say who may call it"):
        router.get("/v1/silent")(silent)
    router.get("/v1/said")(needs(Role.VIEWER)(silent))


async def test_every_route_of_the_api_is_guarded_but_the_two_pages_that_describe_it() -> None:
    assert [route for router in ROUTERS for route in router.routes if not isinstance(route, Guarded)] == []
    async with keyed() as there:
        others = [route for route in app_of(there.world.api).routes if not isinstance(route, Guarded)]
        assert {getattr(route, "path", None) for route in others} == {"/docs", "/openapi.json"}


async def test_the_jobs_of_every_tenant_are_recounted_when_zone_data_changes() -> None:
    """W2, for tenants other than the first: whoever has a key is known."""
    async with keyed() as there:
        job = await there.ask("other tenant", "POST", "/v1/jobs", json=body("0 8 * * *"))
        stored = await there.world.job(job["job_id"])
        early = {"zone_data": "2001a", "next_run_at": (stored.next_run_at or 0) - 3_600_000}
        await there.world.change(stored, early)
        assert await recount_all(there.world.new_world()) == 1
        assert (await there.world.job(job["job_id"])).next_run_at == stored.next_run_at
