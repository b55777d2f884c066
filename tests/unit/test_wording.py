"""How documents, messages, docstrings and comments are written: without words that readers stumble
over, and documents wrapped at 100 columns.

The list has archaic words, idioms of other languages, and words with a more common technical term.
Code, and text between quotation marks, may contain anything.
"""

from __future__ import annotations

import ast
import re
import runpy
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lycosa"
GENERATED = ROOT / "docs" / "modules.md"
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "bench").glob("*.md")),
    ROOT / "tests" / "data" / "README.md",
]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# A pattern for whole words, and what to write instead.
AVOIDED = {
    r"nobody|somebody|everybody|whoever|whomever": "name the subject: the worker, a server",
    r"whyever|whence|lest|thereof|hereby|anew|afresh|aught": "an ordinary word",
    r"(?<!at )least": "minimum, smallest",
    r"at the least": "at least",
    r"but for": "except, without",
    r"beside": "next to, together with",
    r"mend|mends|mended": "fix, fixed",
    r"bears": "has, allows, supports",
    r"pressed": "requested too often, without its delay",
    r"of (?:its|their|one's) own": "its own, separate, by itself",
    r"go(?:es)? on|going on|went on": "resume, continue",
    r"given up|gives? (?:it|them) up": "retired, not retried, dropped",
    r"comes? to|came to": "amounts to, becomes, results in",
    r"(?:cannot|can) be had": "is unavailable, is available",
    r"taken away|takes? away": "deleted, removed, missing",
    r"owed": "required",
    r"under way": "in progress, in flight",
    r"time out": "timeout",
    r"look-ups?": "lookup",
    r"brought in|bring in": "added",
    r"dearer?": "expensive, costs more",
    r"for ever": "endlessly, permanently",
    r"some (?:hundred|thousand)": "some hundreds of",
    r"what stands|stands beside": "name it",
    r"is told (?:of|by|with)|are told": "is reported",
}


# Modules whose strings are the text of pages, and no messages.
PAGE_TEXTS = {"synthetic/bad_answers.py"}


MACHINERY = r"errands?|parcels?|workbench|outbox(?:es)?|front queues?|back queues?|refills?|demands|lends?|lent|folds?|folded"
"""Words of the glossary that people who only use the program do not need."""
ABOUT_THE_MACHINERY = {
    "cluster.md": "topics and checks of a cluster have these names",
    "simulation.md": "says which parts are simulated",
    "deployment.md": "what shards cost",
    "priority.md": "explains the queues",
    "cold-archive.md": "explains the tables",
    "registry.md": "explains the commits",
    "metrics.md": "each part of the program has its numbers",
}


def _user_pages() -> list[Path]:
    """The pages of the navigation up to the reference."""
    site = runpy.run_path(str(ROOT / "docs" / "site.py"))
    config = tomllib.loads(site["site_config"]())["project"]
    names: list[str] = []
    for section in config["nav"]:
        if section.keys() & {"Start", "How-to", "Guide", "Operate", "Compare", "For site owners"}:
            names += re.findall(r"'([\w/-]+\.md)'", str(section))
    others = {place: name for name, place in site["OTHERS"].items()}
    return [ROOT / "README.md", *(ROOT / others.get(name, f"docs/{name}") for name in names)]


@pytest.mark.parametrize("document", _user_pages(), ids=_name)
def test_pages_for_users_do_without_words_of_the_machinery(document: Path) -> None:
    prose = _prose(document)
    found = [
        f"{document.name}:{prose.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}"
        for hit in re.finditer(rf"(?i)\b(?:{MACHINERY})\b", prose)
    ]
    assert found == [] or document.name in ABOUT_THE_MACHINERY


def _prose(document: Path) -> str:
    """A document without code, link targets and quoted text; line ends stay."""
    text = document.read_text("utf-8")
    for code in (r"```.*?```", r"(?m)^ {4}\S.*$", r"`[^`]*`", r"\]\([^)]*\)", r"\"[^\"\n]*\""):
        text = re.sub(code, lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return text


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_documents_are_wrapped_at_100_columns(document: Path) -> None:
    """Tables, code and a single long word are not wrapped."""
    is_code, long = False, []
    for number, line in enumerate(document.read_text("utf-8").splitlines(), 1):
        is_code ^= line.startswith("```")
        is_free = is_code or line.startswith(("```", "|", "    ", "#"))
        if len(line) > 100 and not is_free and " " in line.strip():
            long.append(f"{document.name}:{number}")
    assert long == []


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if each != GENERATED], ids=_name)
def test_documents_avoid_words_that_readers_stumble_over(document: Path) -> None:
    prose = _prose(document)
    found = [
        f"{document.name}:{prose.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}; write: {instead}"
        for words, instead in AVOIDED.items()
        for hit in re.finditer(rf"(?i)\b(?:{words})\b", prose)
    ]
    assert found == []


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string with several words: messages, help texts, docstrings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each comment; lines that follow each other are one."""
    with path.open("rb") as file:
        found = [
            (token.start, token.string)
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.COMMENT
        ]
    first, last, text = 0, (-1, -1), ""
    for place, comment in found:
        if place == (last[0] + 1, last[1]):
            text += comment[1:]
        else:
            if text:
                yield first, text
            first, text = place[0], comment
        last = place
    if text:
        yield first, text


@pytest.mark.parametrize("words_of", [_strings, _comments], ids=["strings", "comments"])
def test_messages_docstrings_and_comments_avoid_these_words_too(
    words_of: Callable[[Path], Iterator[tuple[int, str]]],
) -> None:
    texts = [
        (f"{name}:{line}", " ".join(_unquoted(text).split()))
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix()) not in PAGE_TEXTS
        for line, text in words_of(path)
    ]
    assert len(texts) > 1000
    found = [
        f"{place}: {hit[0]!r}; write: {instead}"
        for place, text in texts
        for words, instead in AVOIDED.items()
        for hit in re.finditer(rf"(?i)\b(?:{words})\b", text)
    ]
    assert found == []


def _unquoted(text: str) -> str:
    return re.sub(r"``.*?``", "", text, flags=re.DOTALL)


def test_the_list_of_modules_is_current() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "modules.py"))
    assert GENERATED.read_text("utf-8") == script["page"](), "run `python docs/modules.py`"
