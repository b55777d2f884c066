"""robots.txt as Google's reference matcher reads it: the algorithm of google/robotstxt in the
plainest Python, to ask it anything.

It shares nothing with the crawler's own reading, which is quick, bounded, and follows RFC 9309
where the two differ. Each rule is tried on each question. The 545 answers that Google's own tests
record hold it to the original (``conformance/test_robots_real.py``).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MAX_LINE = 2083 * 8 - 1
_KEYS = (
    ("agent", (b"user-agent", b"useragent", b"user agent")),
    ("allow", (b"allow",)),
    ("disallow", (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")),
)
_BLANKS = b" \t\n\v\f\r"
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|[\x80-\xff]")
_PATH = re.compile(rb"[/?;]")


class Rules(NamedTuple):
    """What a file says to one agent: for each rule whether it allows, and its pattern."""

    ours: list[tuple[bool, bytes]]
    everyones: list[tuple[bool, bytes]]
    names_us: bool


def read(body: bytes, agent: bytes) -> Rules:
    """The rules of a file for an agent's product token."""
    rules = Rules([], [], False)
    is_ours = is_everyones = has_ended = names_us = False
    for line in _lines(body):
        key, value = _pair(line)
        if key == "agent":
            if has_ended:
                is_ours = is_everyones = has_ended = False
            if value[:1] == b"*" and (len(value) == 1 or value[1:2] in (b" ", b"\t", b"\v", b"\f")):
                is_everyones = True
            else:
                token = re.match(rb"[A-Za-z_-]*", value)
                if token is not None and token[0].lower() == agent.lower():
                    is_ours = names_us = True
        elif key in ("allow", "disallow") and (is_ours or is_everyones):
            has_ended = True
            (rules.ours if is_ours else rules.everyones).append(
                (key == "allow", _ESCAPE.sub(_escaped, value))
            )
    return rules._replace(names_us=names_us)


def is_allowed(rules: Rules, url: bytes) -> bool:
    """The verdict on a URL, or on a path and query."""
    path = path_of(url)
    if rules.names_us:
        allow, disallow = _longest(rules.ours, path)
    else:
        allow, disallow = _longest(rules.everyones, path)
    return disallow <= allow or disallow <= 0


def path_of(url: bytes) -> bytes:
    """Path and query, ``/`` where there are none."""
    start = 2 if url.startswith(b"//") else 0
    early, scheme = _PATH.search(url, start), url.find(b"://", start)
    if scheme >= 0 and (early is None or scheme < early.start()):
        start = scheme + 3
    found, end = _PATH.search(url, start), url.find(b"#")
    if found is None or 0 <= end < found.start():
        return b"/"
    path = url[found.start() : end if end >= 0 else len(url)]
    return path if path[:1] == b"/" else b"/" + path


def _lines(body: bytes) -> list[bytes]:
    for octet in b"\xef\xbb\xbf":  # a mark, as far as it is there
        if body[:1] != bytes((octet,)):
            break
        body = body[1:]
    return [line[:_MAX_LINE] for line in re.split(rb"\r\n|\r|\n", body)]


def _pair(line: bytes) -> tuple[str, bytes]:
    text = line.partition(b"\0")[0].partition(b"#")[0].strip(_BLANKS)
    name, colon, value = text.partition(b":")
    if not colon:
        words = re.split(rb"[ \t]+", text)
        if len(words) != 2:
            return "", b""
        name, value = words
    name = name.strip(_BLANKS).lower()
    return next((key for key, starts in _KEYS if name.startswith(starts)), ""), value.strip(_BLANKS)


def _escaped(found: re.Match[bytes]) -> bytes:
    return found[0].upper() if len(found[0]) == 3 else b"%%%02X" % found[0][0]


def _longest(rules: list[tuple[bool, bytes]], path: bytes) -> tuple[int, int]:
    """The longest pattern that matches among those that allow, and among those that disallow; -1
    for none.
    """
    allow = disallow = -1
    for allows, pattern in rules:
        if not allows:
            disallow = max(disallow, _priority(pattern, path))
        elif (priority := _priority(pattern, path)) >= 0:
            allow = max(allow, priority)
        elif pattern.startswith(b"/index.htm", slash := max(pattern.rfind(b"/"), 0)):
            allow = max(allow, _priority(pattern[: slash + 1] + b"$", path))
    return allow, disallow


def _priority(pattern: bytes, path: bytes) -> int:
    return len(pattern) if matches(pattern, path) else -1


def matches(pattern: bytes, path: bytes) -> bool:
    """Whether a pattern matches the beginning of a path: ``*`` is anything, ``$`` at the end is
    the end.
    """
    if b"*" not in pattern and not pattern.endswith(b"$"):
        return path.startswith(pattern)
    is_whole = pattern.endswith(b"$")
    pieces = (pattern[:-1] if is_whole else pattern).split(b"*")
    # where the pattern so far may end
    ends = {len(pieces[0])} if path.startswith(pieces[0]) else set()
    for piece in pieces[1:]:
        if not ends:
            return False
        ends = {
            at + len(piece)
            for at in range(min(ends), len(path) - len(piece) + 1)
            if path.startswith(piece, at)
        }
    return (len(path) in ends) if is_whole else bool(ends)
