"""Which pages are stored with everything that they load, and why others are not.

There is no record of it: the stored links say what each page needs, the state of each URL says what
became of it, and the rules that judged the links say why others have none. So the answer is that of
the last commit, for any crawl, also one that was made before. It is computed in the tables of
``lycosa sql``, on disk where they are large.

A page needs what it loads, what that loads, and so on: the font that a style sheet of a frame
names. The newest capture of each counts. Revisits have the links of the capture with the body.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import duckdb
import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.reasons import Reason
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.saved_settings import PureRules, SavedSettings

_TABLES = ("pages", "links", "urls")
_PARTS = [kind.name.lower() for kind in LinkKind if kind.is_requisite and kind != LinkKind.OTHER]
_FRAMES = ["frame", "iframe"]
_HTML = "('text/html', 'application/xhtml+xml')"
_BATCH = 5000

_NEWEST = f"""
CREATE TABLE newest AS
SELECT url, max(fetch_time) AS made, arg_max(duplicate_of, fetch_time) AS same_as,
  arg_max(duplicate_of_time, fetch_time) AS same_at,
  arg_max(content_mime_detected IN {_HTML}, fetch_time) AND arg_max(link_kind, fetch_time)
    NOT IN (SELECT unnest($parts)) AS is_page
FROM pages WHERE fetch_status = 200 AND coalesce(revisit_profile, '') != 'server-not-modified'
GROUP BY url
"""
# A revisit whose body was not parsed again has no links; those of its original count.
_NEEDS = """
CREATE TABLE needs AS
WITH own AS (
  SELECT url, url AS from_url, made AS from_at FROM newest
  UNION ALL SELECT url, same_as, same_at FROM newest WHERE same_as IS NOT NULL
    AND NOT EXISTS (FROM links WHERE source_url = newest.url AND source_time = newest.made)
)
SELECT DISTINCT own.url AS source, target_url AS target, kind
FROM own JOIN links ON source_url = from_url AND source_time = from_at
WHERE kind IN (SELECT unnest($parts))
"""
_STORED = "state = 'fetched' AND status BETWEEN 200 AND 299"
# What a redirect leads to is needed too.
_REDIRECTS = """
INSERT INTO needs SELECT DISTINCT url, redirect_to, kind FROM urls
WHERE state = 'redirected' AND redirect_to IS NOT NULL AND url IN (SELECT target FROM needs)
"""
_MISSING = f"""
CREATE TABLE missing AS
SELECT target AS url, any_value(needs.source) AS source, any_value(needs.kind) AS kind,
  any_value(coalesce(reason, state)) AS why
FROM needs LEFT JOIN urls ON urls.url = target
WHERE state IS NULL OR NOT ({_STORED} OR (state = 'redirected' AND redirect_to IS NOT NULL))
GROUP BY target
"""
_FURTHER = """
INSERT INTO lacks SELECT DISTINCT needs.source, lacks.url FROM needs JOIN lacks
  ON lacks.source = needs.target
WHERE NOT EXISTS (FROM lacks AS known WHERE known.source = needs.source AND known.url = lacks.url)
"""
_MOST_ROUNDS = 64  # more links than between a page and any requisite of it


class MissingRequisites(msgspec.Struct, frozen=True):
    """Requisites that are not stored, for one reason: how many, and of how many pages."""

    reason: str
    requisites: int
    pages: int
    meaning: str


class IncompletePage(msgspec.Struct, frozen=True):
    """A page, the number of requisites that it lacks, and one of them with the reason."""

    url: str
    missing: int
    example: str
    reason: str


class Completeness(msgspec.Struct, frozen=True):
    """The pages of a crawl, those with all requisites, and what the others lack."""

    pages: int
    complete: int
    requisites: int
    stored: int
    missing: list[MissingRequisites]
    incomplete: list[IncompletePage]


def completeness(reader: CrawlReader, saved: SavedSettings, listed: int = 20) -> Completeness:
    """Read it from the tables; ``listed`` pages, those that lack most, are named.

    Frames count as requisites if the crawl fetches requisites. Raises what ``CrawlTables`` raises.
    """
    parts = [*_PARTS, *(_FRAMES if saved.config.scope.requisites else ())]
    with CrawlTables(reader, _TABLES) as tables:
        ask = tables.connection
        ask.execute(_NEWEST, {"parts": _PARTS})
        ask.execute(_NEEDS, {"parts": parts})
        _follow(ask, _REDIRECTS)
        ask.execute(_MISSING)
        _explain(ask, PureRules(reader, saved))
        ask.execute(
            "CREATE TABLE lacks AS SELECT DISTINCT needs.source, target AS url FROM needs"
            " JOIN missing ON missing.url = target"
        )
        _follow(ask, _FURTHER)
        return _answer(ask, listed)


def _follow(ask: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Repeat a statement until it adds no row: one link or redirect further each time."""
    known = -1
    table = statement.split()[2]
    for _ in range(_MOST_ROUNDS):
        number = _number(ask, f"SELECT count(*) FROM {table}")
        if number == known:
            return
        known = number
        ask.execute(statement)
        if table == "needs":
            ask.execute("CREATE OR REPLACE TABLE needs AS SELECT DISTINCT * FROM needs")


