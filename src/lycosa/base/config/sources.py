"""Sources of settings: defaults, a TOML file, the environment, ``--set``, command-line options.

A later source wins. Every value has its origin. All mistakes are reported together, one line each,
with the place of the value. Nothing is guessed: an unknown key stops the start, and the message has
the nearest valid name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.fields import Field, Kind, build, fields, sections, value_of
from lycosa.base.config.near_names import near_name
from lycosa.base.config.sections import Config

PREFIX = "LYCOSA_"
# of the tests; where the machine's address table is; of the HTTP interface; where the log is;
# whether fetches are traced
_IGNORED = tuple(PREFIX + each for each in ("TEST_", "RUNTIME_DIR", "API_", "LOG", "TRACES"))
DEFAULT = "default"
SAVED = "saved with the crawl"

SETTING_OPTIONS: dict[str, str] = {
    "agent.contact": "--contact",
    "dns.pins": "--resolve",
    "fetch.allow_addresses": "--allow-address",
    "fetch.cookies": "--cookies",
    "limits.max_bytes": "--max-bytes",
    "limits.max_pages": "--max-pages",
    "limits.max_time_s": "--max-time",
    "memory_bytes": "--memory",
    "politeness.delay_s": "--delay",
    "scope.exclude": "--exclude",
    "scope.include": "--include",
    "scope.max_depth": "--max-depth",
    "scope.requisites": "--requisites",
    "scope.rule": "--scope",
    "upload.remove": "--upload-remove",
    "upload.url": "--upload",
    "workers": "--workers",
}
"""Settings that have their own option."""

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


class _Given(msgspec.Struct, frozen=True):
    """One value from a source. ``origin`` is stored, ``place`` is the start of an error message."""

    key: str
    value: object
    origin: str
    place: str


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
    given = [
        *_from_file(file, problems),
        *_from_environment(env),
        *_from_pairs(pairs, problems),
        *_from_flags(flags or {}),
    ]
    # In this order, so that a later source overrides an earlier one. All problems are collected, so
    # that the operator can correct them together.
    for each in given:
        field = fields().get(each.key)
        if field is None:
            problems.append(f"{each.place}: {_unknown(each.key)}")
            continue
        try:
            values[each.key] = field.read(each.value)
            origins[each.key] = each.origin
        except ValueError as error:
            problems.append(f"{each.place}: {each.key}: {error}")
    if origins.get("upload.remove") == SAVED and not values.get("upload.url"):
        del values["upload.remove"], origins["upload.remove"]  # the upload ends, and so does this
    problems += _unusable(
        {key: value for key, value in values.items() if origins[key] == SAVED}, f"{SAVED}: "
    )
    if not problems:  # values are compared with each other only when each of them is valid
        problems += _disorder(values, origins)
    if problems:
        raise SettingsError(problems)
    return Settings(build(values), origins)


def settings(values: Mapping[str, object]) -> Config:
    """Settings for a Python program, by dotted key, read as the command line reads them.

    Examples are ``{"limits.max_pages": 20}``, ``{"politeness.delay_s": "2s"}``. Raises
    ``SettingsError``.
    """
    problems: list[str] = []
    found: dict[str, Any] = {}
    for key, value in values.items():
        field = fields().get(key)
        if field is None:
            problems.append(_unknown(key))
            continue
        try:
            found[key] = field.read(value)
        except ValueError as error:
            problems.append(f"{key}: {error}")
    if not problems:
        problems += _disorder(found, {})
    if problems:
        raise SettingsError(problems)
    return build(found)


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


def _from_file(file: Path | None, problems: list[str]) -> Iterator[_Given]:
    if file is None:
        return
    import tomllib  # most crawls have no settings file

    try:
        text = file.read_bytes().decode("utf-8")
        tree = tomllib.loads(text)
    except OSError as error:
        problems.append(f"{file} cannot be read: {error.strerror}")
        return
    except UnicodeDecodeError as error:
        problems.append(
            f"{file}:{error.object.count(10, 0, error.start) + 1}: not UTF-8, which TOML requires"
        )
        return
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{file}:{_error_line(error, text)}: not TOML: {_error_text(error)}")
        return
    lines = _key_lines(text)
    for key, value in _flat(tree):
        line = lines.get(key) or lines.get(key.rpartition(".")[0]) or 1
        yield _Given(key, value, f"{file}:{line}", f"{file}:{line}")


def _from_environment(env: Mapping[str, str]) -> Iterator[_Given]:
    for name in sorted(env):
        if name.startswith(PREFIX) and not name.startswith(_IGNORED):
            key = name.removeprefix(PREFIX).lower().replace("__", ".")
            yield _Given(key, env[name], f"environment {name}", f"environment {name}")


def _from_pairs(pairs: Sequence[str], problems: list[str]) -> Iterator[_Given]:
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"--set {pair}: write KEY=VALUE, for instance politeness.delay_s=2s")
            continue
        said = key.strip() if "upload." in key else pair  # which may hold a secret
        yield _Given(key.strip(), value, "--set", f"--set {said}")


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Given]:
    for key, value in flags.items():
        if value is not None and value != ():
            option = SETTING_OPTIONS.get(key, "--" + key.rpartition(".")[2].replace("_", "-"))
            yield _Given(key, value, option, option)


def _flat(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of a TOML document by dotted key.

    A table inside a section is a leaf, which is then reported as an error, and so is an empty one.
    """
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and not prefix and (value or key in sections()):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNED = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)


def _key_lines(text: str) -> dict[str, int]:
    """The line of each key and of each section's header, from 1.

    The text is valid TOML, so this need not be strict.
    """
    found: dict[str, int] = {}
    section, quotes = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:
            quotes = "" if quotes in line else quotes
            continue
        if header := _HEADER.fullmatch(line):
            section = _dotted(header[1])
            found.setdefault(section, number)
        elif assigned := _ASSIGNED.match(line):
            found.setdefault(f"{section}.{_dotted(assigned[1])}".lstrip("."), number)
        for opening in ('"""', "'''"):
            if line.count(opening) % 2:
                quotes = opening
    return found


def _dotted(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


def _error_line(error: ValueError, text: str) -> int:
    found = re.search(r"\(at line (\d+)", str(error))
    return int(found[1]) if found else max(text.count("\n") + (not text.endswith("\n")), 1)


def _error_text(error: ValueError) -> str:
    """The parser's message without the place, which the message already begins with."""
    text = re.sub(r"\s*\(at (?:line \d+, column \d+|end of document)\)", "", str(error))
    return text[:1].lower() + text[1:]


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


def _disorder(values: Mapping[str, Any], origins: Mapping[str, str]) -> Iterator[str]:
    """The same with the source of a value, for the settings of a start."""
    if why := _aimless(values):
        yield f"{origins.get('upload.remove', DEFAULT)}: upload.remove: {why}"
    for low, high in _ORDERED:
        if why := _contradiction(values, fields()[low], fields()[high]):
            yield f"{origins.get(low) or origins.get(high, DEFAULT)}: {low}: {why}"


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
