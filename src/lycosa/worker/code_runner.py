"""The user code of a worker: described at its start, changed with the settings.

A change is described in a thread, because that starts a process and imports the code. Until then
the earlier code is called. Then pages, rows and the header of the next segment change at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.compatibility import LATE_FIELDS, PROTOCOL
from lycosa.base.model.known_code import CodeError, KnownCode
from lycosa.base.system.kept_tasks import KeptTasks
from lycosa.stages.extract.code_check import described
from lycosa.state.store.journal_rows import Extractor
from lycosa.worker.code_in_use import RunningCode
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.extensions import CodeCaller
from lycosa.worker.visit.page_code import extractors_of


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
