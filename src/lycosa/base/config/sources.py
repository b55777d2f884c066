"""Sources of settings: defaults, a TOML file, the environment, ``--set``, command-line options.

A later source wins. Every value has its origin. All mistakes are reported together, one line each,
with the place of the value. Nothing is guessed: an unknown key stops the start, and the message has
the nearest valid name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.fields import Field, Kind, build, fields, sections, value_of
from lycosa.base.config.given_values import GivenValue, given_in_file, read_given
from lycosa.base.config.near_names import near_name
from lycosa.base.config.profile_texts import read_profile_rule
from lycosa.base.config.sections import Config, LinkRule, ScopeRule

PREFIX = "LYCOSA_"
# of the tests; where the machine's address table is; of the HTTP interface; where the log is;
# whether fetches are traced
# Variables of single commands and of compose files, which may be exported for all commands.
_OF_COMMANDS = (
    *("TEST_", "RUNTIME_DIR", "API_", "LOG", "TRACES", "IMAGE"),
    *("POSTGRES_DSN", "CASSANDRA_DSN", "REDIS_PASSWORD"),
    *("OPENSEARCH_PASSWORD", "OPENSEARCH_API_KEY"),
)
_IGNORED = tuple(PREFIX + each for each in _OF_COMMANDS)
DEFAULT = "default"
SAVED = "saved with the crawl"

SETTING_OPTIONS: dict[str, str] = {
    "agent.contact": "--contact",
    "dns.pins": "--resolve",
    "earlier.archives": "--earlier",
    "extensions.code": "--extension",
    "fetch.allow_addresses": "--allow-address",
    "fetch.bytes_per_s": "--max-bandwidth",
    "fetch.cookies": "--cookies",
    "fetch.hours": "--hours",
    "fetch.request_rate": "--max-rate",
    "limits.max_bytes": "--max-bytes",
    "limits.max_disk_bytes": "--max-disk",
    "limits.max_pages": "--max-pages",
    "limits.max_time_s": "--max-time",
    "limits.until": "--until",
    "memory_bytes": "--memory",
    "politeness.delay_s": "--delay",
    "parse.links": "--links",
    "render.mode": "--render",
    "scope.accept": "--accept",
    "scope.exclude": "--exclude",
    "scope.include": "--include",
    "scope.languages": "--languages",
    "scope.max_depth": "--max-depth",
    "scope.requisites": "--requisites",
    "scope.one_hop_out": "--one-hop-out",
    "scope.rule": "--scope",
    "scope.surts": "--surts",
    "upload.remove": "--upload-remove",
    "upload.url": "--upload",
    "workers": "--workers",
}
"""Settings that have their own option."""

_PATHS = frozenset({"webhooks.secret_file", "earlier.archives", "earlier.warcs"})
"""Settings that are stored as absolute paths: other commands read them in another folder."""
_ORDERED = (
    ("dns.min_ttl_s", "dns.max_ttl_s"),
    ("refetch.min_s", "refetch.first_s"),
    ("refetch.first_s", "refetch.max_s"),
)


class SettingsError(Exception):
    """Settings are wrong. ``problems`` has one line each; the message is those lines."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Settings(msgspec.Struct, frozen=True):
    """The tree, and the origin of each value."""

    config: Config
    origins: dict[str, str] = {}

    def origin(self, key: str) -> str:
        """The source of a value; ``KeyError`` for an unknown key.

        It is ``default``, ``crawl.toml:12``, ``environment LYCOSA_FETCH__TOTAL_S``, ``--set``,
        ``--delay`` or ``saved with the crawl``.
        """
        if key not in fields():
            raise KeyError(key)
        return self.origins.get(key, DEFAULT)


