"""What a page asks of crawlers: meta robots and X-Robots-Tag, merged; the strictest wins.

A directive counts when it is addressed to all crawlers (``robots``, or no name in the header) or to
our product token. ``unavailable_after`` and directives about previews (such as ``max-snippet``) are
no rules for fetching and are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lycosa.base.model.parsed import Directives

_NOINDEX = frozenset({"noindex", "none"})
_NOFOLLOW = frozenset({"nofollow", "none"})
_NOARCHIVE = frozenset({"noarchive", "nocache"})

# Directives with a value: the colon in them does not end a product token, and a "none" in the value
# is no directive.
_WITH_VALUE = re.compile(r"(?:unavailable_after|max-[a-z-]{1,30})\s{0,8}[:=]\s*[^,;]*")
_AGENT = re.compile(r"\s*([a-z_*-][a-z0-9_.*/-]*)\s*:")


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
            words.update(_words(content))
    for value in headers:
        words.update(_words_for(value, us))
    if not words:
        return _PERMISSIVE
    return Directives(
        noindex=not words.isdisjoint(_NOINDEX),
        nofollow=not words.isdisjoint(_NOFOLLOW),
        noarchive=not words.isdisjoint(_NOARCHIVE),
    )


def _words(content: str) -> list[str]:
    return re.split(r"[\s,;]+", _WITH_VALUE.sub("", content.lower()))


def _words_for(value: str, us: str) -> Iterable[str]:
    """The words of one header value that are addressed to us.

    A name applies to what follows it, up to the next name.
    """
    addressed = True
    for part in _WITH_VALUE.sub("", value.lower()).split(","):
        if name := _AGENT.match(part):
            addressed = name.group(1) in (us, "*", "robots")
            part = part[name.end() :]
        if addressed:
            yield from part.split()


_PERMISSIVE = Directives()
