"""The pattern of a URL: what the pages of one template or script have in common.

Of the path the pattern has the directories, in which numbers, dates and ids are generalised, and of
the last segment only its kind and its extension; of the query the names of its parameters, in
order:

    /calendar/2026/11?view=day      /calendar/0/0?view
    /articles/how-to-bake.html      /articles/*.html
    /x/9f86d081884c7d65/?a=1&b=2    /x/#/?a&b

Functions of this module take targets (path and query).
"""

from __future__ import annotations

import re

_MAX_DIRECTORIES = 4  # further ones are all alike: a path that grows would make ever new patterns
_MAX_NAMES = 12  # parameters in a pattern
_MAX_PATTERN = 120  # characters, so that a host's record stays small
_NUMBERS = re.compile(r"[0-9]+").sub
# a hexadecimal number or a word of letters and digits in turns, as ids are
_ID = re.compile(
    r"(?=[^/]*[0-9])(?:[0-9a-f]{8,}|[0-9a-f-]{32,}|[A-Za-z0-9_-]{20,})", re.IGNORECASE
).fullmatch
_EXTENSION = re.compile(r"\.[a-z][a-z0-9]{0,5}$", re.IGNORECASE).search


def pattern_of(target: str) -> str:
    """The pattern of a target."""
    path, _, query = target.partition("?")
    *directories, last = path.split("/")
    general = [_general(each) for each in directories[1 : _MAX_DIRECTORIES + 1]]
    if len(directories) > _MAX_DIRECTORIES + 1:
        general.append("**")
    pattern = "/".join(["", *general, _general_last(last)])
    if query:
        names = sorted({each.partition("=")[0] for each in query.split("&")})
        pattern += "?" + "&".join(names[:_MAX_NAMES])
    return pattern[:_MAX_PATTERN]


def _general(segment: str) -> str:
    return "#" if _ID(segment) else _NUMBERS("0", segment)


def _general_last(segment: str) -> str:
    if not segment:
        return ""
    found = _EXTENSION(segment)
    extension = found[0] if found else ""
    stem = segment[: len(segment) - len(extension)]
    # Words differ from page to page in a folder of articles. A number says that pages are counted.
    kind = "0" if stem.replace("-", "").replace("_", "").replace(".", "").isdigit() else "*"
    return kind + extension


def parameters_of(target: str) -> list[tuple[str, str]]:
    """The parameters of a target: names and values as they are written, in order."""
    query = target.partition("?")[2]
    return [each.partition("=")[::2] for each in query.split("&")] if query else []


def without_parameters(target: str, names: frozenset[str]) -> str:
    """The target without the parameters of these names."""
    path, _, query = target.partition("?")
    kept = [each for each in query.split("&") if each.partition("=")[0] not in names]
    return f"{path}?{'&'.join(kept)}" if kept and query else path


def with_value(target: str, name: str, value: str) -> str:
    """The target with another value of a parameter that it has once."""
    path, _, query = target.partition("?")
    changed = [
        f"{name}={value}" if each.partition("=")[0] == name else each for each in query.split("&")
    ]
    return f"{path}?{'&'.join(changed)}"


def only_difference(one: str, other: str, ignored: frozenset[str]) -> tuple[str, str, str] | None:
    """The only parameter in which two targets differ, with both values; ``None`` otherwise.

    Parameters that are ``ignored`` do not count, and neither does the order of the others. A
    parameter that one of the targets lacks has the empty value there.
    """
    if one.partition("?")[0] != other.partition("?")[0]:
        return None
    these, those = (
        {name: value for name, value in parameters_of(each) if name not in ignored}
        for each in (one, other)
    )
    names = [name for name in {**these, **those} if these.get(name) != those.get(name)]
    if len(names) != 1:
        return None
    return names[0], these.get(names[0], ""), those.get(names[0], "")
