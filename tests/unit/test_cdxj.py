"""CDXJ lines, and the language codes in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.base.model.capture import Original
from lycosa.state.store.cdxj import CdxjBuilder, line, timestamp
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.languages import three_letter
from store_samples import HEADER


def row(**changes: object) -> JournalRow:
    values: dict[str, object] = {
        "url": "https://www.example.org/",
        "surt": "org,example)/",
        "host": "www.example.org",
        "site": "example.org",
        "date_us": 1_790_000_000_999_999,
        "status": 200,
        "segment": "c-w000-000001-20260921141320",
        "offset": 500,
        "length": 60,
        "record_id": "urn:uuid:1",
        "digest": "sha1:AAAA",
        "media_type": "text/html",
    }
    return JournalRow(**{**values, **changes})  # type: ignore[arg-type]


def test_a_line_has_key_time_and_a_json_object_of_strings() -> None:
    key, time, text = (
        line(row(charset="utf-8", language="fr", media_type_detected="text/html"))
        .decode()
        .split(" ", 2)
    )
    assert (key, time) == ("org,example)/", "20260921141320")
    assert json.loads(text) == {
        "url": "https://www.example.org/",
        "mime": "text/html",
        "mime-detected": "text/html",
        "status": "200",
        "digest": "AAAA",
        "length": "60",
        "offset": "500",
        "filename": "warc/c-w000-000001-20260921141320.warc.gz",
        "charset": "utf-8",
        "languages": "fra",
    }
    assert text.endswith("}\n")


def test_a_revisit_is_told_by_its_type() -> None:
    text = line(row(revisit="identical-payload-digest", original=Original("http://a/", 1))).decode()
    assert '"mime":"warc/revisit"' in text


def test_what_the_server_confirmed_has_no_line_of_its_own(tmp_path: Path) -> None:
    builder = CdxjBuilder(tmp_path / "x.cdxj", HEADER)
    for revisit in ("", "server-not-modified", "identical-payload-digest"):
        builder.add_row(row(revisit=revisit))
    builder.close()
    assert (tmp_path / "x.cdxj").read_bytes().splitlines(True) == [
        line(row()),
        line(row(revisit="identical-payload-digest")),
    ]


def test_what_is_unknown_is_left_out() -> None:
    entry = json.loads(line(row(media_type="", digest="")).decode().split(" ", 2)[2])
    assert entry["mime"] == "unk" and "digest" not in entry and "redirect" not in entry


def test_lines_are_sorted_by_their_bytes(tmp_path: Path) -> None:
    builder = CdxjBuilder(tmp_path / "x", HEADER)
    for surt in (
        "org,example)/z",
        "com,a)/",
        "org,example)/%7e",
        "org,example)/Z",
        "org,example:81)/",
    ):
        builder.add_row(row(surt=surt))
    builder.add_row(row(surt="com,a)/", date_us=1_000_000))
    builder.close()
    keys = [found.split(b" ")[:2] for found in (tmp_path / "x").read_bytes().splitlines()]
    assert keys == sorted(keys)
    assert keys[0] == [b"com,a)/", b"19700101000001"]


def test_lines_that_are_sorted_in_runs_make_the_same_file(tmp_path: Path) -> None:
    rows = [row(surt=f"com,a)/{7919 * n % 1000:03d}", date_us=n) for n in range(25)]
    for name, run in (("whole", 1000), ("runs", 4)):
        builder = CdxjBuilder(tmp_path / name, HEADER, run)
        for each in rows:
            builder.add_row(each)
        builder.close()
    assert (tmp_path / "runs").read_bytes() == (tmp_path / "whole").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "whole"]


def test_the_fraction_of_a_second_is_dropped() -> None:
    assert timestamp(1_790_000_000_999_999) == "20260921141320"


@pytest.mark.parametrize(
    ("two", "three"),
    [("de", "deu"), ("zh", "zho"), ("", ""), ("xx", "xx"), ("zu", "zul"), ("aa", "aar")],
)
def test_languages_have_three_letters(two: str, three: str) -> None:
    assert three_letter(two) == three
