"""The settings tree as a list: one ``Field`` per setting, with type, bound and meaning.

They are read from the structs themselves. All users of settings (sources, the table of ``lycosa
config``, the documentation) use this list, so a setting is declared in ``sections`` and nowhere
else. A field converts a value from any source to the typed one, or says in one line what is wrong
with it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from lycosa.base.config.checks import CHECKS
from lycosa.base.config.near_names import near_name
from lycosa.base.config.sections import Config
from lycosa.base.config.units import read_bytes, read_seconds, show_bytes, show_seconds


class Kind(Enum):
    """How a setting is written. The value is its name in messages and documentation."""

    DURATION = "duration"
    SIZE = "size"
    WHOLE = "whole number"
    NUMBER = "number"
    FLAG = "true or false"
    TEXT = "text"
    LIST = "list of texts"
    CHOICE = "choice"
    FILE = "path of a file"
    TABLE = "table"


_Tree = TypeVar("_Tree", bound=msgspec.Struct)
_MAX = 2**63 - 1  # what the files of a crawl can hold


class Field(msgspec.Struct, frozen=True):
    """One setting. ``default`` is ``msgspec.NODEFAULT`` if it must be given.

    ``low`` and ``high`` are its bounds with their signs (``>=``, ``>``, ``<=``, ``<``), ``choices``
    its enum, if any; ``words`` are numbers that have a name.
    """

    key: str
    kind: Kind
    default: Any
    meaning: str
    low: tuple[str, float] | None = None
    high: tuple[str, float] | None = None
    pattern: str = ""
    choices: type[Enum] | None = None
    words: Mapping[str, int] = {}

    @property
    def type_text(self) -> str:
        return (
            " | ".join(str(each.value) for each in self.choices)
            if self.choices
            else " | ".join((self.kind.value, *self.words))
        )

    @property
    def bound_text(self) -> str:
        """The bound as text: ``1s to 1d``, ``at least 1``, or empty."""
        words = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
        if self.low and self.high and (self.low[0], self.high[0]) == (">=", "<="):
            return f"{self._number(self.low[1])} to {self._number(self.high[1])}"
        return ", ".join(
            f"{words[sign]} {self._number(limit)}"
            for sign, limit in (b for b in (self.low, self.high) if b)
        )

    def show(self, value: Any) -> str:
        """A value in the form that a source may have."""
        if isinstance(value, Enum):
            return str(value.value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            is_plain = not any("," in each or each.startswith("[") for each in value)
            return ", ".join(value) if is_plain else json.dumps(list(value))
        return next(
            (word for word, number in self.words.items() if number == value), self._number(value)
        )

    def _number(self, value: Any) -> str:
        if self.kind is Kind.DURATION:
            return show_seconds(value)
        if self.kind is Kind.SIZE:
            return show_bytes(int(value))
        return f"{value:.15g}" if isinstance(value, float) else str(value)

    def read(self, value: object) -> Any:
        """The typed value of text from the environment or an option, or of a TOML value.

        Raises ``ValueError``.
        """
        word = value.strip().lower() if isinstance(value, str) and self.words else ""
        found: Any = self.words[word] if word in self.words else _READERS[self.kind](self, value)
        if self.kind in _NUMERIC:
            self._check_bounds(found)
        if self.pattern and not re.search(self.pattern, found):
            raise ValueError(f"{found!r} does not match {self.pattern}")
        if (check := CHECKS.get(self.key)) is not None:
            check(found)
        return found

    def has_type(self, value: object) -> bool:
        """Whether a value already has the type that ``read`` returns."""
        if self.kind is Kind.CHOICE:
            return self.choices is not None and isinstance(value, self.choices)
        if self.kind is Kind.FLAG or isinstance(value, bool):
            return self.kind is Kind.FLAG and isinstance(value, bool)
        if self.kind is Kind.LIST:
            return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
        if self.kind is Kind.TEXT:
            return isinstance(value, str)
        return isinstance(value, int) or (
            isinstance(value, float) and self.kind in (Kind.DURATION, Kind.NUMBER)
        )

    def _check_bounds(self, value: float) -> None:
        if isinstance(value, int) and abs(value) > _MAX:
            raise ValueError(f"{value} is too large, write at most {_MAX}: {self.meaning}")
        for bound in (self.low, self.high):
            if bound is not None and not _SIGNS[bound[0]](value, bound[1]):
                raise ValueError(
                    f"{self.show(value)} is out of bounds, write {self.bound_text}: {self.meaning}"
                )


@cache
def fields() -> dict[str, Field]:
    """Every setting by its dotted key, in the order of the tree."""
    return fields_of(Config)


@cache
def sections() -> dict[str, str]:
    """The name of every section with its sentence."""
    found = {}
    for top in _struct(Config).fields:
        section = _bare(top.type)[0]
        if isinstance(section, inspect.StructType):
            found[top.name] = " ".join((section.cls.__doc__ or "").split("\n\n")[0].split())
    return found


def fields_of(cls: type, section: str = "") -> dict[str, Field]:
    """The fields of a struct and of the structs in it, by the dotted keys in a file."""
    found: dict[str, Field] = {}
    for each in _struct(cls).fields:
        key, inner = _key(section, each), _bare(each.type)[0]
        if isinstance(inner, inspect.StructType):
            found |= fields_of(inner.cls, key)
        else:
            found[key] = _field(key, each)
    return found


def value_of(config: Config, key: str) -> Any:
    """The value of a dotted key."""
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def build(values: Mapping[str, Any], cls: type[_Tree], section: str = "") -> _Tree:
    """The tree with these values by dotted key, and defaults for the others."""
    made: dict[str, Any] = {}
    for each in _struct(cls).fields:
        key, inner = _key(section, each), _bare(each.type)[0]
        if not isinstance(inner, inspect.StructType):
            made |= {each.name: values[key]} if key in values else {}
        elif any(name.startswith(f"{key}.") for name in values):
            made[each.name] = build(values, inner.cls, key)
    return cls(**made)


def _key(section: str, field: inspect.Field) -> str:
    return f"{section}.{field.encode_name}" if section else field.encode_name


@cache  # reading all annotations of the tree takes milliseconds
def _struct(cls: type) -> inspect.StructType:
    found = inspect.type_info(cls)
    assert isinstance(found, inspect.StructType)
    return found


def _bare(kind: inspect.Type) -> tuple[inspect.Type, str]:
    """A type without its annotations and without None, and its description."""
    meaning = ""
    if isinstance(kind, inspect.Metadata):
        meaning = (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        [kind] = (each for each in kind.types if not isinstance(each, inspect.NoneType))
    return kind, meaning


def _field(key: str, raw: inspect.Field) -> Field:
    kind, meaning = _bare(raw.type)
    assert meaning, f"{key} has no meaning"
    low = high = None
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        low = (
            (">=", kind.ge)
            if kind.ge is not None
            else (">", kind.gt)
            if kind.gt is not None
            else None
        )
        high = (
            ("<=", kind.le)
            if kind.le is not None
            else ("<", kind.lt)
            if kind.lt is not None
            else None
        )
    choices = kind.cls if isinstance(kind, inspect.EnumType) else None
    pattern = kind.pattern or "" if isinstance(kind, inspect.StrType) else ""
    words = (
        (raw.type.extra or {}).get("words", {}) if isinstance(raw.type, inspect.Metadata) else {}
    )
    default = {} if isinstance(kind, inspect.DictType) else raw.default
    return Field(key, _kind_of(key, kind), default, meaning, low, high, pattern, choices, words)


def _kind_of(key: str, kind: inspect.Type) -> Kind:
    if isinstance(kind, inspect.FloatType):
        return Kind.DURATION if key.endswith("_s") else Kind.NUMBER
    if isinstance(kind, inspect.IntType):
        return Kind.SIZE if key.endswith(("_bytes", "_bytes_per_s")) else Kind.WHOLE
    table = {
        inspect.BoolType: Kind.FLAG,
        inspect.StrType: Kind.TEXT,
        inspect.EnumType: Kind.CHOICE,
        inspect.VarTupleType: Kind.LIST,
        inspect.DictType: Kind.TABLE,
        inspect.CustomType: Kind.FILE,
    }
    return table[type(kind)]


def _duration(field: Field, value: object) -> float:
    return read_seconds(value) if isinstance(value, str) else float(_plain(field, value))


def _size(field: Field, value: object) -> int:
    return read_bytes(value) if isinstance(value, str) else _whole(field, value)


def _whole(field: Field, value: object) -> int:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?\d+(_\d+)*", value.strip()):
            raise ValueError(f"{value!r} is not a whole number")
        return int(value)
    number = _plain(field, value)
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(f"{number!r} is not a whole number")
    return int(number)


def _number(field: Field, value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a number") from None
    return float(_plain(field, value))


def _plain(field: Field, value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{_said(value)} is not a {field.kind.value}")
    return value


def _flag(_: Field, value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise ValueError(f"{_said(value)} is neither true nor false; write true or false")


def _text(_: Field, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_said(value)} is not a text; put it in quotes")
    return value


def _list(field: Field, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return _split(value)
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{_said(value)} is not a {field.kind.value}")
    return tuple(value)


def _file(field: Field, value: object) -> Path | None:
    return Path(text) if (text := _text(field, value)) else None


def _table(field: Field, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a section is needed, [{field.key}]")
    return value


def _split(text: str) -> tuple[str, ...]:
    """Split a comma list.

    A list in the form of a TOML array is read as one, for entries that contain commas.
    """
    if text.lstrip().startswith("["):
        import tomllib  # only few settings have that form

        try:
            found = tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            found = None  # a regular expression may begin with a bracket
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return tuple(found)
    parts, start, depth = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0:  # a comma inside a{1,3} belongs to the expression
            parts.append(text[start:at])
            start = at + 1
    return tuple(part.strip() for part in (*parts, text[start:]) if part.strip())


def _choice(field: Field, value: object) -> Enum:
    assert field.choices is not None
    if isinstance(value, field.choices):
        return value
    names = {str(each.value): each for each in field.choices}
    if isinstance(value, str) and value.strip().lower() in names:
        return names[value.strip().lower()]
    near = near_name(str(value), names)
    raise ValueError(
        f"{_said(value)} is none of {', '.join(names)}"
        + (f"; did you mean {near}?" if near else "")
    )


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    said = repr(value)
    return "a value" if "@" in said else said  # it may be a URL with a password


_NUMERIC = frozenset({Kind.DURATION, Kind.SIZE, Kind.WHOLE, Kind.NUMBER})
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda value, limit: value >= limit,
    ">": lambda value, limit: value > limit,
    "<=": lambda value, limit: value <= limit,
    "<": lambda value, limit: value < limit,
}
_READERS: dict[Kind, Callable[[Field, object], Any]] = {
    Kind.DURATION: _duration,
    Kind.SIZE: _size,
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.FLAG: _flag,
    Kind.TEXT: _text,
    Kind.LIST: _list,
    Kind.CHOICE: _choice,
    Kind.FILE: _file,
    Kind.TABLE: _table,
}
