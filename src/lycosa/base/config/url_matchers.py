"""Texts that say which URLs a rule is for, and the search for the first that is for a URL.

Refetch policies and policies of rendering begin with such a text::

    news.example            the domain: itself and all hosts below it
    news.example /archive/* path and query, with * for any characters
    host:www.news.example   this host alone
    /feed*                  this path on every host
    re:[?&]page=[0-9]+      a pattern of RE2, somewhere in the whole URL
    *                       every URL

``site:`` before a domain changes nothing. A lookup asks only the matchers of the URL's own host and
of the domains above it. Many patterns of one domain, and all ``re:`` patterns, are first searched
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import ada_url
import msgspec

from lycosa.base.config.patterns import compile_pattern, compiled_together

MAX_RULE_CHARACTERS = 2000
"""Of the text of one rule."""

_MAX_STARS = 20
_TOGETHER = 8  # patterns of one domain from which on they are searched together
_PATH_FROM = 8  # the slash of the path is at this index of a canonical URL or later


class UrlMatcher(msgspec.Struct, frozen=True):
    """The URLs that a rule is for.

    ``domain`` is empty when ``expression``, a pattern of whole URLs, is given, or ``sitemap``, the
    address of a sitemap or feed, with ``*`` for any characters. ``is_host``: only the host of that
    name. ``pattern`` is that of path and query; empty matches all.
    """

    domain: str = ""
    pattern: str = ""
    expression: str = ""
    is_host: bool = False
    sitemap: str = ""


def read_matcher(words: list[str]) -> UrlMatcher:
    """The matcher that the words of a rule begin with; its words are taken from the list.

    Raises ``ValueError``, which says what to write.
    """
    first = words.pop(0)
    kind, colon, rest = first.partition(":")
    if kind == "sitemap" and colon:
        return UrlMatcher(sitemap=_sitemap(rest))
    if kind == "re" and colon:
        compile_pattern(rest)
        return UrlMatcher(expression=rest)
    if first.startswith("/"):
        return UrlMatcher("*", checked_pattern(first))
    named = rest if kind in ("host", "site") and colon else first
    pattern = checked_pattern(words.pop(0)) if words and words[0].startswith(("/", "*")) else ""
    return UrlMatcher(_domain(named, is_one=named is not first), pattern, is_host=kind == "host")


def checked_pattern(pattern: str) -> str:
    """A pattern with ``*`` for any characters. Raises ``ValueError``."""
    if pattern.count("*") > _MAX_STARS:
        raise ValueError(f"{pattern!r} has more than {_MAX_STARS} asterisks")
    return pattern


def _sitemap(address: str) -> str:
    scheme, _, rest = address.partition("://")
    host, _, path = rest.partition("/")
    if scheme.lower() not in ("http", "https") or not host or "*" in host:
        raise ValueError(
            f"{address!r} is no address of a sitemap; write all of it, as"
            " sitemap:https://news.example/sitemap-*.xml, with * in path or query"
        )
    return checked_pattern(f"{scheme.lower()}://{host.lower()}/{path}")


def _domain(text: str, is_one: bool) -> str:
    domain = text.lower().removesuffix(".")
    if not domain.isascii():  # as canonical URLs have it
        domain = ada_url.idna_to_ascii(domain).decode()
    if domain == "*" and not is_one:
        return domain
    if not domain or "/" in domain or "*" in domain or "=" in domain:
        raise ValueError(
            f"{text!r} is no domain; write news.example, host:www.news.example, * for all, a path"
            " that begins with /, or re: and a regular expression"
        )
    return domain


# -- finding


def matches_stars(pattern: str, target: str) -> bool:
    """Whether the pattern matches the whole target.

    The leftmost place for each literal part leaves most room for the others, so nothing is tried
    twice.
    """
    head, *parts = pattern.split("*")
    if not parts:
        return target == pattern
    tail = parts.pop()
    if not target.startswith(head) or len(target) < len(head) + len(tail):
        return False
    end = len(target) - len(tail)
    if target[end:] != tail:
        return False
    place = len(head)
    for part in parts:
        found = target.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


class _FirstMatch:
    """Some regular expressions with numbers; finds the lowest number of those that match.

    Most texts match none, which one search tells. Else halves are searched, so that a match among
    a thousand costs about twenty searches.
    """

    def __init__(self, numbered: Sequence[tuple[int, str]]) -> None:
        self._first = numbered[0][0]
        self._only = compile_pattern(numbered[0][1]) if len(numbered) == 1 else None
        self._halves: tuple[_FirstMatch, ...] = ()
        self._any = self._only
        if self._only is None:
            half = len(numbered) // 2
            self._halves = _FirstMatch(numbered[:half]), _FirstMatch(numbered[half:])
            # ``None`` where RE2 refuses it, because it is too large
            self._any = compiled_together([pattern for _, pattern in numbered])

    def find(self, data: bytes, below: int) -> int:
        """The lowest number under ``below`` whose expression matches; else ``below``."""
        if self._first >= below or (self._any is not None and self._any.search(data) is None):
            return below
        if self._only is not None:
            return self._first
        for half in self._halves:
            if (found := half.find(data, below)) < below:
                return found
        return below


class _Group:
    """The rules of one domain, in their order."""

    def __init__(self) -> None:
        self._rules: list[tuple[int, str]] = []
        self._together: _FirstMatch | None = None

    def add(self, number: int, pattern: str) -> None:
        # What follows a rule for all URLs of the domain is never reached.
        if not self._rules or self._rules[-1][1]:
            self._rules.append((number, pattern))

    def prepare(self) -> None:
        if len(self._rules) >= _TOGETHER:
            self._together = _FirstMatch(
                [(number, _as_expression(pattern)) for number, pattern in self._rules]
            )

    def find(self, target: str, below: int) -> int:
        if self._together is not None:
            return self._together.find(target.encode("utf-8", "replace"), below)
        for number, pattern in self._rules:
            if number >= below:
                break
            if not pattern or matches_stars(pattern, target):
                return number
        return below


def _as_expression(pattern: str) -> str:
    if not pattern:
        return "^"
    return "^" + ".*".join(map(re.escape, pattern.split("*"))) + "$"


class MatcherBook:
    """Matchers, arranged for lookups. Those of sitemaps match no URL."""

    def __init__(self, matchers: Sequence[UrlMatcher]) -> None:
        self._domains: dict[str, _Group] = {}
        self._hosts: dict[str, _Group] = {}
        expressions = []
        for number, each in enumerate(matchers):
            if each.expression:
                expressions.append((number, each.expression))
            elif not each.sitemap:
                groups = self._hosts if each.is_host else self._domains
                groups.setdefault(each.domain, _Group()).add(number, each.pattern)
        for group in (*self._domains.values(), *self._hosts.values()):
            group.prepare()
        self._all = self._domains.pop("*", None)
        self._expressions = _FirstMatch(expressions) if expressions else None

    def find(self, url: str, below: int) -> int:
        """The index, under ``below``, of the first that is for a canonical URL; else ``below``."""
        found, slash = below, url.index("/", _PATH_FROM)
        host = url[8 if url[4] == "s" else 7 : slash]
        groups = [*self._groups(host), *([self._all] if self._all else [])]
        if groups:
            target = url[slash:]
            for group in groups:
                found = group.find(target, found)
        if self._expressions is not None:
            found = self._expressions.find(url.encode("utf-8", "replace"), found)
        return found

    def _groups(self, host: str) -> Iterator[_Group]:
        """The rules of the host and of the domains above it.

        A domain without a port is for every port.
        """
        if (group := self._hosts.get(host)) is not None:
            yield group
        domains = self._domains
        if not domains:
            return
        name = host if host[0] == "[" else host.partition(":")[0]
        port = host[len(name) :]
        while name:
            if (group := domains.get(name)) is not None:
                yield group
            if port and (group := domains.get(name + port)) is not None:
                yield group
            name = name.partition(".")[2]
