"""Reads PDF files: text, title, links, and what the file says about itself.

The library, PDFium, is the PDF reader of Chromium. It is C++ code that reads hostile input, so only
a separate parse child uses it (``ParserConfig.reads_files``), within that child's limits of memory
and processor time.

A PDF file has neither words nor paragraphs, only places of characters; PDFium makes lines of them.
Lines become paragraphs here: the next line continues one that is nearly as wide as the widest of
its page. Lines that stand at the top or bottom of most pages, page numbers above all, belong to the
visible text but not to the main content.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pypdfium2
from pypdfium2 import raw

from lycosa.base.config.sections import ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.page_content import Heading, PageContent
from lycosa.base.model.remark import Remark
from lycosa.base.reasons import Reason
from lycosa.stages.parse.element_readers import MAX_ANCHOR, RawPage

_MAX_PAGES = 5000
_TIME_SHARE = 0.5  # of the time of a document
_MAX_HEADINGS, _HEADING_LEVELS, _MAX_HEADING = 500, 6, 500
_MAX_FIELD = 2000  # characters of title, author and description
_MAX_URI = 8192  # bytes
_WIDE = 0.75  # of the widest line of a page, which the next line may continue
_SHORT_LINE = 40  # characters; a page without longer lines is a list or a slide
_MOST = 0.5  # of the pages; a line at the edge of more of them is a running head
_FEWEST_PAGES = 4
_DATE = re.compile(
    r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-])(\d\d)'?(\d\d)?'?)?"
)
_HYPHEN = "\ufffe"  # how PDFium marks a hyphen at the end of a line that divides a word
_DIGITS = re.compile(r"\d+")
_LISTED = re.compile(r"(?:[•‣▪◦·*–—-]|\(?[0-9a-zA-Z]{1,3}[.)])\s")


def read_pdf(body: bytes, section: ParseSection) -> tuple[RawPage, Remark]:
    """The content of a file, and what there is to note: usually nothing.

    It ends with the page that fills the text, and after half of the time of a document. A file that
    cannot be read has no content, and a remark with the cause.
    """
    began = time.process_time()
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        fault = "needs a password" if "assword" in str(error) else "is broken"
        return RawPage(""), Remark(Reason.CONTENT_TYPE, f"a PDF file that {fault}")
    try:
        page, pages, size = RawPage("", max_links=section.max_links), list[_PdfPage](), 0
        number, remark = len(document), Remark(Reason.NONE)
        for at in range(number):
            is_late = time.process_time() - began >= _TIME_SHARE * section.deadline_s
            if at >= _MAX_PAGES or size >= section.max_text or is_late:
                missing = f"pages {at + 1} to {number} of a PDF file"
                remark = Remark(Reason.BODY_TRUNCATED, missing)
                break
            read = _read_page(document, at, page)
            pages.append(read)
            size += len(read.text)
        _add_texts(page, pages)
        _add_metadata(page, document)
        return page, remark
    finally:
        document.close()


class _PdfPage:
    """The lines of a page, as PDFium found them."""

    __slots__ = ("lines", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = [line for each in text.split("\n") if (line := " ".join(each.split()))]

    def edges(self) -> set[str]:
        """The first and the last line, with every number as one character."""
        return {_DIGITS.sub("0", line) for line in (*self.lines[:1], *self.lines[-1:])}


def _read_page(document: pypdfium2.PdfDocument, at: int, found: RawPage) -> _PdfPage:
    """The text of a page; its links go to ``found``. A damaged page is empty."""
    try:
        page = document[at]
    except pypdfium2.PdfiumError:
        return _PdfPage("")
    try:
        text = page.get_textpage()
    except pypdfium2.PdfiumError:
        page.close()
        return _PdfPage("")
    try:
        for url, anchor in _links(document, page, text, found.max_links):
            found.add(url, LinkKind.A, anchor)
        return _PdfPage(_characters(text.get_text_range()))
    finally:
        text.close()
        page.close()


def _characters(text: str) -> str:
    """Text with ordinary line ends; a divided word is one word, and no control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace(_HYPHEN + "\n", "").replace(_HYPHEN, "")
    return "".join([each for each in text if each >= " " or each in "\n\t"])


def _links(
    document: pypdfium2.PdfDocument,
    page: pypdfium2.PdfPage,
    text: pypdfium2.PdfTextPage,
    most: int,
) -> Iterator[tuple[str, str]]:
    """URL and text of the links of a page: areas with a URI action, then URLs in the text."""
    place, link = ctypes.c_int(0), raw.FPDF_LINK()
    for _ in range(most):
        if not raw.FPDFLink_Enumerate(page, place, link):
            break
        if url := _uri(document, raw.FPDFLink_GetAction(link)):
            yield url, _text_of(link, text)
    urls = raw.FPDFLink_LoadWebLinks(text)
    try:
        for index in range(min(raw.FPDFLink_CountWebLinks(urls), most)):
            size = raw.FPDFLink_GetURL(urls, index, None, 0)
            if 0 < size <= _MAX_URI:
                buffer = (ctypes.c_ushort * size)()
                raw.FPDFLink_GetURL(urls, index, buffer, size)
                url = bytes(buffer).decode("utf-16-le", "replace").rstrip("\x00")
                yield url, url[:MAX_ANCHOR]
    finally:
        raw.FPDFLink_CloseWebLinks(urls)


