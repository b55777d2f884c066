"""What is known of an own host: whether its file proves it now, until when, or why not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from lycosa.base.config.sections import Config, PolitenessSection
from lycosa.base.model.host_memory import OwnFinding
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.politeness.own_proofs import VALID_S, lifted

_PROVED = "proved"


def own_state(host: VisitRecord, config: Config, now: float) -> str:
    """``proved``, ``expired``, ``not_requested``, or what is wrong with the file.

    Empty for a host that the settings do not name. ``now`` is wall time.
    """
    if host.host not in config.requests.own_hosts:
        return ""
    file = host.own_file
    if file is None:
        return "not_requested"
    if file.finding is not OwnFinding.RIGHT:
        return str(file.finding.value)
    return _PROVED if 0 <= now - file.at < VALID_S else "expired"


def politeness_of(host: VisitRecord, config: Config, now: float) -> PolitenessSection:
    """The settings in force for a host."""
    is_proved = own_state(host, config, now) == _PROVED
    return lifted(config.politeness) if is_proved else config.politeness


def own_row(host: VisitRecord, config: Config, now: float) -> dict[str, Any] | None:
    """The state of an own host with its times and a sentence; ``None`` for other hosts."""
    state, file = own_state(host, config, now), host.own_file
    if not state:
        return None
    row: dict[str, Any] = {"state": state, "asked_at": None, "proved_until": None}
    if file is None:
        return row | {"meaning": "Its file is requested after the next page of the host."}
    row["asked_at"] = round(file.at, 3)
    meaning = file.finding.meaning
    if state == _PROVED:
        row["proved_until"] = round(file.at + VALID_S, 3)
        until = f"{datetime.fromtimestamp(file.at + VALID_S, UTC):%Y-%m-%d %H:%M:%S} UTC"
        meaning += f" It counts until {until}, or until the crawl stops."
    elif state == "expired":
        meaning = "The file that proved the host is too old; the next one is not stored yet."
    elif file.detail:
        meaning = f"{meaning.removesuffix('.')} ({file.detail})."
    return row | {"meaning": meaning}


class OwnHostLine(msgspec.Struct, frozen=True):
    """One of the hosts of ``requests.own_hosts``."""

    host: str
    state: str
    meaning: str


class OwnHostLines:
    """The own hosts of a crawl; one that it has not met is ``unknown``."""

    def __init__(self, config: Config, now: float) -> None:
        self._config, self._now = config, now
        self._lines = {
            name: OwnHostLine(name, "unknown", "The crawl knows no URL of it.")
            for name in config.requests.own_hosts
        }

    def add_host(self, host: VisitRecord) -> None:
        """Add a host if it is one of them."""
        if host.host in self._lines and (row := own_row(host, self._config, self._now)):
            self._lines[host.host] = OwnHostLine(host.host, row["state"], row["meaning"])

    def lines(self) -> list[OwnHostLine]:
        """One line for each of the settings, in their order."""
        return list(self._lines.values())