def _explain(ask: duckdb.DuckDBPyConnection, rules: PureRules) -> None:
    """Give the URLs without a record the rule that refused their links."""
    ask.execute("CREATE TABLE refused (url VARCHAR, why VARCHAR)")
    found = ask.cursor().execute(
        "SELECT missing.url, missing.source, missing.kind, coalesce(urls.depth, 0),"
        " coalesce(urls.kind, 'a') FROM missing LEFT JOIN urls ON urls.url = missing.source"
        " WHERE why IS NULL"
    )
    while rows := found.fetchmany(_BATCH):
        ask.executemany("INSERT INTO refused VALUES (?, ?)", list(_refusals(rows, rules)))
    ask.execute("UPDATE missing SET why = refused.why FROM refused WHERE refused.url = missing.url")


def _refusals(
    rows: list[tuple[str, str, str, int, str]], rules: PureRules
) -> Iterator[tuple[str, str]]:
    wall = time.time()
    for url, source, word, depth, source_word in rows:
        kind = LinkKind[word.upper()]
        is_inner = rules.is_part(LinkKind[source_word.upper()])
        refusal = rules.judge_url(url, kind, depth + (not is_inner), wall, via=source)
        # What the rules of one URL admit was beyond a limit, or its page was marked nofollow.
        yield url, (refusal.reason if refusal else Reason.REQUISITE_LIMIT).label


def _answer(ask: duckdb.DuckDBPyConnection, listed: int) -> Completeness:
    pages = _number(ask, "SELECT count(*) FROM newest WHERE is_page")
    lacking = "FROM lacks JOIN newest ON newest.url = lacks.source AND is_page"
    incomplete = _number(ask, f"SELECT count(DISTINCT source) {lacking}")
    needed = _number(ask, "SELECT count(DISTINCT target) FROM needs")
    missing = _number(ask, "SELECT count(*) FROM missing")
    reasons = ask.execute(
        f"WITH pairs AS (SELECT source, lacks.url {lacking}) SELECT why,"
        " count(DISTINCT missing.url), count(DISTINCT pairs.source) FROM missing"
        " LEFT JOIN pairs ON pairs.url = missing.url GROUP BY why ORDER BY 3 DESC, 2 DESC, 1"
    ).fetchall()
    named = ask.execute(
        f"SELECT lacks.source, count(*), min(lacks.url), arg_min(why, lacks.url) {lacking}"
        " JOIN missing ON missing.url = lacks.url GROUP BY lacks.source ORDER BY 2 DESC, 1 LIMIT ?",
        [listed],
    ).fetchall()
    return Completeness(
        pages,
        pages - incomplete,
        needed,
        needed - missing,
        [MissingRequisites(why, number, of, _meaning(why)) for why, number, of in reasons],
        [IncompletePage(*row) for row in named],
    )


def _meaning(why: str) -> str:
    """What a reason means; of a state, that the requisite waits or is known to be missing."""
    known = Reason.__members__.get(why.upper())
    return known.meaning if known is not None else f"the state of the URL is {why}"


def _number(ask: duckdb.DuckDBPyConnection, statement: str) -> int:
    row = ask.execute(statement).fetchone()
    assert row is not None  # a count has one row
    return int(row[0])
