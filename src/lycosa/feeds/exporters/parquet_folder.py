"""Exports to a folder of Parquet files, as data sets of Hugging Face have them.

    README.md                   the card: which files are which split; written once, then yours
    data/train-00000.parquet    rows in the order of the feed; a file is never changed
    .lycosa/position.json       the position, and how many files of each split belong to it

Files appear whole. Those that a killed exporter wrote after the last position are deleted at a
start. All pages of a host are in one split, so no split has near-copies of the pages of another.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import hash8, host_of
from lycosa.feeds.export_port import Batch, ExportRow, ExportTable, Overtaken, TargetError
from lycosa.feeds.exporters.row_tables import arrow_schema, arrow_table, write_parquet

DEFAULT_SPLITS: Mapping[str, float] = {"train": 1.0}
_SPLIT = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DIGITS = 5


class _Saved(msgspec.Struct, frozen=True):
    position: str = ""
    files: dict[str, int] = {}
    schema: str = ""
    crawl: str = ""
    feed: str = ""
    format: int = 1


def read_splits(text: str) -> dict[str, float]:
    """The shares in ``train:98,test:2``. Raises ``TargetError``."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition(":")
        try:
            found[name] = float(share)
        except ValueError:
            found[name] = 0.0
        if not _SPLIT.fullmatch(name) or not 0 < found[name] < float("inf"):
            raise TargetError(
                f"splits={text}: give names and shares, as train:98,validation:1,test:1"
            )
    return found


class ParquetFolder:
    """A data set folder as an ``Exporter``."""

    batch = Batch(rows=100_000, bytes=64_000_000, seconds=300.0)

    def __init__(
        self,
        folder: Path,
        table: ExportTable,
        crawl: str,
        splits: Mapping[str, float] = DEFAULT_SPLITS,
    ) -> None:
        self._folder, self._table, self._crawl, self._splits = folder, table, crawl, splits
        self._url = table.index(table.url)
        self._noted = folder / ".lycosa" / "position.json"
        self._saved = _Saved()
        self._lock = -1

    @property
    def name(self) -> str:
        return str(self._folder)

    def open(self) -> str:
        """See ``Exporter``."""
        data = self._folder / "data"
        if not self._noted.exists() and data.is_dir() and any(data.iterdir()):
            raise TargetError(
                f"{data} has files, and {self._noted} is missing, so it is not known which rows"
                " they have; give the name of a new folder"
            )
        for each in (data, self._noted.parent):
            each.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._noted.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TargetError(f"{self._folder} is being written by another process") from None
        self._saved = self._read()
        self._delete_leftovers()
        card = self._folder / "README.md"
        if not card.exists():
            replace_file(card, _card(self._table, list(self._splits)).encode())
        return self._saved.position

    def _read(self) -> _Saved:
        expected = _Saved(
            schema=str(arrow_schema(self._table)), crawl=self._crawl, feed=self._table.name
        )
        try:
            saved = msgspec.json.decode(self._noted.read_bytes(), type=_Saved)
        except FileNotFoundError:
            replace_file(self._noted, msgspec.json.encode(expected) + b"\n")
            return expected
        except UNREADABLE as error:
            raise TargetError(f"{self._noted} cannot be read ({error})") from error
        for name, what in (("crawl", "rows of another crawl"), ("feed", "rows of another feed")):
            if getattr(saved, name) != getattr(expected, name):
                raise TargetError(f"{self._folder} has {what}: give the name of a new folder")
        if saved.schema != expected.schema:
            raise TargetError(
                f"{self._folder} has files with other columns than the rows that come now have:"
                " give the name of a new folder"
            )
        return saved

    def _delete_leftovers(self) -> None:
        """Delete what was written after the position, and check that the rest is there."""
        wanted = {
            self._file(split, number).name
            for split, count in self._saved.files.items()
            for number in range(count)
        }
        # All names: a killed exporter may have had other splits, or left a temporary file.
        found = {path.name for path in (self._folder / "data").iterdir()}
        if missing := sorted(wanted - found):
            raise TargetError(f"{self._folder}/data/{missing[0]} is missing: restore it")
        for name in sorted(found - wanted):
            if name.endswith((".parquet", ".parquet.tmp")):
                (self._folder / "data" / name).unlink()

    def _file(self, split: str, number: int) -> Path:
        return self._folder / "data" / f"{split}-{number:0{_DIGITS}d}.parquet"

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``: new files, then the position that counts them."""
        if self._saved.position != before:
            raise Overtaken
        divided: dict[str, list[ExportRow]] = {}
        for row in rows:
            divided.setdefault(self._split_of(row.values[self._url]), []).append(row)
        files = dict(self._saved.files)
        for split, part in divided.items():
            number = files.get(split, 0)
            write_parquet(self._file(split, number), arrow_table(self._table, part))
            files[split] = number + 1
        saved = msgspec.structs.replace(self._saved, position=after, files=files)
        replace_file(self._noted, msgspec.json.encode(saved) + b"\n")
        self._saved = saved

    def _split_of(self, url: str) -> str:
        at = int.from_bytes(hash8(host_of(url))) / 2**64 * sum(self._splits.values())
        for split, share in self._splits.items():
            at -= share
            if at < 0:
                return split
        return split

    def close(self) -> None:
        """See ``Exporter``."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _card(table: ExportTable, splits: Sequence[str]) -> str:
    """The card of a data set: YAML that says which files it has, and the columns."""
    files = "\n".join(f"  - split: {each}\n    path: data/{each}-*.parquet" for each in splits)
    columns = "\n".join(f"| `{each.name}` | {each.type} |" for each in table.columns)
    return f"""---
configs:
- config_name: default
  data_files:
{files}
---

# {table.name}

Rows of the feed `{table.name}` of a crawl by Lycosa, in the order of its commits. State here what
the pages are, which licences and preferences of the sites apply, and what the data set is for.

| column | type |
|---|---|
{columns}
"""
