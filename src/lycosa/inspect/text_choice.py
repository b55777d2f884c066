"""Which text readers get of a page that was rendered: views over the tables of a query.

A render has the better text or not, which its row says. The newest render of a capture counts,
because an operator may have asked for another one. In a crawl without renders nothing is joined.
"""

from __future__ import annotations

import duckdb

from lycosa.state.store.derived_files import CONTENT, PAGES, RENDERS
from lycosa.state.store.texts_table import TEXTS

FETCHES = "fetches"
ALL_TEXTS = {PAGES: FETCHES, TEXTS: "choice.texts", CONTENT: "choice.content"}
"""The tables with everything, of which the views choose."""
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
QUALIFY row_number() OVER (PARTITION BY page_record_id ORDER BY render_time DESC) = 1
"""
_FROM_RENDERS = {
    PAGES: f"""
SELECT f.* REPLACE ({{chosen}}), if(r.url IS NULL, 'page', 'render') AS text_from
FROM {ALL_TEXTS[PAGES]} f LEFT JOIN choice.better_renders r ON f.warc_record_id = r.page_record_id
WHERE kind = 'page'
""",
    TEXTS: f"""
SELECT *, 'page' AS text_from FROM {ALL_TEXTS[TEXTS]}
WHERE warc_record_id NOT IN (SELECT page_record_id FROM choice.better_renders)
UNION ALL BY NAME SELECT url, fetch_time, fetch_number, page_record_id AS warc_record_id,
    language, title, text, 'render' AS text_from
FROM choice.better_renders WHERE text IS NOT NULL
""",
    CONTENT: f"""
SELECT *, if(render_time IS NULL, 'page', 'render') AS text_from FROM {ALL_TEXTS[CONTENT]} c
WHERE NOT EXISTS (SELECT 1 FROM {ALL_TEXTS[CONTENT]} o WHERE o.warc_record_id = c.warc_record_id
    AND o.render_time > coalesce(c.render_time, TIMESTAMP '1970-01-01'))
""",
}


def create_chosen_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the views ``pages``, ``texts`` and ``content`` with their column ``text_from``."""
    connection.execute(_BETTER)
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
