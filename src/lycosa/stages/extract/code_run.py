"""Runs user code over one page. Pure: what the extension child, ``lycosa extract`` and tests call.

Whatever the code does in Python, the answer is bounded and has only what was asked for: rows that
fit their columns, links that are URLs, scores from 0 to 1, and a failure for each function that
raised. Of a function that raised there is nothing else, because half of a page is no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.code_failure import CodeFailure, failure_in
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.item_schema import MAX_ITEM_BYTES
from lycosa.base.model.parsed import Link
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.extract.code_messages import ExtensionAnswer
from lycosa.stages.extract.code_source import LoadedCode, called_kind
from lycosa.stages.extract.stored_document import Document, Element
from lycosa.stages.extract.user_code_marks import ItemExtractor, LinkFinder, LinkScorer
from lycosa.stages.parse.element_readers import RawLink
from lycosa.stages.parse.outlinks import Outlinks

MAX_LINKS = 1000
"""Links that link finders may add to those of a page."""
MAX_SCORED = 50_000
"""Links of a page that are scored, the first ones."""
SCORE_STEPS = 255
"""A score of 1 as it is stored (``UrlRecord.score``)."""
_MAX_ANCHOR = 200


class TooMuch(ValueError):
    """User code answered more than is stored of a page."""


def run_code(
    codes: Iterable[LoadedCode],
    page: Document,
    canonicalizer: Canonicalizer | None = None,
    max_links: int = MAX_LINKS,
) -> ExtensionAnswer:
    """Call every function that wants the page, extractors first and scorers last.

    Raises ``KeyboardInterrupt`` only.
    """
    run = _Run(page, canonicalizer or Canonicalizer(CanonicalSection()), max_links)
    marked = [(code.name, each) for code in codes for each in code.objects]
    for kind, call in (
        (ItemExtractor, run.take_items),
        (LinkFinder, run.take_links),
        (LinkScorer, run.take_scores),
    ):
        for name, each in marked:
            if isinstance(each, kind) and each.is_for(page.url):
                run.guarded(name, each, call)
    return ExtensionAnswer(run.items, run.links, run.scores, run.failures)


class _Run:
    """The answer for one page in the making."""

    def __init__(self, page: Document, canonicalizer: Canonicalizer, max_links: int) -> None:
        self._page, self._canonicalizer, self._max_links = page, canonicalizer, max_links
        self._left = MAX_ITEM_BYTES
        self.items: dict[str, list[list[Any]]] = {}
        self.links: list[Link] = []
        self.scores: dict[str, int] = {}
        self.failures: list[CodeFailure] = []

    def guarded(self, name: str, marked: Any, call: Callable[[Any], None]) -> None:
        """Call a function; what it raises becomes a failure."""
        try:
            call(marked)
        except BaseException as error:  # also sys.exit, and what the user derived from it
            if isinstance(error, KeyboardInterrupt):
                raise
            # the function, because a name may stand for a list of them
            place = name.rpartition(":")[0]
            named = f"{place}:{getattr(marked, '__name__', '?')}"
            self.failures.append(failure_in(called_kind(marked), named, error))

    def take_items(self, extractor: ItemExtractor[Any]) -> None:
        rows: list[list[Any]] = []
        size = 2
        for item in extractor(self._page):
            row = extractor.rows.row(item)
            size += len(msgspec.json.encode(row)) + 1
            if size > self._left:
                raise TooMuch(
                    f"all rows of a page may have {MAX_ITEM_BYTES:,} bytes as JSON; none is stored"
                )
            rows.append(row)
        self._left -= size
        self.items[extractor.schema.name] = rows

    def take_links(self, finder: LinkFinder) -> None:
        page, room = self._page, self._max_links - len(self.links)
        known = {link.url for link in (*page.links, *self.links)}
        found = Outlinks(self._canonicalizer, page.base, room + len(known))
        for number, each in enumerate(finder(page), 1):
            raw, link = _raw_link(each)
            found.add_reference(raw, link)  # what is no URL is left out, as of the page's own
            if number > self._max_links:
                raise TooMuch(f"a page may have {self._max_links:,} links of link finders")
        self.links += [link for link in found.links() if link.url not in known][:room]

    def take_scores(self, scorer: LinkScorer) -> None:
        scores: dict[str, int] = {}
        for link in _all_links(self._page.links, self.links):
            value = scorer(self._page, link)
            if value is None:
                continue
            if not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise ValueError(f"a score is a number from 0 to 1, or None, not {value!r}")
            scores[link.url] = round(value * SCORE_STEPS)
        for url, value in scores.items():
            self.scores[url] = max(value, self.scores.get(url, 0))


def _all_links(first: Sequence[Link], more: Sequence[Link]) -> Iterable[Link]:
    yield from first[:MAX_SCORED]
    yield from more


def _raw_link(found: object) -> tuple[str, RawLink]:
    """The reference that a link finder yielded."""
    if isinstance(found, str):
        return found, RawLink(LinkKind.CODE)
    if isinstance(found, Element):
        return found["href"], RawLink(LinkKind.CODE, found.text[:_MAX_ANCHOR])
    if isinstance(found, Link):
        return found.url, RawLink(LinkKind.CODE, found.anchor[:_MAX_ANCHOR], found.nofollow)
    raise TypeError(f"a link finder yields URLs, elements with href, or links, not {found!r}")
