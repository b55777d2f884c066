"""Checks of settings whose form is more than a type: patterns, address ranges, pins, header values.

They accept what the stages accept that use the settings (a test compares the two), and they run
before anything is written, so a crawl folder never keeps a setting that its crawl cannot start
with. Each raises ``ValueError`` with one line that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

_VISIBLE = re.compile(r"[\x20-\x7e]*")
_CONTACT = re.compile(r"(?:https?://[^\s/.]+\.[^\s]+|(?:mailto:)?[^@\s]+@[^@\s]+)", re.IGNORECASE)


def check_expressions(patterns: Sequence[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def check_ranges(ranges: Sequence[str]) -> None:
    for entry in ranges:
        try:
            ip_network(entry.strip())
        except ValueError:
            raise ValueError(
                f"{entry!r} is not an address range; write {_range_meant(entry)}"
            ) from None


def _range_meant(entry: str) -> str:
    """The probable meaning of a range with host bits: a network or a single address."""
    try:
        network = ip_network(entry.strip(), strict=False)
    except ValueError:
        return "10.0.0.0/8, 192.0.2.7 or fd00::/8"
    return f"{network} for the whole range or {entry.partition('/')[0].strip()} for one address"


def check_pins(pins: Sequence[str]) -> None:
    for pin in pins:
        name, _, addresses = pin.partition("=")
        if not name.strip(" .") or not all(map(_is_address, addresses.split(","))):
            raise ValueError(
                f"{pin!r} is not NAME=ADDRESS; write example.org=192.0.2.7 or"
                " *.example.org=192.0.2.7"
            )


def check_servers(servers: Sequence[str]) -> None:
    for server in servers:
        host, _, port = server.strip().rpartition(":")
        if not _is_address(server) and not (
            _is_address(host) and port.isdecimal() and 0 < int(port) < 65536
        ):
            raise ValueError(
                f"{server!r} is not a name server; write its address, 192.0.2.53 or 192.0.2.53:5353"
            )


def check_contact(contact: str) -> None:
    """The contact is part of a comment in User-Agent (RFC 9110 section 5.6.5)."""
    contact = contact.strip()
    if not _VISIBLE.fullmatch(contact) or set(contact) & set("()\\"):
        raise ValueError(
            f"{contact!r} must be visible ASCII without brackets and backslashes, as"
            " https://example.org/bot or you@example.org"
        )


def is_contact(contact: str) -> bool:
    """Whether the contact can be used: a URL or an e-mail address."""
    return _CONTACT.fullmatch(contact.strip()) is not None


def check_header(value: str) -> None:
    if not _VISIBLE.fullmatch(value):
        raise ValueError(f"{value!r} is not valid in a header: write only visible ASCII")


def _is_address(text: str) -> bool:
    try:
        ip_address(text.strip().removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


CHECKS: Mapping[str, Callable[[Any], None]] = {
    "agent.contact": check_contact,
    "dns.pins": check_pins,
    "dns.servers": check_servers,
    "fetch.accept": check_header,
    "fetch.accept_language": check_header,
    "fetch.allow_addresses": check_ranges,
    "scope.exclude": check_expressions,
    "scope.include": check_expressions,
}
"""The checks by setting."""
