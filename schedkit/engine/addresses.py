"""Where calls may go: which URLs a job may name, and which addresses a name may turn out to be (F9).

Refused whatever the deployment says: anything but http and https, credentials in the URL, numbers spelled as no one
spells them (127.1, 0x7f000001, 2130706433), metadata services, unspecified, multicast and reserved addresses, and IPv6
forms that wrap an IPv4 one. Private and loopback addresses are refused unless the deployment lists their network;
embedded mode allows loopback.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from schedkit.errors import InvalidInput, Reason

MAX_URL_CHARS: Final = 2_048

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA: Final = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "100.100.100.200", "fd00:ec2::254", "168.63.129.16")
)
WRAPPING: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/32",
    )
)
LOOPBACK_6: Final = ipaddress.ip_address("::1")
SHARED: Final = ipaddress.ip_network("100.64.0.0/10")  # carrier-grade NAT: neither private nor global to Python
SITE_LOCAL: Final = ipaddress.ip_network("fec0::/10")  # private in all but name, and global to Python

_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
_LOOKS_NUMERIC: Final = re.compile(r"(0[xX][0-9a-fA-F]*|\d+)(\.(0[xX][0-9a-fA-F]*|\d+))*\.?")


def check_url(url: str, *, loopback_allowed: bool, allowed_networks: Sequence[str], field: str) -> SplitResult:
    """The parts of a URL that a job may call. Raises InvalidInput (TARGET_NOT_ALLOWED; INVALID_ARGUMENT if malformed).

    A host name is only looked at as text here; what it resolves to is checked at each call.
    """
    parts = _split(url, field)
    if parts.scheme not in ("http", "https"):
        raise _not_allowed(
            url,
            f"it begins with {parts.scheme}:" if parts.scheme else "it has no scheme",
            field,
            "only http and https are spoken to targets",
            "write the URL as https://host/path",
        )
    if "@" in parts.netloc:
        raise _not_allowed(
            url,
            "it has a user name or a password in it",
            field,
            "a URL is stored and shown; secrets are neither",
            "leave them out of the URL",
        )
    host = parts.hostname or ""
    address = _literal(host)
    if address is None:
        if _LOOKS_NUMERIC.fullmatch(host):
            raise _not_allowed(url, f"{host} is an address spelled in a way that hides it", field)
        if not _NAME.fullmatch(host) or len(host) > 253 or "[" in parts.netloc:
            raise _malformed(url, f"{host!r} is not a host name", field)
        if host.rstrip(".").lower() == "localhost" and not loopback_allowed:
            raise _not_allowed(url, "localhost is this machine", field)
    elif (why := refusal(address, loopback_allowed=loopback_allowed, allowed_networks=allowed_networks)) is not None:
        raise _not_allowed(url, why, field)
    return parts


def refusal(address: IPAddress, *, loopback_allowed: bool, allowed_networks: Sequence[str]) -> str | None:
    """Why this address may not be called; None where it may."""
    if address in METADATA:
        return f"{address} is a metadata service"
    if address == LOOPBACK_6 and loopback_allowed:
        return None
    if address != LOOPBACK_6 and any(address in network for network in WRAPPING if network.version == address.version):
        return f"{address} hides an IPv4 address"
    if address.is_unspecified or address.is_multicast or address.is_link_local or int(address) == 0:
        return f"{address} is not the address of one machine elsewhere"
    if any(address in ipaddress.ip_network(network) for network in allowed_networks):
        return None
    if address.is_loopback:
        return None if loopback_allowed else f"{address} is this machine"
    if address in SHARED or address in SITE_LOCAL or not address.is_global or address.is_reserved:
        return f"{address} is in a private or reserved network"
    return None


def _split(url: str, field: str) -> SplitResult:
    if len(url) > MAX_URL_CHARS:
        raise _malformed(url[:60] + "…", f"longer than {MAX_URL_CHARS} characters", field)
    if not url.isascii() or any(character <= " " or character == "\\" for character in url):
        raise _malformed(url, "it has blanks, control characters, backslashes or letters outside ASCII", field)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _malformed(url, str(error), field) from error
    if parts.scheme in ("http", "https") and not parts.hostname:
        raise _malformed(url, "it names no host", field)
    if port == 0:
        raise _malformed(url, "port 0 is no port", field)
    return parts


def _literal(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _not_allowed(
    url: str,
    what: str,
    field: str,
    why: str = "a job must not reach into networks that the deployment has not opened to it",
    fix: str = "name a public address, or list the network in SCHEDKIT_ALLOWED_NETWORKS where the scheduler runs",
) -> InvalidInput:
    return InvalidInput(
        Reason.TARGET_NOT_ALLOWED, f"{redacted(url)} may not be called: {what}", field=field, why=why, fix=(fix,)
    )


def _malformed(url: str, why: str, field: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"{redacted(url)!r} is not a URL that can be called: {why}",
        field=field,
        fix=("write it as https://host/path",),
    )


def redacted(url: str) -> str:
    """A URL as errors may show it: without what stands before an @."""
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme + mark + authority.rpartition("@")[2] + slash + path if mark else url
