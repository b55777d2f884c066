"""A focused crawl: pages about one topic are fetched first, and their texts become a corpus.

    lycosa crawl https://example.org/ --extension examples/focused.py:focus --max-pages 5000
    lycosa feed items.corpus crawls/example.org > corpus.jsonl

A link is worth what the page with it and its anchor have to do with the topic; so the crawl follows
pages about the topic, and other pages only when nothing better waits. Politeness, limits and
budgets are the same as without. Change ``TOPIC`` to yours.

Texts that another corpus has are left out. Write their digests, one in a line, to a file, and name
the file in the environment:

    python examples/focused.py < other.jsonl > known.txt        each line an object with "text"
    KNOWN_TEXTS=known.txt lycosa crawl ... --set extensions.environment=KNOWN_TEXTS
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import lycosa

TOPIC = frozenset(
    ("spider", "spiders", "web", "silk", "prey", "venom", "burrow", "arachnid", "arachnids")
)
ENOUGH = 0.05  # of the words of a text: it is about the topic, whatever else it says
_WORD = re.compile(r"[^\W\d_]+")
_SPACE = re.compile(r"\s+")


class Text(lycosa.Item, frozen=True):
    """A text of the corpus."""

    text: str
    title: str
    language: str
    relevance: float


def relevance(text: str) -> float:
    """How much a text has to do with the topic, from 0 to 1."""
    words = _WORD.findall(text.lower())
    share = sum(word in TOPIC for word in words) / max(len(words), 20)
    return min(1.0, share / ENOUGH)


def digest(text: str) -> str:
    """What two copies of a text have in common, whatever their white space and case."""
    folded = _SPACE.sub(" ", text).strip().lower()
    return hashlib.blake2b(folded.encode(), digest_size=8).hexdigest()


def _known_texts() -> frozenset[str]:
    file = os.environ.get("KNOWN_TEXTS")
    return frozenset(Path(file).read_text("ascii").split()) if file else frozenset()


KNOWN = _known_texts()
_latest: tuple[lycosa.Document | None, float] = (None, 0.0)


def page_relevance(page: lycosa.Document) -> float:
    """That of the visible text of a page; computed once for all of its links."""
    global _latest  # noqa: PLW0603 - a scorer is called for each link of one page after the other
    if _latest[0] is not page:
        _latest = (page, relevance(page.main().text or page.text()))
    return _latest[1]


@lycosa.score
def on_topic(page: lycosa.Document, link: lycosa.Link) -> float:
    """What a link is worth: its page counts more than its anchor, which has few words."""
    return 0.7 * page_relevance(page) + 0.3 * relevance(link.anchor)


@lycosa.extract(Text)
def corpus(page: lycosa.Document) -> Iterator[Text]:
    """The text of a page about the topic, unless it is known."""
    article = page.main()
    worth = relevance(article.text)
    if worth >= 0.5 and digest(article.text) not in KNOWN:
        yield Text(article.text, article.title, page.language, worth)


focus = [on_topic, corpus]


if __name__ == "__main__":
    for line in sys.stdin:
        print(digest(json.loads(line)["text"]))
