"""Author, dates, languages and structured data of a page, as the page itself gives them.

JSON-LD, microdata (HTML standard 5) and OpenGraph. Author and dates come from the first of these
that has them: JSON-LD of an article, metas, a ``time`` element. Nothing is guessed from the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import turbohtml

from lycosa.base.model.page_content import Alternate

MAX_STRUCTURED = 65_536
"""Characters of structured data; a page with more has none."""

_MAX_ALTERNATES = 500
_MAX_NODES = 2000  # objects of JSON-LD that are looked at
_MAX_NAME = 300
_PUBLISHED = (
    "article:published_time", "og:published_time", "datepublished", "date", "dc.date",
    "dc.date.issued", "dcterms.issued", "dcterms.created", "pubdate", "publishdate",
    "publish-date", "parsely-pub-date", "citation_publication_date",
)  # fmt: skip
_MODIFIED = (
    "article:modified_time", "og:updated_time", "datemodified", "dcterms.modified",
    "last-modified", "lastmod",
)  # fmt: skip
_AUTHOR = ("author", "article:author", "dc.creator", "dcterms.creator", "parsely-author",
           "citation_author")  # fmt: skip
_DATE = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?"
)


class PageMetadata:
    """Reads the metadata of one page. ``resolve`` gives the absolute form of a reference."""

    def __init__(self, tree: turbohtml.Document, resolve: Callable[[str], str]) -> None:
        self._tree, self._resolve = tree, resolve
        self._json_ld = _read(tree.json_ld) if tree.select("script[type]") else []
        self._metas = dict(reversed(list(_metas(tree))))  # of equal names the first counts
        self._objects = list(_objects(self._json_ld))

    def author(self) -> str:
        """The name of the first author; empty when none is named."""
        for each in self._objects:
            is_article = "datePublished" in each or "headline" in each
            if is_article and (name := _name_of(each.get("author"))):
                return name
        named = next((self._metas[name] for name in _AUTHOR if self._metas.get(name)), "")
        if named and not named.startswith(("http://", "https://")):
            return _folded(named)
        found = self._tree.select("[rel~=author]")
        return _folded(found[0].text) if found else ""

    def published(self) -> str:
        """The date of publication in ISO 8601; empty when none is given."""
        return self._date("datePublished", _PUBLISHED) or self._time()

    def modified(self) -> str:
        """The date of the last change that the page gives, in ISO 8601."""
        return self._date("dateModified", _MODIFIED)

    def alternates(self) -> tuple[Alternate, ...]:
        """The same page in other languages, in document order."""
        found: dict[Alternate, None] = {}
        for element in self._tree.select("link[hreflang]"):
            rels, language = (element.attr("rel") or "").lower().split(), element.attr("hreflang")
            if "alternate" not in rels or not language or len(found) >= _MAX_ALTERNATES:
                continue
            if url := self._resolve(element.attr("href") or ""):
                found[Alternate(language.strip().lower()[:35], url)] = None
        return tuple(found)

    def structured(self) -> str:
        """JSON-LD, microdata and OpenGraph as JSON; empty without any or if it is too long."""
        found: dict[str, Any] = {"json_ld": self._json_ld}
        if self._tree.select("[itemscope]"):
            found["microdata"] = _read(
                lambda: [json.loads(item.json()) for item in self._tree.microdata()]
            )
        found["opengraph"] = {
            name: text for name, text in self._metas.items() if name.startswith("og:")
        }
        found = {name: value for name, value in found.items() if value}
        if not found:
            return ""
        try:
            text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), default=str)
        except (ValueError, RecursionError):  # nested deeper than the writer goes
            return ""
        return text if len(text) <= MAX_STRUCTURED else ""

    def _date(self, key: str, names: Iterable[str]) -> str:
        for each in self._objects:
            if isinstance(given := each.get(key), str) and (date := iso_date(given)):
                return date
        for name in names:
            if date := iso_date(self._metas.get(name, "")):
                return date
        return ""

    def _time(self) -> str:
        for element in self._tree.select("time")[:10]:
            if date := iso_date(element.attr("datetime") or ""):
                return date
        return ""


def iso_date(text: str) -> str:
    """The date of ISO 8601 with which a text begins, to the second; empty without one."""
    found = _DATE.match(text.strip()[:100])
    if found is None:
        return ""
    day, time, zone = found.groups()
    if not ("01" <= day[5:7] <= "12" and "01" <= day[8:10] <= "31"):
        return ""
    return f"{day}T{time}{zone or ''}" if time else day


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (ValueError, RecursionError):  # data of a page that nests too deep, or refers to itself
        return []


def _metas(tree: turbohtml.Document) -> Iterator[tuple[str, str]]:
    for element in tree.select("meta"):
        name = element.attr("property") or element.attr("name") or element.attr("itemprop")
        if name and (content := element.attr("content")):
            yield name.strip().lower(), content


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of JSON-LD on the upper levels: in lists and in ``@graph``."""
    waiting, seen = [value], 0
    while waiting and seen < _MAX_NODES:
        seen += 1
        each = waiting.pop()
        if isinstance(each, list):
            waiting += reversed(each[:_MAX_NODES])
        elif isinstance(each, dict):
            yield each
            if isinstance(graph := each.get("@graph"), list):
                waiting += reversed(graph[:_MAX_NODES])


def _name_of(author: Any) -> str:
    if isinstance(author, list) and author:
        author = author[0]
    if isinstance(author, dict):
        author = author.get("name")
    return _folded(author) if isinstance(author, str) else ""


def _folded(text: str) -> str:
    return " ".join(text[: _MAX_NAME * 10].split())[:_MAX_NAME].rstrip()
