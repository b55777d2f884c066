"""What a page asks of crawlers: meta robots and X-Robots-Tag, merged; the strictest wins.

A directive counts when it is addressed to all crawlers (``robots``, or no name in the header) or to
our product token. ``unavailable_after`` and directives about previews (such as ``max-snippet``) are
no rules for fetching and are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from lycosa.base.model.parsed import Directives
from lycosa.base.preferences.preference_words import meta_words, tag_words

_NOINDEX = frozenset({"noindex", "none"})
_NOFOLLOW = frozenset({"nofollow", "none"})
_NOARCHIVE = frozenset({"noarchive", "nocache"})


def read_directives(
    metas: Iterable[tuple[str, str]], headers: Iterable[str], product: str
) -> Directives:
    """The merged directives for the product token ``product``.

    ``metas`` are the page's ``(name, content)`` pairs, ``headers`` its X-Robots-Tag values.
    """
    us = product.lower()
    words: set[str] = set()
    for name, content in metas:
        if name.strip().lower() in ("robots", us):
            words.update(meta_words(content))
    for value in headers:
        words.update(tag_words(value, us))
    if not words:
        return _PERMISSIVE
    return Directives(
        noindex=not words.isdisjoint(_NOINDEX),
        nofollow=not words.isdisjoint(_NOFOLLOW),
        noarchive=not words.isdisjoint(_NOARCHIVE),
    )


_PERMISSIVE = Directives()
