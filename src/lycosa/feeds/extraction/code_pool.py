"""Several processes of user code, of which each page is given to the one that has the fewest.

They have the bounds of those in a crawl (``extension_child``). What differs: code that ends its
processes too often ends the extraction. In a crawl its pages would be marked, because the crawl
continues; here nothing is lost if it stops, and a version with holes is of no use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lycosa.base.config.sections import CanonicalSection, ExtensionSection
from lycosa.base.model.known_code import KnownCode
from lycosa.base.ports import Clock
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.extension_child import PAGES_SENT, ExtensionChild


class CodeSuspended(Exception):
    """User code ended its processes too often."""


class CodePool:
    """``processes`` children that run ``code``. The loop of ``ask`` must be running.

    ``tell_output`` gets what the code printed.
    """

    def __init__(
        self,
        code: KnownCode,
        section: ExtensionSection,
        canonical: CanonicalSection,
        clock: Clock,
        processes: int,
        path: Sequence[str] = (),
        tell_output: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._code = code
        self._children = [
            ExtensionChild([code], section, canonical, clock, path, tell_output)
            for _ in range(processes)
        ]
        self._waiting = [0] * processes
        self.at_once = processes * (PAGES_SENT + 2)
        """Pages that may be asked about at once: those sent to the processes, and some to send."""

    def __repr__(self) -> str:
        return f"<CodePool {self._code.name} {self._waiting}>"

    async def ask(self, page: GivenDocument) -> ExtensionAnswer:
        """What the code says of a page. Raises ``CodeSuspended``."""
        number = self._waiting.index(min(self._waiting))
        child = self._children[number]
        self._waiting[number] += 1
        try:
            answer = await child.answer(page)
        finally:
            self._waiting[number] -= 1
        if child.suspended:
            raise CodeSuspended(
                f"{self._code.name} ended its process too often (the last time at {page.url}); what"
                " is finished stays, and the same command continues with corrected code"
            )
        return answer

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(child.close() for child in self._children))
