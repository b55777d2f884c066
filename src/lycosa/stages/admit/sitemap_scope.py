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

from lycosa.base.urls.identity import host_of, target_of


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
