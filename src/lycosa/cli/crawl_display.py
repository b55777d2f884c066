"""What ``lycosa crawl`` shows: live on a terminal, a line every ten seconds elsewhere, a summary at the end."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lycosa.cli.output import ExitCode, clean, human_bytes, human_count, human_duration
from lycosa.config import Config
from lycosa.messages import Progress
from lycosa.reasons import Reason
from lycosa.status_file import waiting_for
from lycosa.supervisor import Outcome

_LINE_S = 10.0
_RATE_S = 30.0
_LONG_S = 600.0  # a host that needs longer than this is named


class Display:
    """Progress on standard error. A context manager; ``show`` takes each report."""

    def __init__(self, folder: Path, config: Config, is_new: bool) -> None:
        self._folder = folder
        self._config = config
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        self._rates: deque[tuple[float, int, int]] = deque()
        self._next_line = 0.0
        self._began = time.monotonic()
        self._state = "crawling"
        what = "crawling into" if is_new else "resuming"
        self._console.print(f"{what} {folder}", highlight=False)
        delay, address_delay = config.politeness.delay_s, config.politeness.address_delay_s
        if delay < address_delay:
            text = f"note: an address rests {address_delay:.3g} s between requests, longer than the delay; see politeness.address_delay_s"
            self._console.print(text, highlight=False)
        if not config.agent.contact:
            self._console.print("tip: --contact URL|EMAIL tells site owners whom to ask", style="dim", highlight=False)

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"lycosa: {text}", highlight=False)

    def stopping(self) -> None:
        """Ctrl-C was pressed."""
        if self._state == "crawling":
            self._state = "stopping"
            self.note("finishing what is in flight; press Ctrl-C again to break it off")
        else:
            self.note("breaking off")

    def show(self, progress: Progress) -> None:
        """A report came."""
        now = time.monotonic()
        self._rates.append((now, progress.captures, progress.body_bytes))
        while len(self._rates) > 2 and now - self._rates[0][0] > _RATE_S:
            self._rates.popleft()
        if self._live is not None:
            self._live.update(self._table(progress, now), refresh=True)
        elif now >= self._next_line:
            if self._next_line:
                print(self._line(progress, now), file=sys.stderr, flush=True)
            self._next_line = now + _LINE_S

    def _rate(self) -> tuple[float, float]:
        """Captures and bytes a second, lately."""
        then, captures, size = self._rates[0]
        now, captures_now, size_now = self._rates[-1]
        span = max(now - then, 0.001)
        return (captures_now - captures) / span, (size_now - size) / span

    def _line(self, progress: Progress, now: float) -> str:
        pages_per_s, _ = self._rate()
        parts = [
            human_duration(now - self._began),
            f"{progress.captures} captured ({pages_per_s:.1f}/s)",
            human_bytes(progress.body_bytes),
            f"{progress.states.get('queued', 0)} queued",
            f"hosts {progress.hosts_ready} ready {progress.hosts_snoozed} snoozed {progress.hosts_parked} parked",
            f"{progress.states.get('failed', 0)} failed",
            f"waiting for {waiting_for(progress)}",
            *([estimate] if (estimate := estimate_of(progress)) else []),
        ]
        return "  ".join(parts)

    def _table(self, progress: Progress, now: float) -> Table:
        pages_per_s, bytes_per_s = self._rate()
        table = Table.grid(padding=(0, 2))
        states = progress.states
        errors = [(name, number) for name, number in progress.reasons.items() if 80 <= Reason[name.upper()] < 140]
        rows: list[tuple[str, str]] = [
            (self._state, f"{self._folder}  {human_duration(now - self._began)}"),
            ("captured", f"{human_count(progress.captures)}  {pages_per_s:.1f}/s"),
            ("received", f"{human_bytes(progress.body_bytes)}  {human_bytes(bytes_per_s)}/s"),
            ("queued", f"{human_count(states.get('queued', 0))} of {human_count(progress.discovered)} discovered"),
            (
                "hosts",
                f"{progress.hosts} met, {progress.running} requests in flight, {progress.hosts_ready} ready, "
                f"{progress.hosts_snoozed} snoozed, {progress.hosts_parked} parked, {progress.hosts_front} in front queues",
            ),
            ("failed", ", ".join(f"{number} {name}" for name, number in sorted(errors, key=lambda e: -e[1])[:4]) or "none"),
            ("refused", f"{states.get('refused', 0)} by robots.txt, {sum(progress.rule_refusals.values())} links by scope and traps"),
            ("waiting for", waiting_for(progress)),
        ]
        if estimate := estimate_of(progress):
            rows.append(("estimate", estimate))
        for name, value in rows:
            table.add_row(Text(name, style="bold"), Text(clean(value)))
        return table


def estimate_of(progress: Progress) -> str:
    """The honest word on how long it takes: the host that needs longest at its own delay. Empty while that is short."""
    if not progress.slowest:
        return ""
    note = max(progress.slowest, key=lambda note: note.need_s)
    need = note.need_s
    if need < _LONG_S:
        return ""
    return f"host {note.host} alone needs {human_duration(need)} for {note.waiting} known URLs at {note.delay_s:.3g} s"


def summary_values(folder: Path, outcome: Outcome, code: ExitCode) -> dict[str, Any]:
    """The summary for scripts."""
    progress = outcome.progress
    return {
        "end": outcome.end,
        "exit_code": int(code),
        "folder": str(folder),
        "duration_s": round(outcome.duration_s, 3),
        "discovered": progress.discovered,
        "states": progress.states,
        "captures": progress.captures,
        "captures_this_run": outcome.captured,
        "pages": progress.pages,
        "requests": progress.requests,
        "body_bytes": progress.body_bytes,
        "reasons": progress.reasons,
        "rule_refusals": progress.rule_refusals,
        "refused_seeds": [{"seed": seed, "reason": reason} for seed, reason in outcome.refused_seeds],
        "hosts": {
            "met": progress.hosts,
            "parked": progress.hosts_parked,
            "retired": progress.hosts_retired,
            "snoozed": progress.hosts_snoozed,
        },
        "worker_deaths": outcome.deaths,
    }


_ENDS = {"finished": "finished", "limit": "stopped by a limit", "stopped": "interrupted"}


def refused_lines(outcome: Outcome) -> list[str]:
    """Seeds that were not taken, with the reason, for standard error."""
    lines = [clean(f"lycosa: seed refused: {seed}: {reason}") for seed, reason in outcome.refused_seeds[:10]]
    if len(outcome.refused_seeds) > 10:
        lines.append(f"lycosa: and {len(outcome.refused_seeds) - 10} more seeds refused")
    return lines


def summary_lines(folder: Path, outcome: Outcome, code: ExitCode) -> list[str]:
    """The summary for people."""
    progress, states = outcome.progress, outcome.progress.states
    rate = outcome.captured / max(outcome.duration_s, 0.001)
    lines = [
        f"{_ENDS[outcome.end]} after {human_duration(outcome.duration_s)}: {progress.captures} captures ({progress.pages} pages, "
        f"{human_bytes(progress.body_bytes)}), {rate:.1f} a second"
    ]
    rest = [f"{number} {name}" for name, number in states.items() if number and name != "fetched"]
    lines.append(f"{progress.discovered} URLs discovered: {states.get('fetched', 0)} fetched" + (", " + ", ".join(rest) if rest else ""))
    worst = sorted(progress.reasons.items(), key=lambda item: -item[1])
    remarks = [f"  {number:>7}  {name}: {Reason[name.upper()].meaning}" for name, number in worst if name != "none"]
    if remarks:
        lines += ["reasons:", *remarks[:8]]
    if code is ExitCode.NOTHING_FETCHED:
        lines.append("nothing could be fetched; the same command tries again")
    elif outcome.end != "finished":
        lines.append(f"the same folder goes on: lycosa crawl --dir {folder}")
    lines += [
        f"files in {folder}: warc/ cdxj/ pages/ links/ text/",
        f"  lycosa status {folder}",
        f'  lycosa sql {folder} "SELECT url, title FROM pages LIMIT 10"',
        f"  lycosa explain {folder} URL",
    ]
    return lines
