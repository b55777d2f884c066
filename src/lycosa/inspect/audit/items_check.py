"""What the audit asks of items besides that their tables are those of the journal.

The header of a segment describes each extractor, and each stored row fits its columns. A version
that was extracted again (``lycosa extract``) is in no journal, so it is not built again. Its table
has the columns that its ``version.json`` states. Each row names a capture of the segment that user
code is given, in the order of the journal, and numbers the items of a capture from 0. A capture in
``STEM.failed.json`` is one of those too, and has no rows. That code would make the same rows again,
or none of the captures that have neither, is not checked: a note has their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.model.item_schema import BadSchema, ItemSchema, schema_in
from lycosa.base.system.frames import UNREADABLE
from lycosa.inspect.audit.audit_report import Check
from lycosa.stages.extract.eligible import is_extracted
from lycosa.state.store.derived_files import item_version
from lycosa.state.store.item_versions import failed_key, note_key
from lycosa.state.store.items_table import ITEM_COLUMNS, items_schema
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader, original_url

_OWN = [each.name for each in ITEM_COLUMNS]
_BATCH = 10_000


def check_extractors(check: Check, header: SegmentHeader) -> None:
    """Check that the header describes each extractor, by the digest of its columns."""
    for each in header.extractors:
        what = f"{header.segment}: the header names {each.name}"
        try:
            schema = each.columns()
        except BadSchema as error:
            check.add_breach(f"{what} with columns that cannot be read: {error}")
            continue
        if schema is not None:
            check.expect(
                schema.digest == each.schema, f"{what} with other columns than their digest says"
            )


class RowsFit:
    """Checks that each row of user code is of an extractor in the header, and fits its columns."""

    def __init__(self, check: Check, header: SegmentHeader) -> None:
        self._check, self._schemas = check, dict[str, ItemSchema | None]()
        for each in header.extractors:
            try:
                self._schemas[each.name] = each.columns()
            except BadSchema:
                self._schemas[each.name] = None  # reported by ``check_extractors``

    def row(self, row: JournalRow) -> None:
        for name, items in row.items.items():
            if name not in self._schemas:
                self._check.add_breach(f"{row.url} has items of {name}, which the header lacks")
            elif (schema := self._schemas[name]) is not None:
                for number, values in enumerate(items):
                    why = schema.misfit(values)
                    self._check.expect(not why, f"item {number} of {name} of {row.url}: {why}")

    def end(self) -> None:
        """There is nothing left to check."""


class _Item(NamedTuple):
    """Our columns of a row."""

    url: str
    fetched_us: int
    capture: str
    version: int
    item: int


class _Stated(msgspec.Struct):
    """What the audit needs of a ``version.json``."""

    fields: str


class _Failed(msgspec.Struct):
    """What the audit needs of a capture in ``STEM.failed.json``."""

    capture: str


class VersionCounts:
    """The captures of the versions that were extracted again, by kind and what came of them."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def add(self, kind: str, what: str) -> None:
        self._counts.setdefault(kind, Counter())[what] += 1

    def lines(self) -> list[str]:
        """A line for each version."""
        return [
            f"{kind}: {found['items']:,} captures have items, {found['failed']:,} failed,"
            f" {found['neither']:,} have neither"
            for kind, found in sorted(self._counts.items())
        ]


class OtherVersion:
    """Checks a table of a version that is not that of the journal. ``counts`` gets its captures."""

    def __init__(
        self, check: Check, path: Path, kind: str, header: SegmentHeader, counts: VersionCounts
    ) -> None:
        self._check, self._name, self._policy = check, f"{kind}/{path.name}", header.policy
        self._kind, self._counts = kind, counts
        found = item_version(kind)
        assert found is not None, kind
        extractor, self._version = found
        folder = path.parents[3]
        self._check_columns(path, folder, extractor)
        self._failed = self._read_failed(folder / failed_key(*found, header.segment))
        self._left = set(self._failed)
        self._items = _items_in(path)
        self._next: _Item | None = None
        self._advance()

    def row(self, row: JournalRow) -> None:
        """Take the items of this capture. ``items`` of its row are those of the journal."""
        number = 0
        while self._next is not None and self._next.capture == row.record_id:
            wanted = _Item(row.url, row.date_us, row.record_id, self._version, number)
            self._check.expect(
                self._next == wanted, f"{self._name}: an item of {row.url} is {self._next}"
            )
            number += 1
            self._advance()
        has_failed = row.record_id in self._failed
        self._left.discard(row.record_id)
        may_use = self._policy.allows(row.preferences)
        original = original_url(row)
        if is_extracted(row.kind, row.status, row.url, original, may_use):
            what = "items" if number else "failed" if has_failed else "neither"
            self._counts.add(self._kind, what)
            self._check.expect(
                not (number and has_failed),
                f"{self._name} has items of {row.url}, which failed by its failed.json",
            )
        elif number or has_failed:
            why = "user code is given no such capture" if may_use else "the purpose may not use it"
            self._check.add_breach(f"{self._name} has {row.url}, but {why}")

    def end(self) -> None:
        if self._next is not None:
            self._check.add_breach(
                f"{self._name}: an item of {self._next.url} is of no capture of the segment, or"
                " not in the order of its captures"
            )
        if self._left:
            self._check.add_breach(
                f"{self._name}: its failed.json names {len(self._left)} captures that the segment"
                f" does not have, as {min(self._left)}"
            )

    def _check_columns(self, path: Path, folder: Path, extractor: str) -> None:
        """Compare the columns with those that the version states."""
        note = note_key(extractor, self._version)
        try:
            stated = msgspec.json.decode((folder / note).read_bytes(), type=_Stated)
            schema = schema_in(extractor, self._version, stated.fields)
        except (*UNREADABLE, OSError, BadSchema) as error:
            self._check.add_breach(
                f"{self._name} is of no extractor of its segment, and {note} does not say what its"
                f" columns are: {error}"
            )
            return
        try:
            found = pq.read_schema(path)
        except (pa.ArrowException, OSError):
            return  # reading the rows reports it
        self._check.expect(
            found.equals(items_schema(schema)), f"{self._name} has other columns than {note} says"
        )

    def _read_failed(self, path: Path) -> set[str]:
        try:
            found = msgspec.json.decode(path.read_bytes(), type=list[_Failed])
        except FileNotFoundError:
            return set()
        except (*UNREADABLE, OSError) as error:
            self._check.add_breach(f"{self._kind}/{path.name} cannot be read: {error}")
            return set()
        return {each.capture for each in found}

    def _advance(self) -> None:
        try:
            self._next = next(self._items, None)
        except FileNotFoundError:
            self._next = None  # a version that was forgotten while it was audited
        except (pa.ArrowException, OSError, KeyError) as error:
            # Behind damage nothing can be compared, so the file counts as ended.
            self._next = None
            self._check.add_breach(f"{self._name} cannot be read: {error}")


def _items_in(path: Path) -> Iterator[_Item]:
    for batch in pq.ParquetFile(path).iter_batches(batch_size=_BATCH, columns=_OWN):
        columns = [batch.column(name) for name in _OWN]
        columns[1] = columns[1].cast(pa.timestamp("us")).cast(pa.int64())
        for values in zip(*(each.to_pylist() for each in columns), strict=True):
            yield _Item(*values)
