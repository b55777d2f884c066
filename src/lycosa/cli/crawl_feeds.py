"""``lycosa crawl --feed``: the rows of feeds, written while the crawl runs.

Each feed is a separate ``lycosa feed`` process, so a reader that is slow, or a pipe that no process
reads, never holds the crawl up. It follows the crawl's commits until its standard input ends, which
happens when the crawl ends or is killed. Then it gives the rows that are left and ends.

A target that cannot be written is refused before the crawl begins. A process that ends too early is
reported at once. One that writes a file is started again, after growing pauses: the file says which
rows it has. One that writes a pipe is not, because its reader would get all rows again.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from lycosa.base.config.sections import WebhookSection
from lycosa.base.model.progress_parts import WebhookNote
from lycosa.base.system.environment import without_tokens
from lycosa.cli.output import ExitCode

KINDS = ("pages", "dlq")
_ITEMS = re.compile(r"items\.[a-z][a-z0-9_]*")
_TARGETS = re.compile(r"(?:jsonl|csv|sqlite|postgres|postgresql|opensearch|parquet|iceberg):.*")
WEBHOOKS = "webhooks"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0  # before a process is started again
_STABLE_S = 60.0  # a process that ran for so long begins with the first pause again
_PATIENCE_S = 3.0  # before the operator is told what the command waits for
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class FeedTarget(NamedTuple):
    """A feed and the file, the pipe, or ``-`` for standard output that gets its rows."""

    kind: str
    output: str

    def arguments(self, folder: Path) -> list[str]:
        """The command that writes the rows, behind ``lycosa``."""
        if self.kind == WEBHOOKS:
            return [WEBHOOKS, str(folder)]
        return ["feed", self.kind, str(folder), "--output", self.output]

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
        metavar="[pages=|dlq=|items.NAME=]FILE|-",
        help="Write captures, dead letters (dlq=) or items of an extractor to a file or pipe; may"
        " be repeated.",
    )(command)


def feed_targets(given: Sequence[str], is_json: bool) -> list[FeedTarget]:
    """The feeds of the values of ``--feed``. Raises ``click.UsageError``."""
    found: list[FeedTarget] = []
    for value in given:
        kind, equals, output = value.partition("=")
        is_kind = bool(equals) and (kind in KINDS or _ITEMS.fullmatch(kind) is not None)
        target = FeedTarget(kind, output) if is_kind else FeedTarget("pages", value)
        if _TARGETS.fullmatch(target.output):
            raise click.UsageError(
                f"--feed {value}: a feed of a crawl is a file or a pipe; run"
                f" `lycosa feed {target.kind} DIR --follow --to {shlex.quote(target.output)}`"
                " while the crawl runs, or after it"
            )
        if not target.output:
            raise click.UsageError(f"--feed {value}: give a file, a pipe, or - after {kind}=")
        if any(_is_same(target, other) for other in found):
            raise click.UsageError(f"--feed: two feeds cannot be written to {target.output}")
        if fault := _fault(target):
            raise click.UsageError(f"--feed {value}: {fault}")
        found.append(target)
    if is_json and any(each.is_stdout for each in found):
        raise click.UsageError("--feed - and --json both need standard output: give --feed a file")
    return found


def _is_same(target: FeedTarget, other: FeedTarget) -> bool:
    try:
        return Path(target.output).samefile(other.output)
    except OSError:
        return Path(target.output).absolute() == Path(other.output).absolute()


def _fault(target: FeedTarget) -> str:
    """Why the target cannot be written; empty if it can. Nothing is written."""
    number = 1 if target.is_stdout else target.descriptor
    try:
        if number is not None:
            os.write(number, b"")  # fails for a file that is not open, only read, or always full
        else:
            return _path_fault(Path(target.output))
    except (OSError, OverflowError) as error:
        if number is not None and not _is_open(number):
            return "no file with this number is open"
        return f"it cannot be written ({getattr(error, 'strerror', None) or error})"
    return ""


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except (OSError, OverflowError):
        return False
    return True


def _path_fault(path: Path) -> str:
    """The same for a path. Raises ``OSError``."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            return f"there is no folder {path.parent}; create it, or give another file"
        with tempfile.TemporaryFile(dir=path.parent):
            return ""
    if stat.S_ISDIR(mode):
        return "this is a folder; give a file in it"
    if stat.S_ISFIFO(mode):  # opening it would wait for a reader
        return "" if os.access(path, os.W_OK) else "you may not write to this pipe"
    if stat.S_ISREG(mode):
        return _file_fault(path)
    number = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        os.write(number, b"")  # /dev/full refuses even this
    finally:
        os.close(number)
    return ""


def _file_fault(path: Path) -> str:
    """Why the rows of a feed cannot be appended to a file. Raises ``OSError``."""
    # Imported here, because most crawls have no feed.
    from lycosa.feeds.feed_file import FeedFile, FeedFileBusy, FeedFileError

    try:
        with FeedFile(path), tempfile.TemporaryFile(dir=path.parent):
            return ""
    except FeedFileBusy:
        return ""  # the feed of a crawl that was killed may still be writing its last rows
    except FeedFileError as error:
        return str(error)


def pause_before_start(code: int, is_file: bool, starts: int) -> float | None:
    """Seconds before a process that ended with ``code`` is started again; ``None`` for never.

    ``starts`` are the starts since it last ran for long.
    """
    if not code or not is_file or code == ExitCode.USAGE:
        return None  # 0: the reader has enough; USAGE: it would end in the same way again
    pause: float = min(_FIRST_PAUSE_S * 2 ** min(starts - 1, 10), _LONGEST_PAUSE_S)
    return pause


