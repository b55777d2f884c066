"""Whether a page seems to be empty until its scripts run.

Parsing runs no scripts, so such a page is stored as it is, with the remark ``looks_scripted``.
That rule is pure and only sees pages with little text, which are few. It prefers to miss a page: a
short page with a script is common (a form, a map, a redirect), so one sign more is needed.

A crawl that renders pages judges longer pages as well (``script_need``): a header, a footer and a
notice about cookies have a thousand characters around a main part that scripts fill. A sign that
pages without need have too is ``PERHAPS``; whether it means something at a host is learned
(``schedule.render_choice``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import turbohtml

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import ScriptNeed
from lycosa.stages.parse.element_readers import RawPage

SHORT_TEXT = 400
"""Characters of visible text. A page with as many shows something without scripts."""

LONG_TEXT = 4000
"""Characters beyond which only templates in the text are a sign that something is missing."""

_NEARLY_NONE = 60  # characters: a title, "Loading…"
_FEW_LINKS = 3
_SHOWN = frozenset({LinkKind.FORM, LinkKind.MEDIA})
# What a type says of a script that runs (HTML standard, "prepare the script element").
_RUNS = re.compile(r"(?:module|(?:text|application)/(?:x-)?(?:java|ecma)script.*)?\Z", re.I)
# An element that a framework fills, and nothing in it but blanks, comments and a spinner's tags.
_EMPTY_ROOT = re.compile(
    rb"<(?:div|main|section)\b[^>]{0,300}?\bid\s*=\s*[\"']?"
    rb"(?:root|app|__next|__nuxt|___gatsby|svelte|main-app|react-root|app-root|ember-app)[\"'\s>]"
    rb"[^<]{0,200}</|<(?:app-root|my-app|ng-app|polymer-app)\b[^>]{0,300}>[^<]{0,200}</",
    re.IGNORECASE,
)
_ASKS = re.compile(
    rb"(?i)<noscript\b[^>]{0,200}>(?:(?!</noscript).){0,1000}?java\s?script(?:(?!</noscript).){0,100}",
    re.S,
)
_EXTRAS = (b"comment", b"search")
# Attributes of templates that the page itself contains, in a tag; and of what is loaded at once.
_DIRECTIVE = re.compile(
    rb"<[a-z][^<>]{0,400}?\s(?:ng-(?:app|repeat|controller)|data-ng-(?:app|repeat)"
    rb"|v-(?:for|cloak|if)|x-(?:for|text|html)|data-bind|:key)\s*(?:=|(?<=v-cloak)[\s>])",
    re.IGNORECASE,
)
_LOADED_LATER = re.compile(
    rb"<[a-z][^<>]{0,400}?\shx-trigger\s*=\s*[\"'](?:load|revealed)|<turbo-frame\b[^<>]{0,300}\ssrc\s*="
    rb"|<astro-island\b[^<>]{0,4000}>(?:\s*<[^<>]{0,300}>){0,8}\s*</astro-island>|<include-fragment\b[^<>]{0,300}\ssrc",
    re.IGNORECASE,
)
_VALUE = re.compile(r"\{\{[^{}\n]{1,200}\}\}")
_MOVES_ON = re.compile(r"\blocation\s*(?:\.href\s*)?=[^=]|\blocation\.(?:replace|assign)\s*\(")
_WAITS = re.compile(r"(?i)\b(?:loading|please wait|one moment)\b|\bloading\s*(?:…|\.\.\.)")
# Where the content of a page belongs, by its markup or by the usual names of roots.
_MAIN = "main,[role=main]"
_ROOTS = (
    "#root,#app,#__next,#__nuxt,#___gatsby,#svelte,#react-root,#app-root,#content,#main-content,"
    "#results,#search-results,app-root,my-app"
)
_CONTENT = "a[href],img,video,audio,iframe,object,embed,form,input,table,canvas"
_PLACES = 8  # of one kind that are looked at; elements that are nested would cost their square
_SPACERS = 20  # characters in a place that counts as empty
_WINDOW = 65_536  # bytes of the markup in which these signs are looked for


def looks_scripted(page: RawPage, scripts: Sequence[turbohtml.Element], body: bytes | str) -> bool:
    """Whether a page with little text needs its scripts to show anything.

    It has scripts that run, and an empty root element of a framework, a ``noscript`` that asks for
    JavaScript, or next to no text and links.
    """
    if not any(_RUNS.match((each.attr("type") or "").strip()) for each in scripts):
        return False
    links = sum(each.kind in (LinkKind.A, LinkKind.AREA) for each in page.links.values())
    frames = any(each.kind in (LinkKind.FRAME, LinkKind.IFRAME) for each in page.links.values())
    is_redirect = any(each.kind is LinkKind.REFRESH for each in page.links.values())
    if frames or is_redirect or links > SHORT_TEXT // 10:
        return False  # it shows other documents, or a list of links
    head = _head(body)
    if _EMPTY_ROOT.search(head) or _asks_for_scripts(head):
        return True
    if any(each.kind in _SHOWN for each in page.links.values()):
        return False  # it has a form or a recording
    loads = any(each.attr("src") for each in scripts)
    return loads and len(page.text) <= _NEARLY_NONE and links < _FEW_LINKS


class EmptyPlaces(NamedTuple):
    """Whether the main part of a page is empty, and whether another root of its content is."""

    main: bool
    root: bool


def empty_places(tree: turbohtml.Document) -> EmptyPlaces:
    """What is empty; it must be read before the text, whose reader changes the tree."""
    mains = tree.select(_MAIN)[:_PLACES]
    # An empty root besides content is the place of dialogs.
    has_content = any(not _is_empty(each) for each in (*mains, *tree.select("article")[:_PLACES]))
    roots = [] if has_content else tree.select(_ROOTS)
    return EmptyPlaces(bool(mains) and not has_content, any(map(_is_empty, roots[:_PLACES])))


def _is_empty(element: turbohtml.Element) -> bool:
    if element.select_one(_CONTENT) is not None:
        return False
    return len(element.to_text().strip()) <= _SPACERS


def script_need(
    page: RawPage,
    scripts: Sequence[turbohtml.Element],
    body: bytes | str,
    empty: EmptyPlaces,
) -> ScriptNeed:
    """Whether a page needs its scripts to show what it is for; ``page`` has its text."""
    if page.looks_scripted:
        return ScriptNeed.LIKELY
    runs = [each for each in scripts if _RUNS.match((each.attr("type") or "").strip())]
    shows = {LinkKind.FRAME, LinkKind.IFRAME, LinkKind.REFRESH}
    if not runs or any(each.kind in shows for each in page.links.values()):
        return ScriptNeed.NONE
    characters, head = len(page.text), _head(body)
    has_template = _DIRECTIVE.search(head) is not None
    if has_template and _VALUE.search(page.text):
        return ScriptNeed.LIKELY if characters <= LONG_TEXT else ScriptNeed.PERHAPS
    if characters > LONG_TEXT:
        return ScriptNeed.NONE
    if characters <= _NEARLY_NONE and _runs_alone(page, runs):
        return ScriptNeed.LIKELY
    if empty.main or (empty.root and _EMPTY_ROOT.search(head)):
        return ScriptNeed.LIKELY
    signs = (empty.root, has_template, _LOADED_LATER.search(head), _WAITS.search(page.text))
    return ScriptNeed.PERHAPS if any(signs) or _asks_for_scripts(head) else ScriptNeed.NONE


def _asks_for_scripts(head: bytes) -> bool:
    """Whether ``noscript`` asks for scripts, and not only for comments or a search."""
    asks = _ASKS.search(head)
    return asks is not None and not any(each in asks[0].lower() for each in _EXTRAS)


def _runs_alone(page: RawPage, runs: Sequence[turbohtml.Element]) -> bool:
    """Whether a page without text has nothing but what its scripts do."""
    links = sum(each.kind in (LinkKind.A, LinkKind.AREA) for each in page.links.values())
    if links < _FEW_LINKS and (not page.text or _WAITS.search(page.text)):
        return True
    # A stub that redirects mostly has a link to its target as well.
    return not links and any(_MOVES_ON.search(each.text) for each in runs)


def _head(body: bytes | str) -> bytes:
    """The beginning of the markup; of a text no more than that is encoded."""
    return body[:_WINDOW] if isinstance(body, bytes) else body[:_WINDOW].encode("utf-8", "replace")
