"""The URLs that a style sheet loads.

The tokens are those of CSS Syntax Module Level 3, by tinycss2. It is read as component values and
not as rules, so whatever rules future levels bring, a ``url()`` in them is found. Recursion has no
part in it: the depth of a hostile sheet costs memory only, and its size is bounded by
``MAX_STYLE_BYTES``. That is 1.7 s of processor time at most; a sheet of 230 kB takes 0.11 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tinycss2

from lycosa.base.model.discovered import LinkKind

MAX_STYLE_BYTES = 1 << 20
"""Bytes (of a file) or characters (of a page's inline styles) that are read."""

_URL_FUNCTIONS = frozenset({"url", "src"})  # CSS Values Level 4, 4.5
_IMAGE_FUNCTIONS = frozenset({"image-set", "-webkit-image-set", "image"})  # CSS Images Level 4
_BLOCKS = frozenset({"{} block", "[] block", "() block"})
# What names a URL and loads nothing: @namespace (CSS Namespaces), @document.
_NOT_LOADED = frozenset({"namespace", "document", "-moz-document"})
_MARKS = ("url(", "@import", "image", "src(", "\\")  # an escape may hide each of the others

LoadedUrl = tuple[str, LinkKind]


def read_style_file(body: bytes, label: str | None = None) -> tuple[str, list[LoadedUrl]]:
    """The charset of a style sheet and what it loads.

    ``label`` is the charset of HTTP. The order is that of CSS Syntax 3.2: BOM, HTTP, ``@charset``,
    UTF-8.
    """
    text, encoding = _decoded(body[:MAX_STYLE_BYTES], label)
    return encoding, style_urls(text)


def _decoded(body: bytes, label: str | None) -> tuple[str, str]:
    from tinycss2.bytes import decode_stylesheet_bytes  # here, because it has no public name

    text, encoding = decode_stylesheet_bytes(body, protocol_encoding=label)
    return text, encoding.name


def style_urls(text: str) -> list[LoadedUrl]:
    """Raw URLs that a style sheet loads, in their order.

    Imported sheets and fonts are ``STYLE``, all others ``IMG``. ``data:`` URLs and places in the
    document are left out.
    """
    lowered = text[:MAX_STYLE_BYTES].lower()
    if not any(mark in lowered for mark in _MARKS):
        return []  # most inline styles: a hundredth of the price
    values = tinycss2.parse_component_value_list(text[:MAX_STYLE_BYTES], skip_comments=True)
    return [found for found in _walk(values) if _is_loaded(found[0])]


def declared_urls(text: str) -> list[str]:
    """The same of the declarations in a ``style`` attribute, where nothing can be imported."""
    return [url for url, _ in style_urls(text)]


def _is_loaded(url: str) -> bool:
    return bool(url) and not url.startswith("#") and url[:5].lower() != "data:"


def _walk(values: list[Any]) -> Iterator[LoadedUrl]:
    """URLs of component values, depth first, without recursion."""
    # of each open level: its values, the kind of URLs in it, whether strings in it are URLs
    levels = [(iter(values), LinkKind.IMG, False)]
    rule = ""  # the name of the at-rule whose prelude is being read
    while levels:
        inside, kind, has_strings = levels[-1]
        value = next(inside, None)
        if value is None:
            levels.pop()
            continue
        what = value.type
        if what == "at-keyword":
            rule = value.lower_value
        elif what == "literal" and value == ";":
            rule = ""
        elif what == "url" or (what == "string" and (has_strings or rule == "import")):
            if rule not in _NOT_LOADED:
                yield value.value, LinkKind.STYLE if rule == "import" else kind
            rule = "" if rule == "import" else rule  # what follows are layers and conditions
        elif what == "function":
            name = value.lower_name
            if name in _URL_FUNCTIONS:
                # url("…"): without quotes it is a URL token
                string = _first_string(value.arguments)
                if string is not None and rule not in _NOT_LOADED:
                    yield string, LinkKind.STYLE if rule == "import" else kind
                rule = "" if rule == "import" else rule
            else:
                levels.append((iter(value.arguments), kind, name in _IMAGE_FUNCTIONS))
        elif what in _BLOCKS:
            is_font = rule == "font-face" and what == "{} block"
            rule = "" if what == "{} block" else rule
            levels.append((iter(value.content), LinkKind.STYLE if is_font else kind, False))


def _first_string(values: list[Any]) -> str | None:
    for value in values:
        if value.type != "whitespace":
            return value.value if value.type == "string" else None
    return None
