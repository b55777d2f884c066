"""The words of meta robots and X-Robots-Tag that are addressed to a crawler."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Directives with a value: the colon in them does not end a product token, and a "none" in the value
# is no directive.
_WITH_VALUE = re.compile(r"(?:unavailable_after|max-[a-z-]{1,30})\s{0,8}[:=]\s*[^,;]*")
_AGENT = re.compile(r"\s*([a-z_*-][a-z0-9_.*/-]*)\s*:")


def meta_words(content: str) -> list[str]:
    """The words of a meta element's content, in lower case."""
    return re.split(r"[\s,;]+", _WITH_VALUE.sub("", content.lower()))


def tag_words(value: str, product: str) -> Iterable[str]:
    """The words of one X-Robots-Tag value that are addressed to us, in lower case.

    A name applies to what follows it, up to the next name. ``product`` is in lower case.
    """
    addressed = True
    for part in _WITH_VALUE.sub("", value.lower()).split(","):
        if name := _AGENT.match(part):
            addressed = name.group(1) in (product, "*", "robots")
            part = part[name.end() :]
        if addressed:
            yield from part.split()
