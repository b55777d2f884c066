"""The records of sites: their usage, their visited hosts, and how many other sites link to them.

They are in the table of the partition that owns the site and are written in the commit of what they
count, so a crash never counts twice. The discovered URLs themselves show which site links: ``via``
is the page with the link. That includes URLs that are known already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.usage import Usage
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.admit.budgets import over_budget
from lycosa.stages.admit.linking_sites import with_site
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.table_records import encode_record, linking_key, site_key
from lycosa.state.seen.recent import RecentHashes

# pairs of a linking and a linked host that are remembered, so that a repeated link costs no lookup
_PAIRS = 50_000
_NO_LINKS = frozenset(
    {
        LinkKind.SEED,
        LinkKind.REDIRECT,
        LinkKind.SITEMAP,
        LinkKind.SITEMAP_FILE,
        LinkKind.LICENSE,
    }
)
_USAGE = msgspec.msgpack.Decoder(Usage)


class SiteRecords:
    """One per worker. Links are not counted while ``budgets.pages_per_linking_site`` is 0."""

    def __init__(self, section: BudgetSection, site_of: Callable[[str], str]) -> None:
        self._section = section
        self._site_of = site_of
        self.counts_links = section.pages_per_linking_site > 0
        self._has_site_limit = bool(section.site_pages or section.site_bytes or section.site_hosts)
        self._found = RecentHashes(_PAIRS)
        self._noted = RecentHashes(_PAIRS)

    # -- budgets

    def over_budget(self, partition: Partition, host: VisitState) -> Refusal | None:
        """Why a host whose turn has come may not be visited, or ``None``.

        A host that may be visited is counted among its site's hosts.
        """
        section, record = self._section, host.record
        site = self.usage(partition, host.name) if self._has_site_limit else Usage()
        linking = (
            self._linking(partition, host.name)
            if self.counts_links and 0 < section.site_pages <= site.captures
            else b""
        )
        refusal = over_budget(section, record.usage, site, linking, record.has_place)
        if refusal is None and section.site_hosts and not record.has_place:
            record.has_place = True
            partition.visits.mark_changed(host)
            self._put(partition, host.name, msgspec.structs.replace(site, hosts=site.hosts + 1))
        return refusal

    def usage(self, partition: Partition, host: str) -> Usage:
        """The usage of the host's site."""
        value = partition.table.get(site_key(self._site_of(host)))
        return _USAGE.decode(value) if value is not None else Usage()

    def note_usage(
        self, partition: Partition, host: str, fetched: Fetched, is_capture: bool
    ) -> None:
        """Count a request and its answer in the usage of the host's site."""
        before = self.usage(partition, host)
        captures, size, time_s = (
            before.captures + is_capture,
            before.bytes + fetched.body_bytes,
            before.time_s + fetched.duration_s,
        )
        self._put(partition, host, Usage(captures, size, time_s, before.discovered, before.hosts))

    def _put(self, partition: Partition, host: str, usage: Usage) -> None:
        partition.table.put(site_key(self._site_of(host)), encode_record(usage))

    # -- linking sites

    def is_news(self, source8: bytes, target8: bytes) -> bool:
        """Whether a link between two hosts was not seen recently.

        Then it is sent to the target's owner although the URL is known.
        """
        return source8 != target8 and self._found.admit(source8 + target8)

    def forget(self, source8: bytes, target8: bytes) -> None:
        """Forget a refused link, so that the next one is news again: its owner did not get it."""
        self._found.forget(source8 + target8)

    def note_links(self, partition: Partition, batch: Iterable[Discovered]) -> None:
        """Note that the sites of the linking pages link to the sites of these URLs."""
        via, host, host8 = "", "", b""
        for found in batch:
            if not found.via or found.kind in _NO_LINKS:
                continue
            if found.via != via:
                via, host = found.via, host_of(found.via)
                host8 = hash8(host)
            if host8 != found.host8 and self._noted.admit(host8 + found.host8):
                self._note(partition, self._site_of(host), self._site_of(host_of(found.url)))

    def _note(self, partition: Partition, source: str, target: str) -> None:
        if source == target:
            return
        key = linking_key(target)
        before = partition.table.get(key) or b""
        after = with_site(before, hash8(source))
        if after is not before:
            partition.table.put(key, after)

    def _linking(self, partition: Partition, host: str) -> bytes:
        return partition.table.get(linking_key(self._site_of(host))) or b""
