"""The feed ``pages``: every capture once, from the first one on.

The topic of the same name in a cluster is only the tail. In a cluster a part of a position has the
term of its segment too. Segments keep their names over imports, and a later owner has a greater
term. So a position from before an import counts after it, also one of the folder that was imported.
"""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.feeds.export_port import ExportTable
from lycosa.feeds.export_tables import pages_table
from lycosa.feeds.feed_position import position_text, read_position
from lycosa.feeds.journal_lines import JournalLines, LinePosition
from lycosa.state.store.feed_rows import PAGES, page_row

_OF_FOLDER, _OF_CLUSTER = 2, 3  # numbers in a part of a position


class PageFeed:
    """The captures after a position, as an ``ExportFeed``. Raises ``BadPosition``."""

    def __init__(self, lines: JournalLines, after: str = "") -> None:
        self._lines, self.crawl = lines, lines.crawl
        is_of_folder = after.partition(",")[0].count(".") == _OF_FOLDER or not lines.has_terms
        count = _OF_FOLDER if is_of_folder else _OF_CLUSTER
        given = read_position(PAGES, self.crawl, after, count)
        parts = {worker: (0,) * is_of_folder + numbers for worker, numbers in given.items()}
        lines.begin({worker: LinePosition(*numbers) for worker, numbers in parts.items()})

    @property
    def table(self) -> ExportTable:
        """What the rows are."""
        return pages_table()

    @property
    def position(self) -> str:
        count = _OF_CLUSTER if self._lines.has_terms else _OF_FOLDER
        read = {worker: each[-count:] for worker, each in self._lines.read().items()}
        return position_text(PAGES, self.crawl, read)

    @property
    def is_behind(self) -> bool:
        return self._lines.is_behind

    def new_rows(self) -> Iterator[bytes]:
        """See ``RowFeed``. Raises ``ObjectError`` too."""
        for line, header in self._lines.new_lines():
            if (found := page_row(line, header.policy)) is not None:
                yield found[1]
