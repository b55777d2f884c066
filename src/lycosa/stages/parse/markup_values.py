"""Values of attributes and headers that name URLs: ``srcset``, ``rel`` and ``Refresh``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lycosa.base.model.discovered import LinkKind

# The URLs of a ``srcset`` attribute, in their order.
#
# It follows "parse a srcset attribute" in the HTML standard: a comma may occur inside a URL and
# inside a descriptor's parentheses, so splitting at commas would both invent and lose images.
# Candidates with contradictory descriptors are dropped, as browsers drop them. Unknown descriptors
# are ignored.


_SKIP = re.compile(r"[ \t\n\f\r,]*")
_URL = re.compile(r"[^ \t\n\f\r]+")
# Up to the candidate's comma. A comma inside parentheses does not count, and parentheses without an
# end extend to the end of the value.
_DESCRIPTORS = re.compile(r"(?:[^,(]|\([^)]*(?:\)|\Z))*")
# One descriptor: blanks inside parentheses do not end it.
_DESCRIPTOR = re.compile(r"(?:[^ \t\n\f\r(]|\([^)]*(?:\)|\Z))+")
_WIDTH_OR_HEIGHT = re.compile(r"([0-9]+)([wh])\Z")
_DENSITY = re.compile(r"(?:(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-0)x\Z")


def srcset_urls(value: str) -> list[str]:
    """Raw URLs of the image candidates. Source: HTML standard 4.8.4.3.10."""
    urls: list[str] = []
    position = _end(_SKIP, value, 0)
    while found := _URL.match(value, position):
        url, position = found.group(), found.end()
        descriptors = ""
        if url.endswith(","):
            url = url.rstrip(",")
        else:
            end = _end(_DESCRIPTORS, value, position)
            descriptors, position = value[position:end], end
        if _are_consistent(descriptors):
            urls.append(url)
        position = _end(_SKIP, value, position)
    return urls


def _are_consistent(descriptors: str) -> bool:
    """Whether a candidate's descriptors agree.

    Each unit occurs once, no size is zero, a density is alone, and a height has a width.
    """
    seen: set[str] = set()
    for descriptor in _DESCRIPTOR.findall(descriptors):
        size = _WIDTH_OR_HEIGHT.match(descriptor)
        unit = size.group(2) if size else "x" if _DENSITY.match(descriptor) else ""
        if not unit:
            continue
        if unit in seen or (size and not size.group(1).strip("0")):
            return False
        seen.add(unit)
    return not ("x" in seen and len(seen) > 1) and not ("h" in seen and "w" not in seen)


def _end(pattern: re.Pattern[str], value: str, position: int) -> int:
    """The end of the match of a pattern that also matches the empty string."""
    found = pattern.match(value, position)
    assert found is not None
    return found.end()


# The kind of a ``<link>`` element or ``Link`` header, by its relations.
#
# Sources: HTML standard 4.6.7; IANA's registry of link relations.


_ICONS = (
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "apple-touch-startup-image",
    "mask-icon",
    "fluid-icon",
)
_STYLES = frozenset({"stylesheet", "manifest", *_ICONS})
_NOT_A_RESOURCE = frozenset({"preconnect", "dns-prefetch", "profile"})
_RELATIONS = {
    "canonical": LinkKind.CANONICAL,
    "next": LinkKind.NEXT,
    "prev": LinkKind.PREV,
    "previous": LinkKind.PREV,
    "alternate": LinkKind.ALTERNATE,
}
_SCRIPTS = (
    "script",
    "worker",
    "sharedworker",
    "serviceworker",
    "audioworklet",
    "paintworklet",
    "json",
)
# By destination (Fetch standard 2.2.5). Other destinations, and none, are needed by the page too.
_PRELOADED = {
    "image": LinkKind.IMG,
    "style": LinkKind.STYLE,
    "font": LinkKind.STYLE,
} | dict.fromkeys(_SCRIPTS, LinkKind.SCRIPT)


def link_kind(relations: Sequence[str], loaded_as: str = "") -> LinkKind | None:
    """The kind of a link with these relations (in lower case).

    ``None`` when it names no resource (preconnect). ``loaded_as`` is the ``as`` of a preload.
    Resources for a page that may follow (prefetch, prerender) are ``OTHER``, as is any other
    relation that does not affect the appearance of the page.
    """
    if not _STYLES.isdisjoint(relations):
        return LinkKind.STYLE  # "alternate stylesheet" is a style sheet
    for relation in relations:
        if relation in _RELATIONS:
            return _RELATIONS[relation]
    if "modulepreload" in relations:
        return LinkKind.SCRIPT
    if "preload" in relations:
        return _PRELOADED.get(loaded_as.strip().lower(), LinkKind.MEDIA)
    return None if _NOT_A_RESOURCE.issuperset(relations) else LinkKind.OTHER


# The target of ``<meta http-equiv=refresh>`` and of the ``Refresh`` header.
#
# It follows the "shared declarative refresh steps" of the HTML standard character by character.
# Real pages write ``0;url='x'``, ``0, x`` and ``0 URL = x``, and a looser parser finds links where
# there are none.


# HTML standard 4.2.5.3: time, optional fraction, separator, optional "url" and "=", then the URL.
_TIME = re.compile(r"[ \t\n\f\r]*(?:([0-9]+)|(?=\.))[0-9.]*")
_SEPARATOR = re.compile(r"[ \t\n\f\r]*(?:[;,][ \t\n\f\r]*)?")
_URL_IS = re.compile(r"url[ \t\n\f\r]*=[ \t\n\f\r]*", re.IGNORECASE)


def parse_refresh(content: str) -> tuple[int, str] | None:
    """The delay in seconds and the raw target, or ``None`` when it is not a refresh.

    The target is empty when the page reloads itself.
    """
    time = _TIME.match(content)
    if time is None:
        return None
    delay = int((time.group(1) or "0")[:9])
    rest = content[time.end() :]
    if not rest:
        return delay, ""
    if rest[0] not in ";, \t\n\f\r":
        return None
    rest = rest[_SEPARATOR.match(rest).end() :]  # type: ignore[union-attr]  # the pattern matches the empty string
    if prefix := _URL_IS.match(rest):
        rest = rest[prefix.end() :]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].split(rest[0], 1)[0]
    return delay, rest.strip(" \t\n\f\r")
