"""What a user or an operator adds to a worker: rules, sinks, and listeners to its requests.

User code never ends a crawl. A **rule** that raises refuses the URL (``rule_failed``): a rule is
there to keep the crawl out of something. It is asked again when the URL is found again. A **sink**
that raises changes nothing of its page. In both cases the page gets the remark
``extension_failed``, and the failure is counted and logged.

Rules decide on the worker's loop, where nothing can interrupt them. A sink gets pages either there
(``sinks``) or elsewhere (``pages``): in a thread (``sink_thread``), or in the program that started
the workers. A separate process for user code would be a further implementation of ``PageSinks``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from lycosa.base.model.code_failure import CodeFailure, TooSlow, failure_in, name_of_code
from lycosa.base.model.discovered import Discovered
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.known_code import KnownCode
from lycosa.base.reasons import Reason
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.extract.called_code import ExtensionCounts
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.parse.page import Page
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.rule_watch import RuleWatch

UserRule = Callable[[Discovered], Refusal | None]
"""A rule of the user: returns why a URL is refused, or ``None``."""

PageSink = Callable[[Page], object]
"""A page sink of the user. It gets each capture before its commit, after a crash possibly twice."""

AttemptListener = Callable[[FetchRequest, Fetched, float], object]
"""Gets a request, its answer, and the delay of its host in seconds."""


class PageSinks(Protocol):
    """Sinks that are called elsewhere, while the loop continues."""

    async def give_page(self, page: Page) -> list[CodeFailure]:
        """Give a page to all sinks; returns what failed, after a bounded time."""
        ...

    def close(self) -> None:
        """Begin no further call."""
        ...


class CodeCaller(Protocol):
    """Calls user code, usually in another process."""

    @property
    def codes(self) -> Sequence[KnownCode]:
        """The code that is called now; empty in most crawls."""
        ...

    @property
    def generation(self) -> int:
        """Above 0; grows with each ``use_code``."""
        ...

    @property
    def counts(self) -> ExtensionCounts:
        """What was done since the start."""
        ...

    def wanted(self, url: str) -> tuple[int, ...]:
        """The codes that want the page with this URL, by their numbers."""
        ...

    async def answer(self, page: GivenDocument, codes: tuple[int, ...] = ()) -> ExtensionAnswer:
        """What these codes say of a page. Never raises for what user code does."""
        ...

    def use_code(self, codes: Sequence[KnownCode]) -> None:
        """Call other code from now on."""
        ...

    def kill(self) -> None:
        """Call nothing any more."""
        ...


class Extensions(msgspec.Struct, frozen=True):
    """Rules that judge each URL, sinks that get each capture, listeners that get each attempt.

    ``sinks`` are called on the loop and ``pages`` elsewhere. ``watch`` bounds the time of rules.
    ``code`` calls the code of the job, if that is not to run in a child process.
    """

    rules: tuple[UserRule, ...] = ()
    sinks: tuple[PageSink, ...] = ()
    listeners: tuple[AttemptListener, ...] = ()
    pages: tuple[PageSinks, ...] = ()
    failures: ExtensionFailures = msgspec.field(default_factory=ExtensionFailures)
    watch: RuleWatch | None = None
    code: CodeCaller | None = None

    def guarded_rules(self) -> tuple[UserRule, ...]:
        """The rules, so that one that raises refuses."""
        watch = self.watch or RuleWatch(0.0)  # which is not started
        return tuple(_guarded(rule, self.failures, watch) for rule in self.rules)

    def close(self) -> None:
        """Call nothing any more."""
        if self.watch is not None:
            self.watch.stop()
        for each in self.pages:
            each.close()


def _guarded(rule: UserRule, failures: ExtensionFailures, watch: RuleWatch) -> UserRule:
    name = name_of_code(rule)

    def judge(found: Discovered) -> Refusal | None:
        try:
            if watch.is_suspended:
                raise TooSlow("rules were too slow too often, and are not called in this run")
            watch.begin_call()
            refusal = rule(found)
            watch.end_call()
            if refusal is not None and not isinstance(refusal, Refusal):
                raise TypeError(f"a rule returns lycosa.Refusal or None, not {refusal!r}")
            # Under one reason, because the audit counts what it cannot judge again.
            if refusal is not None and refusal.reason is not Reason.USER_RULE:
                return msgspec.structs.replace(refusal, reason=Reason.USER_RULE)
            return refusal
        except (Exception, TooSlow) as error:
            watch.end_call()
            failure = failure_in("rule", name, error)
            failures.note(failure)
            return Refusal(Reason.RULE_FAILED, name, failure.error)

    return judge


def called_sinks(sinks: tuple[PageSink, ...], page: Page) -> list[CodeFailure]:
    """Call the sinks one after another; returns what failed."""
    failed = []
    for sink in sinks:
        try:
            sink(page)
        except Exception as error:
            failed.append(failure_in("sink", name_of_code(sink), error))
    return failed
