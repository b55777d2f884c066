"""A crawl with ``store.content``: the table, its purpose, revisits, audit and export."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from crawling import HTML, QUICK, Pages, crawl_folder
from lycosa.base.config.sections import AgentSection, Config, StoreSection
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.synthetic import Response

SITE = "http://news.example/"
TEXT = "The council decided on Tuesday to rebuild the old bridge over the river."
MORE = "Work begins in spring and takes two years, said the engineer in charge."


def story(name: str, *headers: tuple[str, str]) -> Response:
    body = (
        f"<html><head><title>{name}</title><meta name=author content='Jo Doe'></head><body><nav>"
        f"<a href=/other>Other</a> <a href=/same>Same</a> <a href=/denied>Denied</a></nav><article>"
        f"<h1>{name}</h1><p>{TEXT}</p><p>{MORE} <a href=/{name}#top>More</a></p></article></body></html>"
    )
    return Response(200, [HTML, *headers], body.encode())


WEB = {
    SITE: story("first"),
    f"{SITE}other": story("second"),
    f"{SITE}same": story("second"),
    f"{SITE}denied": story("third", ("Content-Usage", "train-ai=n")),
    f"{SITE}robots.txt": Response(200, [("Content-Type", "text/plain")], b"User-agent: *\nAllow: /\n"),
}  # fmt: skip


def settings(*purpose: str) -> Config:
    return msgspec.structs.replace(
        QUICK, store=StoreSection(content=True), agent=AgentSection(purpose=purpose)
    )


def crawl(folder: Path, *purpose: str) -> dict[str, dict[str, object]]:
    """The rows of the content table by URL."""
    crawl_folder(folder, Pages(WEB), [SITE], settings(*purpose))
    rows = [
        row for path in (folder / "content").iterdir() for row in pq.read_table(path).to_pylist()
    ]
    assert len({row["url"] for row in rows}) == len(rows)
    return {str(row["url"]): row for row in rows}


def test_each_page_has_a_row_and_a_revisit_has_none(tmp_path: Path) -> None:
    rows = crawl(tmp_path / "c")
    assert len(rows) == 3 and {SITE, f"{SITE}denied"} < rows.keys()
    first = rows[SITE]
    assert (first["title"], first["author"]) == ("first", "Jo Doe")
    assert first["main_text"] == f"first\n{TEXT}\n{MORE} More"
    assert first["markdown"] == (
        f"# first\n\n{TEXT}\n\n{MORE} [More](http://news.example/first#top)"
    )
    assert first["headings"] == [{"level": 1, "text": "first"}]
    assert audit(tmp_path / "c").is_clean


def test_a_page_that_the_purpose_may_not_use_has_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = crawl(tmp_path / "c", "ai-train")
    assert f"{SITE}denied" not in rows and SITE in rows
    assert audit(tmp_path / "c").is_clean
    capsys.readouterr()
    assert main(["export", str(tmp_path / "c"), "content", "--purpose", "search"]) == 0
    urls = {json.loads(line)["url"] for line in capsys.readouterr().out.splitlines()}
    assert f"{SITE}denied" in urls


def test_a_changed_row_is_a_breach(tmp_path: Path) -> None:
    crawl(tmp_path / "c")
    (path,) = (tmp_path / "c" / "content").iterdir()
    table = pq.read_table(path)
    markdown = table["markdown"].to_pylist()
    at = table.column_names.index("markdown")
    changed = table.set_column(at, table.field(at), [["x", *markdown[1:]]])
    pq.write_table(changed, path, store_schema=False)
    (check,) = [each for each in audit(tmp_path / "c").checks if each.name == "content"]
    assert check.breaches == 1 and "markdown" in check.first[0]
