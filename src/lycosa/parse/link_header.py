"""Links in HTTP headers: ``Link`` (RFC 8288)."""

from __future__ import annotations

import re
from typing import NamedTuple

# RFC 8288 section 3: <target>, then parameters. Commas separate links but may occur inside a target
# or a quoted string.
_LINK = re.compile(
    r"\s*<([^>]*)>((?:\s*;\s*[^;,=\s\"]+(?:\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;,\"]*))?)*)\s*(?:,|$|(?=<))"
)
_PARAMETER = re.compile(r";\s*([^;,=\s\"]+)(?:\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;,\"]*)))?")


class HeaderLink(NamedTuple):
    """One link: raw target, relations in lower case, and the parameters of a preload.

    Source of the latter: HTML standard 4.2.4.4.
    """

    target: str
    relations: list[str]
    loaded_as: str = ""
    imagesrcset: str = ""


def parse_link_header(value: str) -> list[HeaderLink]:
    """Each link that has a relation and belongs to this document (no ``anchor``)."""
    links: list[HeaderLink] = []
    position = 0
    while found := _LINK.match(value, position):
        position = found.end()
        parameters: dict[str, str] = {}
        for name, quoted, token in _PARAMETER.findall(found.group(2)):
            parameters.setdefault(name.lower(), quoted or token)
        relations = parameters.get("rel", "").lower().split()
        if relations and "anchor" not in parameters:
            links.append(
                HeaderLink(
                    found.group(1).strip(),
                    relations,
                    parameters.get("as", ""),
                    parameters.get("imagesrcset", ""),
                )
            )
    return links
