"""Text from the web in forms that programs and people read: without what could rewrite a terminal
or run in a spreadsheet.

JSON keeps every character: those that a terminal obeys are written as ``\\u`` escapes, which any
reader turns back. CSV has no escapes, so there they stay in files and pipes, and are replaced where
somebody looks. A cell of CSV that a spreadsheet would take for a formula gets an apostrophe in
front, as OWASP recommends against CSV injection: titles and anchors are what strangers wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# Control characters (C0, DEL, C1), line and paragraph separators, and those that set the direction
# of text.
_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# JSON escapes C0 itself
_OBEYED_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# full-width forms count: some spreadsheets take them for the plain ones
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def clean(text: str) -> str:
    """Text that is safe on a terminal and stays on its line."""
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", text) if _OBEYED.search(text) else text


def json_text(
    value: object,
    indent: int | None = None,
    default: Callable[[object], Any] | None = None,
    is_ascii: bool = False,
) -> str:
    """JSON that is safe on a terminal; the same value for every reader of JSON."""
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, default=default)
    return _OBEYED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def neutral(text: str) -> str:
    """A cell of CSV that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
