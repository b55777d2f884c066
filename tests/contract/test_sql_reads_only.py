"""``lycosa sql`` and ``export --where`` only read: every way out that DuckDB has is refused, and
the folder keeps every byte.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from judging import file_bytes
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from sample_crawl import SampleCrawl

INNER = [
    "COPY (SELECT 1 AS x) TO '{table}' (FORMAT parquet)",
    "COPY (SELECT 1 AS x) TO '{table}' (FORMAT parquet, USE_TMP_FILE false)",
    "COPY (SELECT 1 AS x) TO '{pages}/evil.parquet' (FORMAT parquet)",
    "COPY (SELECT 1 AS x) TO '{out}/evil.csv'",
    "COPY pages TO '{out}/evil' (FORMAT parquet, PARTITION_BY (kind))",
    "CREATE TABLE x(a int)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "CREATE OR REPLACE VIEW pages AS SELECT 1",
    "CREATE MACRO one() AS 1",
    "CREATE SECRET s (TYPE s3)",
    "CREATE SEQUENCE s",
    "CREATE TYPE t AS ENUM ('a')",
    "CREATE SCHEMA s",
    "DROP VIEW pages",
    "ALTER VIEW pages RENAME TO p",
    "INSERT INTO pages SELECT * FROM pages",
    "UPDATE pages SET url = ''",
    "DELETE FROM pages",
    "TRUNCATE pages",
]
ESCAPES = [
    *INNER,
    *(f"EXPLAIN ANALYZE {each}" for each in INNER),
    *(f"EXPLAIN (ANALYZE, FORMAT json) {each}" for each in INNER[:6]),
    *(f"EXPLAIN {each}" for each in INNER[:3]),
    "explain /* ANALYZE */ analyze -- \n COPY (SELECT 1 AS x) TO '{table}' (FORMAT parquet)",
    "/* SELECT */ EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO '{out}/evil.csv'",
    "WITH x AS (COPY (SELECT 1 AS x) TO '{table}' (FORMAT parquet)) SELECT * FROM x",
    (
        "WITH x AS (COPY (SELECT 1 AS x) TO '{table}' (FORMAT parquet, USE_TMP_FILE false)) SELECT"
        " * FROM x"
    ),
    "WITH x AS (COPY (SELECT 1 AS x) TO '{out}/evil.csv') SELECT * FROM x",
    "WITH x AS MATERIALIZED (COPY (SELECT 1 AS x) TO '{out}/evil.csv') FROM x",
    (
        "EXPLAIN ANALYZE WITH x AS (COPY (SELECT 1 AS x) TO '{table}' (FORMAT parquet)) SELECT *"
        " FROM x"
    ),
    "EXPLAIN (WITH x AS (COPY (SELECT 1 AS x) TO '{table}') SELECT * FROM x)",
    "WITH x AS (INSERT INTO pages SELECT * FROM pages RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM pages RETURNING *) SELECT * FROM x",
    "SELECT * FROM (WITH x AS (COPY (SELECT 1) TO '{out}/evil.csv') SELECT * FROM x)",
    "FROM enable_logging(storage = 'file', storage_config = {{'path': '{out}/log.csv'}})",
    (
        "FROM system.main.ENABLE_LOGGING(storage = 'file', storage_config = {{'path':"
        " '{pages}/log.csv'}})"
    ),
    "SELECT (SELECT count(*) FROM enable_profiling(save_location = '{out}/prof.txt'))",
    "FROM import_database('{out}')",
    "FROM copy_database('a', 'b')",
    "FROM force_checkpoint()",
    "FROM truncate_duckdb_logs()",
    "SELECT write_log('x')",
    "SELECT getenv('HOME')",
    "FROM read_text('/etc/passwd')",
    "FROM read_blob('{table}')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_json('/etc/passwd')",
    "FROM parquet_scan('{out}/secret.parquet')",
    "FROM '/etc/passwd'",
    "FROM '{out}/secret.csv'",
    "FROM sniff_csv('{out}/secret.csv')",
    "FROM glob('/etc/*')",
    "FROM query('FROM glob(''/*'')')",
    "FROM query_table('{out}/secret.csv')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "FROM 'https://127.0.0.1:1/x.parquet'",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{out}/evil.csv'",
    "COPY pages FROM '{out}/secret.csv'",
    "EXPORT DATABASE '{out}/db'",
    "IMPORT DATABASE '{out}/db'",
    "ATTACH '{out}/db.duckdb'",
    "ATTACH '{table}' AS x (READ_WRITE)",
    "DETACH memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{out}/x.duckdb_extension'",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET GLOBAL lock_configuration = false",
    "RESET allowed_paths",
    "SET temp_directory = '{out}'",
    "SET VARIABLE x = 1",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA profiling_output = '{out}/prof.json'",
    "PRAGMA database_list",
    "CALL enable_logging()",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "DEALLOCATE x",
    "USE memory",
    "BEGIN",
    "COMMIT",
    "MERGE INTO pages USING links ON true WHEN MATCHED THEN DELETE",
    "COMMENT ON VIEW pages IS 'x'",
    "PIVOT pages ON kind USING count(*)",
    "",
    ";",
    "-- nothing",
]
QUESTIONS = [
    "SELECT count(*) FROM pages",
    "FROM links SELECT kind, count(*) GROUP BY ALL",
    "VALUES (1), (2)",
    "TABLE pages",
    "WITH p AS (SELECT url FROM pages), q AS MATERIALIZED (FROM links) SELECT count(*) FROM p, q",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) FROM r",
    (
        "SELECT url, row_number() OVER (ORDER BY url) FROM pages UNION ALL SELECT source_url, 0"
        " FROM links"
    ),
    "SELECT * FROM pages PIVOT (count(*) FOR fetch_status IN (200, 404))",
    "SELECT unnest(redirect_chain) FROM fetches",
    "SELECT * FROM range(5), unnest([1, 2]) AS u(x)",
    "SELECT json_extract('{{\"a\": 1}}', '$.a')",
    "SELECT * FROM duckdb_columns() LIMIT 1",
    "DESCRIBE pages",
    "DESCRIBE SELECT * FROM links",
    "SHOW TABLES",
    "SUMMARIZE pages",
    "EXPLAIN SELECT * FROM pages",
    "EXPLAIN ANALYZE SELECT count(*) FROM pages",
    "EXPLAIN (FORMAT json) SELECT * FROM pages",
    "/* a remark */ -- and another\n EXPLAIN ANALYZE WITH p AS (FROM pages) FROM p",
    "SELECT 1;",
    "SELECT * FROM urls JOIN hosts USING (host)",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    crawl = SampleCrawl(tmp_path_factory.mktemp("reads") / "crawl")
    crawl.close()
    return crawl.folder


@pytest.fixture
def folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, so that one statement that does write does not spoil what the others are asked of."""
    return Path(shutil.copytree(made, tmp_path_factory.mktemp("copy") / "crawl"))


