"""A crawl's tables in DuckDB: ``pages``, ``fetches``, ``links``, ``content``, ``texts``,
``renders``, ``ccindex``, ``urls``, ``hosts``, and the items of user code (``item_tables``).

``fetches`` has a row for each stored fetch, ``pages`` only those of pages, because a count of pages
should not include robots.txt files and sitemaps. ``ccindex`` is ``fetches`` with Common Crawl's
columns, where ``subset`` distinguishes them.

Closed segments are read from their Parquet files, where these exist. Later captures
(open segments up to the last commit, and closed ones without Parquet) come from the row journals
through temporary Parquet files. So nothing is missing while the crawl runs, and each capture is
there once: the files are listed first, and only that list decides whether a segment is read from
its files or its journal.

Closed segments have the content that the purpose allowed with which they were stored, all others
what the purpose of the last start allows. For another purpose, all captures come from the row
journals, which have everything. ``texts`` always does, and no file is made of it otherwise.

Of a page that was rendered, ``pages``, ``texts`` and ``content`` have the better text, and their
column ``text_from`` says which one it is. Files of closed segments never change: the views choose.

Memory is bounded: DuckDB gets a limit and spills to disk, everything else streams.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import TracebackType

import duckdb
import msgspec

from lycosa.base.preferences.use_policy import UsePolicy, agent_policy
from lycosa.base.system.private_folder import private_folder
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.item_tables import ItemTables
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.state_rows import write_state
from lycosa.inspect.text_choice import ALL_TEXTS, CHOICE, FETCHES, create_chosen_views
from lycosa.state.store import layout
from lycosa.state.store.derived_files import (
    CONTENT,
    DERIVED_KINDS,
    ITEMS,
    LINKS,
    PAGES,
    RENDERS,
)
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import JOURNAL_FORMAT, JournalRow, SegmentHeader
from lycosa.state.store.pages_table import COMMON_CRAWL_COLUMNS
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.wet import TEXTS, TEXTS_TABLE

MEMORY_MB = 512
CAPTURES = (PAGES, LINKS, CONTENT, TEXTS, RENDERS)
STATE = ("urls", "hosts")
TABLES = (*CAPTURES, *STATE, FETCHES, "ccindex")
# What the builders of a temporary table need from a header is set for each segment.
_HEADER = SegmentHeader(
    format=JOURNAL_FORMAT,
    segment="",
    crawl="",
    created_us=0,
    warcinfo_id="",
    warcinfo_length=0,
    info="",
    options={},
)
_CAPTURES = (b"",)
_ROWS_OF = {RENDERS: (RENDER_LINE,), LINKS: (b"", RENDER_LINE), CONTENT: (b"", RENDER_LINE)}
"""The rows of which a table is made, as ``having`` of ``read_rows``."""
_OF_FETCHES = {PAGES, FETCHES, "ccindex"}
_CHOSEN = {PAGES, TEXTS, CONTENT}
"""The tables that have the better text of a page."""


_PRIVATE_URLS = f"""
CREATE TABLE {CHOICE}.private_urls AS
SELECT DISTINCT url FROM {FETCHES} WHERE privacy = 'private'
"""


class CrawlTables:
    """DuckDB over a crawl; a context manager.

    ``wanted`` names the tables that are filled; the others have only columns. Names that no table
    has are ignored. A query may spill ``disk_bytes``, and nine tenths of the free disk in any case
    (DuckDB's own bound). ``policy`` is another purpose than that of the crawl. Raises what
    ``CrawlReader`` raises, ``JournalError``, also when another purpose needs a journal that is
    missing, and ``OSError``; for items of a cluster ``ObjectError`` too.
    """

    def __init__(
        self,
        reader: CrawlReader,
        wanted: Sequence[str] = TABLES,
        memory_mb: int = MEMORY_MB,
        policy: UsePolicy | None = None,
        hides_private: bool = False,
        disk_bytes: int = 0,
    ) -> None:
        self._reader = reader
        self._is_other = policy is not None
        self._policy = policy or agent_policy(load_saved_settings(reader).config.agent)
        self._files: list[Path] = []
        self._stack = ExitStack()
        try:
            self._folder = self._stack.enter_context(private_folder("tables"))
            self.connection = self._connect(memory_mb, disk_bytes)
            self._stack.callback(self.connection.close)
            self._items = ItemTables(reader, wanted, self._folder, self._policy, self._is_other)
            needs_pages = bool(_OF_FETCHES & set(wanted)) or bool(self._items.wanted)
            needs_pages |= TEXTS in wanted  # which say what fetch found the body of a render
            needs_pages = needs_pages or hides_private
            filled = {*wanted, PAGES} if needs_pages else set(wanted)
            if _CHOSEN & filled or self._items.wanted:
                filled.add(RENDERS)
            self._add_captures([kind for kind in CAPTURES if kind in filled])
            names = ", ".join(column[0] for column in COMMON_CRAWL_COLUMNS)
            self.connection.execute(f"CREATE VIEW ccindex AS SELECT {names} FROM {FETCHES}")
            create_chosen_views(self.connection)
            self._items.create(self.connection)
            self._files += self._items.files
            for kind in STATE:
                path = self._folder / f"{kind}.parquet"
                write_state(reader, kind, path, is_empty=kind not in filled)
                self._view(kind, [path])
            # Without any, tables are read as they are, in the order of their rows.
            self._hides_private = hides_private and self._has_private()
        except BaseException:
            # Also for an interrupt from the keyboard: the temporary files may be large.
            self._stack.close()
            raise

    def _has_private(self) -> bool:
        """Whether there are private captures; their URLs are in a table then."""
        self.connection.execute(_PRIVATE_URLS)
        found = self.connection.execute(f"SELECT count(*) FROM {CHOICE}.private_urls").fetchone()
        return found is not None and bool(found[0])

    def shown(self, kind: str) -> str:
        """What a statement selects from to have the rows of a table that may be given to others."""
        if not self._hides_private or kind == "hosts":
            return kind
        column = {LINKS: "source_url"}.get(kind, "url")
        if kind.removeprefix(f"{ITEMS}.") in self._items.names:
            column = "_url"
        urls = f"SELECT url FROM {CHOICE}.private_urls"
        return f"(SELECT * FROM {kind} WHERE {column} NOT IN ({urls}))"

    def leave_out_private(self) -> None:
        """Make private captures invisible to every statement, by tables without them.

        Where there are any, each table is copied without their rows, and only the copies remain.
        """
        if not self._hides_private:
            return
        shown = dict[str, Path]()
        for number, kind in enumerate(self.names()):
            shown[kind] = self._folder / f"shown-{number}.parquet"
            chosen, target = f"SELECT * FROM {self.shown(kind)}", _quoted(shown[kind])
            self.connection.execute(f"COPY ({chosen}) TO {target} (FORMAT parquet)")
        self.connection.execute(f"DROP SCHEMA {CHOICE} CASCADE")
        self._files.clear()
        for kind, path in shown.items():
            self.connection.execute(f"DROP VIEW {kind}")
            self._view(kind, [path])

    def lock(self, *files: Path) -> None:
        """Restrict the connection to the files of its tables and ``files``, by their exact names.

        Files that it spills to disk stay possible. After this no other file can be created and no
        setting changed.

        DuckDB has no read-only permission, so this does not keep a statement from overwriting a
        table's file: only statements that ``sql_gate`` accepts may follow.
        """
        listed = ", ".join(_quoted(path) for path in [*self._files, *files])
        # In this order: after the next two statements nothing can be set any more.
        self.connection.execute(f"SET allowed_paths = [{listed}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def names(self) -> list[str]:
        """The names of all tables that a query may use."""
        items = [name for each in self._items.names for name in (each, f"{ITEMS}.{each}")]
        return [*sorted(TABLES), *items]

    def columns(self) -> dict[str, list[str]]:
        """The columns of each table."""
        found: dict[str, list[str]] = {}
        query = (
            f"SELECT CASE schema_name WHEN '{ITEMS}' THEN '{ITEMS}.' ELSE '' END || table_name,"
            " column_name FROM duckdb_columns()"
            f" WHERE NOT internal AND schema_name <> '{CHOICE}' ORDER BY table_name, column_index"
        )
        for table, column in self.connection.execute(query).fetchall():
            found.setdefault(table, []).append(column)
        return found

    def __enter__(self) -> CrawlTables:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _connect(self, memory_mb: int, disk_bytes: int) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{memory_mb}MB",
                "temp_directory": str(self._folder / "spill"),
                # a query never loads code from the network
                "autoinstall_known_extensions": "false",
                "python_enable_replacements": "false",  # and sees no variables of this program
            },
        )
        if disk_bytes:
            # Not in `config`, where DuckDB 1.4 to 2.0 show the value and do not obey it.
            most = min(disk_bytes, shutil.disk_usage(self._folder).free * 9 // 10)
            connection.execute(f"SET max_temp_directory_size = '{most} bytes'")
        connection.execute("SET TimeZone = 'UTC'")
        # It would be printed on standard output, in front of an answer in JSON.
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET enable_progress_bar_print = false")
        return connection

    def _add_captures(self, kinds: Sequence[str]) -> None:
        source, origin = self._reader.source, self._reader.origin
        files: dict[str, list[Path]] = {
            kind: list(origin.find_derived(kind))
            if kind in kinds and kind in DERIVED_KINDS and not self._is_other
            else []
            for kind in CAPTURES
        }
        ready = {kind: {layout.stem_of(path) for path in paths} for kind, paths in files.items()}
        for kind in CAPTURES:
            # An empty file, so that a table has its columns before the first capture.
            files[kind].append(self._build(kind, "", ()))
        for segment in source.list_segments():
            unread = [kind for kind in kinds if segment.name not in ready[kind]]
            if segment.journal_length is None:
                if (self._is_other and unread) or TEXTS in unread:
                    raise JournalError(
                        f"the journal of {segment.name} is missing, which alone has its texts and"
                        " what another purpose may use"
                    )
                continue
            for kind in unread:
                rows = chain.from_iterable(
                    source.read_rows(segment, having) for having in _ROWS_OF.get(kind, _CAPTURES)
                )
                files[kind].append(self._build(kind, segment.name, rows))
        self.connection.execute(f"CREATE SCHEMA {CHOICE}")
        for kind, paths in files.items():
            self._view(ALL_TEXTS.get(kind, kind), paths)

    def _build(self, kind: str, segment: str, rows: Iterable[JournalRow]) -> Path:
        """A temporary Parquet file of one segment's rows."""
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        path = folder / f"{segment}.parquet"
        header = msgspec.structs.replace(
            _HEADER,
            segment=segment,
            crawl=self._reader.manifest.crawl[:8],  # as in the files of closed segments
            policy=self._policy,
        )
        builder = (TEXTS_TABLE if kind == TEXTS else DERIVED_KINDS[kind]).begin(path, header)
        try:
            for row in rows:
                builder.add_row(row)
        finally:
            builder.close()
        return path

    def _view(self, name: str, paths: Sequence[Path]) -> None:
        self._files += paths
        files = ", ".join(map(_quoted, paths))
        # By name: files of an earlier version may lack the newest columns.
        self.connection.execute(
            f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{files}], union_by_name = true)"
        )


def _quoted(path: Path) -> str:
    """The text as an SQL string."""
    return "'" + str(path).replace("'", "''") + "'"
