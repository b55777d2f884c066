"""Which pages are rendered: by mode, by the sign in the markup, and by what rendering added so far.

The sign (``Parsed.script_need``) sees one page. What it is worth at a host is learned from renders
that ended, by the *shape* of the path: pages of one template are alike. ``LIKELY`` is believed
until eight renders of a shape have shown that next to nothing comes of it, ``PERHAPS`` only after
three renders have shown that something does. Where rendering adds nothing, one page in 50 is
rendered, chosen by its URL, so that a site that is rebuilt is noticed and a repetition chooses
the same pages.

Everything here is pure. What is learned is in the record of the host (``VisitRecord.renders``), at
most 16 shapes, each with two numbers that are halved from time to time: old findings fade.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lycosa.base.config.render_policies import render_book
from lycosa.base.config.render_section import RenderMode, RenderSection
from lycosa.base.model.host_memory import RenderTally
from lycosa.base.model.parsed import Parsed, ScriptNeed
from lycosa.base.urls.path_shape import path_shape

MAX_SHAPES = 16
"""Shapes of paths of one host that are learned about; the others count as one."""

SAMPLED = 50
"""One page in this many is rendered where rendering adds nothing."""

OTHER_SHAPES = 0
_HIGHEST = 255  # of priorities
_FORGET = 64  # renders of a shape after which both numbers are halved
_BELIEVED = 8  # renders of a shape before a LIKELY that adds nothing is doubted
_TRIED = 3  # renders of a shape before a PERHAPS counts
_USEFUL_CHARACTERS, _USEFUL_LINKS = 100, 2
_HTML = frozenset({"text/html", "application/xhtml+xml"})


class RenderChoice(Enum):
    """What becomes of a page that was fetched."""

    PLAIN = "plain"  # it stays as it is
    RENDER = "render"
    CROWDED_OUT = "crowded_out"  # it stays as it is, because too many pages wait


def with_render(
    tallies: Mapping[int, RenderTally], url: str, links: int, characters: int
) -> dict[int, RenderTally]:
    """What is learned about a host after a render ended with a document.

    ``links`` and ``characters`` are how many more the document has than the page.
    """
    shape = path_shape(url)
    if shape not in tallies and len(tallies) >= MAX_SHAPES:
        shape = OTHER_SHAPES
    old = tallies.get(shape, RenderTally())
    useful = links >= _USEFUL_LINKS or characters >= _USEFUL_CHARACTERS
    tried, found = old.tried + 1, old.useful + useful
    if tried >= _FORGET:
        tried, found = tried // 2, found // 2
    return {**tallies, shape: RenderTally(tried, found)}


_NOTHING = RenderTally()


def tally_of(tallies: Mapping[int, RenderTally], url: str) -> RenderTally:
    """What was learned about pages like this one."""
    found = tallies.get(path_shape(url))
    return found or (tallies.get(OTHER_SHAPES) if len(tallies) >= MAX_SHAPES else None) or _NOTHING


def adds_something(need: ScriptNeed, tally: RenderTally) -> bool:
    """Whether rendering is worth it for a page with this sign, by what was learned."""
    if need is ScriptNeed.LIKELY:
        return tally.tried < _BELIEVED or tally.useful * 20 >= tally.tried
    return need is ScriptNeed.PERHAPS and (tally.tried < _TRIED or tally.useful * 4 >= tally.tried)


def is_html(parsed: Parsed) -> bool:
    """Whether it is a page that a browser can render: HTML, and complete."""
    return parsed.media_type in _HTML and not parsed.is_cut


def choose_render(
    section: RenderSection,
    url: str,
    url8: bytes,
    parsed: Parsed,
    tallies: Mapping[int, RenderTally],
    waiting: int,
    priority: int,
) -> RenderChoice:
    """What becomes of a page with status 200 whose body is new.

    ``url`` is canonical, ``url8`` its hash. ``waiting`` is the number of pages of the worker that
    wait to be rendered, ``priority`` that of the page in 255ths. Below ``render.queue`` every page
    is taken, at twice as many none; between the two the priority that is needed grows.
    """
    if not is_html(parsed):
        return RenderChoice.PLAIN
    mode = render_book(section).mode_of(url)
    if mode is RenderMode.NEVER or (
        mode is RenderMode.AUTO and not _is_chosen(parsed.script_need, url, url8, tallies)
    ):
        return RenderChoice.PLAIN
    if waiting >= section.queue and priority * section.queue <= _HIGHEST * (
        waiting - section.queue
    ):
        return RenderChoice.CROWDED_OUT
    return RenderChoice.RENDER


def _is_chosen(need: ScriptNeed, url: str, url8: bytes, tallies: Mapping[int, RenderTally]) -> bool:
    if need is ScriptNeed.NONE:
        return False
    if adds_something(need, tally_of(tallies, url)):
        return True
    return int.from_bytes(url8[:4], "big") % SAMPLED == 0
