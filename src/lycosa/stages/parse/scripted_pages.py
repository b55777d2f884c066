"""Whether a page seems to be empty until its scripts run.

The crawler runs no scripts, so such a page is stored as it is, with the remark ``looks_scripted``.
The rule is pure and only sees pages with little text, which are few. It prefers to miss a page: a
short page with a script is common (a form, a map, a redirect), so one sign more is needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import turbohtml

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.element_readers import RawPage

SHORT_TEXT = 400
"""Characters of visible text. A page with as many shows something without scripts."""

_NEARLY_NONE = 60  # characters: a title, "Loading…"
_FEW_LINKS = 3
# What a type says of a script that runs (HTML standard, "prepare the script element").
_RUNS = re.compile(r"(?:module|(?:text|application)/(?:x-)?(?:java|ecma)script.*)?\Z", re.I)
# An element that a framework fills, and nothing in it but blanks, comments and a spinner's tags.
_EMPTY_ROOT = re.compile(
    rb"<(?:div|main|section)\b[^>]{0,300}?\bid\s*=\s*[\"']?"
    rb"(?:root|app|__next|__nuxt|___gatsby|svelte|main-app|react-root|app-root|ember-app)[\"'\s>]"
    rb"[^<]{0,200}</|<(?:app-root|my-app|ng-app|polymer-app)\b[^>]{0,300}>[^<]{0,200}</",
    re.IGNORECASE,
)
_ASKS = re.compile(rb"(?i)<noscript\b[^>]{0,200}>(?:(?!</noscript).){0,1000}?java\s?script", re.S)
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
    head = (body if isinstance(body, bytes) else body.encode("utf-8", "replace"))[:_WINDOW]
    if _EMPTY_ROOT.search(head) or _ASKS.search(head):
        return True
    loads = any(each.attr("src") for each in scripts)
    return loads and len(page.text) <= _NEARLY_NONE and links < _FEW_LINKS
