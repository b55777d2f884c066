"""Settings that operators changed while a folder's crawl ran, for the next start with options.

A change is saved with the settings, and a start without options has it. A start with ``--set``, a
file or an environment may give another value, as a service does that is started again by its unit.
The later decision counts: options that give what the earlier start gave are no new decision, so the
change of the operator stays; another value is one, and replaces it. Either way a line says so.

A cluster has the changes in the records of its coordinator, and no option overrides them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lycosa.base.config.fields import fields, value_of
from lycosa.base.config.live_settings import is_same_value, with_live
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import DEFAULT, SAVED
from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder.names import live_path


class LiveChange(msgspec.Struct, frozen=True):
    """The last change of one setting: its value, and ``start``, what the run was started with.

    ``date_us`` is in microseconds since 1970.
    """

    value: str
    start: str
    by: str
    date_us: int
    why: str = ""

    def __str__(self) -> str:
        date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.date_us / 1_000_000))
        because = f" ({self.why})" if self.why else ""
        return f"{self.value}, set by {self.by or 'an operator'} on {date}{because}"


def saved_changes(folder: Path) -> dict[str, LiveChange]:
    """The changes by setting; none when they cannot be read, because their values are saved too."""
    try:
        return msgspec.json.decode(live_path(folder).read_bytes(), type=dict[str, LiveChange])
    except (FileNotFoundError, *UNREADABLE):
        # Only who changed a setting, and when, is lost.
        return {}


def save_changes(folder: Path, changes: Mapping[str, LiveChange]) -> None:
    """Store them. Raises ``OSError``."""
    if changes or live_path(folder).exists():
        replace_file(live_path(folder), msgspec.json.format(msgspec.json.encode(changes), indent=2))


def noted_change(
    changes: Mapping[str, LiveChange],
    config: Config,
    values: Mapping[str, str],
    who: tuple[str, int, str],
) -> dict[str, LiveChange]:
    """The changes after one more: ``values`` are all that differ from ``config`` of the start.

    ``who`` is the operator, the time and the remark of those that are new.
    """
    noted, known = dict(changes), fields()
    for key, text in values.items():
        old = changes.get(key)
        now = old.value if old is not None else known[key].show(value_of(config, key))
        if not is_same_value(key, text, now):
            start = old.start if old is not None else now
            noted[key] = LiveChange(text, start, *who)
    return noted


def in_force(changes: Mapping[str, LiveChange], config: Config) -> dict[str, LiveChange]:
    """The changes that a start with ``config`` did not replace."""
    known = fields()
    return {
        key: change
        for key, change in changes.items()
        if key in known and is_same_value(key, change.value, known[key].show(value_of(config, key)))
    }


def settle(
    config: Config, origins: Mapping[str, str], changes: Mapping[str, LiveChange]
) -> tuple[Config, list[str]]:
    """The settings of a start whose options meet earlier changes, and lines that say what counts.

    ``origins`` are the sources of the values of ``config``.
    """
    kept, lines = dict[str, str](), list[str]()
    for key, change in changes.items():
        origin = origins.get(key, DEFAULT)
        if key not in fields() or origin in (SAVED, DEFAULT):
            continue
        given = fields()[key].show(value_of(config, key))
        if is_same_value(key, given, change.value):
            continue
        if is_same_value(key, given, change.start):
            kept[key] = change.value
            lines.append(
                f"{key} stays {change}; {origin} gives {given}, as the start before that change."
                " PATCH /settings or the operator's page changes it"
            )
        else:
            lines.append(f"{key} is {given} by {origin}; it was {change}")
    return with_live(config, kept), lines