def _uri(document: pypdfium2.PdfDocument, action: object) -> str:
    if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
        return ""
    size = raw.FPDFAction_GetURIPath(document, action, None, 0)
    if not 0 < size <= _MAX_URI:
        return ""
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAction_GetURIPath(document, action, buffer, size)
    return buffer.value.decode("utf-8", "replace")


def _text_of(link: object, text: pypdfium2.PdfTextPage) -> str:
    area = raw.FS_RECTF()
    if not raw.FPDFLink_GetAnnotRect(link, area):
        return ""
    said = text.get_text_bounded(area.left, area.bottom, area.right, area.top)
    return " ".join(_characters(said).split())[:MAX_ANCHOR]


# -- lines and paragraphs


def _add_texts(page: RawPage, pages: list[_PdfPage]) -> None:
    """Set the visible text, and the places of the main content in it."""
    heads = _running_heads(pages)
    lines: list[str] = []
    places: list[int] = []
    end = 0
    for each in pages:
        last = len(each.lines) - 1
        body: list[str] = []
        for at, line in enumerate(each.lines):
            is_head = at in (0, last) and _DIGITS.sub("0", line) in heads
            if not is_head:
                body.append(line)
                continue
            end = _add_lines(lines, places, _paragraphs(body), end, is_main=True)
            body = []
            end = _add_lines(lines, places, [line], end, is_main=False)
        end = _add_lines(lines, places, _paragraphs(body), end, is_main=True)
    page.text = "\n".join(lines)
    page.content = PageContent(main=tuple(places))


def _add_lines(
    lines: list[str], places: list[int], more: list[str], end: int, is_main: bool
) -> int:
    """Add lines to the text; returns its new length, with a line end."""
    for line in more:
        if is_main and places and places[-1] + 1 == end:
            places[-1] = end + len(line)
        elif is_main:
            places += (end, end + len(line))
        lines.append(line)
        end += len(line) + 1
    return end


def _running_heads(pages: list[_PdfPage]) -> set[str]:
    """First and last lines that most pages have, apart from their numbers."""
    if len(pages) < _FEWEST_PAGES:
        return set()
    counts = Counter(edge for each in pages for edge in each.edges())
    return {edge for edge, count in counts.items() if count > _MOST * len(pages)}


def _paragraphs(lines: list[str]) -> list[str]:
    """The lines of a page with each paragraph as one line."""
    widest = max(map(len, lines), default=0)
    if widest < _SHORT_LINE:
        return lines
    joined: list[str] = []
    continues = False
    for line in lines:
        if continues and not _LISTED.match(line):
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
        continues = len(line) >= _WIDE * widest
    return joined


# -- metadata


def _add_metadata(page: RawPage, document: pypdfium2.PdfDocument) -> None:
    fields = document.get_metadata_dict()

    def field(name: str) -> str:
        return " ".join(fields.get(name, "").split())[:_MAX_FIELD]

    page.title, page.language = field("Title"), _language(document)
    page.metas.append(("description", field("Subject")))
    assert page.content is not None
    page.content = PageContent(
        main=page.content.main,
        headings=_headings(document),
        author=field("Author"),
        published=pdf_date(fields.get("CreationDate", "")),
        modified=pdf_date(fields.get("ModDate", "")),
    )


def _language(document: pypdfium2.PdfDocument) -> str:
    size = raw.FPDFCatalog_GetLanguage(document, None, 0)
    if not 2 < size <= 200:
        return ""
    buffer = (ctypes.c_ushort * ((size + 1) // 2))()
    raw.FPDFCatalog_GetLanguage(document, buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\x00")


def _headings(document: pypdfium2.PdfDocument) -> tuple[Heading, ...]:
    """The table of contents, if the file has one."""
    entries = document.get_toc(max_depth=_HEADING_LEVELS)
    return tuple(
        Heading(each.level + 1, title)
        for each in islice(entries, _MAX_HEADINGS)
        if (title := " ".join((each.get_title() or "").split())[:_MAX_HEADING])
    )


def pdf_date(text: str) -> str:
    """ISO 8601 of a PDF date (ISO 32000-2, 7.9.4); empty when it is none.

    A date without a zone has none here either.
    """
    if (found := _DATE.match(text.strip())) is None:
        return ""
    year, month, day, hour, minute, second, is_utc, sign, zone_hour, zone_minute = found.groups()
    date = "-".join(filter(None, (year, month, day)))
    if not hour:
        return date
    zone = "Z" if is_utc else f"{sign}{zone_hour}:{zone_minute or '00'}" if sign else ""
    return f"{date}T{hour}:{minute or '00'}:{second or '00'}{zone}"
