"""Office documents: text, links and metadata, as of a page; broken ones and archives that grow."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from office_files import DOCX, ODT, docx_file, odt_file

URL = "http://example.org/papers/one.docx"
REPORT = docx_file(
    "Wolf spiders",
    "They do not build webs to catch their prey, and they hunt alone at night.",
    ("../next", "Read more"),
    title="On  spiders",
    author="A. Person",
)


def parse(
    body: bytes, content_type: str = DOCX, url: str = URL, office: bool = True, pdf: bool = True
) -> Parsed:
    parser = DocumentParser(
        ParseSection(language=False, office=office, pdf=pdf),
        Canonicalizer(CanonicalSection()),
        "lycosa",
        reads_content=True,
        reads_files=True,
    )
    return parser.parse(ParseInput(url, 200, [("content-type", content_type)], body))


def test_a_document_is_read_as_a_page_is() -> None:
    parsed = parse(REPORT)
    assert (parsed.reason, parsed.media_type, parsed.title) == (Reason.NONE, DOCX, "On spiders")
    assert parsed.text.split("\n") == [
        "Wolf spiders",
        "They do not build webs to catch their prey, and they hunt alone at night. Read more",
    ]
    assert [(link.url, link.anchor) for link in parsed.links] == [
        ("http://example.org/next", "Read more")
    ]
    assert parsed.content is not None
    assert (parsed.content.author, parsed.content.published) == (
        "A. Person",
        "2025-03-01T12:00:00Z",
    )
    assert [each.text for each in parsed.content.headings] == ["Wolf spiders"]


def test_open_document_is_read_too() -> None:
    parsed = parse(odt_file("They hunt.", "/next", "More"), ODT, "http://example.org/text")
    assert parsed.text == "They hunt. More"
    assert [link.url for link in parsed.links] == ["http://example.org/next"]


@pytest.mark.parametrize(
    ("content_type", "url", "is_read"),
    [
        ("application/octet-stream", "http://example.org/A.DOCX?x=1", True),
        ("application/zip", URL, True),
        ("application/zip", "http://example.org/files.zip", False),
        ("application/octet-stream", "http://example.org/docx", False),
        ("text/plain", URL, True),  # bytes that no text has
        ("image/png", URL, False),
    ],
)
def test_the_name_decides_where_the_type_says_nothing(
    content_type: str, url: str, is_read: bool
) -> None:
    assert bool(parse(REPORT, content_type, url).links) is is_read


def test_each_setting_is_for_its_files() -> None:
    without = parse(REPORT, office=False)
    assert (without.reason, without.text, list(without.links)) == (Reason.CONTENT_TYPE, "", [])
    assert parse(REPORT, pdf=False).text


@pytest.mark.parametrize("body", [b"PK\x03\x04", REPORT[:700], b"words"])
def test_a_broken_document_says_so(body: bytes) -> None:
    parsed = parse(body)
    assert (parsed.reason, parsed.text) == (Reason.CONTENT_TYPE, "")
    assert parsed.detail.startswith("an office document that cannot be read: ")


def test_an_archive_that_grows_is_refused() -> None:
    """200 MB of text in an archive of 200 kB."""
    parsed = parse(docx_file("Heading", "a " * 100_000_000))
    assert parsed.reason is Reason.CONTENT_TYPE and "limit" in parsed.detail


@given(st.binary(max_size=300), st.integers(0, len(REPORT)), st.sampled_from([DOCX, ODT]))
@settings(max_examples=60, deadline=None)
def test_no_bytes_make_it_fail(noise: bytes, at: int, content_type: str) -> None:
    parsed = parse(REPORT[:at] + noise + REPORT[at + len(noise) :], content_type)
    assert parsed.reason in (Reason.NONE, Reason.CONTENT_TYPE), parsed
