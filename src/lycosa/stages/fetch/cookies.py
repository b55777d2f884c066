"""Cookies, when the operator enables them: one bounded jar per site, in memory.

No site can read the jar of another. Parsing, matching and expiry are libcurl's (RFC 6265 section 5,
with the public suffix list). Its cookie engine gets the jar of one site for one request, and the
engine's content afterwards shows what the site changed. So a site is never sent a cookie of another
one, whatever a domain attribute says, and no handle keeps cookies. The border between sites comes
from the crawl's public suffix list: a cookie that the engine accepts for a domain outside the site
is dropped.

Two hosts of one site may be requested at the same time. Therefore each request stores only its
changes and not the whole jar.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from lycosa.base.urls.identity import host_of
from lycosa.stages.fetch.libcurl import pycurl

SITE_COOKIES = 100  # of one site; RFC 6265 section 6.1 asks for at least 50 per domain
# of one site; libcurl accepts no cookie over 4,096 bytes and sends at most 8 KB
SITE_BYTES = 65_536
_HTTP_ONLY = b"#HttpOnly_"
# domain, whether it includes subdomains, path, secure, expiry, name, value: Netscape's format
_FIELDS = 7
_Key = tuple[bytes, bytes, bytes]  # domain, path, name: RFC 6265 section 5.3
Lent = dict[_Key, bytes]


class CookieSnapshot(NamedTuple):
    """The content of all jars."""

    sites: int
    cookies: int
    size_bytes: int


class _Jar:
    """One site's cookies in the order of their creation.

    They are sent in this order (RFC 6265 section 5.4).
    """

    __slots__ = ("lines", "size")

    def __init__(self) -> None:
        self.lines: dict[_Key, bytes] = {}
        self.size = 0

    def put_cookie(self, key: _Key, line: bytes) -> None:
        """Add a cookie, or change the value of one, which keeps its place."""
        self.size += len(line) - len(self.lines.get(key, b""))
        self.lines[key] = line

    def drop_cookie(self, key: _Key) -> None:
        self.size -= len(self.lines.pop(key, b""))

    def shrink(self) -> None:
        """Drop the oldest cookies until the jar is within its limits."""
        while len(self.lines) > SITE_COOKIES or self.size > SITE_BYTES:
            self.drop_cookie(next(iter(self.lines)))


class CookieJars:
    """The jars of one fetcher, with at most ``max_bytes`` in all.

    The jar that was not used for the longest time is dropped first. ``site_of`` returns the site of
    a host.
    """

    def __init__(self, site_of: Callable[[str], str], max_bytes: int) -> None:
        self._site_of, self._max_bytes = site_of, max_bytes
        self._jars: OrderedDict[str, _Jar] = OrderedDict()
        self._size = 0

    def fill(self, lines: Iterable[bytes]) -> None:
        """Put cookies into the jars of their sites; lines in Netscape's format."""
        for line in lines:
            fields = line.split(b"\t")
            domain = fields[0].removeprefix(_HTTP_ONLY)
            site = self._site_of(domain.removeprefix(b".").decode("latin-1").lower())
            jar = self._jars.setdefault(site, _Jar())
            before = jar.size
            jar.put_cookie((domain, fields[2], fields[5]), line)
            jar.shrink()
            self._size += jar.size - before

    def lend(self, curl: Any, url: str) -> Lent:
        """Give the engine of ``curl`` exactly the cookies of the URL's site.

        The result has to be passed to ``take_back``.
        """
        empty(curl)
        site = self._site_of(host_of(url))
        jar = self._jars.get(site)
        if jar is None:
            return {}
        self._jars.move_to_end(site)
        for line in jar.lines.values():
            curl.setopt(pycurl.COOKIELIST, line)
        return dict(jar.lines)

    def take_back(self, curl: Any, url: str, lent: Lent) -> None:
        """Store the changes of a request: cookies that are new, changed, deleted or expired."""
        site = self._site_of(host_of(url))
        held = dict(self._of_site(site, curl.getinfo_raw(pycurl.INFO_COOKIELIST)))
        gone = [key for key in lent if key not in held]
        # the engine lists the newest first
        changed = [(key, line) for key, line in reversed(held.items()) if lent.get(key) != line]
        if not gone and not changed:
            return
        jar = self._jars.setdefault(site, _Jar())
        before = jar.size
        for key in gone:
            jar.drop_cookie(key)
        for key, line in changed:
            jar.put_cookie(key, line)
        jar.shrink()
        self._size += jar.size - before
        if not jar.lines:
            del self._jars[site]
        while self._size > self._max_bytes:
            self._size -= self._jars.popitem(last=False)[1].size

    def snapshot(self) -> CookieSnapshot:
        return CookieSnapshot(
            len(self._jars), sum(len(jar.lines) for jar in self._jars.values()), self._size
        )

    def __repr__(self) -> str:
        return f"CookieJars({self.snapshot()})"

    def _of_site(self, site: str, lines: Iterable[bytes]) -> Iterable[tuple[_Key, bytes]]:
        for line in lines:
            fields = line.split(b"\t")
            domain = fields[0].removeprefix(_HTTP_ONLY)
            if (
                len(fields) == _FIELDS
                and self._site_of(domain.removeprefix(b".").decode("latin-1")) == site
            ):
                yield (domain, fields[2], fields[5]), line


def empty(curl: Any) -> None:
    """Enable the cookie engine of ``curl`` and empty it.

    Turns the trace off, because pycurl cannot call back while an option is being set.
    """
    curl.setopt(pycurl.VERBOSE, 0)
    curl.setopt(pycurl.COOKIEFILE, "")
    curl.setopt(pycurl.COOKIELIST, "ALL")
