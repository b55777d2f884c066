"""``lycosa crawl --feed``: the rows of feeds, written while the crawl runs.

Each feed is a separate ``lycosa feed`` process, so a reader that is slow, or a pipe that nobody
reads, never holds the crawl up. It follows the crawl's commits until its standard input ends, which
happens when the crawl ends or is killed. Then it gives the rows that are left and ends.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from lycosa.system.environment import without_tokens

KINDS = ("pages", "dlq")
_PATIENCE_S = 3.0  # before the operator is told what the command waits for
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class FeedTarget(NamedTuple):
    """A feed and the file, the pipe, or ``-`` for standard output that gets its rows."""

    kind: str
    output: str

    @property
    def is_stdout(self) -> bool:
        return self.output == "-"

    @property
    def descriptor(self) -> int | None:
        """The number of the inherited file that gets the rows, if they go to one."""
        found = _DESCRIPTOR.fullmatch(self.output)
        return int(found[1]) if found else None


def feed_option(command: _Command) -> _Command:
    """Add ``--feed``; ``feed_targets`` reads it."""
    return click.option(
        "--feed",
        "feeds",
        multiple=True,
        metavar="[pages=|dlq=]FILE|-",
        help="Write captures, or dead letters (dlq=), to a file or pipe; may be repeated.",
    )(command)


def feed_targets(given: Sequence[str], is_json: bool) -> list[FeedTarget]:
    """The feeds of the values of ``--feed``. Raises ``click.UsageError``."""
    found: list[FeedTarget] = []
    for value in given:
        kind, equals, output = value.partition("=")
        target = (
            FeedTarget(kind, output) if equals and kind in KINDS else FeedTarget("pages", value)
        )
        if not target.output:
            raise click.UsageError(f"--feed {value}: give a file, a pipe, or - after {kind}=")
        if target.output in (other.output for other in found):
            raise click.UsageError(f"--feed: two feeds cannot be written to {target.output}")
        if target.descriptor is not None and not _is_open(target.descriptor):
            raise click.UsageError(f"--feed {value}: no file with this number is open")
        found.append(target)
    if is_json and any(each.is_stdout for each in found):
        raise click.UsageError("--feed - and --json both need standard output: give --feed a file")
    return found


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except (OSError, OverflowError):
        return False
    return True


class CrawlFeeds:
    """The feeds of one run. Enter it before the crawl; leaving it waits for the last rows.

    ``start`` is called as soon as the folder is a crawl's. ``tell`` gets lines for the operator.
    """

    def __init__(self, targets: Sequence[FeedTarget], tell: Callable[[str], None]) -> None:
        self._targets, self._tell = list(targets), tell
        self._running: list[tuple[FeedTarget, subprocess.Popen[bytes]]] = []
        self._folder = Path()

    def __repr__(self) -> str:
        return f"<CrawlFeeds {self._targets}>"

    def __enter__(self) -> CrawlFeeds:
        return self

    def __exit__(self, *_: object) -> None:
        for _, process in self._running:
            if process.stdin is not None:
                process.stdin.close()
        for target, process in self._running:
            self._finish(target, process)

    def start(self, folder: Path) -> None:
        """Follow the crawl of this folder."""
        self._folder = folder
        for target in self._targets:
            number = target.descriptor
            # -P: nothing is imported from the current folder, which is the user's.
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "lycosa", "feed", target.kind, str(folder)),
                    *("--follow-input", "--output", target.output),
                ],
                stdin=subprocess.PIPE,
                pass_fds=[number] if number is not None else [],
                env=without_tokens(os.environ),
                start_new_session=True,  # Ctrl-C ends the crawl, and the rows left are given then
            )
            self._running.append((target, process))

    def _finish(self, target: FeedTarget, process: subprocess.Popen[bytes]) -> None:
        try:
            try:
                code = process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._tell(
                    f"the last rows of {target.kind} are being written to {target.output}; Ctrl-C"
                    " leaves them out"
                )
                code = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            code = process.wait()
        if code:
            again = ["lycosa", "feed", target.kind, str(self._folder), "--output", target.output]
            is_file = Path(target.output).is_file()
            self._tell(
                f"the feed {target.kind} to {target.output} is not complete: `{shlex.join(again)}`"
                f" writes {'the rest' if is_file else 'all rows again'}"
            )
