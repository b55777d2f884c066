"""May this URL be fetched under these robots.txt rules, and which line says so (RFC 9309 §2.2.2 and
§2.2.3).

The promise: the verdict of Google's reference matcher, found without trying every rule, and with a
cost that a hostile file cannot raise beyond its own size.

The theory. A rule is a pattern over path and query. Among the rules that match, the one with the
most octets decides, and Allow wins a tie. Patterns fall into three kinds, and a ``Matcher`` keeps
each where it is cheapest to ask:

* without ``*`` (or with it only at the end): a prefix. Prefixes of one length share a dictionary,
  so that a thousand
  of them cost one look-up per length;
* without ``*`` and ending in ``$``: the whole target. One look-up;
* the rest: literal parts that must follow each other. They are ``wildcards``', which indexes them
  where there are many, and bounds what
  they may cost.

Length and kind are folded into one integer, the score: octets first, then Allow over Disallow, then
the earlier line.

Both sides are brought to one spelling before they are compared: percent-encoded unreserved
characters are decoded, all other octets that cannot stand in a URL are encoded, hexadecimal digits
are upper-cased. This is §2.2.2 and goes beyond Google's matcher, which decodes nothing; our URLs
are canonical, so a rule ``/%7Ejoe`` would otherwise never apply to ``/~joe``. ``%2A`` and ``%24``
in a rule stand for the characters themselves (§2.2.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from lycosa.politeness.wildcards import (
    MOST_WORK,
    Pieces,
    TooMuchWork,
    Wildcard,
    Wildcards,
    pieces_of,
)

Rule = tuple[bool, str, int]
"""Allow (else Disallow), the pattern in normal form, the 1-based line."""


class RobotsRules(msgspec.Struct, frozen=True, array_like=True):
    """What one robots.txt says to our agent.

    ``group`` is the user-agent value that applied, as written; empty when no group did.
    ``crawl_delay_s`` is -1 when there is none. ``sitemaps`` are as written, without duplicates;
    they belong to the file, not to a group.
    """

    rules: list[Rule] = []
    group: str = ""
    crawl_delay_s: float = -1.0
    sitemaps: list[str] = []


class Verdict(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``line`` (1-based, 0 = no rule matched) and ``rule`` (``Disallow: /x``, in normal form) name
    what decided.

    ``bound`` is empty, or says which bound kept the rules from being judged; the target then counts
    as disallowed, because a rule that disallows it may be among those that were not tried.
    """

    allowed: bool = True
    line: int = 0
    rule: str = ""
    bound: str = ""


class Matcher:
    """The rules of one file, compiled. Building it costs one to four microseconds a rule; ``judge``
    well under three, and for a file with many wildcard rules (``is_costly``) at most some 12 ms.
    """

    __slots__ = ("_exact", "_prefixes", "_rules", "_wild", "is_costly")

    def __init__(self, rules: RobotsRules) -> None:
        self._rules = rules.rules
        self._exact: dict[str, int] = {}
        by_length: dict[int, dict[str, int]] = {}
        wild: list[Wildcard] = []
        for score, pattern in _scored(rules.rules):
            if "*" not in pattern and "$" not in pattern:  # most rules, without taking them apart
                literal = _literal(pattern)
                table = by_length.get(len(literal))
                if table is None:
                    table = by_length[len(literal)] = {}
                _raise(table, literal, score)
                continue
            pieces = _pieces(pattern)
            if pieces.middle or (pieces.tail and pieces.has_star):
                wild.append((score, pieces.head, pieces.middle, pieces.tail))
            elif pieces.tail is not None and not pieces.has_star:
                _raise(self._exact, pieces.head, score)
            else:
                _raise(by_length.setdefault(len(pieces.head), {}), pieces.head, score)
        # Best first, so that judging stops as soon as nothing left can beat what was found.
        self._prefixes = sorted(
            ((max(table.values()), length, table) for length, table in by_length.items()),
            key=lambda t: -t[0],
        )
        self._wild = Wildcards(wild)
        self.is_costly = self._wild.is_costly

    def __repr__(self) -> str:
        return f"<Matcher {len(self._rules)} rules, {len(self._wild)} with wildcards>"

    def judge(self, target: str) -> Verdict:
        """The verdict on ``target``, the path and query of a URL as they stand in it
        (``/a/b?c=d``).
        """
        if target == "/robots.txt":  # RFC 9309 §2.2.2: implicitly allowed
            return _NO_RULE
        target = normal_target(target)
        best = self._exact.get(target, -1)
        for top, length, table in self._prefixes:
            if top < best:
                break
            score = table.get(target[:length], -1)
            if score > best:
                best = score
        try:
            best = self._wild.best(target, best)
        except TooMuchWork:
            return _BOUND_REACHED
        return _NO_RULE if best < 0 else self._verdict(best)

    def _verdict(self, score: int) -> Verdict:
        count = len(self._rules)
        allow, pattern, line = self._rules[count - 1 - score % count]
        return Verdict(allow, line, f"Allow: {pattern}" if allow else f"Disallow: {pattern}")


