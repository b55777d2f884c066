"""The settings of a model: the same keys in a TOML file and on the command line.

The keys, with meaning and bound, are read from the structs themselves (``web.hosts``,
``means.cores``, ``prices.core_hour``, ``cluster.links``), as those of the settings are, so that
each is declared once. All mistakes are reported together, one line each, with the place of the
value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lycosa.base.config.fields import Field, Kind, fields_of
from lycosa.base.config.given_values import GivenValue, given_in_file
from lycosa.base.config.sources import SettingsError
from lycosa.simulate.cluster_means import ClusterMeans
from lycosa.simulate.resources import Prices, Resources
from lycosa.simulate.web_model import Web

_SECTIONS: dict[str, type] = {
    "web": Web,
    "means": Resources,
    "prices": Prices,
    "cluster": ClusterMeans,
}
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_SCALED = re.compile(r"(\d+(?:[._]\d+)*)\s*([kmgb]?)", re.IGNORECASE)


class ModelSettings(NamedTuple):
    """The parts of a model, and the source of each value that is not a default, by key."""

    web: Web
    means: Resources
    prices: Prices
    cluster: ClusterMeans
    origins: dict[str, str]


@cache
def model_fields() -> dict[str, Field]:
    """Every key of a model, in the order of the structs."""
    found: dict[str, Field] = {}
    for section, cls in _SECTIONS.items():
        found.update(fields_of(cls, section))
    return found


def read_model(
    file: Path | None = None,
    pairs: Sequence[str] = (),
    flags: Mapping[str, tuple[str, object]] | None = None,
    base: Mapping[str, object] | None = None,
) -> ModelSettings:
    """The model of all sources; a later one wins.

    The sources are defaults, ``base`` (values of a past crawl), the file, ``key=value`` pairs,
    ``flags`` (option and value by key). Raises ``SettingsError``.
    """
    problems: list[str] = []
    values: dict[str, Any] = dict(base or {})
    origins = dict.fromkeys(values, "past crawl")
    given = [
        *(given_in_file(file, _SECTIONS, problems) if file is not None else ()),
        *_of_pairs(pairs, problems),
    ]
    given += [
        GivenValue(key, value, option)
        for key, (option, value) in (flags or {}).items()
        if value is not None
    ]
    for each in given:
        field = model_fields().get(each.key)
        if field is None:
            problems.append(f"{each.place}: {_unknown(each.key)}")
            continue
        try:
            values[each.key] = field.read(_plain(field, each.value))
            origins[each.key] = each.place
        except ValueError as error:
            problems.append(f"{each.place}: {each.key}: {error}")
    if problems:
        raise SettingsError(problems)
    return _built(values, origins)


def _built(values: Mapping[str, Any], origins: dict[str, str]) -> ModelSettings:
    parts: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS}
    for key, value in values.items():
        section, _, name = key.partition(".")
        parts[section][name] = value
    web = parts["web"]
    if "hosts" in web and "pages" not in web:  # as dense as the default web
        web["pages"] = max(round(web["hosts"] * Web().pages / Web().hosts), 1)
    elif "pages" in web and "hosts" not in web:
        web["hosts"] = max(round(web["pages"] * Web().hosts / Web().pages), 1)
    try:
        return ModelSettings(
            Web(**web),
            Resources(**parts["means"]),
            Prices(**parts["prices"]),
            ClusterMeans(**parts["cluster"]),
            origins,
        )
    except ValueError as error:
        raise SettingsError([str(error)]) from error


def _of_pairs(pairs: Sequence[str], problems: list[str]) -> Iterator[GivenValue]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if equals:
            yield GivenValue(key.strip(), value, f"--let {pair}")
        else:
            problems.append(f"--let {pair}: write KEY=VALUE, for instance web.latency_s=500ms")


def _plain(field: Field, value: object) -> object:
    """``45M`` as a number: hosts and pages are counted in millions."""
    if field.kind is Kind.WHOLE and isinstance(value, str):
        return read_count(value)
    return value


def read_count(text: str) -> int:
    """A count: ``250000``, ``250_000``, ``250k``, ``45M``, ``1.5G``. Raises ``ValueError``."""
    found = _SCALED.fullmatch(text.strip().replace(",", "_"))
    if found is None:
        raise ValueError(f"{text!r} is not a count; write 250000, 250k, 45M, 1G")
    try:
        number = float(found[1]) * _SCALES[found[2].lower()]
    except ValueError:
        raise ValueError(f"{text!r} is not a count; write 250000, 250k, 45M, 1G") from None
    if not number.is_integer():
        raise ValueError(f"{text!r} is not a whole number")
    return int(number)


def _unknown(key: str) -> str:
    names = model_fields()
    leaf = key.rpartition(".")[2]
    near = [name for name in names if name.partition(".")[2] == leaf] or difflib.get_close_matches(
        key, names, 1, 0.6
    )
    hint = f"did you mean {near[0]}?" if near else "`lycosa simulate --keys` lists all"
    return f"there is no key {key!r} of a model; {hint}"
