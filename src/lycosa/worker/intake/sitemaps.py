"""Sitemaps of the worker's hosts: which hosts vouch for them, and what and how much they may list.

Two rows are kept in the partition that owns a sitemap's host, in the same commits as what they
count. By sitemap: the hosts whose robots.txt names it. By host: how many sitemaps it has
contributed and how many URLs they listed. An index passes the hosts that vouch for it on to the
sitemaps that it lists, and a redirect to its target. They travel with the discovered URL, which
another worker may own. So a host can make us read only a bounded number of files, however it nests
them or changes them between fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from lycosa.base.config.sections import SitemapSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.admit.sitemap_scope import may_list, may_name
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.listings import ListingRow, find_listing, put_listing
from lycosa.stages.frontier.partition import Partition
from lycosa.state.kv.table_records import encode_record, sitemap_count_key, sitemap_key

MAX_VOUCHING = 100
"""Maximum number of hosts remembered for one sitemap. More would only make the row long."""

_LISTED = frozenset({LinkKind.SITEMAP, LinkKind.SITEMAP_FILE, LinkKind.FEED})
_FROM_SITEMAPS = frozenset({LinkKind.SITEMAP_FILE, LinkKind.REDIRECT})
_HOSTS = msgspec.msgpack.Decoder(list[str])


class Counts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the sitemaps of one host contributed: files, URLs listed in them, and its feeds."""

    files: int = 0
    urls: int = 0
    feeds: int = 0


_COUNTS = msgspec.msgpack.Decoder(Counts)


def read_counts(partition: Partition, host8: bytes) -> Counts:
    """What others have contributed on a host of the partition."""
    value = partition.table.get(sitemap_count_key(host8))
    return _COUNTS.decode(value) if value is not None else Counts()


def put_counts(partition: Partition, host8: bytes, counts: Counts) -> None:
    """Store the counts, in the same commit as what they count."""
    partition.table.put(sitemap_count_key(host8), encode_record(counts))


class Listing:
    """What one sitemap may list.

    It knows the hosts that vouch for the sitemap, how many more URLs its host may contribute, and
    how many it has listed so far.
    """

    __slots__ = ("_is_too_deep", "_room", "_url", "_vouching", "is_counted", "listed")

    def __init__(
        self,
        url: str,
        vouching: frozenset[str],
        room: int,
        *,
        is_counted: bool = False,
        is_too_deep: bool = False,
    ) -> None:
        self._url, self._vouching, self._room, self._is_too_deep = url, vouching, room, is_too_deep
        self.is_counted = is_counted
        self.listed = 0

    def take_links(self, links: Sequence[Link]) -> tuple[list[Link], dict[Reason, int]]:
        """Those of the next links that may be followed, and how many were refused, by reason."""
        if self._is_too_deep:
            return [], {Reason.SITEMAP_LIMIT: len(links)}
        refused = {Reason.SITEMAP_FOREIGN: 0, Reason.SITEMAP_LIMIT: 0}
        kept: list[Link] = []
        for link in links:
            if link.kind not in _LISTED:
                kept.append(link)
            elif not (may_name if link.kind is LinkKind.SITEMAP_FILE else may_list)(
                self._url, link.url, self._vouching
            ):
                refused[Reason.SITEMAP_FOREIGN] += 1
            elif self.listed >= self._room:
                refused[Reason.SITEMAP_LIMIT] += 1
            else:
                kept.append(link)
                self.listed += 1
        return kept, refused


