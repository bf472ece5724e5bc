"""Where calls may go, by every spelling somebody might try (F9)."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schedkit.engine.addresses import LOOPBACK_6, MAX_URL_CHARS, check_url, redacted, refusal
from schedkit.errors import InvalidInput, Reason
from tests.cases import load

SSRF = next(case for case in load() if case.id == "ssrf-01")


def reason(url: str, *, loopback: bool = False, networks: tuple[str, ...] = ()) -> Reason | None:
    """Why a URL is refused; None where it may be called."""
    try:
        check_url(url, loopback_allowed=loopback, allowed_networks=networks, field="target.url")
    except InvalidInput as error:
        return error.reason
    return None


@pytest.mark.parametrize("url", SSRF.input["target_urls"])
@pytest.mark.parametrize("loopback", [False, True])
def test_the_spellings_that_others_let_through_are_refused(url: str, loopback: bool) -> None:
    """ssrf-01; also where loopback is allowed."""
    assert reason(url, loopback=loopback) == SSRF.expected["each"]["error"], SSRF.why


# Refused wherever schedkit runs, and whatever networks it lists.
NEVER = [
    "http://169.254.169.254/",
    "http://169.254.0.1/",
    "http://[fe80::1]/",
    "http://[fd00:ec2::254]/",
    "http://168.63.129.16/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://224.0.0.1/",
    "http://[ff02::1]/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0X7F.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.0.1/",
    "http://127.1/",
    "http://1/",
    "http://127.0.0.1./",
    "http://2852039166./",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://@example.com/",
    "http://example.com@127.0.0.1/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "unix:/var/run/docker.sock",
    "javascript:alert(1)",
    "data:text/plain,x",
    "ws://example.com/",
]


@pytest.mark.parametrize("url", NEVER)
def test_these_are_refused_everywhere(url: str) -> None:
    assert reason(url) is Reason.TARGET_NOT_ALLOWED
    assert reason(url, loopback=True, networks=("0.0.0.0/0", "::/0")) is Reason.TARGET_NOT_ALLOWED


PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "240.0.0.1",
    "255.255.255.255",
    "fc00::1",
    "fd12:3456::1",
    "2001:db8::1",
    "fec0::1",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_private_and_reserved_networks_are_refused_unless_they_are_listed(host: str) -> None:
    address = ipaddress.ip_address(host)
    url = f"https://[{host}]/x" if address.version == 6 else f"https://{host}/x"
    assert reason(url) is Reason.TARGET_NOT_ALLOWED
    assert reason(url, loopback=True) is Reason.TARGET_NOT_ALLOWED
    assert reason(url, networks=(f"{host}/{address.max_prefixlen}",)) is None
    assert reason(url, networks=("9.9.9.9/32", "::9/128")) is Reason.TARGET_NOT_ALLOWED


LOOPBACK = [
    "http://127.0.0.1/",
    "http://127.8.9.10:81/",
    "http://[::1]/",
    "http://localhost:8700/",
    "http://LocalHost./",
]


@pytest.mark.parametrize("url", LOOPBACK)
def test_this_machine_may_be_called_only_where_that_is_allowed(url: str) -> None:
    assert reason(url) is Reason.TARGET_NOT_ALLOWED
    assert reason(url, loopback=True) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/",
        "http://example.com:8080/a/b?c=d&e=%20f#g",
        "https://EXAMPLE.com/",
        "https://example.com./",
        "https://a_b.example/",
        "https://xn--bcher-kva.example/",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
        "https://1.example/",
        "https://127.0.0.1.example/",
        "https://example.com:65535/",
        "HTTPS://example.com/",
        "https://internal/",
    ],
)
def test_any_other_address_may_be_called(url: str) -> None:
    assert reason(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "/path",
        "http://",
        "http:///path",
        "https://?x",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:x/",
        "http://exa mple.com/",
        " http://example.com/",
        "http://example.com/\r\nX-A: 1",
        "http://example.com/\x00",
        "http://example.com\\@evil.example/",
        "http://exämple.com/",
        "http://example.com/é",
        "http://ｅxample.com/",
        "http://-a.example/",
        "http://a-.example/",
        "http://a..b/",
        "http://.example/",
        "http://[::1/",
        "http://[v1.x]/",
        "http://[fe80::1%25eth0]/",
        f"http://{'a' * 64}.example/",
        f"http://{'.'.join(['a' * 60] * 5)}/",
        "https://example.com/" + "x" * MAX_URL_CHARS,
    ],
)
def test_what_is_no_url_is_refused_as_such(url: str) -> None:
    assert reason(url, loopback=True) in (Reason.INVALID_ARGUMENT, Reason.TARGET_NOT_ALLOWED)


@given(st.text(max_size=60))
def test_no_text_breaks_the_check(text: str) -> None:
    reason(text)
    reason("http://" + text)
    reason(f"http://{text}.example/")


@given(st.ip_addresses())
def test_no_address_breaks_the_check_and_a_url_is_judged_as_its_address_is(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    why = refusal(address, loopback_allowed=False, allowed_networks=())
    assert (why is None) is (reason(f"http://{address}/" if address.version == 4 else f"http://[{address}]/") is None)
    if why is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "::{}", "64:ff9b::{}", "::ffff:0:{}"]))
def test_no_wrapping_makes_an_address_callable(inner: ipaddress.IPv4Address, wrapping: str) -> None:
    address = ipaddress.ip_address(wrapping.format(inner))
    assume(address != LOOPBACK_6)  # ::0.0.0.1 is ::1, which wraps nothing: whoever allows ::/0 allows it
    assert refusal(address, loopback_allowed=False, allowed_networks=("0.0.0.0/0", "::/0")) is not None


def test_errors_do_not_repeat_a_password() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_url("http://me:hunter2@example.com/x", loopback_allowed=False, allowed_networks=(), field="target.url")
    assert "hunter2" not in str(refused.value)
    assert refused.value.field == "target.url"
    assert refused.value.fix
    assert redacted("http://me:hunter2@example.com/x") == "http://example.com/x"
    assert redacted("no url") == "no url"
