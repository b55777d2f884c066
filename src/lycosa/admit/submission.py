"""What a sitemap may list: the protocol's rule that nobody submits the pages of somebody else.

A sitemap speaks for its own folder on its own host, and for every host whose robots.txt names it,
or names the index that lists it ("cross submits"): who can write a host's robots.txt has shown that
the host is theirs. ``http`` and ``https`` of one host are one place here as they are in the scope,
which is more than the protocol allows and what sites mean when they move to TLS.

Source: sitemaps.org protocol, "Sitemap file location", "Using Sitemap index files" and "Sitemaps &
Cross Submits".
"""

from __future__ import annotations

from collections.abc import Collection

from lycosa.urls.identity import host_of, target_of


def may_list(sitemap: str, url: str, vouching: Collection[str]) -> bool:
    """Whether the sitemap at one canonical URL may list the other; ``vouching`` are the hosts
    whose robots.txt names it.
    """
    host = host_of(url)
    return host in vouching or (
        host == host_of(sitemap) and target_of(url).startswith(folder_of(sitemap))
    )


def may_name(index: str, sitemap: str, vouching: Collection[str]) -> bool:
    """Whether an index may list a sitemap: on its own host, or on one that vouches for it
    ("Using Sitemap index files").
    """
    host = host_of(sitemap)
    return host == host_of(index) or host in vouching


def folder_of(url: str) -> str:
    """The path of a URL up to its last slash."""
    path = target_of(url).partition("?")[0]
    return path[: path.rindex("/") + 1]
