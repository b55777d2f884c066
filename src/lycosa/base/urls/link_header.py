"""Links in HTTP headers: ``Link`` (RFC 8288)."""

from __future__ import annotations

import re
from typing import NamedTuple

# Empty elements of a list are ignored (RFC 9110 5.6.1.2).
_SEPARATORS = re.compile(r"[\s,]*+")
_TARGET = re.compile(r"<([^>]*+)>")
_TEXT, _CLOSED = r"(?:[^\"\\]|\\.)*+", r"(?:\"|\\?\Z)"  # of a quoted string
# RFC 8288 B.3. A name and a value may be empty. A token extends to the next semicolon or comma, or,
# which is a tolerance, to a target that follows without a comma.
_PARAMETER = re.compile(
    rf"\s*+;\s*+([^\s=;,\"<]*+)\s*+(?:=\s*+(?:\"({_TEXT}){_CLOSED}"
    r"|([^;,\"\s]*(?:\s+[^;,\"\s<][^;,\"\s]*)*)))?",
    re.DOTALL,
)
# what is neither a target nor a parameter, up to the next element
_JUNK = re.compile(rf"(?:[^,\"<]++|\"{_TEXT}{_CLOSED})*+", re.DOTALL)


class HeaderLink(NamedTuple):
    """One link: raw target, relations in lower case, the parameters of a preload, and its type.

    Source of the parameters of a preload: HTML standard 4.2.4.4.
    """

    target: str
    relations: list[str]
    loaded_as: str = ""
    imagesrcset: str = ""
    type: str = ""


def parse_link_header(value: str) -> list[HeaderLink]:
    """Each link that has a relation and belongs to this document (no ``anchor``).

    Source: RFC 8288 appendix B. Unlike there, an element that is not a link does not end the list.
    """
    links: list[HeaderLink] = []
    position = _end(_SEPARATORS, value, 0)
    while position < len(value):
        found = _TARGET.match(value, position)
        if found is None:
            if value[position] == "<":
                break  # the target has no end
        else:
            position = found.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(value, position):
                position = parameter.end()
                name, quoted, token = parameter.groups()
                # The first of a repeated parameter counts (RFC 8288 section 3.3 for ``rel``).
                parameters.setdefault(name.lower(), quoted or (token or "").strip())
            relations = parameters.get("rel", "").lower().split()
            if relations and "anchor" not in parameters:
                links.append(
                    HeaderLink(
                        found.group(1).strip(),
                        relations,
                        parameters.get("as", ""),
                        parameters.get("imagesrcset", ""),
                        parameters.get("type", ""),
                    )
                )
        position = _end(_SEPARATORS, value, _end(_JUNK, value, position))
    return links


def _end(pattern: re.Pattern[str], value: str, position: int) -> int:
    """Where a pattern that always matches ends."""
    found = pattern.match(value, position)
    assert found is not None
    return found.end()
