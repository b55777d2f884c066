"""One shard of a crawl whose log is lost, made from its snapshot and the captures behind it.

    parcels are numbered from 1 -> places of all shards -> captures behind the snapshot are
    entered, with their links -> open segments closed -> first snapshot of the new log

An idle worker does it, over a log that keeps nothing: all results are in the local table, which
becomes the first snapshot. Until that is saved nothing of the shard has changed, except that
segments are closed, so a rescue that was killed begins this shard again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import msgspec

from lycosa.base.model.end import PreviousEnd
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parcel_items import PartitionKey
from lycosa.base.urls.identity import hash8, host_of
from lycosa.moves.idle_worker import idle_job, open_idle_worker
from lycosa.moves.new_shards import save_first_snapshot
from lycosa.moves.rescue_survey import (
    LeftShard,
    PointOfView,
    RescuePlace,
    open_earlier,
    waits_of_hosts,
)
from lycosa.moves.stored_captures import EnteredCaptures, StoredCaptures
from lycosa.stages.frontier.alike_pages import find_alike
from lycosa.state.commit import Commit, Mark
from lycosa.state.commit.log_port import FeedSource, no_rows
from lycosa.state.commit.memory_log import MemoryChangelog, MemoryLog
from lycosa.state.exchange.exchange_errors import NoAnswer
from lycosa.state.exchange.exchange_port import ExchangeEnds
from lycosa.state.exchange.renumbering import renumbered
from lycosa.state.exchange.topic import MemoryTopics
from lycosa.state.folder.names import attempts_folder, mark_of, spool_folder, stamp_of, suffix_list
from lycosa.state.folder.url_seen import known_hashes
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import decode_url, joined_key, prefix_end, url_key
from lycosa.state.seen.content_seen import (
    CONTENT,
    content_key,
    decode_original,
    decode_stored_original,
)
from lycosa.state.shard.opened_shard import PartitionData, Shard, ShardStorage
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.lost_parts import LostPart
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segments_port import FoundSegments, StoredSegment
from lycosa.worker.assemble import Assembled
from lycosa.worker.real_ports import real_ports

_ROWS = 500  # of a commit
_PAGES = frozenset({FetchKind.PAGE, FetchKind.SITEMAP})


class RescuedShard(msgspec.Struct, frozen=True):
    """What a rescue found of a shard.

    ``snapshot`` is the commit of the snapshot that was used (``None``: there was none), ``newest``
    that of the newest one. ``view`` says from where on links were handed in again. ``known`` are
    captures that the snapshot had, and whose links were handed in again all the same. ``first_us``
    and ``last_us`` are the times of the first and the last capture behind the snapshot
    (microseconds since 1970; 0 without any). ``parcels`` of the snapshot are sent again. ``closed``
    segments were open. ``time`` is a crawl time not before anything in the state. ``lost_parts``
    were missing; ``lost`` captures of the snapshot were in them and are requested again.
    """

    shard: int
    snapshot: Mark | None
    newest: Mark | None
    view: PointOfView
    entered: EnteredCaptures
    known: int = 0
    first_us: int = 0
    last_us: int = 0
    parcels: int = 0
    closed: int = 0
    time: float = 0.0
    lost_parts: int = 0
    lost: int = 0


class OtherShards(msgspec.Struct, frozen=True):
    """What a shard must know of all others.

    ``places`` are the URLs whose places are in scope. ``lost`` are captures that are in no segment
    any more: their records by digest. ``lost_parts`` are the missing parts of all shards.
    """

    places: frozenset[str]
    lost: Mapping[bytes, str] = {}
    lost_parts: Sequence[LostPart] = ()


class ShardRescue:
    """Makes one shard, whose first snapshot is that of the commit ``mark``."""

    def __init__(
        self,
        place: RescuePlace,
        remains: LeftShard,
        view: PointOfView,
        common: OtherShards,
        mark: Mark,
    ) -> None:
        self._place, self._remains, self._view = place, remains, view
        self._common, self._mark = common, mark
        self._shard, self._folder = remains.shard, place.folder(remains.shard)
        self._segments = ObjectSegments(place.store, self._shard, self._folder / "segments")
        self._known = self._first_us = self._last_us = self._read = 0

    async def run(self, is_dry: bool = False) -> RescuedShard:
        """Make the shard, and save its first snapshot unless ``is_dry``.

        Raises ``NotStored``, ``StoreDamaged``, ``ObjectError``, ``JournalError`` or ``OSError``.
        """
        data = self._opened()
        parcels = self._begin(data.table)
        lengths = self._segments.left_lengths()
        # The worker must be closed before `_save` opens the same table again.
        async with self._worker(data) as (assembled, captures):
            captures.forget_urls((each.host8, each.url8) for each in self._remains.lost)
            listed = self._segments.list_segments(lengths)
            for segment in self._wanted(captures, data.table, listed):
                await self._enter_segment(assembled, captures, segment)
            store, work = self._place.store, self._folder / "attempts"
            captures.hold_hosts(waits_of_hosts(store, self._shard, self._first_us / 1e6, work))
            await assembled.worker.committer.commit()
            closed: list[str] = []
            if not is_dry:
                closed = self._segments.close_left(lengths, partial(find_alike, data.table.get))
        if not is_dry:
            self._save()
        return RescuedShard(
            self._shard,
            self._remains.snapshot,
            self._remains.newest,
            self._view,
            captures.entered,
            known=self._known,
            first_us=self._first_us,
            last_us=self._last_us,
            parcels=parcels,
            closed=len(closed),
            time=captures.newest,
            lost=len(self._remains.lost),
        )

    def _opened(self) -> PartitionData:
        """The table of the snapshot, which the survey restored, and its URL-seen."""
        data = self._place.snapshots(self._shard).open_partition(self._shard)
        stamp = stamp_of(mark_of(data.table))
        # Only a URL-seen of the same commit as the table has all of its URLs.
        if data.seen.stamp != stamp:
            data.seen.rebuild(known_hashes(data.table), stamp)
        return data

    def _begin(self, table: KeyValue) -> int:
        """Number the parcels from 1, and add the places of the other shards.

        Returns how many parcels wait.
        """
        for writes in renumbered(table.scan):
            table.write(writes)
        new = self._common.places - self._remains.places
        table.write({joined_key(url): b"" for url in new})
        for digest, record_id in self._common.lost.items():
            value = table.get(content_key(digest))
            if value is not None and decode_original(value).record_id == record_id:
                table.write({content_key(digest): None})
        parts = self._common.lost_parts
        # Also of URLs that have other content by now: no revisit may refer to these records.
        gone: dict[bytes, bytes | None] = {}
        for key, value in table.scan(CONTENT, prefix_end(CONTENT)) if parts else ():
            content = decode_stored_original(value)
            if any(each.has(content.segment, content.offset) for each in parts):
                gone[key] = None
        table.write(gone)
        return sum(len(rows) for rows in self._remains.numbers.waiting.values())

    def _save(self) -> None:
        place = self._place.snapshots(self._shard)
        data = place.open_partition(self._shard)
        try:
            save_first_snapshot(place, self._shard, data, self._mark)
        finally:
            data.close()

    # -- captures

    def _wanted(
        self, captures: StoredCaptures, table: KeyValue, segments: Sequence[StoredSegment]
    ) -> Sequence[StoredSegment]:
        """The segments with captures behind the point of view, the oldest first.

        Segments are written one after the other. So those before one that has nothing new, and has
        pages, have nothing new either.
        """
        segments = sorted(segments, key=lambda each: each.name)  # by term and number
        if self._view is PointOfView.NOTHING or self._remains.snapshot is None:
            return [*self._of_earlier_divisions(), *segments]
        with _viewed_table(self._place, self._shard, self._view, table) as view:
            # From the newest back: usually only few segments are behind the snapshot.
            for at in range(len(segments) - 1, -1, -1):
                pages = [
                    _is_in(view, row)
                    for row in self._segments.read_rows(segments[at])
                    if row.kind in _PAGES and captures.owns(row)
                ]
                if pages and all(pages):
                    return segments[at + 1 :]
        return segments

    def _of_earlier_divisions(self) -> list[StoredSegment]:
        """Segments of other shards, or workers, from before the crawl had the present shards.

        Any of them may have captures of hosts that this shard owns now.
        """
        first_term, found = self._place.crawl.manifest.first_term, list[StoredSegment]()
        for each in self._place.store.list(f"{layout.JOURNAL}/"):
            name = layout.stem_of(each.key)
            is_earlier = 0 <= layout.segment_term(name) < first_term
            if is_earlier and layout.segment_worker(name) != self._shard:
                found.append(StoredSegment(name, True, 0, each.size))
        return sorted(found, key=lambda each: each.name)

    async def _enter_segment(
        self, assembled: Assembled, captures: StoredCaptures, segment: StoredSegment
    ) -> None:
        batch: list[JournalRow] = []
        urls: set[str] = set()
        for row in filter(captures.owns, self._segments.read_rows(segment)):
            # No URL twice in a batch, because a lease exists once for each URL.
            if len(batch) >= _ROWS or row.url in urls:
                await self._enter(assembled, captures, batch)
                batch, urls = [], set()
            batch.append(row)
            urls.add(row.url)
        await self._enter(assembled, captures, batch)

    async def _enter(
        self, assembled: Assembled, captures: StoredCaptures, batch: list[JournalRow]
    ) -> None:
        """Enter rows in their order, no URL twice, and commit them."""
        known = {row.url for row in batch if row.kind in _PAGES and captures.is_known(row)}
        new = [row for row in batch if row.url not in known]
        await captures.enter_rows(new)
        for row in batch:
            if row.url in known and self._view is not PointOfView.SNAPSHOT:
                await captures.hand_in_again(row)
                self._known += 1
        dates = [row.date_us for row in new if row.kind in _PAGES]
        if dates:
            self._first_us = min([*dates, self._first_us or dates[0]])
            self._last_us = max([*dates, self._last_us])
        self._read += len(batch)
        self._place.on_step(f"shard {self._shard}: captures read", self._read, 0)
        await assembled.worker.committer.commit()

    # -- the worker

    @asynccontextmanager
    async def _worker(self, data: PartitionData) -> AsyncIterator[tuple[Assembled, StoredCaptures]]:
        """An assembled worker over the shard, and what enters captures through it.

        Its loop does not run, and it sends no parcel.
        """
        folder, crawl = self._folder, self._place.crawl
        for each in (spool_folder(folder), attempts_folder(folder)):
            each.mkdir(parents=True, exist_ok=True)
        suffix_list(folder).write_bytes(crawl.suffixes)
        job = idle_job(folder, crawl.config, crawl.manifest, [self._shard], PreviousEnd.ORDERLY)
        ends = ExchangeEnds(None, _Nowhere(), MemoryTopics().inbound(self._shard))
        ports = msgspec.structs.replace(
            real_ports(job, self._place.open_table, fetches=False), exchange=ends
        )
        async with open_idle_worker(job, ports, self._shard_of(data)) as assembled:
            yield (
                assembled,
                StoredCaptures(
                    assembled,
                    assembled.worker.frontier.partitions[self._shard],
                    job.config,
                    assembled.worker.reparsing,
                    ports.offload,
                ),
            )

    def _shard_of(self, data: PartitionData) -> Shard:
        term = self._mark.term - 1  # of commits that no reader gets
        local = self._place.snapshots(self._shard).local_snapshots(self._shard)
        log = _NoLog(MemoryChangelog("", self._shard))
        last = Commit(term=term, sequence=0, wall=0.0, shard=self._shard)
        found = FoundSegments(term=term)
        return Shard(
            self._shard,
            term,
            ShardStorage(log, self._segments, local),
            {self._shard: data},
            last,
            found,
        )


def _is_in(table: KeyValue, row: JournalRow) -> bool:
    value = table.get(url_key(hash8(host_of(row.url)), hash8(row.url)))
    history = decode_url(value).history if value is not None else None
    return history is not None and history.fetches >= row.fetch_number


@contextmanager
def _viewed_table(
    place: RescuePlace, shard: int, view: PointOfView, table: KeyValue
) -> Iterator[KeyValue]:
    """The table of the snapshot from which on links are handed in again."""
    if view is not PointOfView.EARLIER:
        yield table
        return
    earlier = open_earlier(place, shard)
    try:
        yield earlier
    finally:
        earlier.close()


class _NoLog(MemoryLog):
    """A log that keeps nothing: the tables are the result."""

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        return None

    def trim(self, sequence: int) -> None:
        return None


class _Nowhere:
    """The owners of other partitions, none of which runs."""

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        return {}

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        raise NoAnswer("no worker runs during a rescue")

    async def close(self) -> None:
        return None
