"""The feeds ``pages`` and ``dlq`` of a crawl folder: every committed row once.

They are read from what the crawl writes anyway: the row journals and the dead letters in the
tables. The crawl may be running; it does no work for its readers and does not know them. A feed
gives only rows of commits that cannot be taken back.

**Once.** Rows of one worker have an order that never changes: its segments by number, and the rows
in each. Dead letters of a partition have numbers without a gap. So a position says exactly what was
given before, whatever was closed, trimmed or restarted since.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.urls.identity import join_url
from lycosa.feeds.feed_position import BadPosition, position_text, read_position
from lycosa.feeds.folder_source import FolderSource, JournalEnd
from lycosa.stages.frontier.dead_letters import LETTERS, decode_letter, number_of
from lycosa.stages.frontier.visit_state import decode_visit
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.table_records import dead_letter_key, decode_url, host_key, prefix_end, url_key
from lycosa.state.store.feed_rows import DEAD_LETTERS, PAGES, dead_letter_row, page_row
from lycosa.state.store.journal import JournalError


class FolderFeed(Protocol):
    """A feed of a crawl folder."""

    @property
    def position(self) -> str:
        """The position after the row that was given last."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether there are commits of which the rows were not given yet."""
        ...

    def new_rows(self) -> Iterator[bytes]:
        """The rows that were not given yet, to the present end, as JSON without a line end.

        Raises ``LogDamaged``, ``JournalError``, ``StoreDamaged`` or ``OSError``.
        """
        ...


class _Read:
    """How far a worker's rows were given: segment and rows, and a place in its journal."""

    __slots__ = ("bytes", "bytes_rows", "number", "rows")

    def __init__(self, number: int, rows: int) -> None:
        self.number, self.rows = number, rows
        self.bytes = self.bytes_rows = 0  # an end of a frame, and the rows before it


class PageFeed:
    """The captures of a crawl folder after a position, as a ``FolderFeed``.

    Raises a ``ManifestError`` or ``BadPosition``.
    """

    def __init__(self, folder: Path, after: str = "") -> None:
        self._source = FolderSource(folder)
        self._crawl = self._source.origin.manifest.crawl
        given = read_position(PAGES, self._crawl, after, 2)
        self._read = {worker: _Read(*numbers) for worker, numbers in given.items()}

    @property
    def position(self) -> str:
        return position_text(PAGES, self._crawl, self._numbers())

    def _numbers(self) -> dict[int, tuple[int, int]]:
        return {worker: (each.number, each.rows) for worker, each in self._read.items()}

    @property
    def is_behind(self) -> bool:
        return bool(self._source.count_waiting())

    def new_rows(self) -> Iterator[bytes]:
        for _ in self._source.commits():
            pass
        for worker, ends in sorted(self._source.journal_ends().items()):
            read = self._read.setdefault(worker, _Read(ends[0].number, 0))
            for end in ends:
                if end.number >= read.number:
                    self._refuse_gap(worker, end)
                    yield from self._rows(read, end)

    def _refuse_gap(self, worker: int, end: JournalEnd) -> None:
        """Raise ``JournalError`` for a missing journal: the position stays in front of it."""
        if end.is_missing:
            behind = {**self._numbers(), worker: (end.number + 1, 0)}
            raise JournalError(
                f"{self._source.journal_path(end.segment)} is missing, and its rows with it (a feed"
                f" with --after {position_text(PAGES, self._crawl, behind)} leaves them out)"
            )

    def _rows(self, read: _Read, end: JournalEnd) -> Iterator[bytes]:
        if end.number > read.number:
            read.number, read.rows, read.bytes, read.bytes_rows = end.number, 0, 0, 0
        if end.bytes <= read.bytes:
            return
        count, policy = read.bytes_rows, self._source.policy_of(end.segment)
        for line in self._source.read_journal(end.segment, read.bytes, end.bytes):
            count += 1
            if count > read.rows:
                read.rows = count
                yield page_row(line, policy)[1]
        if count < read.rows:
            raise BadPosition(
                f"the position names row {read.rows} of segment {end.segment}, which has {count}:"
                " the crawl was restored from an older copy"
            )
        read.bytes, read.bytes_rows = end.bytes, read.rows


class DeadLetterFeed:
    """The dead letters of a crawl folder after a position, as a ``FolderFeed``.

    Raises a ``ManifestError`` or ``BadPosition``.
    """

    def __init__(self, folder: Path, after: str = "") -> None:
        self._source = FolderSource(folder)
        self._crawl = self._source.origin.manifest.crawl
        partitions = range(self._source.origin.manifest.identity.partitions)
        given = read_position(DEAD_LETTERS, self._crawl, after, 1)
        if given and max(given) not in partitions:
            raise BadPosition(f"{after!r} names partition {max(given)}, which the crawl lacks")
        self._last = {number: given.get(number, (0,))[0] for number in partitions}
        self._sequences: dict[int, int] = {}  # of the last commit, by worker
        self._is_due = True

    @property
    def position(self) -> str:
        read = {number: (last,) for number, last in self._last.items() if last}
        return position_text(DEAD_LETTERS, self._crawl, read)

    @property
    def is_behind(self) -> bool:
        return self._is_due or bool(self._source.count_waiting())

    def new_rows(self) -> Iterator[bytes]:
        """See ``FolderFeed``. The tables are read only when there is something new in them."""
        self._look_for_news()
        if not self._is_due:
            return
        view = self._source.view()
        try:
            self._look_for_news()
            if self._source.count_waiting():
                return  # the view may have a commit that can be taken back
            for number in self._last:
                table = view.open_table(number)
                try:
                    yield from self._letters(number, table)
                finally:
                    table.close()
        finally:
            view.close()
        self._is_due = False

    def _look_for_news(self) -> None:
        """Read new commits; those that were trimmed before may have had dead letters."""
        for commit in self._source.commits():
            before = self._sequences.get(commit.shard, 0)
            self._sequences[commit.shard] = commit.sequence
            self._is_due |= commit.sequence != before + 1 or any(
                key[:1] == LETTERS for batch in commit.batches for key in dict(batch.writes)
            )

    def _letters(self, number: int, table: SavedTable) -> Iterator[bytes]:
        for key, value in table.scan(dead_letter_key(self._last[number] + 1), prefix_end(LETTERS)):
            row = decode_letter(value)
            host8, url8 = row.url[:8], row.url[8:]
            host, url = table.get(host_key(host8)), table.get(url_key(host8, url8))
            assert host is not None and url is not None, row
            record = decode_url(url)
            scheme = "https" if record.secure else "http"
            address = join_url(scheme, decode_visit(host).host, record.target)
            letter = DeadLetter(address, row.reason, row.detail, row.tries, row.date_us / 1e6)
            self._last[number] = number_of(key)
            yield dead_letter_row(letter)[1]
