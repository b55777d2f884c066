"""The push of index lines to OutbackCDX during a run over a crawl folder, in a separate thread.

A segment is pushed when its index is there. Its name is noted then, in a file for each collection,
so a segment is pushed again only if the machine stops between the two. A server that is away does
not stop the crawl: the thread tries again with growing pauses, the end of the run once more, and
the next run pushes the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from lycosa.base.config.feature_sections import EarlierSection
from lycosa.feeds.export_port import TargetAway
from lycosa.feeds.exporters.http_sender import HttpSender
from lycosa.feeds.index_lines import push_lines
from lycosa.stages.fetch.guard import Guard
from lycosa.state.store import layout
from lycosa.state.store.derived_files import CDXJ
from lycosa.state.store.earlier_bodies import FOLDER

_LOOK_S = 2.0
_FIRST_S, _MOST_S = 1.0, 300.0
_TIMEOUT_S = 60.0


class IndexSender:
    """One per run. ``tell`` gets lines for the operator, called from the thread."""

    def __init__(self, folder: Path, section: EarlierSection, tell: Callable[[str], None]) -> None:
        self._folder, self._url, self._tell = folder, section.push.rstrip("/"), tell
        guard = Guard(section.allow_addresses)
        self._sender = HttpSender(_TIMEOUT_S, guard.refusal, is_direct=True, max_answer=10_000)
        name = sha256(self._url.encode()).hexdigest()[:16]
        self._noted = folder / FOLDER / f"pushed-{name}"
        self._wake, self._is_ending = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="index push", daemon=True)
        self.why = ""
        """Why the last try failed."""

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self) -> None:
        """Push the rest, if the server answers at once. Blocks."""
        self._is_ending = True
        self._wake.set()
        self._thread.join()
        self._sender.close()

    def _run(self) -> None:
        wait = _FIRST_S
        while True:
            is_last = self._is_ending
            try:
                self.push_all()
            except (TargetAway, OSError, ValueError) as error:
                if str(error) != self.why:
                    self._tell(f"index lines are not pushed: {error}; it is tried again")
                self.why, wait = str(error), min(2 * wait, _MOST_S)
            else:
                self.why, wait = "", _FIRST_S
            if is_last:
                return
            self._wake.wait(wait if self.why else _LOOK_S)

    def push_all(self) -> int:
        """Push the closed segments that are not noted; return their number.

        Raises ``TargetAway``, ``ValueError`` for an index that is damaged, and ``OSError``.
        """
        known, pushed = self._known(), 0
        for name in sorted(layout.segment_names(self._folder, CDXJ) - known):
            path = self._folder / layout.file_name(CDXJ, name)
            with layout.open_segment_file(path) as lines:
                push_lines(self._sender, self._url, lines)
            self._noted.parent.mkdir(exist_ok=True)
            with self._noted.open("a") as file:
                file.write(f"{name}\n")
            pushed += 1
        return pushed

    def _known(self) -> set[str]:
        with suppress(FileNotFoundError):
            return set(self._noted.read_text("utf-8").splitlines())
        return set()
