"""Patterns over path and query, as in robots.txt: one spelling of both sides, and a plain match.

Source: RFC 9309 sections 2.2.2 and 2.2.3. TDMRep and Content-Usage rules have the same patterns.

Both sides are normalised before they are compared: percent-encoded unreserved characters are
decoded, all other octets that cannot occur in a URL are encoded, and hexadecimal digits are upper
case. This follows section 2.2.2 and goes beyond Google's matcher, which decodes nothing. Our URLs
are canonical, so a rule ``/%7Ejoe`` would otherwise never apply to ``/~joe``. ``%2A`` and ``%24``
in a rule stand for the literal characters (section 2.2.3).
"""

from __future__ import annotations

import re


def normal_pattern(value: bytes) -> str:
    """A rule's value in the normal form in which patterns are stored and compared; ASCII."""
    return (_ODD.sub(_respell, value) if _ODD.search(value) else value).decode("ascii")


def normal_target(target: str) -> str:
    """A URL's path and query in the normal form of patterns; ASCII."""
    if not _ODD_TEXT.search(target):
        return target
    raw = _ODD.sub(_respell, target.encode("utf-8", "surrogatepass"))
    return literal_text(raw.decode("ascii"))


def literal_text(text: str) -> str:
    """A part of a pattern without special characters, as it occurs in a target."""
    return text.replace("%2A", "*").replace("%24", "$") if "%2" in text else text


def matches_pattern(pattern: str, target: str) -> bool:
    """Whether ``pattern`` matches a beginning of ``target``, both in normal form.

    ``*`` is any text, ``$`` at the end is the end of the target. Each literal part is looked for
    from the end of the one before, so the cost is proportional to both lengths. The first place of
    a part leaves most to the parts after it, so no other place has to be tried.
    """
    if "*" not in pattern and "$" not in pattern:
        return target.startswith(literal_text(pattern))
    is_anchored = pattern.endswith("$")
    head, *rest = (pattern[:-1] if is_anchored else pattern).split("*")
    head = literal_text(head)
    if not target.startswith(head):
        return False
    if not rest:
        return not is_anchored or len(target) == len(head)
    position, end = len(head), len(target)
    if is_anchored:
        tail = literal_text(rest.pop())
        end -= len(tail)
        if end < position or not target.endswith(tail):
            return False
    for part in rest:
        literal = literal_text(part)
        position = target.find(literal, position, end)
        if position < 0:
            return False
        position += len(literal)
    return True


def _spellings() -> dict[bytes, bytes]:
    """The normal spelling of each percent-encoding and of each octet outside the normal form."""
    unreserved = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    table = {bytes([octet]): b"%%%02X" % octet for octet in range(256)}
    for high in b"0123456789ABCDEFabcdef":
        for low in b"0123456789ABCDEFabcdef":
            digits = bytes((high, low))
            octet = bytes([int(digits, 16)])
            table[b"%" + digits] = octet if octet in unreserved else b"%" + digits.upper()
    return table


def _respell(found: re.Match[bytes]) -> bytes:
    return _SPELLINGS[found[0]]


# A percent sign that encodes nothing stays, because browsers send it unchanged.
_ODD_CLASS = r"%[0-9A-Fa-f]{2}|[^!#-;=?-\[\]_a-z~]"
_ODD = re.compile(_ODD_CLASS.encode("ascii"))
_ODD_TEXT = re.compile(_ODD_CLASS)
_SPELLINGS = _spellings()