def judge(rules: RobotsRules, target: str) -> Verdict:
    """One verdict; who has more than one URL to ask about keeps a ``Matcher``."""
    return Matcher(rules).judge(target)


def target_of(url: str) -> str:
    """Path and query of an absolute URL, with the leading slash that an empty path lacks; the
    fragment is dropped.

    As tolerant as Google's ``GetPathParamsQuery``: a scheme is not required, a URL without a path
    gives ``/``.
    """
    start = 2 if url.startswith("//") else 0
    early = _PATH_START.search(url, start)
    scheme = url.find("://", start)
    authority = scheme + 3 if scheme >= 0 and (early is None or scheme < early.start()) else start
    found = _PATH_START.search(url, authority)
    end = url.find("#", start)
    if found is None or 0 <= end < found.start():
        return "/"
    target = url[found.start() : end if end >= 0 else len(url)]
    return target if target[0] == "/" else "/" + target


def normal_pattern(value: bytes) -> str:
    """A rule's value in the spelling that patterns are stored and compared in; ASCII."""
    return (_ODD.sub(_respell, value) if _ODD.search(value) else value).decode("ascii")


def normal_target(target: str) -> str:
    """A URL's path and query in the spelling that patterns are compared with; ASCII."""
    if not _ODD_TEXT.search(target):
        return target
    raw = _ODD.sub(_respell, target.encode("utf-8", "surrogatepass"))
    return _literal(raw.decode("ascii"))


def _pieces(pattern: str) -> Pieces:
    anchored = pattern.endswith("$")
    return pieces_of(
        [_literal(part) for part in (pattern[:-1] if anchored else pattern).split("*")],
        is_anchored=anchored,
    )


def _scored(rules: list[Rule]) -> Iterator[tuple[int, str]]:
    count = len(rules)
    for index, (allow, pattern, _) in enumerate(rules):
        yield (len(pattern) * 2 + allow) * count + count - 1 - index, pattern
        # Google: ``Allow: /dir/index.html`` also allows ``/dir/`` itself, with that shorter length.
        if allow and "/index.htm" in pattern:
            folder, _, name = pattern.rpartition("/")
            if name.startswith("index.htm"):
                yield (len(folder) * 2 + 4 + allow) * count + count - 1 - index, f"{folder}/$"


def _raise(table: dict[str, int], key: str, score: int) -> None:
    if score > table.get(key, -1):
        table[key] = score


def _literal(text: str) -> str:
    return text.replace("%2A", "*").replace("%24", "$") if "%2" in text else text


def _spellings() -> dict[bytes, bytes]:
    """Every octet that is not written as in the normal form, and every percent-encoding, with
    its normal spelling.
    """
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


_NO_RULE = Verdict()
_BOUND_REACHED = Verdict(
    False, bound=f"judging this URL by all wildcard rules needs more than {MOST_WORK:,} comparisons"
)
_PATH_START = re.compile("[/?;]")
# A percent sign that encodes nothing stays: browsers send it so.
_ODD_CLASS = r"%[0-9A-Fa-f]{2}|[^!#-;=?-\[\]_a-z~]"
_ODD = re.compile(_ODD_CLASS.encode("ascii"))
_ODD_TEXT = re.compile(_ODD_CLASS)
_SPELLINGS = _spellings()