def _filled(statement: str, folder: Path, out: Path) -> str:
    (table,) = (folder / "pages").glob("*.parquet")
    return statement.format(table=table, pages=folder / "pages", out=out)


def test_there_are_enough_ways_out() -> None:
    assert len(set(ESCAPES)) >= 60


@pytest.mark.parametrize("statement", ESCAPES)
def test_no_statement_writes_or_reads_another_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    before, around = file_bytes(folder), file_bytes(tmp_path)
    code = main(["sql", str(folder), _filled(statement, folder, tmp_path)])
    out, err = capsys.readouterr()
    assert file_bytes(folder) == before and file_bytes(tmp_path) == around
    assert (
        (code, out) == (ExitCode.USAGE, "")
        and err.startswith("lycosa: ")
        and "internal error" not in err
    ), (code, out, err)


@pytest.mark.parametrize("statement", QUESTIONS)
def test_questions_are_answered(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    before = file_bytes(folder)
    code = main(["sql", str(folder), _filled(statement, folder, tmp_path), "--format", "json"])
    out, err = capsys.readouterr()
    assert (code, err) == (ExitCode.FINISHED, "") and out.strip()
    assert file_bytes(folder) == before


@pytest.mark.parametrize(
    "where",
    [
        "1 = 1) TO '{out}/evil.csv'; --",
        "url IN (WITH x AS (COPY (SELECT 1) TO '{out}/evil.csv') SELECT '' FROM x)",
        "url IN (SELECT content FROM read_text('/etc/passwd'))",
        "true) UNION ALL (SELECT * FROM read_csv('/etc/passwd')",
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_condition_of_an_export_only_reads(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, form: str
) -> None:
    before = file_bytes(folder)
    condition = _filled(where, folder, tmp_path)
    code = main(
        ["export", str(folder), "pages", "--where", condition, "-o", str(tmp_path / f"x.{form}")]
    )
    assert code == ExitCode.USAGE and "internal" not in capsys.readouterr().err
    assert file_bytes(folder) == before and file_bytes(tmp_path) == {}


def test_a_refusal_says_what_is_allowed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", str(folder), "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x'"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert "EXPLAIN of COPY" in err and "allowed are SELECT, WITH" in err


def test_a_question_that_needs_more_than_its_memory_spills_within_a_bound(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = (
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY md5(i::VARCHAR)) AS n FROM"
        " range(1500000) r(i))"
    )
    assert (
        main(["sql", str(folder), question, "--memory", "64MB", "--format", "csv"])
        == ExitCode.FINISHED
    )
    assert capsys.readouterr().out.splitlines()[1] == "1500000"
    bounds = ["--memory", "64MB", "--disk", "5MB"]
    assert main(["sql", str(folder), question, *bounds]) == ExitCode.USAGE
    assert "more than --disk; ask for less" in capsys.readouterr().err
