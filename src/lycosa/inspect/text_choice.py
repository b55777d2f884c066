"""Which text readers get of a page that was rendered: views over the tables of a query.

A render has the better text or not, which its row says. The newest render of a URL and body counts,
because an operator may have asked for another one, also for later fetches that found the same body:
they were not rendered. In a crawl without renders nothing is joined.
"""

from __future__ import annotations

import duckdb

from lycosa.state.store.derived_files import CONTENT, PAGES, RENDERS
from lycosa.state.store.wet import TEXTS

FETCHES = "fetches"
ALL_TEXTS = {PAGES: FETCHES, TEXTS: "choice.texts", CONTENT: "choice.content"}
"""The tables with everything, of which the views choose."""
BETTER = "choice.better_renders"
"""The newest render with the better text of each URL and body."""
CHOICE = "choice"
"""The schema of what only these views use."""
_CHOSEN = (
    "title",
    "description",
    "canonical_url",
    "language",
    "simhash",
    "text_characters",
    "outlinks",
)
_BETTER = f"""
CREATE VIEW choice.better_renders AS SELECT * FROM {RENDERS} WHERE is_better
QUALIFY row_number() OVER (PARTITION BY url, page_record_id ORDER BY render_time DESC) = 1
"""
# Many URLs of an application have one body. Its record is known by the time of its fetch.
_OF_BODY = "f.url = r.url AND coalesce(f.duplicate_of_time, f.fetch_time) = r.fetch_time"
_BETTER_FETCHES = f"""
CREATE VIEW choice.better_fetches AS
SELECT f.url, f.fetch_time, f.fetch_number, f.warc_record_id, r.language, r.title, r.text,
    f.fetch_number = r.fetch_number AS is_rendered
FROM {FETCHES} f JOIN choice.better_renders r ON {_OF_BODY}
"""
_FROM_RENDERS = {
    PAGES: f"""
SELECT f.* REPLACE ({{chosen}}), if(r.url IS NULL, 'page', 'render') AS text_from
FROM {ALL_TEXTS[PAGES]} f LEFT JOIN choice.better_renders r ON {_OF_BODY}
WHERE kind = 'page'
""",
    TEXTS: f"""
SELECT *, 'page' AS text_from FROM {ALL_TEXTS[TEXTS]}
WHERE warc_record_id NOT IN (SELECT warc_record_id FROM choice.better_fetches)
UNION ALL BY NAME SELECT * EXCLUDE (is_rendered), 'render' AS text_from
FROM choice.better_fetches WHERE text IS NOT NULL
    AND (is_rendered OR warc_record_id IN (SELECT warc_record_id FROM {ALL_TEXTS[TEXTS]}))
""",
    CONTENT: f"""
SELECT *, if(render_time IS NULL, 'page', 'render') AS text_from FROM {ALL_TEXTS[CONTENT]} c
WHERE NOT EXISTS (SELECT 1 FROM {ALL_TEXTS[CONTENT]} o WHERE o.warc_record_id = c.warc_record_id
    AND o.url = c.url AND o.render_time > coalesce(c.render_time, TIMESTAMP '1970-01-01'))
""",
}


def create_chosen_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the views ``pages``, ``texts`` and ``content`` with their column ``text_from``."""
    connection.execute(_BETTER)
    connection.execute(_BETTER_FETCHES)
    first = connection.execute("SELECT 1 FROM choice.better_renders LIMIT 1").fetchone()
    for kind, everything in ALL_TEXTS.items():
        condition = " WHERE kind = 'page'" if kind == PAGES else ""
        select = f"SELECT *, 'page' AS text_from FROM {everything}{condition}"
        if first is not None:
            chosen = ", ".join(
                f"if(r.url IS NULL, f.{name}, r.{name}) AS {name}" for name in _CHOSEN
            )
            select = _FROM_RENDERS[kind].format(chosen=chosen)
        connection.execute(f"CREATE VIEW {kind} AS {select}")
