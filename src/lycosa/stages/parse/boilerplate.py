"""Which elements probably have no content of their page: navigation, forms, comments, advertising.

By the element's name, its role (WAI-ARIA), whether it is shown, and the words in its ``class`` and
``id``. These words are conventions and not rules, so the verdict is only a sign: ``main_content``
ignores it for elements that have most of the text.
"""

from __future__ import annotations

import re
from functools import lru_cache

import turbohtml

_ELEMENTS = frozenset(("aside", "footer", "form", "figcaption"))
_CONTENT = frozenset(["body", "html", "article", "main"])
_ROLES = frozenset((
    "navigation", "complementary", "banner", "contentinfo", "dialog", "alert", "menu", "search",
))  # fmt: skip
_WORDS = re.compile(
    r"""
    \bcomments?\b | comment(?:s|-?(?:list|area|form|section|body|wrap|respond|box))\b | disqus
    | side-?bar | \brelated | recommend | \bshare | \bsharing | social | newsletter | subscri
    | sign-?up | promo\b | promot | advert | \bads?\b | \bad- | banner | cookie | consent | gdpr
    | gprd | dsgvo | privacy | pop-?up | modal | overlay | breadcrumb | pagination | \bpager
    | footer | masthead | \bnav | navi(?:gation)?\b | \bmenu | widget | toolbar | outbrain | taboola
    | sponsor | byline | author- | \bmeta\b | \btags?\b | print_?message | messenger | login
    | register | \bskip | no-?print | read-?more | more-?(?:stories|from) | testimonial | trending
    | popular | most-read | \bpoll\b | caption | credit | copyright | disclaimer | \brating
    | \breplies | \breply | reaction | paywall- | subhead-nav | legend\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Words of content systems about the whole post or the layout: "tag-sport" labels a post that is
# itself content, "with-sidebar" a layout.
_LABELS = re.compile(
    r"(?:^|\s)(?:tag|category|post|type|status|format|has|with|no|js|is|wp-block|layout|section"
    r"|page|single|theme)-\S+|\S*with-?\S+|\S*elementor\S*"
)
_CONTENT_WORDS = re.compile(
    r"(?:article|post|story)-?_?(?:body|content|text)|entry-?_?content|main-?content|articlebody"
    r"|body-?(?:copy|text)",
    re.IGNORECASE,
)
_MAX_NAMES = 500  # characters of a class or an id that are read
_HIDERS = frozenset(("hidden", "aria-hidden", "style"))
_HIDING = ("display:none", "visibility:hidden")


def is_boilerplate(element: turbohtml.Element, tag: str) -> bool:
    """Whether an element looks as if it had no content of its page."""
    if tag in _ELEMENTS:
        return True
    if tag in _CONTENT:
        return False
    for name, value in element.attrs.items():
        if name == "class":
            text = value if isinstance(value, str) else " ".join(value or ())
            if _names_boilerplate(text[:_MAX_NAMES]):
                return True
        elif name == "id":
            if value and _names_boilerplate(str(value)[:_MAX_NAMES]):
                return True
        elif name == "role":
            if value in _ROLES:
                return True
        elif name in _HIDERS and _hides(name, value):
            return True
    return False


def is_hidden(element: turbohtml.Element) -> bool:
    """Whether an element says in itself that it is not shown."""
    return any(_hides(name, value) for name, value in element.attrs.items())


def _hides(name: str, value: object) -> bool:
    if name == "hidden":
        return True
    if name == "aria-hidden":
        return value == "true"
    if name != "style" or not value:
        return False
    style = str(value)[:_MAX_NAMES].replace(" ", "").lower()
    return any(hiding in style for hiding in _HIDING)


@lru_cache(20_000)  # a site uses the same classes on all of its pages, and a search takes 15 us
def _names_boilerplate(names: str) -> bool:
    return bool(
        _WORDS.search(names)
        and _WORDS.search(_LABELS.sub(" ", names))
        and not _CONTENT_WORDS.search(names)
    )
