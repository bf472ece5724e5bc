"""Signatures by the Standard Webhooks scheme: whoever has the secret can tell that a call is ours and unchanged (F8).

webhook-id          the idempotency key of the run
webhook-timestamp   seconds since 1970, those of this call: each retry is signed anew
webhook-signature   v1,BASE64(HMAC-SHA256(secret, id.timestamp.body)) for each secret that is live, with blanks between

Sender and receiver share this file, and it imports nothing of ours, so that a receiver loads nothing else with it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
VERSION: Final = "v1"
ENCODED_PREFIX: Final = b"whsec_"  # what follows it is base64
MS_PER_SECOND: Final = 1_000


def signing_key(secret: bytes) -> bytes:
    """The key that a secret stands for: `whsec_` and base64 is decoded, everything else is the key as it is.

    Raises ValueError for an empty key and for what is not base64; its text never holds the secret.
    """
    key = secret
    if secret.startswith(ENCODED_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(ENCODED_PREFIX), validate=True)
        except ValueError:
            raise ValueError("a secret that begins with whsec_ goes on in base64, and this one does not") from None
    if not key:
        raise ValueError("a secret cannot be empty: anybody could sign with it")
    return key


def signature(key: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """`v1,` and the base64 of the HMAC over `id.timestamp.body`, the texts as they stand in the headers."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return f"{VERSION},{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


def signed_headers(keys: Sequence[bytes], message_id: str, body: bytes, now: int) -> dict[str, str]:
    """The three headers of a call made at `now` (ms): one signature for each key, the newest first."""
    timestamp = str(now // MS_PER_SECOND)
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: timestamp,
        SIGNATURE_HEADER: " ".join(signature(key, message_id, timestamp, body) for key in keys),
    }