def load_settings(
    file: Path | None,
    env: Mapping[str, str],
    pairs: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    base: Config | None = None,
) -> Settings:
    """The settings of all sources together.

    ``pairs`` are ``key=value`` of ``--set``; ``flags`` values of options by dotted key, where
    ``None`` and an empty list mean that the option was not given. ``base`` replaces the defaults.
    Raises ``SettingsError``.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if base is not None:
        # A value that equals the default has no other origin.
        values = {
            key: value
            for key, field in fields().items()
            if (value := value_of(base, key)) != field.default
        }
        if not base.upload.url:  # of an earlier version; a later --upload does not ask for it
            values.pop("upload.remove", None)
        origins = dict.fromkeys(values, SAVED)
    # In this order, so that a later source overrides an earlier one. All problems are collected, so
    # that the operator can correct them together.
    given = [
        *(_from_file(file, problems) if file is not None else ()),
        *_absolute(_from_environment(env), Path.cwd()),
        *_absolute(_from_pairs(pairs, problems), Path.cwd()),
        *_absolute(_from_flags(flags or {}), Path.cwd()),
    ]
    read, places = read_given(given, fields(), _unknown, problems)
    values |= read
    origins |= places
    if origins.get("upload.remove") == SAVED and not values.get("upload.url"):
        del values["upload.remove"], origins["upload.remove"]  # the upload ends, and so does this
    problems += _unusable(
        {key: value for key, value in values.items() if origins[key] == SAVED}, f"{SAVED}: "
    )
    if not problems:  # values are compared with each other only when each of them is valid
        problems += _disorder(values, origins)
    if problems:
        raise SettingsError(problems)
    return Settings(build(values, Config), origins)


def _from_file(file: Path, problems: list[str]) -> Iterator[GivenValue]:
    return _absolute(given_in_file(file, sections(), problems), file.parent.absolute())


def _absolute(given: Iterable[GivenValue], folder: Path) -> Iterator[GivenValue]:
    """The values, with paths relative to a folder made absolute."""
    for each in given:
        value: object = each.value
        if each.key in _PATHS:
            with suppress(ValueError):  # reported with the other values
                value = fields()[each.key].read(value)
            if isinstance(value, str):
                value = _absolute_path(folder, value)
            elif isinstance(value, tuple):
                value = [_absolute_path(folder, str(path)) for path in value]
        yield each if value is each.value else msgspec.structs.replace(each, value=value)


def _absolute_path(folder: Path, text: str) -> str:
    return text if not text or "://" in text else str(folder / Path(text).expanduser())


def settings(values: Mapping[str, object]) -> Config:
    """Settings for a Python program, by dotted key, read as the command line reads them.

    Examples are ``{"limits.max_pages": 20}``, ``{"politeness.delay_s": "2s"}``. Raises
    ``SettingsError``.
    """
    problems: list[str] = []
    given = _absolute((GivenValue(*each) for each in values.items()), Path.cwd())
    found, _ = read_given(given, fields(), _unknown, problems)
    if not problems:
        problems += _disorder(found, {})
    if problems:
        raise SettingsError(problems)
    return build(found, Config)


def check_config(config: Config) -> None:
    """Check a tree that a program made.

    Raises ``SettingsError`` for a wrong type, a value out of bounds or of the wrong form.
    """
    problems: list[str] = []
    for section in sections():
        wanted, found = type(getattr(Config(), section)), getattr(config, section)
        if not isinstance(found, wanted):
            problems.append(f"{section}: {found!r} is not a {wanted.__name__}")
    if not problems:
        values = {key: value_of(config, key) for key in fields()}
        problems += _unusable(values)
        problems += [] if problems else _disorder(values, {})
    if problems:
        raise SettingsError(problems)


def _unusable(values: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Errors of values that came from no source.

    Text for a number is an error here, because no source converts it.
    """
    for key, value in values.items():
        field = fields()[key]
        try:
            if not field.has_type(value):
                wanted = "tuple of texts" if field.kind is Kind.LIST else field.kind.value
                raise ValueError(f"{value!r} is not a {wanted}")
            field.read(value)
        except ValueError as error:
            yield f"{place}{key}: {error}"


def from_dict(data: Mapping[str, Any]) -> Config:
    """The tree from plain values. Raises ``SettingsError``, also for keys of another version."""
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise SettingsError([f"saved settings cannot be read: {error}"]) from error


def _from_environment(env: Mapping[str, str]) -> Iterator[GivenValue]:
    for name in sorted(env):
        if name.startswith(PREFIX) and not name.startswith(_IGNORED):
            key = name.removeprefix(PREFIX).lower().replace("__", ".")
            yield GivenValue(key, env[name], f"environment {name}")


def _from_pairs(pairs: Sequence[str], problems: list[str]) -> Iterator[GivenValue]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"--set {pair}: write KEY=VALUE, for instance politeness.delay_s=2s")
            continue
        # which may hold a secret
        said = key.strip() if key.strip().startswith(("upload.", "requests.")) else pair
        yield GivenValue(key.strip(), value, f"--set {said}", "--set")


def _from_flags(flags: Mapping[str, object]) -> Iterator[GivenValue]:
    for key, value in flags.items():
        if value is not None and value != ():
            option = SETTING_OPTIONS.get(key, "--" + key.rpartition(".")[2].replace("_", "-"))
            yield GivenValue(key, value, option)


_OBEDIENCE = re.compile(
    r"obey|obedience|ignore|respect|honou?r|disable|enable|skip|\bno_?robots|\b(?:use_?)?robots(?:_?txt)?$"
)


