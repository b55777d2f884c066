"""A stored page as user code gets it: the same object in a crawl, in ``lycosa extract``, in a test.

The body is decoded. It is parsed when something is selected, and once for each ``Document``. The
tree is the one that the crawl reads links from: that of a browser with scripts, in which the
content of ``<noscript>`` is text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import turbohtml

from lycosa.base.config.sections import Config
from lycosa.base.model.parsed import Link, Parsed, ParseInput
from lycosa.base.system.content_encoding import decode_content
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, resolve
from lycosa.stages.extract.code_messages import GivenDocument
from lycosa.stages.parse.charset import decode_text
from lycosa.stages.parse.content_reader import ContentReader
from lycosa.stages.parse.html import parse_tree
from lycosa.stages.parse.media_type import file_type, media_type_of, sniff
from lycosa.stages.parse.outlinks import base_of
from lycosa.stages.parse.page import MAX_BODY_BYTES, MAX_RATIO
from lycosa.stages.parse.page_metadata import PageMetadata
from lycosa.stages.parse.parser_config import with_installed_readers

_Bytes = bytes  # in the class, that name is a method
_MAX_TEXT = 10 << 20  # characters of Markdown
_MARKUP = frozenset({"text/html", "application/xhtml+xml"})


class Headers(Mapping[str, str]):
    """Header fields of an answer. Names have no case; of equal names ``[]`` gives the first."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self.fields = [(name.lower(), value) for name, value in fields]
        """All fields in their order."""

    def __repr__(self) -> str:
        return f"<Headers {self.fields}>"

    def __getitem__(self, name: str) -> str:
        found = self.get_all(name)
        if not found:
            raise KeyError(name)
        return found[0]

    def get_all(self, name: str) -> list[str]:
        """All values of a field."""
        wanted = name.lower()
        return [value for key, value in self.fields if key == wanted]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.fields))

    def __len__(self) -> int:
        return len(dict(self.fields))


