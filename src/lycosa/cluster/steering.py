"""What operators steer while the crawl runs, after one more action of theirs."""

from __future__ import annotations

import msgspec

from lycosa.cluster.control import CrawlAction, SettingsSaved
from lycosa.cluster.messages import ChangeSettings, MoreAsks, PauseCrawl, StopCrawl
from lycosa.cluster.worker_messages import LiveSettings

MOST_TOLD = 20
"""Latest actions that owners are told; the owner of the first partition keeps them."""

_MOST_CHARACTERS = 500


Steering = ChangeSettings | PauseCrawl | StopCrawl | MoreAsks
"""What an operator decides about the whole crawl."""


def steered(saved: SettingsSaved, message: Steering, crawl: str, wall: float) -> SettingsSaved:
    """The next version, at a wall time; ``crawl`` makes the ids of actions unique."""
    version, subject = saved.version + 1, ""
    values, is_paused = saved.values, saved.is_paused
    match message:
        case PauseCrawl():
            action = "pause_crawl" if message.is_paused else "resume_crawl"
            is_paused = message.is_paused
        case StopCrawl():
            action = "stop_crawl"
        case MoreAsks():
            action, is_paused = "resume_crawl", False
        case ChangeSettings():
            pairs = (f"{key}={value}" for key, value in sorted(message.values.items()))
            action, subject = "set", ", ".join(pairs)[:_MOST_CHARACTERS]
            values = {**saved.values, **message.values}
    done = CrawlAction(
        f"{crawl}/{version}",
        message.by[:_MOST_CHARACTERS],
        int(wall * 1_000_000),
        action,
        subject,
    )
    return SettingsSaved(version, values, is_paused, [*saved.actions, done][-MOST_TOLD:])


def told_settings(saved: SettingsSaved) -> LiveSettings:
    """What owners are told."""
    return LiveSettings(saved.version, saved.values, saved.is_paused, saved.actions)


def unpaused(saved: SettingsSaved) -> SettingsSaved:
    """The next version without a pause."""
    return msgspec.structs.replace(saved, version=saved.version + 1, is_paused=False)