class _Feed:
    """One feed, and its process if it runs."""

    def __init__(self, target: FeedTarget, folder: Path) -> None:
        self.target, self._folder = target, folder
        # a path that does not exist becomes a file
        path = Path(target.output)
        is_stream = target.is_stdout or target.descriptor is not None
        self.is_file = not is_stream and (path.is_file() or not path.exists())
        self.is_file |= target.kind == WEBHOOKS  # their states are files
        self.process: subprocess.Popen[bytes] | None = None
        self.code = 0
        self.due: float | None = None
        self._starts, self._began = 0, 0.0

    def __repr__(self) -> str:
        return f"<_Feed {self} runs={self.process is not None} code={self.code}>"

    def __str__(self) -> str:
        if self.target.kind == WEBHOOKS:
            return WEBHOOKS
        return f"{self.target.kind} to {self.target.output}"

    def start(self, follows: bool = True) -> subprocess.Popen[bytes]:
        """Start the process; one that does not follow the crawl ends after the last row."""
        number = self.target.descriptor
        self._starts, self._began, self.due = self._starts + 1, time.monotonic(), None
        # -P: nothing is imported from the current folder, which is the user's.
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "lycosa", *self.target.arguments(self._folder)),
                *(["--follow-input"] if follows else []),
            ],
            stdin=subprocess.PIPE if follows else subprocess.DEVNULL,
            pass_fds=[number] if number is not None else [],
            env=without_tokens(os.environ),
            start_new_session=True,  # Ctrl-C ends the crawl, and the rows left are given then
        )
        return self.process

    def end(self, code: int) -> None:
        """Note that the process has ended, and when it is due again."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        self.process, self.code = None, code
        now = time.monotonic()
        if now - self._began > _STABLE_S:
            self._starts = 1
        pause = pause_before_start(code, self.is_file, self._starts)
        self.due = None if pause is None else now + pause

    @property
    def state(self) -> str:
        """What is wrong while the process does not run."""
        code = self.code
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        if self.due is None:
            return f"{how}, and is not started again"
        return f"{how}, and starts again in {max(self.due - time.monotonic(), 0.0):.0f} s"


class CrawlFeeds:
    """The feeds of one run. Enter it before the crawl; leaving it waits for the last rows.

    ``start`` is called as soon as the folder is a crawl's, and ``check`` while it runs. ``tell``
    gets lines for the operator.
    """

    def __init__(self, targets: Sequence[FeedTarget], tell: Callable[[str], None]) -> None:
        self._targets, self.tell = list(targets), tell
        self._feeds: list[_Feed] = []
        self._folder = Path()
        self._webhooks: WebhookSection | None = None
        self.incomplete: list[str] = []
        """The feeds whose last rows were not written, after the end."""

    def __repr__(self) -> str:
        return f"<CrawlFeeds {self._feeds}>"

    def __enter__(self) -> CrawlFeeds:
        return self

    def __exit__(self, *_: object) -> None:
        for feed in self._feeds:
            if feed.process is not None and feed.process.stdin is not None:
                feed.process.stdin.close()
        for feed in self._feeds:
            self._finish(feed)

    def start(self, folder: Path, webhooks: WebhookSection | None = None) -> None:
        """Follow the crawl of this folder, and tell its webhooks."""
        self._folder, self._webhooks = folder, webhooks
        if webhooks is not None and webhooks.urls:
            self._targets.append(FeedTarget(WEBHOOKS, ""))
        for target in self._targets:
            feed = _Feed(target, folder)
            self._feeds.append(feed)
            feed.start()

    def check(self) -> tuple[str, ...]:
        """Report processes that ended, start those that are due; call it often.

        Returns the feeds that do not run, with the reason.
        """
        for feed in self._feeds:
            if feed.process is not None and (code := feed.process.poll()) is not None:
                feed.end(code)
                if code:
                    self.tell(f"the feed {feed} {feed.state}")
            elif feed.process is None and feed.due is not None and feed.due <= time.monotonic():
                feed.start()
        return tuple(
            f"{feed}: {feed.state}" for feed in self._feeds if feed.process is None and feed.code
        )

    def look_at_webhooks(self) -> list[WebhookNote]:
        """What the webhooks were told, and which of them fail."""
        if self._webhooks is None or not self._webhooks.urls:
            return []
        # Imported here, because most crawls have no webhook.
        from lycosa.feeds.webhook_delivery import webhook_folder, webhook_states

        now = time.time()
        states = webhook_states(webhook_folder(self._folder), self._webhooks)
        return [each.note(now) for each in states]

    def _finish(self, feed: _Feed) -> None:
        """Wait for the last rows. A file gets them from another process if its own has failed."""
        code = feed.code
        try:
            code = self._wait(feed)
            if pause_before_start(code, feed.is_file, 1) is not None:
                feed.start(follows=False)
                code = self._wait(feed)
        except KeyboardInterrupt:
            if feed.process is not None:
                feed.process.terminate()
                code = feed.process.wait()
        if code:
            target = feed.target
            again = shlex.join(["lycosa", *target.arguments(self._folder)])
            self.incomplete.append(str(feed))
            rest = "the rest" if feed.is_file else "all rows again"
            self.tell(f"the feed {feed} is not complete: `{again}` writes {rest}")

    def _wait(self, feed: _Feed) -> int:
        """Wait for the end of a process; returns the exit code of the last one."""
        if feed.process is None:
            return feed.code
        try:
            return feed.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.tell(f"the last rows of {feed} are being written; Ctrl-C leaves them out")
        return feed.process.wait()
