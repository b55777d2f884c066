"""Extraction again: makes a version of an extractor's items, one closed segment after the other.

Several of these may work on one crawl, on any number of machines: a claim for each segment divides
the work, and a table is created once, by the first that has it (``work_claims``). Nothing else is
shared, so a run that is killed at any moment leaves finished tables and claims that others take
over, and the same command again makes the rest. When all segments that are closed have a table,
readers get the new version, as a whole.

Nothing here runs user code: ``ask`` gives a page to a process that does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from lycosa.base.model.item_schema import ItemSchema
from lycosa.base.system.private_folder import private_folder
from lycosa.feeds.extraction.extracted_tables import ExtractedTables
from lycosa.feeds.extraction.extraction_source import ExtractionSource
from lycosa.feeds.extraction.extraction_versions import (
    ExtractionKind,
    KnownItems,
    VersionRecord,
    choose_version,
)
from lycosa.feeds.extraction.kept_items import JournalItems, TableItems
from lycosa.feeds.extraction.segment_extraction import (
    AskCode,
    ExtractionBuilder,
    KeptItems,
    SegmentResult,
)
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.work_claims import WorkClaims
from lycosa.state.store.item_versions import CurrentVersion, seen_version
from lycosa.state.store.journal_rows import Extractor

_WAIT_S = 2.0  # for segments that others have claimed, and for segments to close
_MAX_SHOWN = 20  # failures that a report has


class ExtractionProgress(msgspec.Struct):
    """What a run has done so far. ``segments`` are all that are closed, ``ready`` those that have a
    table, by this run or another one. Captures are those that user code was asked about.
    """

    name: str = ""
    version: int = 0
    segments: int = 0
    ready: int = 0
    captures: int = 0
    items: int = 0
    failed: int = 0
    waits_for: str = ""


class ExtractionReport(msgspec.Struct):
    """What came of the extraction of one extractor.

    ``made`` are the segments of which this run made the tables, ``open_segments`` those that cannot
    be extracted yet. ``failures`` are the first captures without items. ``is_complete`` says that
    readers see this version now.
    """

    name: str
    version: int
    base: int
    segments: int
    made: int = 0
    open_segments: int = 0
    captures: int = 0
    items: int = 0
    failed: int = 0
    failures: list[str] = []
    is_complete: bool = False


class CodeToRun(msgspec.Struct, frozen=True):
    """One extractor of the user's code: its columns with the version that the code names, the
    pattern of its URLs, and the SHA-256 and the name of the source.
    """

    schema: ItemSchema
    match: str
    code: str
    source: str


class ExtractionRun:
    """Extracts one extractor's items from a source into a store.

    ``ask`` may be called ``at_once`` times. ``told`` gets the progress after each capture.
    """

    def __init__(
        self,
        source: ExtractionSource,
        store: ObjectStore,
        code: CodeToRun,
        ask: AskCode,
        at_once: int,
        told: Callable[[ExtractionProgress], object] = lambda progress: None,
    ) -> None:
        self._source, self._store, self._code = source, store, code
        self._ask, self._at_once, self._told = ask, at_once, told
        self._tables = ExtractedTables(store, code.schema.name)
        self._headers: dict[str, Sequence[Extractor]] = {}
        self._needed: dict[str, bool] = {}  # whether a segment has failures
        self._has_begun = False  # the version has its note
        self.progress = ExtractionProgress(code.schema.name)

    async def run(self, mode: ExtractionKind, follow: bool = False) -> ExtractionReport:
        """Make the version. With ``follow``, also of segments that close later, until cancelled.

        Raises ``ExtractionRefused``, ``ObjectError``, ``JournalError``, ``OSError``.
        """
        record, known = await asyncio.to_thread(self._choose, mode)
        claims = WorkClaims(self._store, f"items/{record.name}/{record.version}")
        report = ExtractionReport(record.name, record.version, record.base, 0)
        self.progress.version = record.version
        with claims.renewing():
            while True:
                await self._make_missing(record, known, claims, report)
                if self._has_begun:
                    await asyncio.to_thread(self._tables.publish, record.version)
                report.is_complete = True
                report.open_segments = self._source.count_open()
                if not (follow and report.open_segments):
                    break
                self.progress.waits_for = f"{report.open_segments} open segments"
                self._told(self.progress)
                await asyncio.sleep(_WAIT_S)
        await asyncio.to_thread(claims.clear)
        if not self._has_begun:
            report.version = record.base or record.version  # there was nothing to do
        return report

    def _choose(self, mode: ExtractionKind) -> tuple[VersionRecord, KnownItems]:
        crawled: dict[int, Extractor] = {}
        for segment in self._source.closed_segments():
            for each in self._extractors(segment):
                if each.name == self._tables.name:
                    crawled[each.version] = each
        known = self._tables.known(crawled)
        code = self._code
        record = choose_version(mode, code.schema, code.code, code.source, known)
        self._has_begun = record.version in known.extracted
        return record, known

    def _extractors(self, segment: str) -> Sequence[Extractor]:
        if segment not in self._headers:
            self._headers[segment] = tuple(self._source.extractors(segment))
        return self._headers[segment]

    def _own_version(self, segment: str) -> int | None:
        """The version of this extractor's items that the crawl itself stored with a segment."""
        of_name = [each for each in self._extractors(segment) if each.name == self._tables.name]
        return of_name[0].version if of_name and of_name[0].fields else None

    async def _make_missing(
        self,
        record: VersionRecord,
        known: KnownItems,
        claims: WorkClaims,
        report: ExtractionReport,
    ) -> None:
        """Make tables until all closed segments have one; other programs may make some of them."""
        while True:
            segments, missing = await asyncio.to_thread(self._missing, record)
            report.segments = self.progress.segments = len(segments)
            self.progress.ready = len(segments) - len(missing)
            if not missing:
                return
            if not self._has_begun:
                await asyncio.to_thread(self._tables.begin, record)
                self._has_begun = True
            holder = ""
            for segment in missing:
                other = await asyncio.to_thread(claims.try_claim, segment)
                if other is not None:
                    holder = str(other)
                    continue
                result = await self._make(record, known, segment)
                await asyncio.to_thread(claims.release, segment)
                self.progress.ready += 1
                if result is not None:
                    _add(report, result)
            if holder:
                self.progress.waits_for = holder
                self._told(self.progress)
                await asyncio.sleep(_WAIT_S)
                self.progress.waits_for = ""

    def _missing(self, record: VersionRecord) -> tuple[list[str], list[str]]:
        """The closed segments, and those of which a table is to be made."""
        segments = self._source.closed_segments()
        listing = self._tables.listing()
        ready = listing.tables.get(record.name, {}).get(record.version, {})
        return segments, [
            each
            for each in segments
            if each not in ready
            and self._own_version(each) != record.version
            and (not record.base or self._needs_table(record, each))
        ]

    def _needs_table(self, record: VersionRecord, segment: str) -> bool:
        """Whether a capture of a segment failed; if none did, readers keep what they see of it."""
        if segment not in self._needed:
            self._needed[segment] = self._has_failures(record, segment)
        return self._needed[segment]

    async def _make(
        self, record: VersionRecord, known: KnownItems, segment: str
    ) -> SegmentResult | None:
        """The table of a segment; ``None`` if another program has made it meanwhile."""
        tables = self._tables
        if await asyncio.to_thread(tables.has_table, record.version, segment):
            return None
        maker = ExtractionBuilder(
            record.schema, self._code.match, self._ask, self._at_once, self._note
        )
        with private_folder("extract") as folder:
            path = folder / "items.parquet"
            kept = await asyncio.to_thread(self._kept, record, known, segment, folder)
            result = await maker.make_table(path, self._source.captures(segment), kept)
            await asyncio.to_thread(
                tables.create_table, record.version, segment, path, result.failures
            )
        return result

    def _kept(
        self, record: VersionRecord, known: KnownItems, segment: str, folder: Path
    ) -> KeptItems:
        """The items that are not extracted again: with ``--failed`` those that there are."""
        if not record.base:
            return lambda row: None
        seen = self._seen(record, segment)
        if seen is None:
            return lambda row: None  # it closed later, and has no items yet
        if seen == self._own_version(segment):
            return JournalItems(record.name)
        path = folder / "kept.parquet"
        self._tables.copy_table(seen, segment, path)
        failed = [each.capture for each in self._tables.failures(seen, segment)]
        return TableItems(path, known.extracted[seen].schema, failed)

    def _seen(self, record: VersionRecord, segment: str) -> int | None:
        """The version of a segment's items that is the base of this one."""
        base, own = CurrentVersion(record.base), self._own_version(segment)
        return seen_version(self._tables.listing(), record.name, base, segment, own)

    def _has_failures(self, record: VersionRecord, segment: str) -> bool:
        seen = self._seen(record, segment)
        if seen is None:
            return True
        if seen != self._own_version(segment):
            return bool(self._tables.failures(seen, segment))
        kept = JournalItems(record.name)
        return any(kept(each.row) is None for each in self._source.captures(segment))

    def _note(self, captures: int, items: int, has_error: bool) -> None:
        self.progress.captures += captures
        self.progress.items += items
        self.progress.failed += has_error
        self._told(self.progress)


def _add(report: ExtractionReport, result: SegmentResult) -> None:
    report.made += 1
    report.captures += result.captures
    report.items += result.items
    report.failed += len(result.failures)
    room = max(_MAX_SHOWN - len(report.failures), 0)
    report.failures += [f"{each.url}: {each.error}" for each in result.failures[:room]]
