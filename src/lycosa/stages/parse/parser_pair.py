"""The parser port with a second child for PDF files.

A PDF reader is a large library in C++ that opens hostile files. In a separate child it neither
falsifies nor delays pages, and takes no memory while there is no PDF file: the first one starts the
child. What a file is, the child for pages says; so both children know one rule for types.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.ports import Clock
from lycosa.stages.parse.child_parser import ChildParser
from lycosa.stages.parse.media_type import may_be_pdf
from lycosa.stages.parse.parser_config import ParserConfig


class ParserPair:
    """One child for pages, and one for PDF files if the settings ask for them (``parse.pdf``)."""

    def __init__(self, config: ParserConfig, clock: Clock) -> None:
        self._pages = ChildParser(msgspec.structs.replace(config, reads_pdf=False), clock)
        self._files = (
            ChildParser(msgspec.structs.replace(config, reads_pdf=True), clock)
            if config.section.pdf
            else None
        )

    async def parse(self, document: ParseInput) -> Parsed:
        """See ``Parser``."""
        parsed = await self._pages.parse(document)
        # Nearly all are pages, which the comparison spares a call.
        if (
            parsed.media_type == "text/html"
            or self._files is None
            or not may_be_pdf(parsed.media_type, document.url)
        ):
            return parsed
        return await self._files.parse(document)

    def health(self) -> ParserHealth:
        """See ``Parser``. Both children together; why there is none is that of the first."""
        pages = self._pages.health()
        if self._files is None:
            return pages
        files = self._files.health()
        return msgspec.structs.replace(
            pages if pages.away_why else files,
            waiting=pages.waiting + files.waiting,
            away_total_s=pages.away_total_s + files.away_total_s,
            deaths=pages.deaths + files.deaths,
            tried_again=pages.tried_again + files.tried_again,
        )

    async def close(self) -> None:
        """See ``Parser``."""
        await self._pages.close()
        if self._files is not None:
            await self._files.close()

    def recycle(self) -> None:
        """Replace the children by fresh ones; that for PDF files starts with the next file."""
        self._pages.recycle()
        if self._files is not None:
            self._files.recycle()

    @property
    def pids(self) -> dict[str, int | None]:
        """The process ids of the children."""
        files = self._files.pid if self._files is not None else None
        return {"parser": self._pages.pid, "PDF parser": files}
