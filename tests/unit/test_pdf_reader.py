"""PDF files: text in paragraphs, links, metadata; limits; and that no bytes make the reader fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.page_content import Heading
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.model.remark import Remark
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.pdf_reader import pdf_date
from pdf_files import pdf_file

URL = "http://example.org/papers/one.pdf"
LONG = [
    "Wolf spiders do not build webs to catch their prey, and they hunt",
    "alone. Most of them live on the ground, where they wait at the mouth",
    "of a burrow.",
]


def parse(
    body: bytes, content_type: str = "application/pdf", url: str = URL, **section: object
) -> Parsed:
    values = {"language": False, **section}
    parser = DocumentParser(
        ParseSection(**values),  # type: ignore[arg-type]
        Canonicalizer(CanonicalSection()),
        "lycosa",
        reads_content=True,
        reads_files=True,
    )
    return parser.parse(ParseInput(url, 200, [("content-type", content_type)], body))


def test_a_file_is_read_as_a_page_is() -> None:
    body = pdf_file(
        [["Wolf spiders", *LONG, "see http://example.org/text for more"], ["The end"]],
        info={
            "Title": "On  spiders",
            "Author": "A. Person",
            "Subject": "Hunting",
            "CreationDate": "D:20240301120000+01'00'",
            "ModDate": "D:2025",
        },
        links=[(0, 0, "../next"), (0, 1, "mailto:person@example.org")],
        bookmarks=["Wolf spiders", "The end"],
        language="en-GB",
    )
    parsed = parse(body)
    assert (parsed.reason, parsed.media_type, parsed.title) == (
        Reason.NONE,
        "application/pdf",
        "On spiders",
    )
    assert (parsed.language, parsed.description) == ("en", "Hunting")
    assert parsed.text.split("\n") == [
        "Wolf spiders",
        " ".join(LONG),
        "see http://example.org/text for more",
        "The end",
    ]
    assert [(link.url, link.anchor) for link in parsed.links] == [
        ("http://example.org/next", "Wolf spiders"),
        ("http://example.org/text", "http://example.org/text"),
    ]
    content = parsed.content
    assert content is not None and content.main_text(parsed.text) == parsed.text
    assert (content.author, content.published, content.modified) == (
        "A. Person",
        "2024-03-01T12:00:00+01:00",
        "2025",
    )
    assert content.headings == (Heading(1, "Wolf spiders"), Heading(1, "The end"))
    assert parsed.simhash


def test_what_stands_at_the_edge_of_most_pages_is_not_main_content() -> None:
    pages = [["Journal of Spiders", f"Page {each} says this.", f"{each}"] for each in range(1, 6)]
    parsed = parse(pdf_file(pages))
    assert parsed.text.count("Journal of Spiders") == 5
    assert parsed.content is not None
    assert parsed.content.main_text(parsed.text).split("\n") == [
        f"Page {each} says this." for each in range(1, 6)
    ]


def test_lists_keep_their_lines() -> None:
    items = [
        f"{mark} {'an entry that is about as wide as a line can be here':<50}" for mark in "•–•"
    ]
    assert parse(pdf_file([items])).text.count("\n") == 2


@pytest.mark.parametrize(
    ("content_type", "url", "is_read"),
    [
        ("application/pdf", "http://example.org/x", True),
        ("application/x-pdf", "http://example.org/x", True),
        ("application/octet-stream", "http://example.org/X.PDF?v=1", True),
        ("application/octet-stream", "http://example.org/x", False),
        ("", "http://example.org/x", True),  # by its first bytes
        ("image/png", "http://example.org/x.pdf", False),
    ],
)
def test_which_documents_are_pdf_files(content_type: str, url: str, is_read: bool) -> None:
    parsed = parse(pdf_file([["Spiders"]]), content_type, url)
    assert (parsed.text, parsed.reason) == (
        ("Spiders", Reason.NONE) if is_read else ("", Reason.CONTENT_TYPE)
    )


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"%PDF-1.7 and nothing", "a PDF file that is broken"),
        (
            pdf_file(
                [["secret"]],
                trailer="/Encrypt<</Filter/Standard/V 1/R 2/P -4"
                f"/O<{'41' * 32}>/U<{'42' * 32}>>>/ID[<{'43' * 16}><{'43' * 16}>]",
            ),
            "a PDF file that needs a password",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_why(body: bytes, detail: str) -> None:
    parsed = parse(body)
    assert (parsed.reason, parsed.detail, parsed.text) == (Reason.CONTENT_TYPE, detail, "")


def test_a_long_file_is_cut_at_a_page_and_says_so() -> None:
    letters = "abcdefghijklmnopqrst"
    parsed = parse(pdf_file([[each * 9, *LONG, each * 8] for each in letters]), max_text=500)
    assert len(parsed.text) == 500 and parsed.is_cut
    assert parsed.reason is Reason.BODY_TRUNCATED
    assert parsed.detail == "pages 5 to 20 of a PDF file"
    content = parsed.content
    assert content is not None and content.main == (0, 500)


def test_a_file_that_takes_long_is_read_up_to_there() -> None:
    parsed = parse(pdf_file([["one"], ["two"]]), deadline_s=1e-9)
    assert (parsed.text, parsed.detail) == ("", "pages 1 to 2 of a PDF file")


def test_links_are_bounded() -> None:
    links = [(0, 0, f"http://example.org/{each}") for each in range(50)]
    assert len(parse(pdf_file([["x"]], links=links), max_links=7).links) == 7


def test_without_the_setting_a_file_is_only_stored() -> None:
    parser = DocumentParser(ParseSection(), Canonicalizer(CanonicalSection()), "lycosa")
    document = ParseInput(URL, 200, [("content-type", "application/pdf")], pdf_file([["x"]]))
    parsed = parser.parse(document)
    assert (parsed.remarks or (Remark(parsed.reason),)) == (Remark(Reason.CONTENT_TYPE),)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("D:20250208122313Z", "2025-02-08T12:23:13Z"),
        ("D:20250208122313-08'30'", "2025-02-08T12:23:13-08:30"),
        ("D:20250208122313+02", "2025-02-08T12:23:13+02:00"),
        ("20250208", "2025-02-08"),
        ("D:202502081223", "2025-02-08T12:23:00"),
        ("Saturday", ""),
        ("", ""),
    ],
)
def test_dates(text: str, date: str) -> None:
    assert pdf_date(text) == date


SAMPLE = pdf_file([["Spiders hunt", "at night"]], info={"Title": "x"}, bookmarks=["a"])


@given(st.data())
@settings(deadline=None, max_examples=150, derandomize=True)  # C code may end the process
def test_no_change_of_a_file_makes_the_reader_fail(data: st.DataObject) -> None:
    body = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(body) - 1))
        if data.draw(st.booleans()):
            body[at] = data.draw(st.integers(0, 255))
        else:
            del body[at : at + data.draw(st.integers(1, 40))]
    parsed = parse(bytes(body))
    assert parsed.reason in (Reason.NONE, Reason.CONTENT_TYPE), parsed
