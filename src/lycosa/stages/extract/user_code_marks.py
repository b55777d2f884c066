"""The decorators that say what a function of the user is: an extractor, a link finder, a scorer.

A marked function is still called as before, so that a test calls it with a ``Document``. ``match``
is searched in the URL of a page; only pages that match are given to the function. It is a regular
expression of RE2, because a worker searches it in each URL.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from lycosa.base.config.patterns import compile_pattern
from lycosa.base.model.item_schema import BadSchema, ItemSchema
from lycosa.base.model.parsed import Link
from lycosa.stages.extract.stored_document import Document
from lycosa.stages.extract.user_item import Item, ItemWriter, item_schema

ItemT = TypeVar("ItemT", bound=Item)
LinkMaker = Callable[[Document], "Iterable[str | Link] | None"]
ScoreMaker = Callable[[Document, Link], "float | None"]


class _Match:
    """Whether a URL is of interest."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._search = compile_pattern(pattern).search if pattern else None

    def is_in(self, url: str) -> bool:
        return self._search is None or self._search(url.encode()) is not None


class ItemExtractor(Generic[ItemT]):
    """An extractor: makes items of a page. ``schema`` has its name, version and columns."""

    def __init__(
        self,
        function: Callable[[Document], Iterable[ItemT] | None],
        made: type[ItemT],
        match: str,
        version: int,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self._match = function, _Match(match)
        self.schema: ItemSchema = item_schema(function.__name__, version, made)
        self.rows = ItemWriter(self.schema, made)

    def __repr__(self) -> str:
        return f"<ItemExtractor {self.schema.name} version={self.schema.version}>"

    def __call__(self, page: Document) -> Iterator[ItemT]:
        """The items of a page."""
        return iter(self.function(page) or ())

    @property
    def match(self) -> str:
        """The pattern that URLs have to match; empty for all."""
        return self._match.pattern

    def is_for(self, url: str) -> bool:
        """Whether it wants the page with this URL."""
        return self._match.is_in(url)


class LinkFinder:
    """Adds links to those that the crawl finds in a page."""

    def __init__(self, function: LinkMaker, match: str) -> None:
        functools.update_wrapper(self, function)
        self.function, self._match = function, _Match(match)

    def __repr__(self) -> str:
        return f"<LinkFinder {_name(self.function)}>"

    def __call__(self, page: Document) -> Iterator[str | Link]:
        """The links of a page: URLs, which may be relative, or ``Link`` objects."""
        return iter(self.function(page) or ())

    @property
    def match(self) -> str:
        """The pattern that URLs have to match; empty for all."""
        return self._match.pattern

    def is_for(self, url: str) -> bool:
        """Whether it wants the page with this URL."""
        return self._match.is_in(url)


class LinkScorer:
    """Says how much a link is worth, from 0 to 1; ``None`` without an opinion."""

    def __init__(self, function: ScoreMaker, match: str, version: int) -> None:
        functools.update_wrapper(self, function)
        self.function, self._match, self.version = function, _Match(match), version

    def __repr__(self) -> str:
        return f"<LinkScorer {_name(self.function)} version={self.version}>"

    def __call__(self, page: Document, link: Link) -> float | None:
        """The score of a link of a page."""
        return self.function(page, link)

    @property
    def match(self) -> str:
        """The pattern that URLs of pages have to match; empty for all."""
        return self._match.pattern

    def is_for(self, url: str) -> bool:
        """Whether it wants the page with this URL."""
        return self._match.is_in(url)


Marked = ItemExtractor[Any] | LinkFinder | LinkScorer
"""A function with one of the decorators."""


def extract(
    made: type[ItemT], match: str = "", version: int = 1
) -> Callable[[Callable[[Document], Iterable[ItemT] | None]], ItemExtractor[ItemT]]:
    """Make a function an extractor of items of the class ``made``.

    Its name is the name of the table. A change of the fields needs a new ``version``. Raises
    ``ValueError`` for a field with a type that no column has, a name that no table can have, or a
    pattern that RE2 refuses.
    """

    def mark(function: Callable[[Document], Iterable[ItemT] | None]) -> ItemExtractor[ItemT]:
        _check(function)
        return ItemExtractor(function, made, match, version)

    # ``@extract`` without brackets would take the function for the class
    if not isinstance(made, type):
        raise BadSchema("write @lycosa.extract(ItemClass), with the class of the items")
    return mark


def links(function: LinkMaker | None = None, *, match: str = "") -> Any:
    """Make a function a link finder: ``@lycosa.links``, or ``@lycosa.links(match=...)``."""

    def mark(function: LinkMaker) -> LinkFinder:
        _check(function)
        return LinkFinder(function, match)

    return mark if function is None else mark(function)


def score(function: ScoreMaker | None = None, *, match: str = "", version: int = 1) -> Any:
    """Make a function a scorer of links: ``@lycosa.score``, or ``@lycosa.score(version=2)``."""

    def mark(function: ScoreMaker) -> LinkScorer:
        _check(function)
        return LinkScorer(function, match, version)

    return mark if function is None else mark(function)


def _check(function: object) -> None:
    if not callable(function) or not hasattr(function, "__name__"):
        raise TypeError(f"a decorator of lycosa marks a function, not {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__name__} is async; a decorator marks an ordinary function")


def _name(function: object) -> str:
    return getattr(function, "__name__", "?")
