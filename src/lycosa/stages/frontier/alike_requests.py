"""What pages of one template request: the data of ``/item/7`` is ``/api/item-7.json``, its picture
``/img/7.png``.

A page's own data is what its first round misses, and each step of it costs another round. Pages
that were rendered show where parts of a page's URL return in the URLs of its requests. When three
pages of a shape have shown the same, and at most one in ten something else, the next page wants
these URLs together with its scripts, before its first round.

Nothing of this is stored: after a restart three pages of a shape are rendered with more rounds. A
wrong guess costs one request, of a URL of the page's own host, within all rules for wants.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from lycosa.base.model.capture import Want
from lycosa.base.urls.cache_busters import without_busters
from lycosa.base.urls.path_shape import path_shape
from lycosa.base.urls.url_parts import host_of

MAX_SHAPES_KNOWN = 500
"""Shapes of pages, of all hosts of a partition, that are remembered; each takes 2 kB or so."""

_MAX_TEMPLATES = 20  # of one shape
_SHOWN, _MISSED_SHARE = 3, 10
_FORGET = 64  # pages of a shape after which the numbers of each template are halved
_LONGEST = 1024  # characters of a URL that is looked at
_MAX_PARTS = 16  # of a page's URL
_WORD = re.compile(r"[^\W_]+")
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}\Z")
_DESTINATIONS = dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp", "avif", "svg"), "image") | {
    "js": "script",
    "mjs": "script",
    "css": "style",
}


class AlikeRequests:
    """What was learned about the pages of one partition."""

    def __init__(self) -> None:
        # By host and shape: how many pages requested a template, and how many did not.
        self._shapes: OrderedDict[tuple[str, int], dict[str, list[int]]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<AlikeRequests shapes={len(self._shapes)}>"

    def learn(self, page: str, requested: Iterable[str]) -> None:
        """Note what a page requested; all URLs are canonical."""
        parts = _parts(page)
        if not parts:
            return
        key = (host_of(page), path_shape(page))
        templates = self._shapes.setdefault(key, {})
        self._shapes.move_to_end(key)
        if len(self._shapes) > MAX_SHAPES_KNOWN:
            self._shapes.popitem(last=False)
        origin = _origin(page)
        found = {
            template
            for url in requested
            if url != page and url.startswith(origin) and len(url) <= _LONGEST
            if (template := _template(without_busters(url) or url, origin, parts))
        }
        for template, numbers in list(templates.items()):
            numbers[template not in found] += 1
            if sum(numbers) > _FORGET:
                numbers[:] = (number // 2 for number in numbers)
            if not _may_count(numbers):
                del templates[template]
        for template in sorted(found - templates.keys())[: _MAX_TEMPLATES - len(templates)]:
            templates[template] = [1, 0]

    def guess(self, page: str) -> list[Want]:
        """What a page will request, by what pages of its shape did."""
        templates = self._shapes.get((host_of(page), path_shape(page)))
        if not templates:
            return []
        parts, origin = _parts(page), _origin(page)
        by_place = {place: text for text, place in parts.items()}
        wants = []
        for template, numbers in templates.items():
            if numbers[0] >= _SHOWN and _may_count(numbers):
                path = _filled(template, by_place)
                if path:
                    wants.append(Want(origin + path, _destination(path)))
        return wants


def _may_count(numbers: list[int]) -> bool:
    shown, missed = numbers
    return missed * _MISSED_SHARE <= shown or missed <= 1


def _origin(url: str) -> str:
    return url[: url.index("/", url.index("//") + 2) + 1]


def _parts(page: str) -> dict[str, str]:
    """The parts of a page's URL by which pages of a shape differ, each with its place there.

    A part is a segment of the path without its suffix, a value of the query, or a word of these.
    """
    path, _, query = page[len(_origin(page)) :].partition("?")
    values = [_SUFFIX.sub("", each) for each in path.split("/")]
    values += [each.partition("=")[2] for each in query.split("&") if query]
    parts: dict[str, str] = {}
    for at, value in enumerate(values[:_MAX_PARTS]):
        if value:
            parts.setdefault(value, f"\0{at}\0")
    for at, value in enumerate(values[:_MAX_PARTS]):
        for number, word in enumerate(_WORD.findall(value)[:_MAX_PARTS]):
            parts.setdefault(word, f"\0{at}.{number}\0")
    return parts


def _template(url: str, origin: str, parts: Mapping[str, str]) -> str:
    """The URL with places instead of a page's parts; empty if it has none."""
    if "\0" in url:
        return ""
    longest_first = sorted(parts, key=len, reverse=True)
    template = re.sub(
        "|".join(map(_whole, longest_first)), lambda found: parts[found[0]], url[len(origin) :]
    )
    return template if "\0" in template else ""


def _whole(part: str) -> str:
    """A pattern for a part that is not in the middle of a word, or a number of a number."""
    before, after = (r"\d" if each.isdigit() else r"[^\W_]" for each in (part[0], part[-1]))
    return f"(?<!{before}){re.escape(part)}(?!{after})"


def _filled(template: str, by_place: Mapping[str, str]) -> str:
    """The template with another page's parts; empty if that has no such part."""
    pieces = template.split("\0")
    for at in range(1, len(pieces), 2):
        value = by_place.get(f"\0{pieces[at]}\0", "")
        if not value:
            return ""
        pieces[at] = value
    return "".join(pieces)


def _destination(path: str) -> str:
    return _DESTINATIONS.get(path.partition("?")[0].rpartition(".")[2].lower(), "")
