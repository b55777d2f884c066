"""What operators steer while the crawl runs, after one more action of theirs."""

from __future__ import annotations

import json

import msgspec

from lycosa.cluster.control import CrawlAction, SettingsSaved
from lycosa.cluster.messages import ChangeSettings, PauseCrawl
from lycosa.cluster.worker_messages import LiveSettings

MOST_TOLD = 20
"""Latest actions that owners are told; the owner of the first partition keeps them."""

_MOST_CHARACTERS = 500


def steered(
    saved: SettingsSaved, message: ChangeSettings | PauseCrawl, crawl: str, wall: float
) -> SettingsSaved:
    """The next version, at a wall time; ``crawl`` makes the ids of actions unique."""
    version = saved.version + 1
    if isinstance(message, PauseCrawl):
        action, subject = ("pause_crawl" if message.is_paused else "resume_crawl"), ""
        values, is_paused = saved.values, message.is_paused
    else:
        action, subject = "set", json.dumps(message.values, sort_keys=True)[:_MOST_CHARACTERS]
        values, is_paused = {**saved.values, **message.values}, saved.is_paused
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
