"""The feed ``dlq`` of a crawl folder: each time that a URL failed for good, once.

It is read from the dead letters in the tables. The crawl may be running; it does no work for its
readers and does not know them. Only rows of commits that cannot be taken back are given.

**Once.** Dead letters of a partition have numbers without a gap. So a position says exactly what
was given before, whatever was trimmed or restarted since.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.urls.identity import join_url
from lycosa.feeds.export_port import ExportTable
from lycosa.feeds.export_tables import dead_letters_table
from lycosa.feeds.feed_position import BadPosition, position_text, read_position
from lycosa.feeds.folder_source import FolderSource
from lycosa.stages.frontier.dead_letters import LETTERS, decode_letter, number_of
from lycosa.stages.frontier.visit_state import decode_visit
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.kv.table_records import dead_letter_key, decode_url, host_key, prefix_end, url_key
from lycosa.state.store.feed_rows import DEAD_LETTERS, dead_letter_row


class DeadLetterFeed:
    """The dead letters of a crawl folder after a position, as a ``RowFeed``.

    Raises a ``ManifestError`` or ``BadPosition``.
    """

    def __init__(self, folder: Path, after: str = "") -> None:
        self._source = FolderSource(folder)
        self.crawl = self._source.origin.manifest.crawl
        partitions = range(self._source.origin.manifest.identity.partitions)
        given = read_position(DEAD_LETTERS, self.crawl, after, 1)
        if given and max(given) not in partitions:
            raise BadPosition(f"{after!r} names partition {max(given)}, which the crawl lacks")
        self._last = {number: given.get(number, (0,))[0] for number in partitions}
        self._sequences: dict[int, int] = {}  # of the last commit, by worker
        self._is_due = True

    @property
    def table(self) -> ExportTable:
        """What the rows are."""
        return dead_letters_table()

    @property
    def position(self) -> str:
        read = {number: (last,) for number, last in self._last.items() if last}
        return position_text(DEAD_LETTERS, self.crawl, read)

    @property
    def is_behind(self) -> bool:
        return self._is_due or bool(self._source.count_waiting())

    def new_rows(self) -> Iterator[bytes]:
        """See ``RowFeed``. The tables are read only when there is something new in them."""
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
