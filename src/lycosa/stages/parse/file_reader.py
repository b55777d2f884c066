"""Chooses the reader of a file. Only the parse child for files calls it."""

from __future__ import annotations

from collections.abc import Callable

import turbohtml

from lycosa.base.config.sections import ParseSection
from lycosa.base.model.remark import Remark
from lycosa.base.reasons import Reason
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.media_type import is_read


def content_of_file(
    body: bytes,
    file: str,
    section: ParseSection,
    read_more: Callable[[turbohtml.Document, RawPage], None] | None,
) -> tuple[RawPage, Remark]:
    """The content of a file of this type (``media_type.file_type``), and what there is to note.

    ``read_more`` reads more of a document that becomes HTML on the way (``read_html``).
    """
    if not is_read(file, section):
        return RawPage(""), Remark(Reason.CONTENT_TYPE)
    # Imported here, because a child that reads pages needs no such library in its memory.
    if file == "application/pdf":
        from lycosa.stages.parse.pdf_reader import read_pdf

        return read_pdf(body, section)
    from lycosa.stages.parse.office_reader import read_office

    return read_office(body, file, section, read_more)
