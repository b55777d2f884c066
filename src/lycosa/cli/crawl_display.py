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
from lycosa.base.model.upload_progress import UploadState
from lycosa.base.reasons import Reason
from lycosa.cli.log_options import program_log
from lycosa.cli.output import clean, counted, human_bytes, human_count, human_duration
from lycosa.cluster.coordinator.forecast import forecast_of
from lycosa.processes.status_file import waiting_for

if TYPE_CHECKING:
    from lycosa.cli.live_lines import LiveLines

_FORCING = ("FORCE_COLOR", "TTY_COMPATIBLE")  # variables that make rich treat a pipe as a terminal
_LINE_S = 10.0
_UNITS = (("minute", 60, 5400), ("hour", 3600, 172_800))
_SHORT_S = 10.0  # a forecast of less is not shown


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

    def _line(self, progress: Progress, now: float) -> str:
        pages_per_s, _ = rates_of(progress)
        parts = [
            human_duration(round(now - self._began)),
            f"{human_count(progress.captures)} captured ({pages_per_s:.1f}/s)",
            human_bytes(progress.body_bytes),
            f"{human_count(progress.states.get('queued', 0))} queued",
            f"{human_count(progress.states.get('failed', 0))} failed",
            hosts_in_words(progress),
            f"{human_bytes(progress.memory_bytes)} memory",
            *([f"uploads: {upload_in_words(progress.uploads)}"] if progress.uploads else []),
            *(f"feed {each}" for each in progress.feeds_away),
            *(f"{name}: {value}" for name, value in self.more),
            f"waiting for {waiting_for(progress)}",
            *([f"estimate: {estimate}"] if (estimate := estimate_of(progress)) else []),
        ]
        return "  ".join(parts)

    def _rows(self, progress: Progress, now: float) -> list[tuple[str, str]]:
        pages_per_s, bytes_per_s = rates_of(progress)
        states = progress.states
        errors = [
            (name, number)
            for name, number in progress.reasons.items()
            if Reason[name.upper()].is_failure
        ]
        links = sum(progress.rule_refusals.values())
        rows: list[tuple[str, str]] = [
            (self.state, f"{self._where}  {human_duration(round(now - self._began))}"),
            ("captured", f"{human_count(progress.captures)}  {pages_per_s:.1f}/s"),
            ("received", f"{human_bytes(progress.body_bytes)}  {human_bytes(bytes_per_s)}/s"),
            (
                "queued",
                (
                    f"{human_count(states.get('queued', 0))} of {human_count(progress.discovered)}"
                    " discovered"
                ),
            ),
            ("hosts", hosts_in_words(progress)),
            (
                "failed",
                ", ".join(
                    f"{number} {name}" for name, number in sorted(errors, key=lambda e: -e[1])[:4]
                )
                or "none",
            ),
            (
                "refused",
                (
                    f"{counted(states.get('refused', 0), 'URL')} by robots.txt,"
                    f" {counted(links, 'link')} by scope and traps"
                ),
            ),
            ("memory", memory_in_words(progress)),
            *([("uploads", upload_in_words(progress.uploads))] if progress.uploads else []),
            *(("feed", each) for each in progress.feeds_away),
            *self.more,
            ("waiting for", waiting_for(progress)),
        ]
        if estimate := estimate_of(progress):
            rows.append(("estimate", estimate))
        return rows


def _progress_values(progress: Progress) -> dict[str, object]:
    """The numbers of a record about the progress."""
    pages_per_s, _ = rates_of(progress)
    return {
        "captures": progress.captures,
        "captures_per_s": pages_per_s,
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


def rates_of(progress: Progress) -> tuple[float, float]:
    """Captures and bytes a second, over the last minute."""
    captures = progress.meter.number("lycosa_captures_per_second", "minute")
    return captures, progress.meter.number("lycosa_received_bytes_per_second", "minute")


def estimate_of(progress: Progress) -> str:
    """The forecast in words, or the empty string when nothing can be said or it is short.

    about 40 minutes, limited by the delay of 3 hosts (a.example: 1,200 URLs at 2 s each)
    """
    found = forecast_of(progress)
    if found is None or found.seconds < _SHORT_S:
        return ""
    time_left = rough_duration(found.seconds)
    if found.is_limited_by_captures:
        return f"about {time_left} until the limit on pages"
    said = f"{'at least' if found.is_least else 'about'} {time_left}"
    note = found.host
    if note is not None:
        said += f", limited by the delay of {counted(found.hosts, 'host')}"
        said += f" ({note.host}: {counted(note.waiting, 'URL')} at {note.delay_s:.3g} s each)"
    elif found.rate:
        said += f" at {found.rate:.3g} URLs a second"
    if found.is_least and found.found:
        said += f"; {found.found:.3g} a second are still found"
    return said


def rough_duration(seconds: float) -> str:
    """A forecast time in one unit: ``40 minutes``; more digits would not be true."""
    if seconds < 100:
        return f"{max(round(seconds, -1), 10):.0f} seconds"
    for unit, size_s, below_s in _UNITS:
        if seconds < below_s:
            return counted(round(seconds / size_s), unit)
    return counted(round(seconds / 86_400), "day")


def upload_in_words(uploads: UploadState) -> str:
    """``12 files (1.2 GB), 3 waiting (200 MB); nothing accepted for 2m 10s: WHY``."""
    said = f"{counted(uploads.files, 'file')} ({human_bytes(uploads.bytes)})"
    if uploads.waiting_files:
        waiting = human_bytes(uploads.waiting_bytes)
        said += f", {human_count(uploads.waiting_files)} waiting ({waiting})"
    if uploads.doubtful_files:
        said += f"; {counted(uploads.doubtful_files, 'file')} kept here: the store has another one"
    if uploads.failing_s:
        said += f"; nothing accepted for {human_duration(uploads.failing_s)}"
    return said


def memory_in_words(progress: Progress) -> str:
    """``412 MB of 1.5 GB``, and the measure taken when memory is short."""
    said = human_bytes(progress.memory_bytes)
    if progress.memory_bound:
        said += f" of {human_bytes(progress.memory_bound)}"
    return f"{said}: a worker {progress.relief}" if progress.relief else said


def hosts_in_words(progress: Progress) -> str:
    """All hosts by state; the numbers add up.

    9 hosts: 2 fetching, 1 ready, 1 made to wait, 5 between requests or done
    """
    parts = [
        (progress.running, "fetching"),
        (progress.hosts_ready, "ready"),
        (progress.hosts_front, "waiting for a place"),
        (progress.hosts_snoozed, "made to wait"),
        (progress.hosts_parked, "parked"),
        (progress.hosts_retired, "retired"),
        (progress.hosts_paused, "paused"),
    ]
    rest = progress.hosts - sum(number for number, _ in parts)
    said = [
        f"{human_count(number)} {what}"
        for number, what in (*parts, (rest, "between requests or done"))
        if number > 0
    ]
    return (
        f"{counted(progress.hosts, 'host')}: {', '.join(said)}"
        if said
        else counted(progress.hosts, "host")
    )


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
