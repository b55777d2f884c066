"""The settings that may change while a crawl runs.

Each of them is read for every decision, so a change needs no restart. The settings of an IP address
are not among them: other crawls share its table, and the audit compares it with the settings of the
start. The delays of hosts are, because the attempt log has the delay that each host required.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.config.fields import fields, value_of
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import SettingsError, contradictions

LIVE = (
    "scope.surts",
    "scope.include",
    "scope.exclude",
    "scope.max_depth",
    "scope.one_hop_out",
    "scope.languages",
    "politeness.delay_s",
    "politeness.max_crawl_delay_s",
    "politeness.adaptive_factor",
    "politeness.max_adaptive_delay_s",
    "politeness.jitter",
    "politeness.max_retry_after_s",
    "politeness.backoff_s",
    "politeness.max_backoff_s",
    "politeness.forgive_s",
    "fetch.slots",
    "fetch.request_rate",
    "fetch.bytes_per_s",
    "fetch.hours",
    "fetch.own_pages",
    "priority.ranks",
    "copies.probe_turns",
    "copies.probe_turns_alone",
    "copies.exempt",
    "refetch.rule",
    "refetch.first_s",
    "refetch.min_s",
    "refetch.max_s",
    "refetch.price",
    "refetch.budget",
    "refetch.least_chance",
    "refetch.share",
    "refetch.probes",
    "refetch.intervals",
    "refetch.policies",
    "render.mode",
    "render.policies",
    "render.pages",
    "render.queue",
)
"""Dotted keys.

``fetch.slots`` can be lowered, and raised again up to its value at the start, for which memory was
planned. A change of ``refetch.first_s``, ``min_s``, ``max_s``, ``price``, ``budget`` and
``least_chance`` applies to a page when its time has come: it may get a later one. Those of the
scope apply to links that are found from then on, and to URLs that wait, when their turn has come
(``Scope.judge_waiting``). ``render.mode`` and ``render.policies`` apply to pages that are fetched
from then on, and to those that wait to be rendered. One of the others also moves the times that
are stored already (``stages.frontier.policy_walk``).
"""


def check_live(values: Mapping[str, str], config: Config | None = None) -> None:
    """Raises ``SettingsError`` for an unknown key, one that cannot change now, or a bad value.

    With ``config``, the settings in force, also for values that contradict others.
    """
    problems = [f"{key}: {why}" for key, text in values.items() if (why := _why_not(key, text))]
    if config is not None and not problems:
        changed = with_live(config, values)
        problems += contradictions({key: value_of(changed, key) for key in LIVE})
    if problems:
        raise SettingsError(problems)


def changed_meanwhile(shown: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The present values, as text, of settings that had other values when they were shown.

    ``present`` may lack settings that have not been changed.
    """
    return {
        key: present[key]
        for key, text in shown.items()
        if key in present and not is_same_value(key, text, present[key])
    }


def is_same_value(key: str, text: str, other: str) -> bool:
    """Whether two texts mean the same value of a setting, as ``60s`` and ``1m`` do."""
    try:
        read = fields()[key].read
        return text == other or read(text) == read(other)
    except (KeyError, ValueError):
        return False


def with_live(config: Config, values: Mapping[str, str]) -> Config:
    """The settings of the start, with live ones in their place.

    Settings that ``check_live`` refuses are left out: a later version may have sent them.
    """
    for key, text in values.items():
        if not _why_not(key, text):
            section, _, name = key.partition(".")
            value = fields()[key].read(text)
            changed = msgspec.structs.replace(getattr(config, section), **{name: value})
            config = msgspec.structs.replace(config, **{section: changed})
    return config


def _why_not(key: str, text: str) -> str:
    if key not in fields():
        return "there is no such setting"
    if key not in LIVE:
        return "it cannot change while the crawl runs"
    try:
        fields()[key].read(text)
    except ValueError as error:
        return str(error)
    return ""
