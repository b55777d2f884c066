"""The guard against the special-purpose registries."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costs import count_calls
from lycosa.stages.fetch.guard import Guard

REFUSED = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "this network"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("100.64.0.1", "shared"),
    ("100.127.255.255", "shared"),
    ("100.100.100.200", "metadata"),
    ("169.254.169.254", "metadata"),
    ("168.63.129.16", "metadata"),
    ("169.254.0.1", "link-local"),
    ("192.0.0.192", "IETF"),
    ("192.0.2.1", "documentation"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.9", "documentation"),
    ("192.88.99.1", "6to4"),
    ("198.18.0.1", "benchmarking"),
    ("198.19.255.255", "benchmarking"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("[::1]", "loopback"),
    ("::127.0.0.1", "IPv4-compatible"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("fc00::1", "unique local"),
    ("fd12:3456::1", "unique local"),
    ("fd00:ec2::254", "metadata"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
    ("100::1", "discard"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation"),
    ("2001:2::1", "benchmarking"),
    ("2001:20::1", "ORCHIDv2"),
    ("5f00::1", "segment routing"),
    ("64:ff9b:1::1", "NAT64"),
    ("4000::1", "not global unicast"),
    ("", "not an address"),
    ("example.org", "not an address"),
    ("127.1", "not an address"),
]
ACCEPTED = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.15.0.1",
    "172.32.0.1",
    "100.128.0.1",
    "198.20.0.1",
    "223.255.255.255",
    "2606:4700::1111",
]


@pytest.mark.parametrize(("address", "name"), REFUSED)
def test_a_special_purpose_address_is_refused_by_the_name_of_its_range(
    address: str, name: str
) -> None:
    refusal = Guard([]).refusal(address)
    assert refusal is not None
    assert name in refusal


@pytest.mark.parametrize("address", ACCEPTED)
def test_a_public_address_may_be_connected_to(address: str) -> None:
    assert Guard([]).refusal(address) is None


@pytest.mark.parametrize(
    ("template", "kind"),
    [("::ffff:{0}", "IPv4-mapped"), ("64:ff9b::{0}", "NAT64")],
)
def test_an_address_that_carries_ipv4_is_judged_by_what_it_carries(
    template: str, kind: str
) -> None:
    guard = Guard([])
    assert guard.refusal(template.format("169.254.169.254")) == f"cloud metadata ({kind})"
    assert guard.refusal(template.format("127.0.0.1")) == f"loopback ({kind})"
    assert guard.refusal(template.format("8.8.8.8")) is None


def test_6to4_and_teredo_are_judged_by_the_ipv4_address_they_carry() -> None:
    guard = Guard([])
    assert guard.refusal("2002:7f00:1::1") == "loopback (6to4)"
    assert guard.refusal("2002:808:808::1") is None
    inverted = 0xFFFFFFFF ^ int(ipaddress.IPv4Address("10.0.0.1"))
    teredo = ipaddress.IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | inverted)
    assert guard.refusal(str(teredo)) == "private (Teredo)"


def test_the_operator_may_allow_a_range() -> None:
    guard = Guard(["127.0.0.0/8", " ::1 ", "10.1.2.3"])
    assert guard.refusal("127.0.0.1") is None
    assert guard.refusal("::ffff:127.0.0.1") is None
    assert guard.refusal("::1") is None
    assert guard.refusal("10.1.2.3") is None
    assert guard.refusal("10.1.2.4") == "private"
    assert "127.0.0.0/8" in repr(guard)


@pytest.mark.parametrize("text", ["127.0.0.0/33", "localhost", "10.0.0.1/8", "", "::1/129"])
def test_a_bad_range_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not an address range") as raised:
        Guard(["127.0.0.0/8", text])
    assert repr(text) in str(raised.value)


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_everything_the_standard_library_calls_not_global_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    refusal = Guard([]).refusal(str(address))
    embeds = address.version == 6 and (address.ipv4_mapped or address.sixtofour or address.teredo)
    if (
        not address.is_global
        and not embeds
        and address
        not in ipaddress.ip_network("64:ff9b::/96" if address.version == 6 else "0.0.0.0/32")
    ):
        assert refusal


def test_a_known_address_is_judged_from_memory() -> None:
    guard = Guard(["127.0.0.0/8"])
    guard.refusal("8.8.8.8")
    assert count_calls(lambda: guard.refusal("8.8.8.8")) < 5
    assert count_calls(lambda: guard.refusal("8.8.4.4")) > 20, "of an unknown one"
