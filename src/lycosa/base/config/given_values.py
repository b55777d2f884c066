"""Values as a source has them, such as a TOML file, and their reading by a table of fields.

All mistakes are reported together, one line each, with the place of the value. The settings of a
crawl and ``cluster.toml`` are read by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.fields import Field


class GivenValue(msgspec.Struct, frozen=True):
    """One value from a source.

    ``place`` begins an error message; ``origin`` is stored, and is the place unless it is given.
    """

    key: str
    value: object
    place: str = ""
    origin: str = ""


def read_given(
    given: Iterable[GivenValue],
    fields: Mapping[str, Field],
    unknown: Callable[[str], str],
    problems: list[str],
) -> tuple[dict[str, Any], dict[str, str]]:
    """The typed values and their origins by key; a later value wins.

    Mistakes are added to ``problems``. ``unknown`` says what is wrong with a key without a field.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for each in given:
        place = f"{each.place}: " if each.place else ""
        if (field := fields.get(each.key)) is None:
            problems.append(f"{place}{unknown(each.key)}")
            continue
        try:
            values[each.key] = field.read(each.value)
            origins[each.key] = each.origin or each.place
        except ValueError as error:
            problems.append(f"{place}{each.key}: {error}")
    return values, origins


def given_in_file(
    file: Path, may_be_empty: Container[str], problems: list[str]
) -> Iterator[GivenValue]:
    """The keys of a TOML file. ``may_be_empty`` are sections that may have no key."""
    import tomllib  # most crawls have no such file

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
    for key, value in _flat(tree, may_be_empty):
        line = lines.get(key) or lines.get(key.rpartition(".")[0]) or 1
        yield GivenValue(key, value, f"{file}:{line}")


def _flat(tree: Mapping[str, object], may_be_empty: Container[str]) -> Iterator[tuple[str, object]]:
    """The keys of a TOML document and of its sections, dotted.

    A table inside a section is the value of one key, and so is an empty section, which is then
    reported as an error.
    """
    for name, value in tree.items():
        if isinstance(value, dict) and (value or name in may_be_empty):
            yield from ((f"{name}.{inner}", each) for inner, each in value.items())
        else:
            yield name, value


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
