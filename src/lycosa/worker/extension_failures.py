"""Counts what failed in a user's rules and sinks, and says it in the log, at a bounded rate.

User code never ends a crawl. A function that raises at every page would fill a log, so the first
failure of each kind is logged with its traceback, and from then on their number once a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from lycosa.base.model.code_failure import PRINTED, CodeFailure, FailureNote
from lycosa.base.model.remark import Remark, distinct

KINDS = ("rule", "sink", "extractor", "links", "score", "extension")
"""Kinds of functions of users; ``extension`` is the process that calls the last three of them."""
MAX_NOTED = 5
"""Functions of which a report of the progress has the first failure."""
_AGAIN_S = 60.0
_MAX_KINDS = 1000  # of which it is remembered when they were told last

TellFailure = Callable[[CodeFailure, int], object]
"""Gets a failure, and how many of its kind there were since the last call (1 = it is the first)."""


class ExtensionFailures:
    """The failures of one worker, in this run of its process."""

    def __init__(
        self,
        tell: TellFailure = lambda failure, number: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tell, self._monotonic = tell, monotonic
        self.counts = dict.fromkeys(KINDS, 0)
        """Failures by kind of function."""
        self._numbers: dict[tuple[str, str], tuple[int, CodeFailure]] = {}
        self._told: dict[tuple[str, str], tuple[float, int]] = {}
        self._of_rules: list[Remark] = []
        self._output_told = -_AGAIN_S

    def __repr__(self) -> str:
        return f"<ExtensionFailures {self.counts}>"

    def note(self, failure: CodeFailure) -> None:
        """Count a failure, and tell it if it is time."""
        self.counts[failure.kind] += 1
        key = failure.kind, failure.name
        number, first = self._numbers.get(key, (0, failure))
        self._numbers[key] = number + 1, first
        if failure.kind == "rule":
            self._of_rules.append(failure.remark)
        self._tell_sometimes(failure)

    def tell_output(self, text: str) -> None:
        """Tell what user code printed, at most once a minute."""
        now = self._monotonic()
        if now - self._output_told >= _AGAIN_S:
            self._output_told = now
            self.tell(CodeFailure(PRINTED, "", "", text), 1)

    def note_all(self, failures: Iterable[CodeFailure]) -> tuple[Remark, ...]:
        """Count failures; returns the remarks of their page."""
        noted = list(failures)
        for each in noted:
            self.note(each)
        return distinct(each.remark for each in noted)

    def take_rule_remarks(self) -> tuple[Remark, ...]:
        """The remarks of rules since the last call, for the page whose links were judged."""
        if not self._of_rules:
            return ()
        found, self._of_rules = distinct(self._of_rules), []
        return found

    def notes(self) -> list[FailureNote]:
        """What failed, the most frequent first."""
        found = [FailureNote(number, first) for number, first in self._numbers.values()]
        return sorted(found, key=lambda each: -each.failures)[:MAX_NOTED]

    def _tell_sometimes(self, failure: CodeFailure) -> None:
        now, key = self._monotonic(), (failure.name, failure.error)
        told_at, waiting = self._told.get(key, (-_AGAIN_S, 0))
        if now - told_at < _AGAIN_S:
            self._told[key] = told_at, waiting + 1
        elif key in self._told or len(self._told) < _MAX_KINDS:
            self._told[key] = now, 0
            self.tell(failure, waiting + 1)
