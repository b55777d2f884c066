"""What a user or an operator adds to a worker: rules, sinks, and listeners to its requests."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.model.discovered import Discovered
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.page import Page
from lycosa.stages.admit.refusal import Refusal

UserRule = Callable[[Discovered], Refusal | None]
"""A rule of the user: returns why a URL is refused, or ``None``."""

PageSink = Callable[[Page], None]
"""A page sink of the user. It gets each capture before its commit, after a crash possibly twice."""

AttemptListener = Callable[[FetchRequest, Fetched, float], object]
"""Gets a request, its answer, and the delay of its host in seconds."""


class Extensions(msgspec.Struct, frozen=True):
    """Rules that judge each URL, sinks that get each capture, listeners that get each attempt."""

    rules: tuple[UserRule, ...] = ()
    sinks: tuple[PageSink, ...] = ()
    listeners: tuple[AttemptListener, ...] = ()
