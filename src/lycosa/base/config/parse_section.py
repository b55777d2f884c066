"""Settings of parsing, which happens in a child process."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class LinkRule(Enum):
    """What of a document counts as a link; each contains the one before it."""

    A = "a"
    DOCUMENT = "document"
    ALL = "all"


class ParseSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits on parsing, which happens in a child process."""

    max_bytes: Annotated[
        int, setting("Maximum number of decoded bytes that are parsed.", ge=1024)
    ] = 10_000_000
    max_ratio: Annotated[
        int,
        setting(
            "Maximum number of decoded bytes per received byte, beyond the first megabyte.", ge=10
        ),
    ] = 1000
    deadline_s: Annotated[
        float,
        setting(
            "Maximum processor time of the parse child for one document; after it the child is"
            " killed. A child that does not answer for 20 times as long is killed as well.",
            gt=0,
        ),
    ] = 10.0
    memory_bytes: Annotated[
        int, setting("Maximum address space of a parse child; 0 is no limit.", ge=0)
    ] = 2_000_000_000
    recycle_documents: Annotated[
        int, setting("Documents after which a parse child is replaced.", ge=1)
    ] = 20_000
    max_links: Annotated[int, setting("Maximum number of outlinks of one document.", ge=1)] = 50_000
    max_text: Annotated[
        int, setting("Maximum number of characters of visible text that are kept.", ge=0)
    ] = 1_000_000
    language: Annotated[bool, setting("Identify the language of the text.")] = True
    pdf: Annotated[
        bool,
        setting("Read text, title and links of PDF files, in a separate parse child."),
    ] = True
    office: Annotated[
        bool,
        setting(
            "Read text, title and links of office documents (Word, PowerPoint, spreadsheets,"
            " OpenDocument, EPUB, RTF), in the same child; needs the extra office."
        ),
    ] = False
    links: Annotated[
        LinkRule,
        setting(
            "What counts as a link: a (what visitors follow), document (also other URLs that a"
            " document names), or all (also texts that look like URLs of the same host) (--links)."
        ),
    ] = LinkRule.A