class Element:
    """An element of a page."""

    __slots__ = ("_found",)

    def __init__(self, found: turbohtml.Element) -> None:
        self._found = found

    def __repr__(self) -> str:
        return f"<Element {self.tag} {self.text[:40]!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Element) and self._found == other._found

    def __hash__(self) -> int:
        return hash(self._found)

    @property
    def tag(self) -> str:
        """The name of the element in lower case."""
        return self._found.tag

    @property
    def text(self) -> str:
        """The text inside, with white space folded to single spaces."""
        return " ".join(self._found.text.split())

    @property
    def html(self) -> str:
        """The element with its content as markup."""
        return self._found.html

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes and their values."""
        return {name: self._found.attr(name) or "" for name in self._found.attrs}

    def __getitem__(self, attribute: str) -> str:
        """The value of an attribute. Raises ``KeyError`` if it is not there."""
        value = self._found.attr(attribute)
        if value is None:
            raise KeyError(attribute)
        return value

    def get(self, attribute: str, default: str | None = None) -> str | None:
        """The value of an attribute, or the default."""
        value = self._found.attr(attribute)
        return default if value is None else value

    def select(self, css: str) -> list[Element]:
        """The elements inside that match a CSS selector. Raises ``ValueError`` for a bad one."""
        return [Element(each) for each in self._found.select(css)]

    def select_one(self, css: str) -> Element | None:
        """The first element inside that matches a CSS selector."""
        found = self._found.select_one(css)
        return None if found is None else Element(found)

    def xpath(self, path: str) -> list[Element | str]:
        """What an XPath 1.0 expression finds from here: elements, and texts of all else."""
        return _xpath(self._found, path)


class Article(msgspec.Struct, frozen=True):
    """The main content of a page, without navigation and other boilerplate.

    ``text`` has a line for each block; dates are ISO 8601, as the page gives them. All are empty
    where the page has none.
    """

    text: str = ""
    markdown: str = ""
    title: str = ""
    author: str = ""
    published: str = ""
    modified: str = ""


class StructuredData(msgspec.Struct, frozen=True):
    """Structured data of a page: objects of JSON-LD, items of microdata, fields of OpenGraph."""

    json_ld: list[Any] = []
    microdata: list[Any] = []
    opengraph: dict[str, str] = {}


class Document:
    """One stored page, decoded.

    ``url`` is that of the page itself, because each redirect is a separate page; ``final_url`` is
    the same. ``fetched`` is when the request began. ``media_type`` is the detected type.
    ``preferences`` are what the site stated about the use of the page. ``is_rendered`` says that
    the body is the document after its scripts ran; without it, it is what the server sent.
    """

    def __init__(self, given: GivenDocument, canonicalizer: Canonicalizer | None = None) -> None:
        self._given, self._canonicalizer = given, canonicalizer
        self.url = self.final_url = given.url
        self.status = given.status
        self.headers = Headers(given.headers)
        self.fetched = datetime.fromtimestamp(given.fetched, UTC)
        self.preferences = given.preferences
        self.is_cut = given.is_cut
        self.is_rendered = given.is_rendered

    def __repr__(self) -> str:
        return f"<Document {self.url} {self.status}>"

    def bytes(self) -> bytes:
        """The body without content encodings, up to 64 MB."""
        return self._body

    @cached_property
    def _body(self) -> _Bytes:
        given = self._given
        raw = Path(given.spool).read_bytes() if given.spool else given.body
        return decode_content(raw, given.encodings, MAX_BODY_BYTES, MAX_RATIO).body[:MAX_BODY_BYTES]

    def text(self) -> str:
        """The body as text, by its charset; bytes that are not valid become U+FFFD.

        Of a PDF file it is the text that is seen.
        """
        if self._is_file:
            return self._file_text[0]
        return decode_text(self._body, self._charset)[0]

    @property
    def _charset(self) -> str | None:
        if self._given.charset:
            return self._given.charset
        sent = media_type_of(self.headers.fields)
        return sent.parameters.get("charset") if sent else None

    @cached_property
    def media_type(self) -> str:
        """The type of the body as detected, such as ``text/html``."""
        if self._given.media_type:
            return self._given.media_type
        sent = media_type_of(self.headers.fields)
        return sniff(sent.essence if sent else "", self._body)[0]

    @cached_property
    def _tree(self) -> turbohtml.Document:
        return self._new_tree()

    def _new_tree(self) -> turbohtml.Document:
        is_markup = self.media_type in _MARKUP or "xml" in self.media_type
        return parse_tree(self._body if is_markup else b"", self._charset)

    def select(self, css: str) -> list[Element]:
        """The elements that match a CSS selector, in document order.

        Raises ``ValueError`` for a selector that is not one. A page that is no markup has none.
        """
        return [Element(each) for each in self._tree.select(css)]

    def select_one(self, css: str) -> Element | None:
        """The first element that matches a CSS selector."""
        found = self._tree.select_one(css)
        return None if found is None else Element(found)

    def xpath(self, path: str) -> list[Element | str]:
        """What an XPath 1.0 expression finds: elements, and the text of all else."""
        return _xpath(self._tree, path)

    @cached_property
    def selector(self) -> Any:
        """The page as a ``parsel.Selector``, with the selectors of Scrapy: ``css("h1::text")``.

        Raises ``ModuleNotFoundError`` where the extra ``parsel`` is not installed.
        """
        try:
            from parsel import Selector
        except ModuleNotFoundError as error:
            from lycosa.base.config.extras import install_command

            needed = f"page.selector needs the package parsel: {install_command('parsel')}"
            raise ModuleNotFoundError(needed, name=error.name) from None
        kind = "html" if self.media_type in _MARKUP else "xml" if "xml" in self.media_type else None
        return Selector(text=self.text(), type=kind, base_url=self.base)

    @cached_property
    def title(self) -> str:
        """The text of the title."""
        if self._is_file:
            return self._file_text[1]
        found = self.select_one("title")
        return "" if found is None else found.text

    def main(self) -> Article:
        """The main content of the page, with its metadata; of a PDF file, text and title."""
        if self._is_file:
            return Article(self.text(), title=self.title)
        tree = self._new_tree()  # the reader marks elements
        reader = ContentReader(self.base, _MAX_TEXT)
        content = reader.read(tree)
        return Article(
            reader.main_text,
            content.markdown,
            self.title,
            content.author,
            content.published,
            content.modified,
        )

    def structured(self) -> StructuredData:
        """Structured data of the page; empty when it is longer than 64 KB of JSON."""
        found = PageMetadata(self._tree, self.absolute).structured()
        return msgspec.convert(json.loads(found or "{}"), StructuredData, strict=False)

    @cached_property
    def base(self) -> str:
        """What references of the page are relative to."""
        found = self._tree.select_one("base[href]")
        return base_of(self.url, None if found is None else found.attr("href"))

    def absolute(self, reference: str) -> str:
        """The absolute form of a reference of the page; empty if it is no URL."""
        try:
            return resolve(reference.strip(), self.base)
        except InvalidUrl:
            return ""

    @cached_property
    def links(self) -> Sequence[Link]:
        """The links that the crawl finds in the page."""
        return self._given.links if self._given.links is not None else self._parsed.links

    @cached_property
    def language(self) -> str:
        """The language of the text, as ISO 639-1, or empty."""
        return self._given.language if self._given.links is not None else self._parsed.language

    @cached_property
    def _is_file(self) -> bool:
        return bool(file_type(self.media_type, self.url))

    @property
    def _file_text(self) -> tuple[str, str]:
        """Text and title of a PDF file or office document."""
        if self._given.file_text is not None:
            return self._given.file_text, self._given.file_title
        return self._parsed.text, self._parsed.title

    @cached_property
    def _parsed(self) -> Parsed:
        """What is found in a page that no crawl has read, or of which that was not stored."""
        # Here, because a process of user code has no use for numpy and the language model.
        from lycosa.stages.parse.document import DocumentParser

        config = Config()
        canonicalizer = self._canonicalizer or Canonicalizer(config.canonical)
        section = with_installed_readers(msgspec.structs.replace(config.parse, office=True))
        parser = DocumentParser(
            section, canonicalizer, config.agent.product, reads_files=self._is_file
        )
        kept = [each for each in self.headers.fields if each[0] != "content-encoding"]
        return parser.parse(ParseInput(self.url, self.status, kept, self._body))


def document(
    source: str | Path | bytes,
    url: str,
    *,
    status: int = 200,
    headers: Sequence[tuple[str, str]] = (),
    fetched: datetime | None = None,
) -> Document:
    """A document from a file or from bytes, to test user code without a crawl.

    Without a ``content-type`` in ``headers``, the type is detected from the bytes. Raises
    ``OSError`` for a file that cannot be read.
    """
    fields, sent = list(headers), media_type_of([(name.lower(), value) for name, value in headers])
    body = source if isinstance(source, bytes) else Path(source).read_bytes()
    seconds = fetched.timestamp() if fetched is not None else 0.0
    media_type = sniff(sent.essence if sent else "", body)[0]
    if sent is None and media_type == "text/plain" and b"<" in body:
        media_type = "text/html"  # a part of a page
    return Document(GivenDocument(url, status, fields, seconds, media_type, body=body))


def _xpath(root: turbohtml.Document | turbohtml.Element, path: str) -> list[Element | str]:
    found = root.xpath(path)
    if not isinstance(found, list):  # the value of a function, such as count()
        return [_as_text(found)]
    return [Element(each) if isinstance(each, turbohtml.Element) else str(each) for each in found]


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
