"""The table ``text`` of exports: the newest text of each page with what a corpus is chosen by.

The table ``texts`` has the text of each capture. A corpus needs one of each page, and next to it
the language, which other page has nearly the same text, and what the site says about its use.
"""

from __future__ import annotations

import duckdb

from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.sql_query import SqlError
from lycosa.state.store.derived_files import CONTENT, PAGES
from lycosa.state.store.texts_table import TEXTS

PAGE_TEXTS, MAIN_TEXTS = "text", "main_text"
"""The names of the table: of the visible text, and of the main text where a page has one."""
# The newest rows are found by two narrow columns: texts are read once, and never sorted.
_VIEW = """
CREATE VIEW {view} AS
SELECT t.url, t.fetch_time, t.title, t.language,
    {text},
    t.text_from,
    nullif(coalesce(nullif(p.duplicate_of, t.url), p.near_duplicate_of), t.url) AS duplicate_of,
    p.canonical_url, p.content_mime_detected, p.license, p.use_search, p.use_ai_train,
    p.use_ai_input, p.may_use, p.noindex, t.fetch_number, t.warc_record_id
FROM {texts} t
JOIN (SELECT max_by(warc_record_id, (fetch_time, fetch_number)) AS newest
    FROM {texts} GROUP BY url) n ON t.warc_record_id = n.newest
JOIN {pages} p ON p.warc_record_id = t.warc_record_id
{content}
WHERE p.fetch_status BETWEEN 200 AND 299
"""
_VISIBLE = "t.text, false AS is_main"
_MAIN = "coalesce(c.main_text, t.text) AS text, c.main_text IS NOT NULL AS is_main"
_JOIN_CONTENT = f"LEFT JOIN {CONTENT} c ON c.warc_record_id = t.warc_record_id"


def tables_of_texts(reader: CrawlReader, kind: str) -> list[str]:
    """The tables that must be filled for an export of ``kind``: for any other table that one.

    Raises ``SqlError`` for the main text of a crawl that does not store it.
    """
    if kind == MAIN_TEXTS and not load_saved_settings(reader).config.store.content:
        raise SqlError(
            "the crawl stores no main text; crawl with --set store.content=true, or leave out"
            " --main for the visible text"
        )
    return {PAGE_TEXTS: [TEXTS, PAGES], MAIN_TEXTS: [TEXTS, PAGES, CONTENT]}.get(kind, [kind])


def create_page_texts(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Create the view of this name; nothing for other tables."""
    if kind in (PAGE_TEXTS, MAIN_TEXTS):
        is_main = kind == MAIN_TEXTS
        text, content = (_MAIN, _JOIN_CONTENT) if is_main else (_VISIBLE, "")
        connection.execute(
            _VIEW.format(view=kind, texts=TEXTS, pages=PAGES, text=text, content=content)
        )
