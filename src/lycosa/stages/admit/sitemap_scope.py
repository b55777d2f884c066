"""What a sitemap may list: by the protocol, only URLs of the sitemap's host or of hosts that name
it.

A sitemap may list URLs below its folder on its host, and on every host whose robots.txt names it or
names the index that lists it ("cross submits"): the author of a host's robots.txt controls that
host. As in the scope, ``http`` and ``https`` of one host are one place. That is more than the
protocol allows, and is what sites mean when they move to TLS.

Source: sitemaps.org protocol, "Sitemap file location", "Using Sitemap index files" and "Sitemaps &
Cross Submits".
"""

from __future__ import annotations

from collections.abc import Collection

from lycosa.base.model.parcel_items import FOREIGN_DESTINATIONS, MAX_WANT_CHARS
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.admit.refusal import Refusal


def may_list(sitemap: str, url: str, vouching: Collection[str]) -> bool:
    """Whether the sitemap at one canonical URL may list the other URL.

    ``vouching`` are the hosts whose robots.txt names the sitemap.
    """
    host = host_of(url)
    return host in vouching or (
        host == host_of(sitemap) and target_of(url).startswith(folder_of(sitemap))
    )


def may_name(index: str, sitemap: str, vouching: Collection[str]) -> bool:
    """Whether an index may list a sitemap: on its own host or on a vouching one.

    Source: "Using Sitemap index files".
    """
    host = host_of(sitemap)
    return host == host_of(index) or host in vouching


def folder_of(url: str) -> str:
    """The path of a URL up to its last slash."""
    path = target_of(url).partition("?")[0]
    return path[: path.rindex("/") + 1]


# Which requests of a page that is rendered are fetched: rules in addition to those of every URL.
#
# Scripts decide what is asked for, so a page could make the crawl send requests of its choice to
# other sites, with data in them. From its own site a page gets everything that it asks for. From
# other sites it gets only what pages load without scripts too, and only with short queries.


MAX_QUERY = 256
"""Maximum number of bytes of a query that another site gets."""

_DATA = "data"


def judge_want(url: str, destination: str, is_foreign: bool) -> Refusal | None:
    """Why a request of a page for a canonical URL is not fetched, or ``None``.

    ``destination`` is that of the Fetch standard, empty for data. ``is_foreign``: the URL is on
    another site than the page.
    """
    if len(url) > MAX_WANT_CHARS:
        return Refusal(Reason.URL_TOO_LONG, "characters of a want", f"at most {MAX_WANT_CHARS}")
    if not is_foreign:
        return None
    if destination not in FOREIGN_DESTINATIONS:
        allowed = "scripts, styles, fonts and images of other sites"
        return Refusal(Reason.WANT_ELSEWHERE, allowed, destination or _DATA)
    query = target_of(url).partition("?")[2]
    if len(query.encode()) > MAX_QUERY:
        return Refusal(Reason.WANT_QUERY, "bytes of a query", f"{len(query)} of {MAX_QUERY}")
    return None
