"""Parses stored bodies that were never parsed, and takes in their links.

A body is read from its WARC record and handled like a fetched page from the parser on. Its links go
to the intake with the depth and the page of that time, and the remark in the URL's record changes,
both in one commit. Stored data is not changed, including the row of the capture. A body that cannot
be read any more, because its segment was deleted, is fetched again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter

import msgspec

from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.model.url_state import History
from lycosa.base.ports import Offload, Parser
from lycosa.base.preferences.kept_markup import markup_of
from lycosa.base.preferences.preference_model import Preferences
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED, UnparsedBody
from lycosa.state.store.segments_port import Segments
from lycosa.state.store.stored_bodies import reference_of
from lycosa.state.store.stored_data import RecordError, StoredRecord
from lycosa.worker.intake.intake import Intake

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_WAITS: Callable[[UnparsedBody], bool] = attrgetter("waits")
_MAX_TRIES = 3  # of a body in one run, after the one at its start
_Key = tuple[Partition, bytes]


class Reparsed(msgspec.Struct):
    """The result: bodies parsed, their links, bodies that failed again, URLs to fetch again."""

    parsed: int = 0
    links: int = 0
    failed: int = 0
    to_fetch: int = 0


class Reparser:
    """Reparses for the partitions of one worker. ``done`` counts its results."""

    def __init__(
        self,
        segments: Segments,
        partitions: Mapping[int, Partition],
        intake: Intake,
        parser: Parser,
        offload: Offload,
        clock: CrawlClock,
    ) -> None:
        self._segments = segments
        self._partitions = partitions
        self._intake = intake
        self._parser = parser
        self._offload = offload
        self._clock = clock
        self.done = Reparsed()
        self._tries: Counter[bytes] = Counter()  # of ``run_more``, by URL
        for partition in partitions.values():
            partition.unparsed.adopt_older()

    def waiting(self) -> int:
        """Number of bodies that wait to be parsed, without those that need an operator."""
        return len(self._find(_WAITS))

    def has_more(self) -> bool:
        """Whether there are bodies that are parsed again in this run, by themselves or on demand.

        Each of them is tried a few times in a run, so this ends.
        """
        return bool(self._due())

    def allow_more(self) -> None:
        """Forget the tries of this run, because an operator asks for more."""
        self._tries.clear()

    def unread_seeds(self, most: int) -> list[tuple[str, Reason]]:
        """The first seeds whose links are not known, because their body was not parsed, and why."""
        found = []
        for key in self._find(attrgetter("is_seed"))[:most]:
            partition, url = key
            body, lease = partition.unparsed.get(url), self._lease(key)
            if body is not None and lease is not None:
                found.append((lease.url, body.reason))
        return found

    async def run(
        self,
        may_go_on: Callable[[], Awaitable[bool]],
        is_meant: Callable[[UnparsedBody], bool] = _WAITS,
    ) -> None:
        """Parse all bodies once that wait, or that ``is_meant`` selects.

        ``may_go_on`` is awaited before each body; the run ends when it returns false.
        """
        for key in self._find(is_meant):
            if not await may_go_on():
                return
            await self._one(key)

    async def run_more(self, may_go_on: Callable[[], Awaitable[bool]]) -> None:
        """Parse the bodies of ``has_more`` once."""
        for key in self._due():
            if not await may_go_on():
                return
            self._tries[key[1]] += 1
            await self._one(key)

    def _due(self) -> list[_Key]:
        found = self._find(attrgetter("may_be_tried_now"))
        return [key for key in found if self._tries[key[1]] < _MAX_TRIES]

    def _find(self, is_meant: Callable[[UnparsedBody], bool]) -> list[_Key]:
        return [
            (partition, url)
            for partition in self._partitions.values()
            for url in partition.unparsed.find(is_meant)
        ]

    async def parse_stored(self, lease: Lease, body: UnparsedBody) -> Parsed | None:
        """What is in a stored body of the lease's URL; ``None`` if it cannot be read."""
        record = await self._read(lease, body)
        return None if record is None else await self._parse(lease, record, body.tries + 1)

    async def _one(self, key: _Key) -> None:
        partition, url = key
        body, lease = partition.unparsed.get(url), self._lease(key)
        # It was fetched, retried or dropped since the list was made, which may be minutes ago.
        if body is None or lease is None:
            return
        parsed = await self.parse_stored(lease, body)
        # Nothing awaits from here on, so a commit contains all of it or nothing.
        if partition.unparsed.get(url) != body or url in partition.leased:
            return  # it was fetched meanwhile, or is being fetched: that parse counts
        if parsed is None:
            # Without a new request the links of this page would stay unknown.
            partition.unparsed.fetch_again(url, self._clock.time())
            self.done.to_fetch += 1
        elif parsed.reason in NOT_PARSED:
            partition.unparsed.record_failed(url, body, parsed.reason)
            self.done.failed += 1
        else:
            self._take(key, lease, body, parsed)

    def _lease(self, key: _Key) -> Lease | None:
        """A lease for the intake, which takes links of a lease. It was not handed out."""
        partition, url = key
        record, host = partition.find_record(url[:8], url[8:]), partition.visits.find_host(url[:8])
        if record is None or host is None or url in partition.leased:
            return None
        return Lease(host, QueueEntry(0, 0, url[8:], 0), record)

    def _take(self, key: _Key, lease: Lease, body: UnparsedBody, parsed: Parsed) -> None:
        partition, url = key
        history = lease.record.history
        remark = parsed.reason
        # The fetch found by the digest that another URL has this body, which needed no parse.
        if not remark and history is not None and history.is_same:
            remark = Reason.DUPLICATE
        markup = markup_of(Preferences({}, parsed.statements)) if parsed.statements else ()
        partition.unparsed.record_parsed(url, body, remark, markup)
        partition.counters.pages += parsed.media_type in _HTML
        self._intake.take_outlinks(lease, parsed)
        self.done.parsed += 1
        self.done.links += len(parsed.links)

    async def _parse(self, lease: Lease, record: StoredRecord, tries: int) -> Parsed:
        headers = Fetched(lease.url, Reason.NONE, header_block=record.header_block).headers()
        is_sitemap, is_cut = self._intake.is_sitemap(lease), "WARC-Truncated" in record.fields
        return await self._parser.parse(
            ParseInput(lease.url, 200, headers, record.body, "", is_sitemap, is_cut, tries=tries)
        )

    async def _read(self, lease: Lease, body: UnparsedBody) -> StoredRecord | None:
        """The record with the body, or ``None`` if it cannot be read.

        It has another URL's body if that URL had the same one before, with its own header.
        """
        record = await self.read_record(body.segment, body.offset)
        reference = reference_of(record) if record is not None else None
        if record is None or reference is None:
            return record
        own = lease.record.history
        places = [
            history.body_place
            for history in (own, self._history_at(reference.url))
            if history is not None and reference.is_of(history)
        ]
        for place in dict.fromkeys(places):
            found = await self.read_record(*place)
            if found is not None and reference_of(found) is None:
                return msgspec.structs.replace(found, header_block=record.header_block)
        return None

    def _history_at(self, url: str) -> History | None:
        """What the record of a URL remembers, if this worker owns it."""
        number = self._intake.partition_of_host(host_of(url)) if url else -1
        partition = self._partitions.get(number)
        record = partition.find_record(hash8(host_of(url)), hash8(url)) if partition else None
        return record.history if record is not None else None

    async def read_record(self, segment: str, offset: int) -> StoredRecord | None:
        """The record at a place; ``None`` if it cannot be read."""
        try:
            # On another thread: in a cluster this is a request to the object storage.
            return await self._offload.run(lambda: self._segments.read_record(segment, offset))
        except (RecordError, OSError):
            # The caller requests the page again, and the audit reports what is damaged.
            return None
