"""The records of sites: their usage, their visited hosts, and how many other sites link to them and
to their hosts.

They are in the table of the partition that owns the site and are written in the commit of what they
count, so a crash never counts twice. The discovered URLs themselves show which site links: ``via``
is the page with the link. That includes URLs that are known already: the first link between two
hosts is sent to the owner of its target in any case. A page costs one set of its links' hosts, and
a link nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.discovered import Discovered
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.host_memory import Usage
from lycosa.base.model.parsed import Link
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.admit.budgets import over_budget
from lycosa.stages.admit.linking_sites import HOST_SIZE, linking_sites, with_site
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.priority import linked_importance
from lycosa.state.kv.table_records import encode_record, linking_key, site_key

_PAIRS = 50_000
_NOBODY: AbstractSet[bytes] = frozenset()
_USAGE = msgspec.msgpack.Decoder(Usage)


class HostPairs:
    """Pairs of a linking and a linked host, so that a repeated link costs no lookup.

    All are forgotten when there are 50,000: then a pair is looked up once more.
    """

    def __init__(self) -> None:
        self._linked: dict[bytes, set[bytes]] = {}
        self._left = _PAIRS
        self.get = self._linked.get

    def add(self, source8: bytes, target8: bytes) -> None:
        if not self._left:
            self._linked.clear()
            self._left = _PAIRS
        self._left -= 1
        self._linked.setdefault(source8, set()).add(target8)


class SiteRecords:
    """One per worker. Links between sites are not counted while ``budgets.pages_per_linking_site``
    is 0; those to hosts always are, for their importance.
    """

    def __init__(self, section: BudgetSection, site_of: Callable[[str], str]) -> None:
        self._section = section
        self._site_of = site_of
        self.counts_links = section.pages_per_linking_site > 0
        self._has_site_limit = bool(section.site_pages or section.site_bytes or section.site_hosts)
        self._found, self._noted = HostPairs(), HostPairs()

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
        self._put(
            partition,
            host,
            msgspec.structs.replace(before, captures=captures, bytes=size, time_s=time_s),
        )

    def note_licenses(self, partition: Partition, host: str, number: int) -> None:
        """Count new licences on the host's site."""
        before = self.usage(partition, host)
        self._put(
            partition, host, msgspec.structs.replace(before, licenses=before.licenses + number)
        )

    def _put(self, partition: Partition, host: str, usage: Usage) -> None:
        partition.table.put(site_key(self._site_of(host)), encode_record(usage))

    # -- linking sites

    def news_of(self, source8: bytes, links: Sequence[Link]) -> set[bytes]:
        """The hosts among a page's links to which no link of this host was sent lately.

        The first link to each is sent to its owner although the URL is known.
        """
        hosts = {link.host8 for link in links}
        hosts.discard(source8)
        return hosts - self._found.get(source8, _NOBODY) if hosts else hosts

    def note_told(self, source8: bytes, target8: bytes) -> None:
        """Note that the owner was told of such a link, or that the target is out of scope."""
        self._found.add(source8, target8)

    def forget_told(self) -> None:
        """Tell everything again, because more may be in scope."""
        self._found = HostPairs()

    def note_links(self, partition: Partition, batch: Iterable[Discovered]) -> None:
        """Note that the hosts of the linking pages link to the hosts of these URLs."""
        via, host, host8, known = "", "", b"", _NOBODY
        for found in batch:
            if not (found.via and found.kind.leads):
                continue
            if found.via != via:
                via, host = found.via, host_of(found.via)
                host8 = hash8(host)
                known = self._noted.get(host8, _NOBODY)
            if host8 != found.host8 and found.host8 not in known:
                self._note(partition, host, host8, found)
                self._noted.add(host8, found.host8)
                known = self._noted.get(host8, _NOBODY)

    def _note(self, partition: Partition, host: str, host8: bytes, found: Discovered) -> None:
        """Count a link from a host. Hosts of one site have one voice together, as hosts are cheap;
        those of the target's own site, which the budgets bound, have one each.
        """
        source, target = self._site_of(host), self._site_of(host_of(found.url))
        voice8 = host8 if source == target else hash8(source)
        linked = partition.find_or_add_host(found.host8, found.url)
        before = linked.record.linking
        after = with_site(before, voice8, HOST_SIZE)
        if after is not before:
            importance = linked_importance(linking_sites(after), found.importance)
            partition.note_linking(linked, after, importance)
        if source != target and self.counts_links:
            key = linking_key(target)
            known = partition.table.get(key) or b""
            counted = with_site(known, voice8)
            if counted is not known:
                partition.table.put(key, counted)

    def _linking(self, partition: Partition, host: str) -> bytes:
        return partition.table.get(linking_key(self._site_of(host))) or b""
