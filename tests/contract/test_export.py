"""Exports and SQL over a crawl that runs: everything committed is there, once, and nothing is
changed.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lycosa.base.model.fetched import FetchKind
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_tables import TABLES, CrawlTables
from lycosa.inspect.sql_query import SqlError, ask, wanted_tables
from lycosa.inspect.table_export import csv_cell, json_cell
from lycosa.state.store.pages_table import COMMON_CRAWL_COLUMNS
from sample_crawl import HOST, SampleCrawl, content, url_record
from store_samples import capture, fetched

URLS = {
    f"https://{HOST}/queued": "queued",
    f"https://{HOST}/fetched": "fetched",
    f"https://{HOST}/failed": "failed",
}


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[SampleCrawl]:
    made = SampleCrawl(tmp_path / "crawl")
    yield made
    made.close()


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleCrawl]:
    """One that no test changes."""
    made = SampleCrawl(tmp_path_factory.mktemp("still") / "crawl")
    yield made
    made.close()


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def exported(
    capsys: pytest.CaptureFixture[str], crawl: SampleCrawl, *args: object
) -> list[dict[str, Any]]:
    code, out, err = run(capsys, "export", crawl.folder, *args)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def answer(crawl: SampleCrawl, statement: str) -> list[tuple[Any, ...]]:
    with CrawlTables(read_folder(crawl.folder), wanted_tables(statement)) as tables:
        return list(ask(tables, statement)[1])


# What is there


def test_captures_of_closed_and_open_segments_are_exported_once_each(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [row["url"] for row in exported(capsys, crawl, "pages")] == crawl.captured


def test_what_is_not_committed_is_not_exported(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.capture(6)
    crawl.write_files()
    assert [row["url"] for row in exported(capsys, crawl, "pages")] == crawl.captured[:5]
    crawl.commit([])
    assert [row["url"] for row in exported(capsys, crawl, "pages")] == crawl.captured


def test_a_segment_whose_parquet_is_not_built_yet_is_read_from_its_journal(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {kind: exported(capsys, crawl, kind) for kind in ("pages", "links")}
    for kind in ("pages", "links"):
        for path in (crawl.folder / kind).glob("*.parquet"):
            path.unlink()
    for kind, rows in before.items():
        assert exported(capsys, crawl, kind) == rows


def test_a_segment_closed_after_the_last_commit_was_read_is_there_once(crawl: SampleCrawl) -> None:
    reader = read_folder(crawl.folder)
    crawl.store.roll_segment(0.0, force=True)
    segment = next((crawl.folder / "journal").glob("*.open"))
    segment.rename(segment.with_name(segment.name.removesuffix(".open")))
    with CrawlTables(reader, ["pages"]) as tables:
        _, rows = ask(tables, "SELECT url FROM pages ORDER BY fetch_time")
        assert [url for (url,) in rows] == crawl.captured


def test_a_crawl_without_captures_has_empty_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = SampleCrawl(tmp_path / "crawl")
    crawl.close()
    for folder in ("journal", "pages", "links"):
        for path in (crawl.folder / folder).iterdir():
            path.unlink()
    assert exported(capsys, crawl, "pages") == []
    assert run(capsys, "export", crawl.folder, "links", "--format", "csv")[1].startswith(
        "source_url,source_time,"
    )


def test_links_know_their_page_and_segment(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    links = exported(capsys, still, "links")
    pages = {row["url"]: row["warc_segment"] for row in exported(capsys, still, "pages")}
    assert {(row["source_url"], row["warc_segment"]) for row in links} == set(pages.items())
    assert len(links) == 15


def test_state_that_is_in_memory_of_the_owner_is_exported(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = exported(capsys, still, "urls")
    assert {row["url"]: row["state"] for row in rows} == URLS
    failed = next(row for row in rows if row["state"] == "failed")
    assert (failed["reason"], failed["detail"], failed["site"]) == (
        "http_server_error",
        "status 503",
        "example.org",
    )
    assert failed["via"] == f"https://{HOST}/"
    (host,) = exported(capsys, still, "hosts")
    assert (host["host"], host["site"], host["state"], host["waiting"]) == (
        HOST,
        "example.org",
        "ready",
        1,
    )


def test_exporting_changes_nothing_in_the_folder(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(still.folder)
    for kind in ("pages", "links", "urls", "hosts"):
        for form in ("jsonl", "csv", "parquet"):
            assert (
                run(capsys, "export", still.folder, kind, "-o", tmp_path / f"{kind}.{form}")[0] == 0
            )
    assert run(capsys, "sql", still.folder, "SELECT count(*) FROM pages, urls")[0] == 0
    assert content(still.folder) == before


# Forms


@pytest.mark.parametrize("kind", ["pages", "links", "urls", "hosts", "fetches"])
@pytest.mark.parametrize("where", ["", "true"])
def test_all_forms_hold_the_same_rows(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, where: str
) -> None:
    for form in ("jsonl", "csv", "parquet"):
        code, _, err = run(
            capsys,
            "export",
            still.folder,
            kind,
            "--output",
            tmp_path / f"x.{form}",
            "--where",
            where,
        )
        assert (code, re.search("rows? of", err) is not None) == (0, True)
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    columnar = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [{name: json_cell(value) for name, value in row.items()} for row in columnar] == lines
    with (tmp_path / "x.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {name: csv_cell(value) for name, value in row.items()} for row in lines
        ]


def test_parquet_goes_to_standard_output_whole(
    still: SampleCrawl, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["export", str(still.folder), "hosts", "--format", "parquet"]) == 0
    assert pq.read_table(io.BytesIO(capfdbinary.readouterr().out)).num_rows == 1


def test_values_are_as_json_and_csv_have_them() -> None:
    assert (json_cell(b"\x01\xff"), json_cell(float("nan")), json_cell([b"a"])) == (
        "01ff",
        None,
        ["61"],
    )
    assert (csv_cell(None), csv_cell(True), csv_cell(["a", "b"]), csv_cell({"a": 1})) == (
        "",
        "true",
        "a b",
        '{"a": 1}',
    )


def test_what_was_written_is_told_as_json(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    _, out, _ = run(capsys, "export", still.folder, "urls", "-o", path, "--json")
    assert json.loads(out) == {"output": str(path), "table": "urls", "format": "csv", "rows": 3}


# Conditions


@pytest.mark.parametrize("kind", ["urls", "hosts", "pages"])
def test_a_condition_chooses_rows(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    condition = {
        "urls": "state = 'failed' -- dead",
        "hosts": "host LIKE 'www.%'",
        "pages": "url LIKE '%/2' OR url LIKE '%/5'",
    }[kind]
    assert (
        len(exported(capsys, still, kind, "--where", condition))
        == {"urls": 1, "hosts": 1, "pages": 2}[kind]
    )


@pytest.mark.parametrize(
    "condition",
    ["no_such = 1", "state =", "true) UNION SELECT (1", "true; DROP VIEW urls", "state = 'x"],
)
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_wrong_condition_is_told_and_leaves_no_file(
    still: SampleCrawl,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    condition: str,
    form: str,
) -> None:
    code, out, err = run(
        capsys,
        "export",
        still.folder,
        "urls",
        "--where",
        condition,
        "--format",
        form,
        "-o",
        tmp_path / "out",
    )
    assert (code, out) == (ExitCode.USAGE, "")
    assert err.startswith("lycosa: ") and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "export", still.folder, "urls", "-o", tmp_path / "none" / "x.csv")
    assert code == ExitCode.USAGE
    assert "No such file or directory; check the path" in err


@pytest.mark.parametrize("command", [("export", "{}", "pages"), ("sql", "{}", "SELECT 1")])
def test_a_folder_that_is_no_crawl_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *(part.format(tmp_path) for part in command))
    assert (code, out) == (ExitCode.USAGE, "")
    assert err.startswith(f"lycosa: {tmp_path} is not a crawl") and err.count("\n") == 1


# SQL


def test_tables_join(still: SampleCrawl) -> None:
    query = (
        "SELECT count(*) FROM pages p JOIN links l ON l.source_url = p.url AND l.warc_segment ="
        " p.warc_segment"
    )
    assert answer(still, query) == [(15,)]
    assert answer(still, "SELECT state, count(*) FROM urls GROUP BY ALL ORDER BY 1") == [
        ("failed", 1),
        ("fetched", 1),
        ("queued", 1),
    ]
    assert answer(still, 'SELECT h.host FROM "HOSTS" h JOIN urls u USING (host) GROUP BY ALL') == [
        (HOST,)
    ]


def test_a_query_for_common_crawl_runs_as_it_is(still: SampleCrawl) -> None:
    query = """SELECT url_host_registered_domain, COUNT(*) AS n FROM ccindex WHERE subset = 'warc' AND crawl IS NOT NULL
               AND content_mime_type = 'text/html' AND fetch_time > TIMESTAMP '2020-01-01' GROUP BY 1"""
    assert answer(still, query) == [("example.org", 5)]
    names = [row[0] for row in answer(still, "DESCRIBE ccindex")]
    assert names == [column[0] for column in COMMON_CRAWL_COLUMNS]


def test_all_tables_are_known_whatever_is_asked(still: SampleCrawl) -> None:
    assert {name for (name,) in answer(still, "SHOW TABLES")} == set(TABLES)
    assert wanted_tables("SELECT 1") == ["1", "select"]  # which no table has
    assert wanted_tables("DESCRIBE urls") == []
    named = wanted_tables('select * from "Pages" join hosts on true join products')
    assert named[:2] == ["pages", "hosts"] and "products" in named


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '/tmp/never'",
        "CREATE TABLE t (a INT)",
        "DROP VIEW pages",
        "ATTACH 'never.db'",
        "SET memory_limit = '1GB'",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_what_is_no_question_is_refused(still: SampleCrawl, statement: str) -> None:
    with pytest.raises(SqlError):
        answer(still, statement)


def told(capsys: pytest.CaptureFixture[str], crawl: SampleCrawl, statement: str) -> list[str]:
    code, out, err = run(capsys, "sql", crawl.folder, statement)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "LINE" not in err and all(line.startswith("lycosa: ") for line in err.splitlines())
    return [line.removeprefix("lycosa: ") for line in err.splitlines()]


@pytest.mark.parametrize(
    ("name", "meant"), [("titel", "title"), ("status", "fetch_status"), ("no_such", "")]
)
def test_an_unknown_column_is_answered_with_the_nearest_and_those_of_its_table(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str], name: str, meant: str
) -> None:
    for statement in (f"SELECT {name} FROM pages", f"SELECT p.{name} FROM pages p"):
        first, listed = told(capsys, still, statement)
        assert first == f"there is no column '{name}'" + (
            f"; did you mean {meant}?" if meant else ""
        )
        assert listed.startswith("table pages: url_surtkey, url, ")


def test_an_unknown_table_is_answered_with_those_there_are(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = told(capsys, still, "SELECT * FROM page")
    assert (
        line
        == f"there is no table 'page'; did you mean pages?; there are {', '.join(sorted(TABLES))}".replace(
            "?; there", "? there"
        )
    )


def test_pages_are_pages_and_fetches_are_all(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.store.append_capture(
        capture(fetched(f"https://{HOST}/robots.txt", b"User-agent: *"), kind=FetchKind.ROBOTS)
    )
    crawl.commit([])
    assert crawl_kinds(crawl, "pages") == {"page"}
    everything = crawl_kinds(crawl, "fetches")
    assert everything == {"page", "robots"}
    assert {row["kind"] for row in exported(capsys, crawl, "fetches")} == everything
    assert answer(crawl, "SELECT count(*) FROM ccindex WHERE subset = 'robotstxt'") == [(1,)]


def crawl_kinds(crawl: SampleCrawl, table: str) -> set[str]:
    return {kind for (kind,) in answer(crawl, f"SELECT DISTINCT kind FROM {table}")}


def test_times_with_a_zone_are_answered_in_utc(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    zoned = (
        "TIMESTAMPTZ '2026-01-02 03:04:05+02' AS t, [TIMESTAMPTZ '2026-01-02 03:04:05.5+00'] AS l"
    )
    query = f"SELECT {zoned}, 7 AS n, fetch_time FROM pages LIMIT 1"
    (row,) = json.loads(run(capsys, "sql", still.folder, query, "--json")[1])
    assert (row["t"], row["l"], row["n"]) == (
        "2026-01-02T01:04:05Z",
        ["2026-01-02T03:04:05.500000Z"],
        7,
    )
    assert row["fetch_time"].endswith("Z")
    code, out, _ = run(capsys, "sql", still.folder, "SELECT now() AS t")
    assert code == 0 and re.fullmatch(r"t\n\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\n", out)


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM read_text('{}')", "SELECT * FROM read_csv('{}')", "SELECT * FROM glob('{}')"],
)
def test_a_question_reads_no_other_files(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    code, out, err = run(capsys, "sql", still.folder, statement.format(secret))
    assert (code, out) == (ExitCode.USAGE, "") and "is not allowed here" in err
    for form in ("jsonl", "parquet"):
        condition = f"EXISTS ({statement.format(secret)})"
        code, _, err = run(
            capsys,
            "export",
            still.folder,
            "urls",
            "--where",
            condition,
            "--format",
            form,
            "-o",
            tmp_path / "out" / "x",
        )
        assert code == ExitCode.USAGE


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_errors_name_the_file_that_was_asked_for(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    for output in (tmp_path / "none" / "x", tmp_path):
        code, _, err = run(capsys, "export", still.folder, "urls", "--format", form, "-o", output)
        assert code == ExitCode.USAGE
        assert err.startswith(f"lycosa: {output}: ") and ".tmp" not in err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.txt", "writing JSON lines"),
        ("x.csv", "as CSV"),
        ("x.PARQUET", "as Parquet"),
        ("x.jsonl", "as JSON lines"),
    ],
)
def test_which_form_is_written_is_told(
    still: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    code, _, err = run(capsys, "export", still.folder, "hosts", "-o", tmp_path / name)
    assert (code, said in err, "1 row of hosts in" in err) == (0, True, True)


def test_errors_while_rows_come_are_told_too(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "sql", still.folder, "SELECT CAST(url AS INT) FROM pages")
    assert (code, err.count("\n")) == (ExitCode.USAGE, 1)
    assert "Conversion Error" in err


def test_forms_of_an_answer(still: SampleCrawl, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT url, depth, fetch_time FROM pages ORDER BY url LIMIT 1"
    url = f"https://{HOST}/page/1"
    assert (
        run(capsys, "sql", still.folder, query)[1]
        == f"url                             depth  fetch_time\n{url}  2     "
        " 2026-09-21T14:13:21.250000Z\n"
    )
    assert json.loads(run(capsys, "sql", still.folder, query, "--json")[1]) == [
        {"url": url, "depth": 2, "fetch_time": "2026-09-21T14:13:21.250000Z"}
    ]
    assert (
        run(capsys, "sql", still.folder, query, "--format", "csv")[1]
        == f"url,depth,fetch_time\n{url},2,2026-09-21T14:13:21.250000Z\n"
    )
    assert json.loads(run(capsys, "sql", still.folder, "SELECT 1 WHERE false", "--json")[1]) == []


def test_a_long_answer_is_cut_on_the_screen_only(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, err = run(capsys, "sql", still.folder, "SELECT * FROM range(5000)")
    assert (len(out.splitlines()), "only the first 1000 rows" in err) == (1001, True)
    assert (
        len(
            run(capsys, "sql", still.folder, "SELECT * FROM range(5000)", "--format", "csv")[
                1
            ].splitlines()
        )
        == 5001
    )


def test_csv_and_json_of_an_answer_are_safe(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT '=1+1' AS a, chr(27) || '[2J' || chr(155) || chr(8238) AS b, -1 AS c"
    assert (
        run(capsys, "sql", still.folder, query, "--format", "csv")[1]
        .splitlines()[1]
        .startswith("'=1+1,")
    )
    assert (
        run(capsys, "sql", still.folder, query, "--format", "csv", "--raw")[1]
        .splitlines()[1]
        .startswith("=1+1,")
    )
    told = run(capsys, "sql", still.folder, query, "--json")[1]
    assert "\x1b" not in told and "\x9b" not in told and "\u202e" not in told
    assert json.loads(told) == [{"a": "=1+1", "b": "\x1b[2J\x9b\u202e", "c": -1}]


def test_memory_is_bounded(still: SampleCrawl, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT current_setting('memory_limit')"
    assert "488" in run(capsys, "sql", still.folder, query)[1]  # 512 MB in MiB
    assert run(capsys, "sql", still.folder, query, "--memory", "much")[0] == ExitCode.USAGE


def test_control_characters_of_pages_do_not_reach_the_terminal(
    still: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "sql", still.folder, "SELECT chr(27) || '[2J' || chr(10) || 'x' AS title")[1]
    assert out == "title\n\ufffd[2J x\n"  # a row stays on one line


def test_a_host_of_many_urls_streams(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl.commit([url_record(f"https://{HOST}/{number}") for number in range(12_000)])
    code, out, _ = run(capsys, "export", crawl.folder, "urls", "--format", "csv")
    assert (code, out.count("\n")) == (0, 12_004)


def test_no_temporary_file_remains(still: SampleCrawl, tmp_path: Path) -> None:
    for arguments in (
        ("export", still.folder, "pages"),
        ("sql", still.folder, "SELECT broken FROM pages, urls"),
    ):
        subprocess.run(
            [sys.executable, "-m", "lycosa", *map(str, arguments)],
            env={"TMPDIR": str(tmp_path)},
            capture_output=True,
        )
        assert list(tmp_path.iterdir()) == []


def test_a_reader_who_stops_reading_is_no_error(still: SampleCrawl) -> None:
    command = [
        sys.executable,
        "-m",
        "lycosa",
        "sql",
        str(still.folder),
        "--format",
        "csv",
        "SELECT * FROM range(1000000)",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline() == b"range\n"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == ExitCode.FINISHED
