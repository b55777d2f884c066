"""A child for pages and another for PDF files: the second one neither delays nor ends the first."""

from __future__ import annotations

import os
import signal

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.parse.parser_pair import ParserPair
from pdf_files import pdf_file

PAGE = ParseInput("http://example.org/", 200, [("content-type", "text/html")], b"<p>Spiders")
FILE = ParseInput(
    "http://example.org/one.pdf", 200, [("content-type", "application/pdf")], pdf_file([["Wolf"]])
)


def pair(pdf: bool = True) -> ParserPair:
    section = ParseSection(language=False, pdf=pdf)
    return ParserPair(ParserConfig(section, CanonicalSection(), "lycosa"), SystemClock())


async def test_the_first_file_starts_a_child_that_may_die() -> None:
    parser = pair()
    try:
        assert (await parser.parse(PAGE)).text == "Spiders"
        assert parser.pids["PDF parser"] is None
        assert (await parser.parse(FILE)).text == "Wolf"
        pages, files = parser.pids["parser"], parser.pids["PDF parser"]
        assert pages and files and pages != files
        os.kill(files, signal.SIGKILL)
        assert (await parser.parse(FILE)).text == "Wolf"
        assert (await parser.parse(PAGE)).text == "Spiders"
        assert parser.pids["parser"] == pages
        assert parser.pids["PDF parser"] != files
        assert parser.health().away_why == ""
    finally:
        await parser.close()


async def test_without_the_setting_a_file_has_no_text() -> None:
    parser = pair(pdf=False)
    try:
        assert (await parser.parse(FILE)).reason is Reason.CONTENT_TYPE
        assert parser.pids == {"parser": parser.pids["parser"], "PDF parser": None}
    finally:
        await parser.close()
