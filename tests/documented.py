"""The blocks of the documents: which are commands, and what tests have to know to run them.

A block is fenced, or indented by four spaces after an empty line. It has commands if its language
says so (``sh``, ``console``), or if it has none and a line begins with a command. Comments on the
lines before a block are for tests: ``<!-- not run: REASON -->``, ``<!-- run in the background -->``
for servers, and ``<!-- run without being shown: COMMAND -->`` for what a reader has already. A
block ``text`` after a block of commands is what these print.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "data" / "blocks.toml"
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(\S*)")
_NOTE = re.compile(r"<!-- (not run: |run in the background|run without being shown: )(.*?) ?-->")
_SHELLS = {"sh", "bash", "shell", "console"}
_COMMAND = re.compile(
    r"(?:\$ |(?:lycosa|python3?|pip|pipx|uvx?|docker|curl|duckdb|cd|cat|zcat|export|spark-submit"
    r"|process_webgraph\.sh|script/\w+|bench/\w+)(?: |$))(?!<-)"
)


class Block(NamedTuple):
    """Lines of code; ``reason`` says why they are not run, ``printed`` what they have to print."""

    page: str
    line: int
    language: str
    lines: tuple[str, ...]
    reason: str = ""
    is_background: bool = False
    before: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()

    @property
    def has_commands(self) -> bool:
        return self.language in _SHELLS or (
            not self.language and any(_COMMAND.match(each) for each in self.lines)
        )

    @property
    def script(self) -> str:
        """What the shell gets: without the prompts and the output of a transcript."""
        if any(each.startswith("$ ") for each in self.lines):
            return "\n".join(each[2:] for each in self.lines if each.startswith("$ "))
        return "\n".join(self.lines)


def pages() -> list[Path]:
    """The documents whose commands readers copy."""
    chart = ROOT / "deploy" / "helm" / "lycosa" / "README.md"
    return [ROOT / "README.md", chart, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of commands of a page, in order."""
    named = reasons().get(page.relative_to(ROOT).as_posix(), {})
    found: list[Block] = []
    for each in _all_blocks(page):
        if each.has_commands:
            written = (why for key, why in named.items() if each.lines[0].startswith(key))
            found.append(each._replace(reason=each.reason or next(written, "")))
        elif each.language == "text" and found and not found[-1].printed:
            found[-1] = found[-1]._replace(printed=each.lines)
    return found


def reasons() -> dict[str, dict[str, str]]:
    """Why blocks are not run, by page and the beginning of the first line."""
    return {page: rows.get("not_run", {}) for page, rows in _table().items()}


def settings_of(page: Path) -> dict[str, object]:
    """What the table says of a page: ``before``, and whether it is ``long``."""
    return dict(_table().get(page.relative_to(ROOT).as_posix(), {}))


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLE.read_text("utf-8"))


def _all_blocks(page: Path) -> Iterator[Block]:
    name, lines = page.relative_to(ROOT).as_posix(), page.read_text("utf-8").splitlines()
    notes: list[tuple[str, str]] = []
    at = 0
    while at < len(lines):
        line, start = lines[at], at
        if fence := _FENCE.match(line):
            while (at := at + 1) < len(lines) and not lines[at].strip().startswith(fence[1]):
                pass
            yield _block(name, start, fence[2], lines[start + 1 : at], notes)
            notes = []
        elif line.startswith("    ") and line.strip() and (not at or not lines[at - 1].strip()):
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1]):
                at += 1
            yield _block(name, start, "", _outdented(lines[start : at + 1]), notes)
            notes = []
        elif written := _NOTE.findall(line):
            notes += written
        elif line.strip():
            notes = []
        at += 1


def _outdented(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    width = min(len(each) - len(each.lstrip()) for each in lines if each.strip())
    return [each[width:] for each in lines]


def _block(
    page: str, start: int, language: str, lines: list[str], notes: list[tuple[str, str]]
) -> Block:
    def noted(kind: str) -> list[str]:
        return [text for each, text in notes if each.strip(" :") == kind]

    return Block(
        page,
        start + 1,
        language,
        tuple(lines),
        reason=" ".join(noted("not run")),
        is_background=bool(noted("run in the background")),
        before=tuple(noted("run without being shown")),
    )


_NUMBER = re.compile(r"\d[\d,.:]*(?: ?(?:[kMG]?B|ms|[smhd])\b)?")


def missing(printed: tuple[str, ...], output: str) -> list[str]:
    """The lines that an output lacks. Numbers and spaces may differ, and the order of lines."""
    real = {_shape(each) for each in output.splitlines()} | {"", "..."}
    return [each for each in printed if _shape(each) not in real]


def _shape(line: str) -> str:
    return " ".join(_NUMBER.sub("#", line.replace("...", "")).split())
