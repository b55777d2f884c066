"""What strangers wrote neither rewrites a terminal nor runs in a spreadsheet, and JSON loses
none of it.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.cli.feed import _Stream
from lycosa.inspect.printable import clean, json_text, neutral
from lycosa.inspect.table_export import CsvStyle, write_text

NASTY = [
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066a\u2069",
    "\u200f",
    "\u061c",
    "a\u2028b",
    "\x7f",
    "\x00",
]
NASTY += ["a\rb", "a\nb", 'a"b,c', ""]
FORMULAS = [
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+49 30",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20x",
]


def is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(
        character
    ) in (*("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"),)


def written(form: str, rows: list[tuple[object, ...]], style: CsvStyle = CsvStyle()) -> str:  # noqa: B008 (immutable)
    out = io.StringIO(newline="")
    write_text(form, (["a", "b"][: len(rows[0])], iter(rows)), out, style)
    return out.getvalue()


@pytest.mark.parametrize("text", NASTY)
def test_json_lines_hold_no_character_that_a_terminal_obeys_and_lose_none(text: str) -> None:
    line = written("jsonl", [(text, [text])])
    assert not any(map(is_obeyed, line.removesuffix("\n")))
    assert json.loads(line) == {"a": text, "b": [text]}


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_comes_back_from_json_and_is_clean_on_a_terminal(text: str) -> None:
    for is_ascii in (False, True):
        told = json_text({"x": text}, is_ascii=is_ascii)
        assert json.loads(told) == {"x": text} and not any(map(is_obeyed, told))
    assert not any(map(is_obeyed, clean(text)))


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_of_csv_is_no_formula_unless_asked_for_as_it_was(text: str) -> None:
    assert list(csv.reader(io.StringIO(written("csv", [(text, [text])]), newline="")))[1] == [
        f"'{text}",
        f"'{text}",
    ]
    assert list(
        csv.reader(io.StringIO(written("csv", [(text, 1)], CsvStyle(is_raw=True)), newline=""))
    )[1] == [text, "1"]


def test_numbers_and_plain_text_are_left_as_they_are() -> None:
    row = (-1.5, "https://example.org/?a=b")
    assert written("csv", [row]).splitlines()[1] == "-1.5,https://example.org/?a=b"
    assert neutral("") == "" and neutral("a=1") == "a=1"


@pytest.mark.parametrize("text", NASTY)
def test_csv_keeps_every_character_in_a_file_and_shows_none_that_a_terminal_obeys(
    text: str,
) -> None:
    kept = written("csv", [(f"x{text}", 1)])
    assert list(csv.reader(io.StringIO(kept, newline="")))[1][0] == f"x{text}"
    shown = written("csv", [(text, 1)], CsvStyle(is_shown=True))
    assert not any(map(is_obeyed, shown.replace("\n", "")))


class Terminal(io.BytesIO):
    """A terminal as a feed sees it."""

    def isatty(self) -> bool:
        return True


def test_a_feed_is_as_it_is_stored_in_a_pipe_and_safe_on_a_terminal() -> None:
    row = json.dumps({"title": "\x9b31m\u202e"}, ensure_ascii=False).encode()
    pipe, terminal = io.BytesIO(), Terminal()
    for file in (pipe, terminal):
        _Stream(file, "").append([row], "1")
    assert pipe.getvalue() == row + b"\n"
    shown = terminal.getvalue().decode().rstrip("\n")
    assert clean(shown) == shown and json.loads(shown) == json.loads(row)