def _is_about_obedience(key: str) -> bool:
    """Whether the key is the switch for robots.txt that other crawlers have."""
    text = key.lower().replace("-", "_")
    return "robots" in text and text not in sections() and _OBEDIENCE.search(text) is not None


def _unknown(key: str) -> str:
    if _is_about_obedience(key):
        return f"there is no setting {key!r}: obedience to robots.txt cannot be switched off"
    if key in sections():
        first = next(name for name in fields() if name.startswith(f"{key}."))
        return f"{key} is a section; name one of its settings, for instance {first}"
    near = meant(key)
    return f"there is no setting {key!r}" + (
        f"; did you mean {near}?" if near else "; `lycosa config` lists all"
    )


def meant(key: str) -> str:
    """The setting or the section that was probably meant, or empty."""
    if "." not in key and (near := near_name(key, sections(), 0.75)):
        return f"section {near}"
    if found := nearest(key):
        return found
    near = near_name(key.partition(".")[0], sections())
    return f"a setting of section {near}" if near else ""


def nearest(key: str) -> str:
    """The setting that was probably meant, or empty."""
    names = list(fields())
    leaf = key.rpartition(".")[2]
    same_leaf = [
        name for name in names if name.rpartition(".")[2] in (leaf, f"{leaf}_s", f"{leaf}_bytes")
    ]
    if len(same_leaf) == 1:
        return same_leaf[0]
    if near := near_name(key, same_leaf or names):
        return near
    leaves = {name.rpartition(".")[2]: name for name in reversed(names)}
    near = near_name(leaf, leaves, 0.7)
    return leaves[near] if near else ""


def contradictions(values: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with settings that contradict each other; others have their defaults."""
    for low, high in _ORDERED:
        if why := _contradiction(values, fields()[low], fields()[high]):
            yield f"{low}: {why}"
    if why := _boundless(values):
        yield f"parse.links: {why}"
    if why := _unidentified(values):
        yield f"scope.languages: {why}"


def _disorder(values: Mapping[str, Any], origins: Mapping[str, str]) -> Iterator[str]:
    """The same with the source of a value, for the settings of a start."""
    if why := _aimless(values):
        yield f"{origins.get('upload.remove', DEFAULT)}: upload.remove: {why}"
    if why := _unchecked(values):
        yield f"{origins.get('requests.rules', DEFAULT)}: requests.rules: {why}"
    if values.get("requests.own_hosts") and not values.get("requests.own_secret"):
        origin = origins.get("requests.own_hosts", DEFAULT)
        yield f"{origin}: requests.own_hosts: set requests.own_secret too, as file:FILE"
    if why := _boundless(values):
        origin = origins.get("parse.links") or origins.get("scope.rule", DEFAULT)
        yield f"{origin}: parse.links: {why}"
    if why := _unidentified(values):
        yield f"{origins.get('scope.languages', DEFAULT)}: scope.languages: {why}"
    for low, high in _ORDERED:
        if why := _contradiction(values, fields()[low], fields()[high]):
            yield f"{origins.get(low) or origins.get(high, DEFAULT)}: {low}: {why}"


def _boundless(values: Mapping[str, Any]) -> str:
    """Why texts that look like URLs are not requested of any host of the web."""
    if (
        values.get("parse.links") is not LinkRule.ALL
        or values.get("scope.rule") is not ScopeRule.ANY
    ):
        return ""
    return (
        "all requests texts that look like URLs, of hosts that the operator chose only: with"
        " scope.rule = any write document"
    )


def _unidentified(values: Mapping[str, Any]) -> str:
    """Why pages are not chosen by a language that is not identified."""
    if not values.get("scope.languages") or values.get("parse.language", True):
        return ""
    return "the language of pages is not identified: set parse.language = true too"


def _unchecked(values: Mapping[str, Any]) -> str:
    """Why secrets are not sent to servers that may be others."""
    if values.get("fetch.verify_tls", True) or not values.get("requests.rules"):
        return ""
    rules = map(read_profile_rule, values["requests.rules"])
    if all(rule.kind.is_of_connection for rule in rules):
        return ""
    return (
        "a secret is sent only to a server whose certificate is valid: leave out"
        " fetch.verify_tls = false, and trust its authority with fetch.ca_file"
    )


def _aimless(values: Mapping[str, Any]) -> str:
    """Why files cannot be removed after an upload that does not happen."""
    if not values.get("upload.remove") or values.get("upload.url"):
        return ""
    return "there is no store to upload to; give --upload URL (upload.url) too, or leave this out"


def _contradiction(values: Mapping[str, Any], low: Field, high: Field) -> str:
    least, most = (values.get(field.key, field.default) for field in (low, high))
    if least <= most:
        return ""
    return f"{low.show(least)} is more than {high.key} ({high.show(most)})"
