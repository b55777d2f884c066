"""A child for pages and another for files: the second one neither delays nor ends the first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.parse.parser_pair import ParserPair
from office_files import DOCX, docx_file
from pdf_files import pdf_file

PAGE = ParseInput("http://example.org/", 200, [("content-type", "text/html")], b"<p>Spiders")
FILE = ParseInput(
    "http://example.org/one.pdf", 200, [("content-type", "application/pdf")], pdf_file([["Wolf"]])
)


REPORT = ParseInput(
    "http://example.org/one.docx", 200, [("content-type", DOCX)], docx_file("Spiders", "They hunt.")
)


def pair(pdf: bool = True, office: bool = False) -> ParserPair:
    section = ParseSection(language=False, pdf=pdf, office=office)
    return ParserPair(ParserConfig(section, CanonicalSection(), "lycosa"), SystemClock())


async def test_the_first_file_starts_a_child_that_may_die() -> None:
    parser = pair()
    try:
        assert (await parser.parse(PAGE)).text == "Spiders"
        assert parser.pids["file parser"] is None
        assert (await parser.parse(FILE)).text == "Wolf"
        pages, files = parser.pids["parser"], parser.pids["file parser"]
        assert pages and files and pages != files
        os.kill(files, signal.SIGKILL)
        assert (await parser.parse(FILE)).text == "Wolf"
        assert (await parser.parse(PAGE)).text == "Spiders"
        assert parser.pids["parser"] == pages
        assert parser.pids["file parser"] != files
        assert parser.health().away_why == ""
    finally:
        await parser.close()


async def test_without_the_setting_a_file_has_no_text() -> None:
    parser = pair(pdf=False)
    try:
        assert (await parser.parse(FILE)).reason is Reason.CONTENT_TYPE
        assert parser.pids == {"parser": parser.pids["parser"], "file parser": None}
    finally:
        await parser.close()


async def test_office_documents_are_read_in_the_child_for_files() -> None:
    parser = pair(pdf=False, office=True)
    try:
        assert (await parser.parse(FILE)).reason is Reason.CONTENT_TYPE
        assert parser.pids["file parser"] is None
        assert (await parser.parse(REPORT)).text == "Spiders\nThey hunt."
        assert parser.pids["file parser"]
    finally:
        await parser.close()


def test_a_missing_reader_is_named_with_the_command_that_installs_it() -> None:
    """On a machine without it, which may still read what others have crawled."""
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


_WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, *given):
        return None if name == "kreuzberg" else super().find_spec(name, *given)

sys.meta_path[:] = [Without if each is PathFinder else each for each in sys.meta_path]
from lycosa.base.config.sections import ParseSection
from lycosa.stages.parse.parser_config import check_readers, with_installed_readers

assert with_installed_readers(ParseSection(office=True)) == ParseSection()
check_readers(ParseSection())
try:
    check_readers(ParseSection(office=True))
except ValueError as error:
    assert str(error).startswith("parse.office: ") and str(error).endswith(" office"), error
else:
    sys.exit("nothing was raised")
"""
