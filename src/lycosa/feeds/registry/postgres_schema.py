"""The tables of a registry in PostgreSQL.

``urls`` is partitioned by hash: a unique key must contain the partition column, and its key is the
URL's hash. ``crawl_log`` grows with every fetch and is partitioned by month, so that old months can
be detached or dropped at once. Dead letters are the failed URLs: a view with an index, so they
always agree with ``urls``.

Most secondary indexes are created when the tables have been filled for the first time, which takes
a fraction of the time that keeping them up to date row by row would. The one by host is needed
while they are filled.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lycosa.feeds.registry.registry_rows import (
    ALL_HOST_COLUMNS,
    ALL_URL_COLUMNS,
    COMMIT_COLUMNS,
    REGISTRY_LOG,
)

URL_PARTITIONS = 16
PREFIX_CHARACTERS = 400
"""Characters of a URL that its prefix index has: an index entry is limited to 2,700 bytes."""

URL_KEY, HOST_KEY = ("url_hash", "host_hash"), ("host_hash",)
_MAY_BE_NULL = {
    *("last_crawled", "next_crawl", "http_status", "content_hash", "simhash", "etag"),
    *("last_modified", "change_rate", "error", "detail", "parked_until", "crawl_delay_s"),
    *("last_error", "address", "media_type", "revisit", "changed_at", "preferences"),
    *("use_search", "use_ai_train", "use_ai_input", "license"),
}

_TABLES = """
CREATE TABLE crawl (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    format int4 NOT NULL,
    crawl uuid NOT NULL,
    name text NOT NULL,
    partitions int4 NOT NULL,
    is_indexed boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE positions (
    partition int4 PRIMARY KEY,
    term int4 NOT NULL,
    sequence int8 NOT NULL,
    committed_at timestamptz,
    projected_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE journals (
    segment text PRIMARY KEY,
    rows int8 NOT NULL,
    bytes int8 NOT NULL,
    is_closed boolean NOT NULL
);
CREATE TABLE urls ({urls}, PRIMARY KEY (url_hash, host_hash)) PARTITION BY HASH (url_hash);
CREATE INDEX urls_by_host ON urls (host, next_crawl);
CREATE TABLE hosts ({hosts}, PRIMARY KEY (host_hash));
CREATE TABLE crawl_log ({crawl_log}, PRIMARY KEY (fetched_at, record_id))
    PARTITION BY RANGE (fetched_at);
CREATE VIEW dead_letters AS
    SELECT url_hash, host_hash, url, host, site, error, detail, http_status, retry_count, depth,
        first_seen, last_crawled, changed_at
    FROM urls WHERE status = 'failed';
"""

_INDEXES = f"""
CREATE INDEX IF NOT EXISTS urls_by_status ON urls (status, next_crawl);
CREATE INDEX IF NOT EXISTS urls_by_change ON urls (changed_at);
CREATE INDEX IF NOT EXISTS urls_by_site ON urls (site, status);
CREATE INDEX IF NOT EXISTS urls_by_prefix ON urls (left(url, {PREFIX_CHARACTERS}));
CREATE INDEX IF NOT EXISTS urls_with_error ON urls (host, error) WHERE error IS NOT NULL;
CREATE INDEX IF NOT EXISTS urls_failed ON urls (host, changed_at) WHERE status = 'failed';
CREATE INDEX IF NOT EXISTS hosts_by_name ON hosts (host);
CREATE INDEX IF NOT EXISTS hosts_by_site ON hosts (site);
CREATE INDEX IF NOT EXISTS crawl_log_by_url ON crawl_log (url_hash, fetched_at);
CREATE INDEX IF NOT EXISTS crawl_log_by_host ON crawl_log (host, fetched_at);
"""


def table_statements() -> str:
    """The statements that create the tables in the schema of the search path."""
    parts = "".join(
        f"CREATE TABLE urls_{number:02d} PARTITION OF urls FOR VALUES WITH"
        f" (MODULUS {URL_PARTITIONS}, REMAINDER {number});\n"
        for number in range(URL_PARTITIONS)
    )
    columns = {
        "urls": _definitions(ALL_URL_COLUMNS),
        "hosts": _definitions(ALL_HOST_COLUMNS),
        "crawl_log": _definitions(REGISTRY_LOG),
    }
    return _TABLES.format(**columns) + parts


def added_column_statement(table: str, name: str, kind: str) -> str:
    """The statement that adds a column, which may be null, to a table of an older format."""
    return f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {_definitions({name: kind})}"


def index_statements() -> str:
    """The statements that create the secondary indexes, those that are missing."""
    return _INDEXES


def stage_statements() -> str:
    """The statements that create the staging tables of a session."""
    return "".join(
        f"CREATE TEMP TABLE stage_{table} (LIKE {table}) ON COMMIT DELETE ROWS;"
        for table in ("urls", "hosts", "crawl_log")
    )


def upsert_statement(table: str, columns: dict[str, str], key: tuple[str, ...]) -> str:
    """The statement that brings staged rows into their table.

    A row is replaced only by one of a later commit. ``changed_at`` stays when nothing else changed,
    as when the whole state is read again.
    """
    names = ", ".join(columns)
    content = [name for name in columns if name not in COMMIT_COLUMNS and name not in key]
    old, new = (", ".join(f"{each}.{name}" for name in content) for each in ("t", "excluded"))
    updates = ", ".join(f"{name} = excluded.{name}" for name in [*content, "partition"])
    return f"""
        INSERT INTO {table} AS t ({names}) SELECT {names} FROM stage_{table}
        ON CONFLICT ({", ".join(key)}) DO UPDATE SET {updates},
            term = excluded.term, sequence = excluded.sequence,
            changed_at = CASE WHEN ({old}) IS DISTINCT FROM ({new})
                THEN excluded.changed_at ELSE t.changed_at END
        WHERE (t.term, t.sequence) < (excluded.term, excluded.sequence)"""


def month_statement(month: datetime) -> str:
    """The statement that creates the partition of ``crawl_log`` for a month, if it is missing."""
    year, number = month.year, month.month
    after = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return (
        f"CREATE TABLE IF NOT EXISTS crawl_log_{year:04d}_{number:02d} PARTITION OF crawl_log"
        f" FOR VALUES FROM ('{year:04d}-{number:02d}-01 00:00:00+00')"
        f" TO ('{after:%Y-%m-%d} 00:00:00+00')"
    )


def _definitions(columns: dict[str, str]) -> str:
    return ", ".join(
        f"{name} {kind}"
        + (' COLLATE "C"' if kind == "text" else "")
        + ("" if name in _MAY_BE_NULL else " NOT NULL")
        for name, kind in columns.items()
    )
