"""The segments port over an object store.

A commit adds one object, a **part**, to each segment for which it has records: the WARC members,
then the journal frame. Its key describes it, so a listing is an index of the open segments:

    parts/<shard>/<segment>/<offset>-<bytes of WARC>-<journal offset>

A segment's name contains the term, and a new owner never continues a segment. So no two owners
write the same key, a part is only ever created, and a put may be repeated.

Closing a segment writes its parts, one after the other, to files of a local folder, builds the
derived files there, and uploads all under their final names, the journal last: a segment is
**sealed** when its journal has its final name. Closing changes no offset and may be repeated. It
adds to the rows of the journal the near-duplicates that were found meanwhile. The parts of a sealed
segment are deleted ``kept_s`` after a commit that no longer names it as open, so that readers that
listed them can still read them.

A commit has the CRC-32 of each open file, which sealing compares with the parts. What is wrong is
noted in ``damaged/<shard>/<segment>.json`` before the segment counts as sealed, and the parts of
such a segment are kept (``composing``).

A part that no commit names is of a commit that was never made, or of one that the log has lost.
Recoveries stop when it must be the second, and otherwise delete the part when it is a week old: a
rescue reads what the log has lost from the parts.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from zlib import crc32

import msgspec

from lycosa.base.model.capture import ELSEWHERE
from lycosa.state.objects.object_errors import ObjectError, ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read
from lycosa.state.store import journal, layout
from lycosa.state.store.closing import build_derived, wanted_or_certain
from lycosa.state.store.composing import ComposedFiles, DamagedPart, DamageNote, compose
from lycosa.state.store.damage import CommitsLost, StoreDamaged
from lycosa.state.store.derived_files import CDXJ
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.pending import PendingWrite, SegmentPart, pieces
from lycosa.state.store.segment_recovery import Recovery
from lycosa.state.store.segments_port import FoundSegments, NotStored, OpenSegment, StoredSegment
from lycosa.state.store.stored_data import RecordError, StoredRecord, record_at
from lycosa.state.store.stored_parts import (
    PieceFile,
    StoredPart,
    committed_parts,
    contiguous_parts,
    end_of_parts,
    parts_in,
)

KEPT_S = 3600.0
"""Seconds for which parts of a sealed segment are kept."""
MISSING_S = 60.0
"""Seconds for which a part must be missing before its segment is sealed without it."""
UNNAMED_S = 7 * 86_400.0
"""Age at which a part is deleted that no commit names."""
_BEGINNING = "is missing at its beginning, so it was not sealed"
_IN_MEMORY = 8 << 20  # a larger part is assembled in a file
_FIRST, _MAX = 64 << 10, 4 << 20  # bytes of one request when a record is read


class ObjectSegments:
    """The segments of one shard. Implements ``Segments`` and ``SegmentReader``.

    ``work`` is a local folder that belongs to this owner; its content may be lost. ``now`` is a
    monotonic clock in seconds, ``wall`` returns seconds since 1970.
    """

    def __init__(
        self,
        store: ObjectStore,
        shard: int,
        work: Path,
        now: Callable[[], float] = monotonic,
        kept_s: float = KEPT_S,
        wall: Callable[[], float] = time,
    ) -> None:
        self._store, self._shard, self._work = store, shard, work
        self._now, self._kept_s, self._wall = now, kept_s, wall
        self._lengths: dict[str, int] = {}  # of the open files that the last commit names
        self._sums: dict[str, int] = {}  # of the same files, as far as they are known
        self._parts: dict[str, list[StoredPart]] = {}  # of open segments
        self._sealed: dict[str, float] = {}  # segments whose parts still exist, and since when
        self._damaged: dict[str, str] = {}  # segments whose parts are kept, and what is wrong
        self._missing: dict[str, float] = {}  # segments that lack a part, and since when

    def recover_segments(
        self, lengths: Mapping[str, int], sums: Mapping[str, int] | None = None
    ) -> Recovery:
        """See ``Segments``. Raises before anything is deleted."""
        listed = [*self._store.list(self._prefix())]
        self._parts = parts_in(listed, self._prefix())
        sealed = set()
        for name, committed in lengths.items():
            segment, kind = layout.stem_of(name), name.partition("/")[0]
            if segment in sealed or self._is_sealed(segment):
                sealed.add(segment)
                found = self._store.find(name.removesuffix(layout.OPEN))
                length = found.size if found else None
                if found is not None and kind == layout.JOURNAL:
                    length = committed  # near-duplicates may have been added when it was sealed
            else:
                length = end_of_parts(
                    contiguous_parts(self._parts.get(segment, [])), kind, committed
                )
            # Shorter: a part is gone that no crash can remove. Longer cannot be: what is behind is
            # not counted.
            if length != committed:
                raise StoreDamaged(Path(name), length, committed)
        self._lengths, self._sums = dict(lengths), dict(sums or {})
        notes = (each.key.rpartition("/")[2] for each in self._store.list(f"{self._notes()}/"))
        self._damaged = {name.removesuffix(".json"): "" for name in notes}
        unnamed = self._take_unnamed(sealed)
        # Parts behind the last commit may be of an owner that is only believed dead; after a week
        # none is.
        since = self._wall() - UNNAMED_S
        report = Recovery(damaged=[*self._damaged])
        report.removed.extend(
            each.key for each in listed if each.key in unnamed and each.modified <= since
        )
        self._store.delete(report.removed)
        return report

    def _take_unnamed(self, sealed: set[str]) -> set[str]:
        """The keys of parts behind what commits name; notes the parts of sealed segments.

        Raises ``CommitsLost``.
        """
        unnamed = set[str]()
        for segment, parts in self._parts.items():
            if segment in sealed or (not self._is_named(segment) and self._is_sealed(segment)):
                self._sealed.setdefault(segment, self._now())
                continue
            if not self._is_named(segment) and segment in self._damaged:
                continue  # it is known what the parts are of, and they are kept
            committed = self._lengths.get(_open_name(layout.WARC, segment), 0)
            behind = [part.key for part in parts if part.start >= committed]
            # An owner puts one part before each commit, so two show that commits are missing in the
            # log.
            if len(behind) > 1:
                raise CommitsLost(self._shard, segment, len(behind), committed)
            unnamed.update(behind)
            self._parts[segment] = [part for part in parts if part.start < committed]
        return unnamed

    def left_lengths(self) -> dict[str, int]:
        """The lengths of the open files by their parts, when no commit names them any more.

        Behind a missing part a segment has nothing. Raises ``ObjectError``.
        """
        found = {}
        for segment, parts in self._listed_parts().items():
            there = [] if self._is_sealed(segment) else contiguous_parts(parts)
            for kind in (layout.WARC, layout.JOURNAL) if there else ():
                end = there[-1].end if kind == layout.WARC else there[-1].rows_end
                found[_open_name(kind, segment)] = end
        return found

    def close_left(
        self, lengths: Mapping[str, int], find_similar: journal.FindSimilar | None = None
    ) -> list[str]:
        """Close the segments with these ``left_lengths``; may be repeated. Returns their names.

        A segment that has lost its beginning cannot be closed. It is noted as damaged, so that the
        next owner does not take its parts for commits that its log has lost. Raises like
        ``close_segment``, or ``ObjectError``.
        """
        self._lengths = dict(lengths)
        names = sorted({layout.stem_of(name) for name in lengths})
        for name in names:
            self.close_segment(name, find_similar)
        for name in self._listed_parts().keys() - names:
            if not self._is_sealed(name):
                self._note_damage(DamageNote(name, [DamagedPart("", _BEGINNING)]))
        return names

    def find_segments(self, term: int) -> FoundSegments:
        found = []
        for name in sorted(self._lengths):
            segment = layout.stem_of(name)
            if not name.startswith(f"{layout.WARC}/") or self._is_sealed(segment):
                continue
            (first,) = [part for part in self._parts[segment] if part.rows == 0]
            header = journal.header_in(self._rows_in(first), segment)
            rows = self._lengths[_open_name(layout.JOURNAL, segment)]
            found.append(OpenSegment(header, self._lengths[name], rows))
        return FoundSegments(0, found, term)

    def put_records(self, pending: PendingWrite) -> None:
        """See ``Segments``. Raises ``NotStored``."""
        if pending.is_written:
            return
        self._delete_sealed()
        lengths: dict[str, int] = {}
        journal_lengths: dict[str, int] = {}
        sums = dict(self._sums)  # a put that fails is repeated, and counts once
        for part, rows_start in pending.parts:
            frame = journal.encode_journal_frame(part.lines) if part.lines else b""
            warc, rows = (_open_name(kind, part.name) for kind in (layout.WARC, layout.JOURNAL))
            try:
                stored, sums[warc] = self._put(part, rows_start, frame, sums.get(warc, 0))
            except ObjectError as error:
                raise NotStored(str(error)) from error
            known = self._parts.setdefault(part.name, [])
            # A put whose answer was lost is repeated, and is one part.
            if stored not in known:
                known.append(stored)
            journal_lengths[part.name] = stored.rows_end
            lengths[warc], lengths[rows] = part.end, stored.rows_end
            sums[rows] = crc32(frame, sums.get(rows, 0))
        pending.written(lengths, journal_lengths, sums)
        self._lengths, self._sums = pending.lengths, pending.sums

    def _put(
        self, part: SegmentPart, rows_start: int, frame: bytes, warc_sum: int
    ) -> tuple[StoredPart, int]:
        """Store a part; returns it with ``warc_sum``, the sum of the WARC, continued by it."""
        size = part.end - part.start
        key = f"{self._prefix(part.name)}{part.start:012d}-{size:012d}-{rows_start:012d}"
        stored = StoredPart(key, part.start, part.end, rows_start, rows_start + len(frame))
        if size + len(frame) > _IN_MEMORY:
            self._work.mkdir(parents=True, exist_ok=True)
            path = self._work / "part"
            with path.open("wb") as file:
                for piece in pieces(part):
                    file.write(piece)
                    warc_sum = crc32(piece, warc_sum)
                file.write(frame)
            # A large object cannot be put only if it is new. No other owner has this key.
            self._store.put(key, path)
            path.unlink()
            return stored, warc_sum
        warc = b"".join(pieces(part))
        data = warc + frame
        # An object that exists is an earlier put of this owner, whose answer was lost. No other
        # owner has this key, so other content is replaced.
        if create_or_read(self._store, key, data) != data:
            self._store.put(key, data)
        return stored, crc32(warc, warc_sum)

    def close_segment(self, name: str, find_similar: journal.FindSimilar | None = None) -> str:
        """See ``Segments``. A part that is missing is waited for, for ``MISSING_S``."""
        try:
            if not self._is_sealed(name):
                self._seal(name, find_similar)
        except ObjectError as error:
            # One such answer may be wrong, and sealing without a part is for good: it must stay
            # missing for ``MISSING_S``.
            if isinstance(error, ObjectMissing):
                self._missing.setdefault(name, self._now())
            raise NotStored(str(error)) from error
        self._missing.pop(name, None)
        self._sealed.setdefault(name, self._now())
        return self._damaged.get(name, "")

    def _seal(self, name: str, find_similar: journal.FindSimilar | None) -> None:
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            damaged, why = self._compose(name, folder), ""
            try:
                if find_similar is not None:
                    _complete(folder / layout.file_name(layout.JOURNAL, name), find_similar)
                build_derived(folder, name)  # see ``SegmentFiles.close_segment``
            except (journal.JournalError, ValueError, OverflowError) as error:
                why = str(error)
            self._note_damage(DamageNote(name, damaged, why))
            kinds, _ = wanted_or_certain(folder, name)
            order = [layout.WARC, *(kind for kind in kinds if kind != CDXJ), CDXJ, layout.JOURNAL]
            for kind in order:
                path = folder / layout.file_name(kind, name)
                if path.exists():
                    self._store.put(layout.file_name(kind, name), path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _compose(self, name: str, folder: Path) -> list[DamagedPart]:
        """Write the closed WARC and journal of a segment as files; returns what is damaged."""
        names = [_open_name(kind, name) for kind in (layout.WARC, layout.JOURNAL)]
        paths = [folder / each.removesuffix(layout.OPEN) for each in names]
        for path in paths:
            path.parent.mkdir(parents=True)
        warc, rows = paths
        target = ComposedFiles(warc, rows, *(self._sums.get(each) for each in names))
        listed = self._parts.get(name) or self._listed_parts(name).get(name, [])
        parts = committed_parts(
            self._prefix(name), listed, *(self._lengths[each] for each in names)
        )
        since = self._missing.get(name)
        may_lack = since is not None and self._now() - since >= MISSING_S
        return compose(self._store, name, parts, target, may_lack)

    def _note_damage(self, damage: DamageNote) -> None:
        """Note what is wrong with a segment, before it counts as sealed."""
        name = damage.segment
        key = f"{self._notes()}/{name}.json"
        if damage.parts or damage.underived:
            self._store.put(key, msgspec.json.format(msgspec.json.encode(damage), indent=2))
            self._damaged[name] = damage.text
        elif self._damaged.pop(name, None) is not None:  # it is whole again
            self._store.delete([key])

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        """See ``Segments``. The segment may be of another shard: a revisit refers to any."""
        name, place = layout.stem_of(segment), f"{segment}, byte {offset}"
        if segment.startswith(ELSEWHERE):
            raise RecordError(f"{place}, is in an archive of an earlier crawl")
        try:
            try:
                return record_at(self._bytes_from(name, offset), place)
            except ObjectMissing:  # it was sealed and its parts deleted since they were listed
                self._parts.pop(name, None)
                return record_at(self._bytes_from(name, offset), place)
        except ObjectMissing as error:
            raise RecordError(f"{place}: {error}") from error
        except ObjectError as error:
            raise OSError(f"{place}: {error}") from error

    def _bytes_from(self, name: str, offset: int, until: int = 1 << 62) -> Iterator[bytes]:
        """The bytes from an offset on, in pieces, from a part or from the sealed WARC."""
        part = self._part_at(name, offset)
        if layout.segment_worker(name) != self._shard:
            # Its owner seals it and deletes its parts at any time, so nothing of it is kept here.
            if not self._is_sealed(name):
                prefix = _parts_of_shard(layout.segment_worker(name))
                parts = parts_in(self._store.list(f"{prefix}{name}/"), prefix).get(name, ())
                part = _containing(parts, offset)
        elif part is None and not self._is_sealed(name):
            self._parts[name] = self._listed_parts(name).get(name, [])
            part = self._part_at(name, offset)
            if part is None and self._parts[name]:
                return
        if part is not None:
            key, at, end = part.key, offset - part.start, part.end - part.start
        else:
            key, at, end = layout.file_name(layout.WARC, name), offset, 1 << 62
        end = min(end, until - offset + at)
        size = _FIRST if until == 1 << 62 else _MAX
        while at < end and (data := self._store.get(key, at, min(size, end - at))):
            yield data
            at, size = at + len(data), min(2 * size, _MAX)

    def _part_at(self, name: str, offset: int) -> StoredPart | None:
        return _containing(self._parts.get(name, ()), offset)

    def list_segments(self, lengths: Mapping[str, int]) -> list[StoredSegment]:
        closed = {
            layout.stem_of(each.key): each.size
            for each in self._store.list(f"{layout.JOURNAL}/")
            if layout.segment_worker(layout.stem_of(each.key)) == self._shard
        }
        found = []
        for name in sorted(closed.keys() | {layout.stem_of(each) for each in lengths}):
            if name in closed:
                warc = self._store.find(layout.file_name(layout.WARC, name))
                found.append(StoredSegment(name, True, warc.size if warc else 0, closed[name]))
            else:
                length, rows = (
                    lengths.get(_open_name(kind, name), 0) for kind in (layout.WARC, layout.JOURNAL)
                )
                found.append(StoredSegment(name, False, length, rows))
        return found

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        """See ``SegmentReader``. Memory contains one part, or a piece of a sealed journal."""
        name = layout.file_name(layout.JOURNAL, segment.name)
        source = io.BufferedReader(PieceFile(self.read_journal(segment)))
        return journal.rows_from(source, name, having)

    def read_journal(self, segment: StoredSegment) -> Iterator[bytes]:
        """The committed bytes of a journal, in pieces. Raises ``ObjectError``."""
        if self._is_sealed(segment.name):
            name = layout.file_name(layout.JOURNAL, segment.name)
            return self._sealed_journal(name, segment.journal_length)
        return self.read_open_journal(segment)

    def read_warc(self, name: str, start: int, end: int) -> bytes:
        """The bytes of a segment's WARC between two offsets, fewer if it is shorter.

        Raises ``ObjectError``.
        """
        found: list[bytes] = []
        at = start
        while at < end:
            before = at
            for piece in self._bytes_from(name, at, end):
                found.append(piece[: end - at])
                at += len(found[-1])
            if at == before:
                break
        return b"".join(found)

    def _sealed_journal(self, name: str, length: int | None) -> Iterator[bytes]:
        """The journal up to ``length``: it was sealed after a reader took this length from a
        commit, if it is longer.
        """
        at, end = 0, 1 << 62 if length is None else length
        while at < end and (data := self._store.get(name, at, min(_MAX, end - at))):
            yield data
            at += len(data)

    def read_open_journal(self, segment: StoredSegment, start: int = 0) -> Iterator[bytes]:
        """The frames in the parts of a segment from byte ``start`` on. Raises ``ObjectError``."""
        for part in contiguous_parts(self._listed_parts(segment.name).get(segment.name, [])):
            if start <= part.rows < (segment.journal_length or 0):
                yield self._rows_in(part)

    def _rows_in(self, part: StoredPart) -> bytes:
        return self._store.get(part.key, part.end - part.start, part.rows_end - part.rows)

    def _delete_sealed(self) -> None:
        """Delete the parts of sealed segments.

        The previous commit is in the log, so a segment that it does not name is closed for good.
        """
        now = self._now()
        for segment, since in list(self._sealed.items()):
            if segment in self._damaged:  # its parts may be all that is left of it
                del self._sealed[segment]
            elif not self._is_named(segment) and now - since >= self._kept_s:
                with suppress(ObjectError):  # the next put retries
                    keys = [each.key for each in self._store.list(self._prefix(segment))]
                    self._store.delete(keys)
                    del self._sealed[segment]
                    self._parts.pop(segment, None)

    def _is_named(self, segment: str) -> bool:
        return _open_name(layout.WARC, segment) in self._lengths

    def _is_sealed(self, segment: str) -> bool:
        if segment in self._sealed:
            return True
        return self._store.find(layout.file_name(layout.JOURNAL, segment)) is not None

    def _listed_parts(self, segment: str = "") -> dict[str, list[StoredPart]]:
        """The parts of one segment, or of all, in the order of their offsets."""
        return parts_in(self._store.list(self._prefix(segment)), self._prefix())

    def _notes(self) -> str:
        return f"damaged/{self._shard:05d}"

    def _prefix(self, segment: str = "") -> str:
        return _parts_of_shard(self._shard) + (f"{segment}/" if segment else "")


def _complete(path: Path, find_similar: journal.FindSimilar) -> None:
    """Add near-duplicates to the rows of a journal. Raises ``JournalError``."""
    copy = path.with_name(path.name + ".complete")
    with path.open("rb") as source, copy.open("wb") as target:
        has_news = journal.complete_journal(source, target, path.name, find_similar)
    if has_news:
        copy.replace(path)
    else:
        copy.unlink()


def _parts_of_shard(shard: int) -> str:
    return f"parts/{shard:05d}/"


def _containing(parts: Sequence[StoredPart], offset: int) -> StoredPart | None:
    """The part in which an offset of the WARC is."""
    return next((each for each in parts if each.start <= offset < each.end), None)


def _open_name(kind: str, segment: str) -> str:
    return layout.file_name(kind, segment) + layout.OPEN
