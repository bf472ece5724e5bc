"""Signatures as others make them: the scheme's own example, secrets in both forms, two of them while one is rotated."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from schedkit.engine.signing import signature, signed_headers, signing_key

NOW = 1_796_083_200_999  # ms


def test_the_example_of_the_scheme_comes_out() -> None:
    """The example with which every library of Standard Webhooks is tested."""
    key = signing_key(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_call_says_its_id_its_second_and_one_signature_for_each_secret() -> None:
    headers = signed_headers([b"new", b"old"], "job_1:2026-09-28T12:00:00Z", b"{}", NOW)
    assert headers["webhook-id"] == "job_1:2026-09-28T12:00:00Z"
    assert headers["webhook-timestamp"] == "1796083200", "whole seconds, rounded down"
    content = b"job_1:2026-09-28T12:00:00Z.1796083200.{}"
    by_hand = [base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode() for key in (b"new", b"old")]
    assert headers["webhook-signature"] == " ".join(f"v1,{text}" for text in by_hand)


def test_a_secret_is_the_key_itself_unless_it_says_that_it_is_encoded() -> None:
    assert signing_key(b"raw \xff bytes") == b"raw \xff bytes"
    assert signing_key(b"whsec_" + base64.b64encode(b"raw")) == b"raw"


@pytest.mark.parametrize("secret", [b"", b"whsec_", b"whsec_no base64", b"whsec_c2VjcmV0LXZhbHV"])
def test_a_secret_that_is_none_is_refused_without_being_quoted(secret: bytes) -> None:
    with pytest.raises(ValueError, match="a secret") as refused:
        signing_key(secret)
    assert "c2Vjcm" not in str(refused.value)
    assert refused.value.__cause__ is None
