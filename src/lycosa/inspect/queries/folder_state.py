"""The state of a crawl folder whose crawl does not run, for ``StateReader``.

Commands of operators may change the folder meanwhile, so a view serves questions for some seconds.
"""

from __future__ import annotations

import time
from pathlib import Path

from lycosa.base.system.clock import SystemClock
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.saved_settings import SavedSettings, load_saved_settings
from lycosa.stages.parse.parent import ChildParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.folder.saved_config import settings_of
from lycosa.state.shard.folder_view import FolderView

_USED_S = 3.0


class FolderState:
    """The state of the folder at its last commit; implements ``StateSource``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._view: FolderView | None = None
        self._until = 0.0
        self._saved: SavedSettings | None = None

    def __repr__(self) -> str:
        return f"<FolderState {self._folder}>"

    def open_view(self, partition: int | None) -> FolderView:
        """The view of all partitions; closing it has no effect."""
        now = time.monotonic()
        if self._view is None or now > self._until:
            self._view, self._until = FolderView(self._folder), now + _USED_S
        return self._view

    def saved_settings(self) -> SavedSettings:
        """The settings of the last run."""
        if self._saved is None:
            self._saved = load_saved_settings(CrawlReader(self.open_view(None)))
        return self._saved

    def make_parser(self) -> ChildParser:
        """A parser with the limits of the crawl's."""
        config = settings_of(self._folder)
        parser = ParserConfig(config.parse, config.canonical, config.agent.product)
        return ChildParser(parser, SystemClock())
