"""The quality of main content: word F1 on public sets of labelled pages, beside other programs.

    python -m bench.text_quality --articles DIR --readability DIR --sentences DIR [--half 1]

``--articles`` is a checkout of the article extraction benchmark (``ground-truth.json`` and
``html/``), ``--readability`` one of Mozilla's readability (``test/test-pages``), ``--sentences``
one of trafilatura (``tests/evaldata.json``). None of them is part of this project. Other programs
(trafilatura, resiliparse, readability-lxml) are measured if they are installed.

A page is in half 0 or 1 by a hash of its name. The numbers of ``stages.parse.main_content`` were
chosen on half 0.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import importlib.util
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import turbohtml

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser

_WORD = re.compile(r"\w+")
_SAMPLES = 1000
_PARSER = DocumentParser(ParseSection(), Canonicalizer(CanonicalSection()), "lycosa", True)


class LabelledPage(NamedTuple):
    """A page with its text, or with sentences that are ``wanted`` and ``unwanted``."""

    name: str
    html: bytes
    text: str = ""
    wanted: Sequence[str] = ()
    unwanted: Sequence[str] = ()


Extract = Callable[[bytes], str]


def _lycosa(html: bytes) -> str:
    parsed = _PARSER.parse(
        ParseInput("https://page.example/", 200, [("content-type", "text/html")], html)
    )
    return parsed.content.main_text(parsed.text) if parsed.content else ""


def _trafilatura(html: bytes) -> str:
    found = importlib.import_module("trafilatura").extract(html, fast=True, include_comments=False)
    return found or ""


def _resiliparse(html: bytes) -> str:
    encoding = importlib.import_module("resiliparse.parse.encoding")
    text = encoding.bytes_to_str(html, encoding.detect_encoding(html))
    module = importlib.import_module("resiliparse.extract.html2text")
    return str(module.extract_plain_text(text, main_content=True))


def _readability(html: bytes) -> str:
    summary = importlib.import_module("readability").Document(html.decode("utf-8", "replace"))
    return turbohtml.parse(summary.summary()).to_text()


def _turbohtml(html: bytes) -> str:
    return turbohtml.parse(html).main_text()


EXTRACTORS: dict[str, tuple[str, Extract]] = {
    "lycosa": ("lycosa", _lycosa),
    "trafilatura": ("trafilatura", _trafilatura),
    "readability-lxml": ("readability", _readability),
    "resiliparse": ("resiliparse", _resiliparse),
    "turbohtml": ("turbohtml", _turbohtml),
}


def _articles(folder: Path) -> Iterator[LabelledPage]:
    for name, labels in json.loads((folder / "ground-truth.json").read_text("utf-8")).items():
        html = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        yield LabelledPage(f"s/{name}", html, labels["articleBody"])


def _readability_pages(folder: Path) -> Iterator[LabelledPage]:
    for page in sorted((folder / "test" / "test-pages").iterdir()):
        # The source of "qq" is in another charset than it says, and "mathjax" needs scripts.
        if page.name not in ("qq", "mathjax") and (page / "expected.html").exists():
            expected = turbohtml.parse((page / "expected.html").read_text("utf-8")).to_text()
            yield LabelledPage(f"m/{page.name}", (page / "source.html").read_bytes(), expected)


def _sentences(folder: Path) -> Iterator[LabelledPage]:
    files = {
        path.name: path
        for name in ("cache", "eval")
        for path in (folder / "tests" / name).iterdir()
    }
    labels = json.loads((folder / "tests" / "evaldata.json").read_text("utf-8"))
    for name, each in labels.items():
        if each["file"] in files:
            html = files[each["file"]].read_bytes()
            yield LabelledPage(name, html, wanted=each["with"], unwanted=each["without"])


def word_f1(found: str, wanted: str) -> float:
    """The harmonic mean of precision and recall over words as a multiset."""
    one, other = (Counter(word.lower() for word in _WORD.findall(each)) for each in (found, wanted))
    both = sum((one & other).values())
    return 2 * both / (sum(one.values()) + sum(other.values())) if both else float(one == other)


def sentence_f1(pages: Sequence[LabelledPage], texts: Sequence[str]) -> float:
    """F1 over the labelled sentences of all pages."""
    found = right = wanted = 0
    for page, text in zip(pages, texts, strict=True):
        folded = " ".join(text.split())
        hits = sum(" ".join(each.split()) in folded for each in page.wanted)
        right, wanted = right + hits, wanted + len(page.wanted)
        found += hits + sum(" ".join(each.split()) in folded for each in page.unwanted)
    return 2 * right / (found + wanted) if right else 0.0


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of 95 % of the mean."""
    chance = random.Random(1)
    means = sorted(
        sum(chance.choices(values, k=len(values))) / len(values) for _ in range(_SAMPLES)
    )
    return means[_SAMPLES // 40], means[-_SAMPLES // 40]


def measure(pages: Sequence[LabelledPage], extract: Extract) -> str:
    """A row of the table: F1 and milliseconds of processor time a page."""
    started = time.process_time()
    texts = [_tried(extract, page.html) for page in pages]
    spent = (time.process_time() - started) / len(pages) * 1000
    if pages[0].wanted:
        return f"{sentence_f1(pages, texts):.3f}                {spent:6.1f} ms"
    values = [word_f1(text, page.text) for page, text in zip(pages, texts, strict=True)]
    low, high = interval(values)
    return f"{sum(values) / len(values):.3f} ({low:.3f}-{high:.3f}) {spent:6.1f} ms"


def _tried(extract: Extract, html: bytes) -> str:
    try:
        return extract(html)
    except Exception:  # another program's failure counts as no text
        return ""


def half_of(name: str) -> int:
    return hashlib.sha1(name.encode()).digest()[0] & 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    readers: dict[str, Any] = {
        "articles": _articles, "readability": _readability_pages, "sentences": _sentences,
    }  # fmt: skip
    for name in readers:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--half", type=int, choices=(0, 1))
    given = parser.parse_args()
    for name, reader in readers.items():
        if (folder := getattr(given, name)) is None:
            continue
        pages = [page for page in reader(folder) if given.half in (None, half_of(page.name))]
        for program, (module, extract) in EXTRACTORS.items():
            if importlib.util.find_spec(module) is not None:
                print(
                    f"{name:12} {len(pages):4} {program:17} {measure(pages, extract)}", flush=True
                )


if __name__ == "__main__":
    main()
