"""The settings and the state of a crawl after an operator's request: set, pause, resume, stop."""

from __future__ import annotations

import msgspec

from lycosa.base.calls import MAX_WORDS
from lycosa.base.messages.control_records import CrawlAction, EndSaved, SettingsSaved
from lycosa.base.messages.coordinator_messages import (
    ChangeCode,
    ChangeSettings,
    PauseCrawl,
    StopCrawl,
)
from lycosa.base.messages.worker_messages import LiveSettings
from lycosa.base.model.code_version import CodeTable, changed_code, shown_digest

MAX_ACTIONS_SENT = 20
"""The latest actions, which owners receive; the owner of the first partition keeps them."""

SteeringMessage = ChangeSettings | ChangeCode | PauseCrawl | StopCrawl
"""Decisions of operators about the whole crawl."""


def steered(
    saved: SettingsSaved, message: SteeringMessage, crawl: str, wall: float
) -> SettingsSaved:
    """The next version, at a wall time; ``crawl`` makes the ids of actions unique.

    A stop changes only the list of actions here; the end of the crawl is a separate record.
    """
    version, values, is_paused = saved.version + 1, saved.values, saved.is_paused
    subject, code = "", saved.code
    if isinstance(message, PauseCrawl):
        action = "pause_crawl" if message.is_paused else "resume_crawl"
        is_paused = message.is_paused
    elif isinstance(message, StopCrawl):
        action, subject = "stop_crawl", "at once" if message.at_once else ""
    elif isinstance(message, ChangeCode):
        code = changed_code(code, message.digests, version)
        pairs = (
            f"{name}={shown_digest(digest) or 'none'}"
            for name, digest in sorted(message.digests.items())
        )
        action, subject = "set_extension", ", ".join(pairs)
    else:
        pairs = (f"{key}={value}" for key, value in sorted(message.values.items()))
        action, subject = "set", ", ".join(pairs)
        values = {**saved.values, **message.values}
    done = CrawlAction(
        f"{crawl}/{version}",
        message.by[:MAX_WORDS],
        int(wall * 1_000_000),
        action,
        subject,
        message.why[:MAX_WORDS],
    )
    actions = [*saved.actions, done][-MAX_ACTIONS_SENT:]
    return SettingsSaved(version, values, is_paused, actions, code)


def with_first_code(saved: SettingsSaved, code: CodeTable) -> SettingsSaved:
    """The settings at the beginning of a crawl that was created with user code.

    Later the code of the settings counts, also when that is none.
    """
    if saved.version or saved.code or not code:
        return saved
    return msgspec.structs.replace(saved, version=1, code=dict(code))


def ended(saved: EndSaved, end: str, at_once: bool) -> EndSaved:
    """The end of the crawl after one more demand for it: the first reason stays."""
    if saved.end and (saved.at_once or not at_once):
        return saved
    return EndSaved(saved.end or end, at_once)


def settings_for_owners(saved: SettingsSaved) -> LiveSettings:
    """The live settings as sent to owners."""
    return LiveSettings(saved.version, saved.values, saved.is_paused, saved.actions, saved.code)


def unpaused(saved: SettingsSaved) -> SettingsSaved:
    """The next version without a pause."""
    return msgspec.structs.replace(saved, version=saved.version + 1, is_paused=False)
