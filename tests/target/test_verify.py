"""Whether a call is ours: what is accepted, and that nothing in it can be changed (sig-01, F8)."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.engine.signing import signature, signed_headers
from schedkit.target import Cause, Delivery, InvalidSignature, verify
from tests.cases import of_kinds

(SIG,) = of_kinds("signature")
NOW = SIG.input["now"]
KEY = "job_01J9ZK8V4T6Q:2026-09-28T12:00:00Z"
BODY = b'{"user_id":1001}'
SECRET = "k9-of-the-tests"  # noqa: S105 - nobody else has it


def call(**over: str) -> dict[str, str]:
    """The headers of a call made now."""
    signed = signed_headers([SECRET.encode()], KEY, BODY, NOW * 1_000)
    return {"Idempotency-Key": KEY, "X-Fencing-Token": "7", "X-Attempt": "3", **signed, **over}


def stamped(timestamp: str) -> dict[str, str]:
    """A call that says this timestamp, and is signed with it as it stands."""
    signed = signature(SECRET.encode(), KEY, timestamp, BODY)
    return call(**{"webhook-timestamp": timestamp, "webhook-signature": signed})


def cause(headers: Any, body: bytes = BODY, secret: Any = SECRET, **options: Any) -> Cause | None:
    """Why a call is refused, or None where it is accepted."""
    try:
        verify(headers, body, secret, **{"now": NOW} | options)
    except InvalidSignature as refused:
        assert SECRET not in str(refused)  # noqa: PT017 - every refusal of these tests is looked at
        return refused.reason
    return None


def test_a_call_of_ours_tells_its_key_token_attempt_and_time() -> None:
    assert verify(call(), BODY, SECRET, now=NOW) == Delivery(KEY, NOW, epoch=7, attempt=3)


def test_by_default_now_is_this_machines_clock() -> None:
    assert cause(call(), now=None) in (Cause.TIMESTAMP_TOO_OLD, Cause.TIMESTAMP_AHEAD, None)
    assert cause(stamped("0"), now=None) is Cause.TIMESTAMP_TOO_OLD


@pytest.mark.parametrize(("timestamp", "accepted"), zip(SIG.input["timestamps"], SIG.expected["accepted"], strict=True))
def test_timestamps_that_others_let_through(timestamp: str, accepted: bool) -> None:
    """sig-01. Each is signed, so that nothing but its own form and age is judged."""
    assert (cause(stamped(timestamp), tolerance=SIG.input["tolerance_seconds"]) is None) is accepted, SIG.why


@pytest.mark.parametrize("form", ["+{}", "-{}", " {}", "{} ", "{}\n", "0{}", "{}e0", "0x{}", "-0", "{}" + "0" * 12])
def test_a_timestamp_is_digits_and_nothing_else(form: str) -> None:
    assert cause(stamped(form.format(NOW))) is Cause.TIMESTAMP_MALFORMED


def test_digits_of_other_scripts_are_no_digits() -> None:
    arabic = str(NOW).translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
    assert int(arabic) == NOW, "which is what a plain int() would say"
    assert cause(stamped(arabic)) is Cause.HEADER_MALFORMED


@pytest.mark.parametrize(
    ("apart", "refused"),
    [(300, None), (301, Cause.TIMESTAMP_TOO_OLD), (-300, None), (-301, Cause.TIMESTAMP_AHEAD), (300.9, None)],
)
def test_clocks_may_be_five_minutes_apart_in_both_directions(apart: float, refused: Cause | None) -> None:
    assert cause(call(), now=NOW + apart) is refused


def test_the_tolerance_is_the_callers_to_choose() -> None:
    assert cause(call(), now=NOW + 11, tolerance=10) is Cause.TIMESTAMP_TOO_OLD
    assert cause(call(), now=NOW + 86_400, tolerance=86_400) is None


@pytest.mark.parametrize("shape", ["lower", "upper", "bytes", "pairs", "raw pairs"])
def test_headers_come_in_every_shape(shape: str) -> None:
    headers = call()
    shapes: dict[str, Any] = {
        "lower": {name.lower(): value for name, value in headers.items()},
        "upper": {name.upper(): value for name, value in headers.items()},
        "bytes": {name.encode(): value.encode() for name, value in headers.items()},
        "pairs": list(headers.items()),
        "raw pairs": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    assert verify(shapes[shape], BODY, SECRET, now=NOW).epoch == 7


def test_other_headers_do_not_matter_and_a_double_one_of_ours_does() -> None:
    assert cause([*call().items(), ("X-Other", "ü"), ("X-Other", "2")]) is None
    assert cause([*call().items(), ("Webhook-Id", KEY)]) is Cause.HEADER_TWICE


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_call_without_one_of_the_three_is_refused(name: str) -> None:
    headers = call()
    del headers[name]
    assert cause(headers) is Cause.HEADER_MISSING
    assert cause({}) is Cause.HEADER_MISSING


def test_a_call_of_another_sender_need_not_have_our_own_headers() -> None:
    signed = signed_headers([SECRET.encode()], "msg_1", BODY, NOW * 1_000)
    assert verify(signed, BODY, SECRET, now=NOW) == Delivery("msg_1", NOW)


def test_one_of_several_signatures_and_one_of_several_secrets_is_enough() -> None:
    good = call()["webhook-signature"]
    for text in (f"v1,AAAA {good}", f"v2,xyz {good} v1,", f"v1a,{good} {good}"):
        assert cause(call(**{"webhook-signature": text})) is None
    assert cause(call(), secret=["other", SECRET]) is None
    assert cause(call(), secret=[b"other", SECRET.encode()]) is None
    assert cause(call(), secret="whsec_" + base64.b64encode(SECRET.encode()).decode()) is None


@pytest.mark.parametrize("text", ["", "v1", "v1,", "v2,{}", "V1,{}", "{}", "v1,{}=", "v1, {}", "v1;{}", "v1,{},v1,{}"])
def test_no_signature_of_a_known_version_is_none(text: str) -> None:
    encoded = call()["webhook-signature"].removeprefix("v1,")
    assert cause(call(**{"webhook-signature": text.format(encoded, encoded)})) is Cause.SIGNATURE_WRONG


@pytest.mark.parametrize("secret", ["", b"", [], ["good", ""], "whsec_", "whsec_%%%"])
def test_a_secret_that_is_none_is_an_error_of_this_side(secret: Any) -> None:
    """An empty setting must not become a door."""
    forged = signed_headers([b""], KEY, BODY, NOW * 1_000)
    with pytest.raises(ValueError, match="secret"):
        verify(forged, BODY, secret, now=NOW)


def test_a_key_that_is_not_the_signed_id_is_refused() -> None:
    """A copy of a call under another idempotency key would be done again."""
    assert cause(call(**{"Idempotency-Key": KEY + "x"})) is Cause.KEY_DIFFERS


@pytest.mark.parametrize("body", ["{now}.5", "{now}.", "x.{now}.5", '"a.b.{now}.c"'])
def test_a_body_cannot_be_cut_into_a_call_under_another_id(body: str) -> None:
    """What is signed is id.timestamp.body: whoever chooses a payload could choose where the dots stand."""
    text = body.format(now=NOW + 86_400)
    headers = signed_headers([SECRET.encode()], KEY, text.encode(), NOW * 1_000)
    assert cause(headers, text.encode()) is None
    head, _, rest = text.partition(f"{NOW + 86_400}.")
    forged = {"webhook-id": f"{KEY}.{NOW}.{head}".rstrip("."), "webhook-timestamp": str(NOW + 86_400)}
    cut = signature(SECRET.encode(), forged["webhook-id"], forged["webhook-timestamp"], rest.encode())
    assert cut == headers["webhook-signature"], "the very same signature"
    assert cause(headers | forged, rest.encode(), now=NOW + 86_400) is Cause.HEADER_MALFORMED


def test_a_key_with_milliseconds_is_an_id_like_others() -> None:
    headers = signed_headers([SECRET.encode()], "job_1:2026-09-28T12:00:00.250Z", BODY, NOW * 1_000)
    assert cause(headers) is None


@pytest.mark.parametrize("name", ["X-Fencing-Token", "X-Attempt"])
@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "nan", "1_0", "٣", " 1", "01", "9" * 19])
def test_a_token_or_an_attempt_is_a_whole_number(name: str, text: str) -> None:
    assert cause(call(**{name: text})) is Cause.HEADER_MALFORMED


SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature", "Idempotency-Key", "body", "secret")


@given(field=st.sampled_from(SIGNED), at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_with_any_bit_flipped_a_call_is_refused(field: str, at: int, bit: int) -> None:
    parts = {name: value.encode() for name, value in call().items()} | {"body": BODY, "secret": SECRET.encode()}
    flipped = bytearray(parts[field])
    flipped[at % len(flipped)] ^= 1 << bit
    parts[field] = bytes(flipped)
    body, secret = parts.pop("body"), parts.pop("secret")
    with pytest.raises(InvalidSignature):
        verify(parts, body, secret, now=NOW)


ANY_TEXT = st.text(st.characters(max_codepoint=0x2FF), max_size=40)


@given(st.dictionaries(st.sampled_from(sorted(call())), ANY_TEXT | st.binary(max_size=40)), st.binary(max_size=40))
def test_whatever_comes_is_refused_in_the_same_way(headers: dict[str, Any], body: bytes) -> None:
    with pytest.raises(InvalidSignature):
        verify({**headers}, body, SECRET, now=NOW)


def test_a_receiver_loads_nothing_but_the_standard_library() -> None:
    look = (
        "import json, sys; before = set(sys.modules); import schedkit.target;"
        "print(json.dumps(sorted({name for name in set(sys.modules) - before})))"
    )
    command = [sys.executable, "-c", look]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    loaded = set(json.loads(done.stdout))
    assert {name for name in loaded if name.startswith("schedkit")} == {
        "schedkit", "schedkit.engine", "schedkit.engine.signing", "schedkit.target"
    }  # fmt: skip
    others = {name.partition(".")[0] for name in loaded} - {"schedkit"}
    assert others <= sys.stdlib_module_names
