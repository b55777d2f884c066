"""Calls user code in this process: for virtual time, tests, and tools that read a few pages.

Code that hangs blocks the caller, and what it changes stays changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.known_code import KnownCode
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.extract.called_code import CalledCode, ExtensionCounts, checked_answer
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.code_run import MAX_LINKS, run_code
from lycosa.stages.extract.code_source import LoadedCode, known_of, load_code
from lycosa.stages.extract.stored_document import Document


class InlineCode:
    """Has the methods of ``ExtensionChild`` that a worker calls."""

    def __init__(self, loaded: Sequence[LoadedCode], canonical: CanonicalSection) -> None:
        self._canonicalizer = Canonicalizer(canonical)
        self.generation, self.counts = 1, ExtensionCounts()
        self._use(loaded)

    def _use(self, loaded: Sequence[LoadedCode]) -> None:
        self._loaded = list(loaded)
        self._codes = [CalledCode(known_of(each)) for each in loaded]
        self.codes: tuple[KnownCode, ...] = tuple(each.known for each in self._codes)

    def wanted(self, url: str) -> tuple[int, ...]:
        """See ``ExtensionChild``."""
        text = url.encode()
        return tuple(number for number, each in enumerate(self._codes) if each.is_for(text))

    async def answer(self, page: GivenDocument, codes: tuple[int, ...] = ()) -> ExtensionAnswer:
        """See ``ExtensionChild``."""
        self.counts.pages += 1
        chosen = codes or self.wanted(page.url)
        found = run_code(
            [self._loaded[number] for number in chosen],
            Document(page, self._canonicalizer),
            self._canonicalizer,
        )
        return checked_answer([self._codes[number] for number in chosen], found, MAX_LINKS)

    def use_code(self, codes: Sequence[KnownCode]) -> None:
        """See ``ExtensionChild``."""
        self.generation += 1
        self._use([load_code(each.name, each.path, each.digest) for each in codes])

    def kill(self) -> None:
        """Do nothing: there is no child."""
