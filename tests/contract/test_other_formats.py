"""A crawl in the forms of other programs: Heritrix's crawl.log, the layout of Common Crawl."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import duckdb
import pytest
from warcio.archiveiterator import ArchiveIterator

from crawling import Names, Pages, crawl_folder, html, moved, page, robots
from lycosa.base.reasons import Reason
from lycosa.cli.main import main

HOME = "https://site.example/"
# The fields of Heritrix's UriProcessingFormatter, with its widths.
LINE = re.compile(
    r"(?P<end>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (?P<status> {0,4}-?\d+) (?P<size> *(?:\d+|-))"
    r" (?P<url>\S+) (?P<path>[LREMSP]*|-) (?P<via>\S+) (?P<mime>\S+) #\d{3}"
    r" (?P<begin>\d{17}\+\d+|-) (?P<digest>sha1:[A-Z2-7]{32}|-) - (?P<notes>\S+) (?P<more>\{.*\})"
)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    web = Pages(
        {
            f"{HOME}robots.txt": robots("User-agent: *", "Disallow: /private"),
            HOME: page("/a", "/copy", "/moved", "/private/x", "https://gone.example/", text="home"),
            f"{HOME}a": page(text="the same " * 20),
            f"{HOME}copy": page(text="the same " * 20),
            f"{HOME}moved": moved("/a"),
            f"{HOME}404": html("nothing", 404),
        }
    )
    folder = tmp_path_factory.mktemp("crawls") / "news"
    names = Names({"gone.example": Reason.DNS_NO_SUCH_NAME})
    seeds = [HOME, "https://gone.example/"]
    crawl_folder(folder, web, seeds, resolver=lambda clock: names)
    return folder


def test_the_log_has_a_line_for_each_fetch_in_order(crawled: Path, tmp_path: Path) -> None:
    output = tmp_path / "crawl.log"
    assert main(["export", str(crawled), "crawl-log", "--output", str(output), "--json"]) == 0
    matches = [LINE.fullmatch(line) for line in output.read_text("utf-8").splitlines()]
    assert all(matches)
    found = {each["url"]: each for each in matches if each is not None}
    ends = [each["end"] for each in matches if each is not None]
    assert ends == sorted(ends)
    home, copy, target = found[HOME], found[f"{HOME}copy"], found[f"{HOME}moved"]
    assert (home["path"], home["via"], home["mime"]) == ("-", "-", "text/html")
    assert (copy["path"], copy["via"]) == ("L", HOME)
    notes = {found[f"{HOME}a"]["notes"], copy["notes"]}
    assert notes == {"-", "warcRevisit:digest,duplicate:digest"}
    assert target["status"].strip() == "301"
    assert (found[f"{HOME}robots.txt"]["path"], found[f"{HOME}robots.txt"]["status"]) == (
        "P",
        "  200",
    )
    assert found[f"{HOME}private/x"]["status"] == "-9998"
    more = json.loads(home["more"])
    with (crawled / "warc" / more["warcFilename"]).open("rb") as file:
        file.seek(more["warcOffset"])
        record = next(iter(ArchiveIterator(file)))
        assert record.rec_headers.get_header("WARC-Target-URI") == HOME
        assert record.rec_headers.get_header("WARC-Payload-Digest") == home["digest"]


def test_the_layout_has_lists_links_and_both_indexes(crawled: Path, tmp_path: Path) -> None:
    target = tmp_path / "release"
    assert main(["export", str(crawled), "commoncrawl", "--output", str(target)]) == 0
    lists = {
        path.name.removesuffix(".paths.gz"): gzip.decompress(path.read_bytes()).decode().split()
        for path in (target / "crawl-data" / "news").glob("*.paths.gz")
    }
    assert set(lists) == {"segment", "warc", "wet", "cc-index", "cc-index-table"}
    for name, paths in lists.items():
        assert paths and all((target / path).exists() for path in paths), name
    assert (target / lists["warc"][0]).stat().st_ino == next(
        (crawled / "warc").iterdir()
    ).stat().st_ino
    index, clusters = (target / path for path in lists["cc-index"])
    key, file, offset, length, number = clusters.read_text().splitlines()[0].split("\t")
    assert (file, number) == ("cdx-00000.gz", "1")
    block = index.read_bytes()[int(offset) : int(offset) + int(length)]
    lines = gzip.decompress(block).splitlines()
    assert lines == sorted(lines) and lines[0].startswith(key.encode())
    for line in lines:
        place = json.loads(line.split(b" ", 2)[2])
        with (target / place["filename"]).open("rb") as warc:
            warc.seek(int(place["offset"]))
            record = next(iter(ArchiveIterator(io.BytesIO(warc.read(int(place["length"]))))))
        assert record.rec_headers.get_header("WARC-Target-URI") == place["url"]
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT url, crawl, subset, warc_filename, warc_record_offset FROM read_parquet("
            f"'{target}/cc-index/table/cc-main/warc/*/*/*.parquet', hive_partitioning = true)"
        ).fetchall()
    assert {row[0] for row in rows} >= {HOME, f"{HOME}a", f"{HOME}robots.txt"}
    assert {row[2] for row in rows} == {"warc", "robotstxt", "crawldiagnostics"}
    assert {row[3] for row in rows} == set(lists["warc"]) and {row[1] for row in rows} == {"news"}


def test_what_these_forms_do_not_take_is_refused(crawled: Path, tmp_path: Path) -> None:
    assert main(["export", str(crawled), "commoncrawl"]) == 2
    assert main(["export", str(crawled), "commoncrawl", "--output", str(crawled)]) == 2
    assert main(["export", str(crawled), "crawl-log", "--format", "csv"]) == 2
