"""What ``lycosa crawl`` shows while it runs.

On a terminal that is a live table, elsewhere a line every ten seconds. Warnings come first.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from lycosa.base.config.checks import is_contact
from lycosa.base.config.sections import Config
from lycosa.base.logs.log_records import LogLevel
from lycosa.base.messages.progress import Progress
from lycosa.cli.log_options import program_log
from lycosa.cli.output import clean, human_bytes, human_duration
from lycosa.cli.progress_rows import captures_per_s, estimate_of, progress_rows
from lycosa.processes.status_file import waiting_for

if TYPE_CHECKING:
    from lycosa.cli.live_lines import LiveLines

_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")  # variables that make rich treat a pipe as a terminal
_LINE_S = 10.0


class Display:
    """Progress on standard error, from entering the context to leaving it.

    ``where`` names the crawl; ``opening`` are lines to begin with, and a ``tip`` is one more that
    matters less. ``more`` has further rows of the table, and ``state`` is what the crawl does; the
    caller keeps both current. Without a terminal there is a line every ``every_s`` seconds, and
    with 0 at each report.
    """

    def __init__(
        self, where: str, opening: Sequence[str], tip: str = "", every_s: float = _LINE_S
    ) -> None:
        self._where, self._opening, self._tip = where, opening, tip
        self.more: list[tuple[str, str]] = []
        self._log = program_log()
        self._live = None if self._log.is_on_stderr else _live_lines()
        # A crawl's first line comes after a while; a command that watches one shows it at once.
        self._every_s, self._next_line = every_s, 0.0 if every_s else -1.0
        self._began = time.monotonic()
        self.state = "crawling"

    def __enter__(self) -> Display:
        first, *others = self._opening
        self._log.note(LogLevel.INFO, "crawl_started", first)
        self._say(first)
        for text in others:
            self.show_line(text)
        if self._tip:
            self._say(self._tip, style="dim")
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        self._log.note(LogLevel.INFO, "crawl_ended", repr(error) if error is not None else "")

    def show_line(self, text: str) -> None:
        """Print a line that stays."""
        self._log.note(LogLevel.INFO, "note", text)
        self._say(f"lycosa: {text}")

    def _say(self, text: str, style: str = "") -> None:
        if self._live is not None:
            self._live.print_line(clean(text), style)
        elif not self._log.is_on_stderr:
            print(clean(text), file=sys.stderr, flush=True)

    def show_stopping(self) -> None:
        """Say that the run is stopping, after Ctrl-C."""
        if self.state == "crawling":
            self.state = "stopping"
            self.show_line("finishing requests in flight; press Ctrl-C again to abort them")
        else:
            self.show_line("aborting")

    def show_progress(self, progress: Progress) -> None:
        """Show a new report."""
        now = time.monotonic()
        if self._live is not None:
            self._live.show_table(self._rows(progress, now))
        elif now >= self._next_line:
            if self._log.is_on_stderr:
                self._log.note(LogLevel.INFO, "progress", values=_progress_values(progress))
            elif self._next_line:
                print(self._line(progress, now), file=sys.stderr, flush=True)
            self._next_line = now + self._every_s

    def _rows(self, progress: Progress, now: float) -> list[tuple[str, str]]:
        where = f"{self._where}  {human_duration(round(now - self._began))}"
        return [(self.state, where), *self.more, *progress_rows(progress)]

    def _line(self, progress: Progress, now: float) -> str:
        # a line in a log stays short: what was refused is no progress
        shown = (row for row in progress_rows(progress) if row[0] != "refused")
        rows = [*self.more, *shown]
        return "  ".join(
            (human_duration(round(now - self._began)), *(f"{name} {text}" for name, text in rows))
        )


def _progress_values(progress: Progress) -> dict[str, object]:
    """The numbers of a record about the progress."""
    return {
        "captures": progress.captures,
        "captures_per_s": captures_per_s(progress),
        "bytes": progress.body_bytes,
        "queued": progress.states.get("queued", 0),
        "failed": progress.states.get("failed", 0),
        "memory_bytes": progress.memory_bytes,
        "waiting_for": waiting_for(progress),
        "estimate": estimate_of(progress),
    }


def folder_display(folder: Path, config: Config, is_new: bool) -> Display:
    """The display of a crawl on this machine."""
    return Display(
        str(folder),
        [f"{'crawling into' if is_new else 'resuming'} {folder}", *_warnings(folder, config)],
        ""
        if config.agent.contact
        else "tip: --contact URL|EMAIL tells site owners how to reach you",
    )


def _live_lines() -> LiveLines | None:
    """The live table, when standard error is a terminal or must be treated as one."""
    if not sys.stderr.isatty() and not any(os.environ.get(name) for name in _FORCING):
        return None
    # importing rich costs as much as a hundred pages: only for a terminal
    from lycosa.cli.live_lines import LiveLines

    lines = LiveLines()
    return lines if lines.can_redraw else None


def _warnings(folder: Path, config: Config) -> Iterator[str]:
    """What the operator should know before the first request."""
    free = shutil.disk_usage(folder).free
    if free < config.store.min_free_bytes:
        yield (
            f"{human_bytes(free)} are free on the disk, less than store.min_free_bytes"
            f" ({human_bytes(config.store.min_free_bytes)}): fetching waits until there is more"
        )
    contact = config.agent.contact
    if contact and not is_contact(contact):
        yield (
            f"contact {contact!r} is neither a URL nor an e-mail address: site owners cannot reach"
            " you"
        )
    delay, address_delay = config.politeness.delay_s, config.politeness.address_delay_s
    if delay < address_delay:
        yield (
            f"requests to one address are {address_delay:.3g} s apart, longer than the delay; see"
            " politeness.address_delay_s"
        )
    again_s, limits = config.refetch.max_s, config.limits
    if again_s <= config.frontier.finish_wait_s and not (limits.continuous or limits.max_time_s):
        yield (
            f"pages are due again after {human_duration(again_s)} (refetch.max_s), before the run"
            " would end: stop it with Ctrl-C, or give --max-time"
        )
