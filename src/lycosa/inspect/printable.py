r"""Text from the web, made safe: it can neither rewrite a terminal nor run in a spreadsheet.

JSON keeps every character: those that a terminal obeys are written as ``\u`` escapes, which any
reader decodes. CSV has no escapes, so such characters stay in files and pipes, and are replaced on
a terminal. A CSV cell that a spreadsheet would treat as a formula gets an apostrophe in front, as
OWASP recommends against CSV injection, because titles and anchors are the text of strangers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# Control characters (C0, DEL, C1), line and paragraph separators, and characters that set the
# direction of text.
_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# JSON escapes C0 itself
_OBEYED_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# full-width forms too: some spreadsheets treat them as the plain ones
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")

LONGEST_LINE = 100  # characters of a URL or a text in a message


def clean(text: str) -> str:
    """Text that is safe on a terminal and stays on one line."""
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", text) if _OBEYED.search(text) else text


def shortened(text: str, most: int = LONGEST_LINE) -> str:
    """The text with its middle cut out when it is too long for a line."""
    return (
        text
        if len(text) <= most
        else f"{text[: most * 2 // 3]}…{text[-(most - most * 2 // 3 - 1) :]}"
    )


def json_text(
    value: object,
    indent: int | None = None,
    default: Callable[[object], Any] | None = None,
    is_ascii: bool = False,
) -> str:
    """JSON that is safe on a terminal; JSON readers decode the same value."""
    return safe_json(json.dumps(value, indent=indent, ensure_ascii=is_ascii, default=default))


def safe_json(text: str) -> str:
    """JSON of any writer as ``json_text`` has it."""
    return _OBEYED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def neutral(text: str) -> str:
    """A CSV cell that no spreadsheet treats as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
