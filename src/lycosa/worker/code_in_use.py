"""The user code that one worker runs, as its crawl's settings and its machine decide.

The settings say which code the crawl runs from a version on; every commit names the version that
the worker follows. The machine says which digests may run at all. Code that the machine does not
allow, or has no copy of, is not run: what the worker ran before under that name continues, until
the shard moves to a machine that has it. The header of each segment names the code that made the
rows in it, so a change ends the open segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.code_version import CodeTable, CodeVersion
from lycosa.base.model.compatibility import LATE_FIELDS, PROTOCOL
from lycosa.base.model.known_code import CodeError, KnownCode
from lycosa.base.system.kept_tasks import KeptTasks
from lycosa.stages.extract.code_check import described
from lycosa.state.store.journal_rows import Extractor
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.extensions import CodeCaller
from lycosa.worker.job import RunCode
from lycosa.worker.visit.page_code import extractors_of


class RunningCode(msgspec.Struct, frozen=True):
    """Code to run: its name in the settings, its SHA-256, and the copy that has it."""

    name: str
    digest: str
    path: Path


class CodeRunner(Protocol):
    """What runs user code for the worker."""

    def use_code(self, codes: Sequence[RunningCode]) -> None:
        """Run exactly this code from now on, and end the open segment.

        A page that is with earlier code is given to the new one.
        """
        ...


class CodeInUse:
    """One per worker; ``run`` is what its job says. ``runner`` is told what changes later."""

    def __init__(self, run: RunCode, runner: CodeRunner | None = None) -> None:
        self._runner = runner
        self._run = run
        self._kept: dict[str, CodeVersion] = {}  # what runs although it is not in force any more
        self.codes = self._chosen()

    @property
    def in_force(self) -> CodeTable:
        """The code of the settings that this worker follows."""
        return self._run.code

    @property
    def lacking(self) -> list[str]:
        """The names of code that the crawl runs and this worker cannot."""
        wanted = {(name, each.digest) for name, each in self._run.code.items()}
        return sorted(
            name for name, _ in wanted - {(each.name, each.digest) for each in self.codes}
        )

    def follow(self, code: CodeTable) -> None:
        """Run the code of the settings from now on, as far as this machine allows it."""
        if code != self._run.code:
            self._change(msgspec.structs.replace(self._run, code=dict(code)))

    def allow(self, digests: tuple[str, ...]) -> None:
        """Follow what the machine allows now."""
        if digests != self._run.allowed:
            self._change(msgspec.structs.replace(self._run, allowed=digests))

    def _change(self, run: RunCode) -> None:
        self._run, before = run, self.codes
        self._kept = {each.name: CodeVersion(each.digest) for each in before}
        self.codes = self._chosen()
        if self.codes != before and self._runner is not None:
            self._runner.use_code(self.codes)

    def _chosen(self) -> tuple[RunningCode, ...]:
        """What to run: by name, the code in force or else the one that ran before."""
        found = []
        for name, each in sorted(self._run.code.items()):
            for version in (each, self._kept.get(name)):
                path = self._run.copy_of(version.digest) if version is not None else None
                if version is not None and path is not None:
                    found.append(RunningCode(name, version.digest, path))
                    break
        return tuple(found)


# The user code of a worker: described at its start, changed with the settings.
#
# A change is described in a thread, because that starts a process and imports the code. Until then
# the earlier code is called. Then pages, rows and the header of the next segment change at once.


def known_codes(
    codes: Sequence[RunningCode], section: ExtensionSection, path: Sequence[str] = ()
) -> tuple[KnownCode, ...]:
    """Describe code by importing it in a process. Blocks. Raises ``CodeError`` and ``OSError``."""
    named = [KnownCode(each.name, str(each.path), each.digest) for each in codes]
    return described(named, section, path)


def note_unstored_items(
    codes: Sequence[KnownCode], formats: int, failures: ExtensionFailures
) -> None:
    """Report extractors whose items the formats in force do not have (``model.compatibility``)."""
    if formats >= LATE_FIELDS:
        return
    for each in extractors_of(codes):
        why = f"formats of number {formats} store no items"
        what = "give `lycosa cluster upgrade`, and then `lycosa extract` for pages stored before"
        failures.note(CodeFailure("extractor", each.name, why, what))


class WorkerCode:
    """Implements ``CodeRunner`` for the code that ``caller`` calls.

    ``use_extractors`` gets those of new code, before the first page is given to it. ``formats`` are
    those in force.
    """

    def __init__(
        self,
        caller: CodeCaller,
        section: ExtensionSection,
        failures: ExtensionFailures,
        use_extractors: Callable[[Sequence[Extractor]], None],
        formats: int = PROTOCOL,
        path: Sequence[str] = (),
    ) -> None:
        self._formats = formats
        self._caller, self._section, self._failures = caller, section, failures
        self._use_extractors, self._path = use_extractors, tuple(path)
        self._wanted: tuple[RunningCode, ...] = ()
        self._tasks = KeptTasks(lambda error: None)

    def use_code(self, codes: Sequence[RunningCode]) -> None:
        """See ``CodeRunner``."""
        self._wanted = tuple(codes)
        self._tasks.begin(self._change(self._wanted))

    async def _change(self, codes: tuple[RunningCode, ...]) -> None:
        try:
            known = await asyncio.to_thread(known_codes, codes, self._section, self._path)
        except (CodeError, OSError) as error:
            names = ", ".join(each.name for each in codes)
            self._failures.note(CodeFailure("extension", names, "CodeError", str(error)))
            return
        if codes == self._wanted:  # otherwise a later change is being described
            self._use_extractors(extractors_of(known))
            note_unstored_items(known, self._formats, self._failures)
            self._caller.use_code(known)
