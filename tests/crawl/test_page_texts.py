"""``lycosa export DIR text``: one text a page, and what a corpus is chosen by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from test_content import MORE, SITE, TEXT, WEB, settings, story

from crawling import Pages, crawl_folder, html
from lycosa.base.config.sections import RefetchSection
from lycosa.cli.main import main
from lycosa.synthetic import Response

LONG = " ".join(f"The {each} of the town has a story, told on page {each}." for each in range(90))
PAGES: dict[str, Response | list[Response]] = {
    **WEB,
    SITE: [
        html("<title>old</title><a href=/other>o</a><a href=/near>n</a><a href=/copy>c</a>"),
        story("first"),
    ],
    f"{SITE}near": html(f"<title>near</title><p>{LONG} The end."),
    f"{SITE}copy": html(f"<title>copy</title><p>{LONG} The end of it."),
    f"{SITE}denied": story(
        "third",
        ("Content-Usage", "train-ai=n"),
        ("Link", '<https://l.example/rsl.xml>; rel="license"; type="application/rsl+xml"'),
    ),
}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: in the second one, the first page has become a story."""
    folder = tmp_path_factory.mktemp("texts") / "c"
    again = RefetchSection(first_s=100_000, min_s=100_000, max_s=100_000)
    config = msgspec.structs.replace(settings(), refetch=again)
    web = Pages(PAGES)
    crawl_folder(folder, web, [SITE], config)
    crawl_folder(folder, web, [SITE], config, start=1_000_000.0)
    return folder


def exported(
    capsys: pytest.CaptureFixture[str], folder: Path, *options: str
) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert main(["export", str(folder), "text", *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {row["url"].removeprefix(SITE): row for row in rows}
    assert len(found) == len(rows), "a page has one row"
    return found


def test_each_page_has_its_newest_text(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = exported(capsys, crawl)
    assert rows[""]["title"] == "first" and rows[""]["fetch_number"] == 2
    assert TEXT in rows[""]["text"] and "Denied" in rows[""]["text"]
    assert not rows[""]["is_main"] and rows[""]["text_from"] == "page"
    assert "missing" not in rows, "an error page is no part of a corpus"


def test_pages_with_nearly_the_same_text_name_the_first_one(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = exported(capsys, crawl)
    copies = {path: row["duplicate_of"] for path, row in rows.items() if row["duplicate_of"]}
    of_pair = {path: other for path, other in copies.items() if path in ("near", "copy")}
    assert of_pair in ({"copy": f"{SITE}near"}, {"near": f"{SITE}copy"})
    alone = exported(capsys, crawl, "--where", "duplicate_of IS NULL")
    assert rows.keys() - alone.keys() == copies.keys()


def test_what_a_site_says_about_use_is_in_columns(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = exported(capsys, crawl)["denied"]
    assert denied["use_ai_train"] is False and denied["license"] == "https://l.example/rsl.xml"
    assert "denied" not in exported(capsys, crawl, "--purpose", "ai-train")


def test_the_main_text_is_without_menus(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = exported(capsys, crawl, "--main")[""]
    assert row["is_main"] and row["text"] == f"first\n{TEXT}\n{MORE} More"


def test_the_forms_have_the_same_rows(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = exported(capsys, crawl, "--main")
    file = tmp_path / "corpus.parquet"
    assert main(["export", str(crawl), "text", "--main", "-o", str(file)]) == 0
    table = pq.read_table(file)
    assert table.column_names == list(rows[""])
    assert {row["url"]: row["text"] for row in table.to_pylist()} == {
        row["url"]: row["text"] for row in rows.values()
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("links", "--main"), "--main is for text"),
        (("text", "--where", "main_text <> ''"), "there is no column 'main_text'"),
    ],
)
def test_wrong_options_are_refused(
    crawl: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["export", str(crawl), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_crawl_without_main_texts_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl_folder(tmp_path / "c", Pages(WEB), [SITE])
    capsys.readouterr()
    assert main(["export", str(tmp_path / "c"), "text", "--main"]) == 2
    assert "--set store.content=true" in capsys.readouterr().err
    assert f"{SITE}other" in {row["url"] for row in exported(capsys, tmp_path / "c").values()}
