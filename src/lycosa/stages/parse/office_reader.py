"""Reads office documents: Word, PowerPoint, spreadsheets, OpenDocument, EPUB and RTF.

The library, Kreuzberg, makes HTML of them, which is read as a page is: text, headings and links.
It is an extra (``office``) of 40 MB, and only the parse child for files uses it, within the limits
of that child. It opens no network connection and no file, and recognizes nothing in images.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import turbohtml
from kreuzberg import ExtractionConfig, KreuzbergError, extract_bytes_sync

from lycosa.base.config.sections import ParseSection
from lycosa.base.model.page_content import NO_CONTENT
from lycosa.base.model.remark import Remark
from lycosa.base.reasons import Reason
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.html import read_html

_CONFIG = ExtractionConfig(output_format="html", use_cache=False)
_MAX_FIELD = 2000  # characters of title, author and description
_MAX_DETAIL = 200


def read_office(
    body: bytes,
    file: str,
    section: ParseSection,
    read_more: Callable[[turbohtml.Document, RawPage], None] | None,
) -> tuple[RawPage, Remark]:
    """The content of a document of a type (``media_type.file_type``); ``read_more`` as in HTML.

    A document that cannot be read has no content, and a remark with the cause.
    """
    try:
        read = extract_bytes_sync(body, file, config=_CONFIG)
    except KreuzbergError as error:
        detail = f"an office document that cannot be read: {error}"
        return RawPage(""), Remark(Reason.CONTENT_TYPE, detail[:_MAX_DETAIL])
    page = read_html(read.content, None, section.max_links, read_more)
    fields = read.metadata
    page.title = _field(fields.get("title")) or page.title
    page.metas.append(("description", _field(fields.get("subject"))))
    page.language = page.language or _field(fields.get("language"))
    page.content = msgspec.structs.replace(
        page.content or NO_CONTENT,
        author=_field(", ".join(fields.get("authors") or ())),
        published=_field(fields.get("created_at")),
        modified=_field(fields.get("modified_at")),
    )
    return page, Remark(Reason.NONE)


def _field(value: object) -> str:
    return " ".join(value.split())[:_MAX_FIELD] if isinstance(value, str) else ""
