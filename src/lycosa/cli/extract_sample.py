"""``lycosa extract --sample`` and ``--watch``: code is tried on stored pages, nothing is stored."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.known_code import CodeError, KnownCode
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.code_file import UnreadableCode, read_named
from lycosa.cli.output import ExitCode, clean, counted, emit
from lycosa.feeds.extraction.code_pool import CodePool, CodeSuspended
from lycosa.feeds.extraction.extraction_source import ExtractionSource
from lycosa.feeds.extraction.page_sample import SampledPage, choose_sample, load_sample, try_code
from lycosa.stages.extract.code_check import described
from lycosa.stages.extract.code_messages import GivenDocument

_LOOK_S = 0.3  # how often the source of the code is looked at
_MAX_LINE = 300  # characters of an item that are shown
_MAX_ITEMS = 5  # of a page that are shown

_Pages = list[tuple[str, GivenDocument | str]]


class SampleRun:
    """Tries code on the pages of a sample, and tells what it said."""

    def __init__(
        self,
        source: ExtractionSource,
        config: Config,
        name: str,
        size: int,
        processes: int,
        as_json: bool,
        tell: Callable[[str], object],
    ) -> None:
        self._source, self._config, self._name, self._size = source, config, name, size
        self._processes, self._as_json, self._tell = processes, as_json, tell
        self._path = [each for each in sys.path if each]
        self._matches: list[str] | None = None
        self._pages: _Pages = []
        self._before: dict[str, SampledPage] = {}

    def run_once(self) -> ExitCode:
        """Try it. Returns ``USAGE`` if the code failed on a page.

        Raises ``CodeError``, ``CodeSuspended``, ``JournalError`` or ``OSError``.
        """
        found = self._try()
        return ExitCode.USAGE if any(each.errors for each in found) else ExitCode.FINISHED

    def watch(self) -> ExitCode:
        """Try it again at each change of the source, until Ctrl-C."""
        digest = None
        try:
            while True:
                try:
                    if (now := read_named(self._name).digest) != digest:
                        digest = now
                        if self._try():
                            self._tell("waiting for a change of the code; Ctrl-C ends")
                except (CodeError, CodeSuspended, UnreadableCode) as error:
                    # The next change may correct it.
                    if isinstance(error, UnreadableCode):
                        digest = None
                    self._tell(clean(str(error)))
                time.sleep(_LOOK_S)
        except KeyboardInterrupt:
            return ExitCode.FINISHED

    def _try(self) -> list[SampledPage]:
        """Try the code on all pages, and tell what has changed since the last time."""
        began = time.monotonic()
        (code,) = described([KnownCode(self._name)], self._config.extensions, self._path)
        matches = [part.match for part in code.parts]
        if matches != self._matches:
            self._pages = load_sample(choose_sample(self._source, code, self._size))
            self._matches, self._before = matches, {}
        found = asyncio.run(self._ask(code))
        if read_named(self._name).digest != code.digest:
            return []  # it was saved again meanwhile, so its processes may have refused it
        seconds = time.monotonic() - began
        changed = [each for each in found if self._before.get(each.url) != each]
        if self._as_json:
            emit(json.dumps(msgspec.to_builtins({"pages": found, "seconds": round(seconds, 3)})))
        else:
            for page in changed:
                for line in _page_lines(page):
                    emit(clean(line))
            for line in _summary(self._source, code, found, seconds):
                emit(clean(line))
            if self._before:
                emit(f"{counted(len(changed), 'page')} changed")
        sys.stdout.flush()  # a program may be reading
        self._before = {each.url: each for each in found}
        return found

    async def _ask(self, code: KnownCode) -> list[SampledPage]:
        pool = CodePool(
            code,
            self._config.extensions,
            self._config.canonical,
            SystemClock(),
            self._processes,
            self._path,
            self._tell,
        )
        try:
            return await try_code(code, self._pages, pool.ask)
        finally:
            await pool.close()


def _page_lines(page: SampledPage) -> list[str]:
    """A page with the beginning of what was found in it."""
    lines = [page.url]
    for name, items in page.items.items():
        shown = [json.dumps(each, ensure_ascii=False, default=str) for each in items[:_MAX_ITEMS]]
        lines += [
            f"  {name}: {line[:_MAX_LINE]}{'…' if len(line) > _MAX_LINE else ''}" for line in shown
        ]
        if len(items) > _MAX_ITEMS:
            lines.append(f"  {name}: and {counted(len(items) - _MAX_ITEMS, 'more item')}")
        if not items:
            lines.append(f"  {name}: no item")
    if page.links:
        lines.append(f"  {counted(len(page.links), 'link')}: {' '.join(page.links[:_MAX_ITEMS])}")
    if page.scores:
        best = sorted(page.scores.items(), key=lambda each: -each[1])[:_MAX_ITEMS]
        scores = " ".join(f"{score:.2f} {url}" for url, score in best)
        lines.append(f"  {counted(len(page.scores), 'score')}: {scores}")
    lines += [f"  failed: {each}" for each in page.errors]
    return lines


def _summary(
    source: ExtractionSource, code: KnownCode, found: Sequence[SampledPage], seconds: float
) -> list[str]:
    if not found:
        patterns = ", ".join(sorted({part.match for part in code.parts if part.match}))
        of_code = f" whose URL matches {patterns}" if patterns else ""
        waits = source.count_open()
        later = f"; {counted(waits, 'segment')} of the crawl not closed yet" if waits else ""
        return [f"no stored page{of_code} in closed segments{later}"]
    items = sum(len(rows) for page in found for rows in page.items.values())
    empty = sum(not page.errors and not any(page.items.values()) for page in found)
    failed = sum(bool(page.errors) for page in found)
    without = f", {empty} without any" if empty and code.schemas else ""
    return [
        f"{counted(len(found), 'page')}: {counted(items, 'item')}{without}, {failed} failed;"
        f" {seconds:.2f} s; nothing was stored"
    ]
