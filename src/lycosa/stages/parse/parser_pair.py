"""The parser port with a second child for PDF files and office documents.

Their readers are large libraries in C++ and Rust that open hostile files. In a separate child they
neither falsify nor delay pages, and take no memory while there is no such file: the first one
starts the child. What a file is, the child for pages says; so both children know one rule for
types.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.ports import Clock
from lycosa.stages.parse.child_parser import ChildParser
from lycosa.stages.parse.media_type import file_type, is_read
from lycosa.stages.parse.parser_config import ParserConfig, with_installed_readers


class ParserPair:
    """One child for pages, and one for files if the settings ask for them.

    Those are ``parse.pdf`` and ``parse.office``; the latter counts only where its library is
    installed (``with_installed_readers``).
    """

    def __init__(self, config: ParserConfig, clock: Clock) -> None:
        self._section = with_installed_readers(config.section)
        config = msgspec.structs.replace(config, section=self._section)
        self._pages = ChildParser(msgspec.structs.replace(config, reads_files=False), clock)
        self._files = (
            ChildParser(msgspec.structs.replace(config, reads_files=True), clock)
            if self._section.pdf or self._section.office
            else None
        )

    async def parse(self, document: ParseInput) -> Parsed:
        """See ``Parser``."""
        parsed = await self._pages.parse(document)
        # Nearly all are pages, which the comparison spares a call.
        if (
            parsed.media_type == "text/html"
            or self._files is None
            or not is_read(file_type(parsed.media_type, document.url), self._section)
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

    def judge_scripts(self, is_wanted: bool) -> None:
        """See ``Parser``. Documents that were given already are read as before."""
        self._pages.judge_scripts(is_wanted)

    async def close(self) -> None:
        """See ``Parser``."""
        await self._pages.close()
        if self._files is not None:
            await self._files.close()

    def recycle(self) -> None:
        """Replace the children by fresh ones; that for files starts with the next one."""
        self._pages.recycle()
        if self._files is not None:
            self._files.recycle()

    @property
    def pids(self) -> dict[str, int | None]:
        """The process ids of the children."""
        files = self._files.pid if self._files is not None else None
        return {"parser": self._pages.pid, "file parser": files}
