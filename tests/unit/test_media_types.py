"""Which media types are accepted, how large their bodies may be, and their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import RetrySection
from lycosa.base.config.sources import SettingsError, settings
from lycosa.base.content_disposition import MAX_FILE_NAME, disposition_name
from lycosa.base.media_rules import GROUPS, accepts, check_accept
from lycosa.base.model.fetched import Fetched, Limits
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.fetch_outcome import Meaning, is_whole_range, judge_answer

URL = "http://h.example/a/b"
PICTURES = Limits(body_bytes=100, media_bytes=900, accepts=("image", "pdf"))


@pytest.mark.parametrize(
    ("content_type", "disposition", "url", "wanted"),
    [
        ("text/html; charset=utf-8", "", URL, 100),
        ("application/xhtml+xml", "", URL, 100),
        ("application/rss+xml", "", URL, 100),
        ("IMAGE/PNG", "", URL, 900),
        ("image/svg+xml", "", URL, 900),
        ("application/pdf", "", URL, 100),
        ("video/mp4", "", URL, -1),
        ("application/zip", "", URL, -1),
        ("text/plain", "", URL, -1),
        ("", "", URL, 100),
        ("application/octet-stream", "", URL, -1),
        ("application/octet-stream", "", "http://h.example/A.PNG?x=y.zip", 900),
        ("application/octet-stream", 'attachment; filename="plan.pdf"', URL, 100),
        ("application/octet-stream", "attachment; filename=film.mp4", "http://h.example/a.png", -1),
        ("", "inline; filename=a.zip", URL, -1),
    ],
)
def test_a_body_is_bounded_by_the_type_of_the_response(
    content_type: str, disposition: str, url: str, wanted: int
) -> None:
    assert PICTURES.body_bound(url, content_type, disposition) == wanted


def test_without_rules_any_type_is_taken() -> None:
    assert Limits(body_bytes=7).body_bound(URL, "video/mp4", "") == 7
    assert Limits(body_bytes=7, media_bytes=9).body_bound(URL, "video/mp4", "") == 9


def test_words_and_types_are_accepted_and_others_are_named() -> None:
    check_accept((*GROUPS, "image/*", "application/x-own"))
    assert accepts(("document",), "application/vnd.oasis.opendocument.text")
    assert not accepts(("document",), "image/png")
    with pytest.raises(SettingsError, match="'picture' is no media type; write one as image/png"):
        settings({"scope.accept": ("image", "picture")})


@pytest.mark.parametrize(
    ("value", "name"),
    [
        # RFC 6266 section 5, and RFC 8187 section 3.2.3
        ("Attachment; filename=example.html", "example.html"),
        ('INLINE; FILENAME= "an example.html"', "an example.html"),
        ("attachment; filename*= UTF-8''%e2%82%ac%20rates", "€ rates"),
        ("attachment; filename=\"EURO rates\"; filename*=utf-8''%e2%82%ac%20rates", "€ rates"),
        ("attachment; filename*=iso-8859-1'en'%A3%20rates", "£ rates"),
        ('attachment; filename="a \\"b\\" c.txt"', "a b c.txt"),
        ("attachment", ""),
        ("", ""),
        # names that would leave the folder, or hide what they are
        ("attachment; filename=../../etc/passwd", "passwd"),
        ('attachment; filename="C:\\\\dir\\\\x.doc"', "x.doc"),
        ("attachment; filename=..", ""),
        ('attachment; filename="a\x07b.txt"', "ab.txt"),
        ("attachment; filename*=UTF-8''gpj%E2%80%AE.exe", "gpj.exe"),
        ("attachment; filename=" + "Zürich.pdf".encode().decode("latin-1"), "Zürich.pdf"),
    ],
)
def test_a_name_is_read_as_the_standards_say_and_made_safe(value: str, name: str) -> None:
    assert disposition_name(value) == name


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=300))
def test_any_value_gives_a_safe_name(value: str) -> None:
    for name in (disposition_name(value), disposition_name(f'a; filename="{value}"')):
        assert len(name) <= MAX_FILE_NAME
        assert not set(name) & set('/\\<>:"|?*\0\r\n') and name not in (".", "..")


def answer(status: int, block: str) -> Fetched:
    return Fetched(
        URL, Reason.NONE, status=status, header_block=f"HTTP/1.1 {status}\r\n{block}".encode()
    )


@pytest.mark.parametrize(
    ("header", "meaning"),
    [
        ("content-range: bytes 0-99/100\r\n\r\n", Meaning.FETCHED),
        ("content-range: bytes 0-99/200\r\n\r\n", Meaning.RETRY),
        ("content-range: bytes 10-99/100\r\n\r\n", Meaning.RETRY),
        ("content-range: bytes 0-99/*\r\n\r\n", Meaning.RETRY),
        ("\r\n", Meaning.RETRY),
    ],
)
def test_a_part_that_was_not_asked_for_is_no_page(header: str, meaning: Meaning) -> None:
    outcome = judge_answer(answer(206, header), tries=0, conditional=False, section=RetrySection())
    assert outcome.meaning is meaning
    assert outcome.reason is (Reason.NONE if meaning is Meaning.FETCHED else Reason.PARTIAL_ANSWER)
    assert not is_whole_range("bytes 0-99/100, 0-1/2")
