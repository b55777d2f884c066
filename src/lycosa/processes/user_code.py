"""Prepares a user's rules and sinks for a worker: where they are called, and what bounds them.

A separate process for user code would take over here: it would stand in the place of
``SinkThread``, and of the watched rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.model.code_failure import CodeFailure
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.extensions import (
    AttemptListener,
    Extensions,
    PageSink,
    PageSinks,
    UserRule,
)
from lycosa.worker.rule_watch import RuleWatch
from lycosa.worker.sink_thread import SinkThread


def prepared_extensions(
    section: ExtensionSection,
    rules: Sequence[UserRule],
    sinks: Sequence[PageSink],
    tell: Callable[[CodeFailure, int], object],
    *,
    elsewhere: PageSinks | None = None,
    listeners: Sequence[AttemptListener] = (),
    hooks: Sequence[PageSink] = (),
) -> Extensions:
    """The extensions of a worker. ``close`` ends what is begun here.

    ``sinks`` are called in a thread; pages go to the sinks ``elsewhere`` as well. ``hooks`` are
    called on the loop.
    """
    pages: list[PageSinks] = [SinkThread(sinks, section.sink_s)] if sinks else []
    if elsewhere is not None:
        pages.append(elsewhere)
    watch = RuleWatch(section.rule_s) if rules else None
    if watch is not None:
        watch.start()
    return Extensions(
        tuple(rules),
        tuple(hooks),
        tuple(listeners),
        tuple(pages),
        ExtensionFailures(tell),
        watch,
    )