class Sitemaps:
    """One per worker."""

    def __init__(self, section: SitemapSection) -> None:
        self._section = section

    def sitemaps_named(self, lines: Sequence[str]) -> Sequence[str]:
        """Those Sitemap lines of a robots.txt that are followed.

        Without any, this is the usual place if the settings ask for it.
        """
        if not self._section.follow:
            return ()
        return lines[: self._section.max_files] or (
            ("/sitemap.xml",) if self._section.guess else ()
        )

    def note_sitemaps(self, partition: Partition, batch: Iterable[Discovered]) -> None:
        """Store which hosts vouch for sitemaps of this partition."""
        for found in batch:
            if found.kind is LinkKind.SITEMAP_FILE and target_of(found.via) == "/robots.txt":
                self._vouch(partition, found.url8, [host_of(found.via)])
            elif found.vouching:
                self._vouch(partition, found.url8, found.vouching)

    def take_in(
        self,
        partition: Partition,
        files: list[Discovered],
        discover: Callable[[list[Discovered]], list[bool]],
    ) -> int:
        """Discover sitemaps of one host up to its maximum; return how many were left out.

        ``discover`` returns which of its URLs are new. Only new ones count, because an index that
        is read again lists mostly known sitemaps.
        """
        host8 = files[0].host8
        while files:
            counts = read_counts(partition, host8)
            room = self._section.max_files - counts.files
            if room <= 0:
                break
            part, files = files[:room], files[room:]
            new = [found for found, is_new in zip(part, discover(part), strict=True) if is_new]
            for found in new:
                put_listing(partition.table, host8, found.url8, ListingRow())
            if new:
                files_now = counts.files + len(new)
                put_counts(partition, host8, msgspec.structs.replace(counts, files=files_now))
        return len(files)

    def vouching_hosts(self, partition: Partition, lease: Lease) -> tuple[str, ...]:
        """The hosts that vouch for a sitemap; none for other URLs.

        A sitemap passes them on to what it lists or redirects to.
        """
        return (
            tuple(self._vouching(partition, lease.entry.url8))
            if lease.record.kind in _FROM_SITEMAPS
            else ()
        )

    def is_sitemap(self, partition: Partition, lease: Lease) -> bool:
        """Whether a URL was found as a sitemap, or a sitemap redirects to it."""
        kind = lease.record.kind
        return kind is LinkKind.SITEMAP_FILE or (
            kind is LinkKind.REDIRECT and bool(self._vouching(partition, lease.entry.url8))
        )

    def listing_of(self, partition: Partition, lease: Lease, parsed: Parsed) -> Listing:
        """The listing of a sitemap, which judges its links a slice at a time."""
        record = lease.record
        if (
            parsed.is_sitemap_index
            and record.kind in _FROM_SITEMAPS
            and record.depth >= self._section.max_nesting
        ):
            return Listing(lease.url, frozenset(), 0, is_too_deep=True)
        vouching = frozenset(self._vouching(partition, lease.entry.url8))
        # A sitemap that is fetched again lists mostly known URLs, so only its first reading counts.
        is_first = record.history is None or record.history.fetches <= 1
        counts = read_counts(partition, lease.host.host8)
        return Listing(
            lease.url,
            vouching,
            self._section.max_urls - (counts.urls if is_first else 0),
            is_counted=is_first,
        )

    def note_listed(self, partition: Partition, host8: bytes, listing: Listing) -> None:
        """Count the URLs that a sitemap listed against its host, when all of them were judged."""
        if listing.is_counted and listing.listed:
            counts = read_counts(partition, host8)
            put_counts(
                partition, host8, msgspec.structs.replace(counts, urls=counts.urls + listing.listed)
            )

    def note_reading(
        self, partition: Partition, lease: Lease, parsed: Parsed, refused: int, mark: int
    ) -> None:
        """Keep what a sitemap or feed listed, when all of it was judged, and the mark it gave."""
        host8, url8, table = lease.host.host8, lease.entry.url8, partition.table
        before = find_listing(table, host8, url8)
        # A sitemap was counted when it was found, and a folder of an earlier version has no row.
        if before is None and lease.record.kind not in _FROM_SITEMAPS:
            counts = read_counts(partition, host8)
            put_counts(partition, host8, msgspec.structs.replace(counts, feeds=counts.feeds + 1))
        since = before.read_at if before is not None else 0
        history = lease.record.history
        row = ListingRow(
            parsed.listing,
            history.fetched_at if history is not None else 0,
            max(len(parsed.links), len(parsed.hints)),
            sum(lastmod > since for lastmod, _ in parsed.hints.values()),
            refused,
            mark,
        )
        put_listing(table, host8, url8, row)

    def listings(self, partition: Partition, host8: bytes) -> int:
        """The number of sitemaps and feeds of a host."""
        counts = read_counts(partition, host8)
        return counts.files + counts.feeds

    def _vouching(self, partition: Partition, url8: bytes) -> list[str]:
        """The hosts whose robots.txt names a sitemap, or an index that lists it."""
        value = partition.table.get(sitemap_key(url8))
        return _HOSTS.decode(value) if value is not None else []

    def _vouch(self, partition: Partition, url8: bytes, hosts: Iterable[str]) -> None:
        before = self._vouching(partition, url8)
        after = list(dict.fromkeys([*before, *hosts]))[:MAX_VOUCHING]
        if after != before:
            partition.table.put(sitemap_key(url8), encode_record(after))
