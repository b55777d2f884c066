"""Reads the pages of a crawl folder in a Python program, also while the crawl runs.

    for page in lycosa.open("example").pages(status=200, media_type="text/html"):
        print(page.url, page.fetched, page.title, len(page.body))

Pages come one after another from the row journals, which have everything but the body and the
headers of the answer. Those are read from the WARC file when they are asked for. Nothing is locked
or changed, and memory holds one page at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import overload

from lycosa.base.model.capture import Location
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.parsed import Link
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.feeds.folder_lines import FolderLines
from lycosa.stages.parse.page import Page, Received
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.store import layout
from lycosa.state.store.journal import decode_journal_row
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow, Links, remarks_of, source_capture
from lycosa.state.store.rendered_texts import BetterRenders
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.stored_bodies import record_with_body, reference_of
from lycosa.state.store.stored_data import RecordError
from lycosa.state.store.usable_rows import usable_row

_BATCH = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StoredLinks(Sequence[Link]):
    """The links of a stored page, each made when it is asked for."""

    __slots__ = ("_links", "_nofollow")

    def __init__(self, links: Links) -> None:
        self._links, self._nofollow = links, frozenset(links.nofollow)

    def __len__(self) -> int:
        return len(self._links.urls)

    @overload
    def __getitem__(self, at: int) -> Link: ...
    @overload
    def __getitem__(self, at: slice) -> list[Link]: ...
    def __getitem__(self, at: int | slice) -> Link | list[Link]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        links, number = self._links, range(len(self))[at]
        url = links.urls[number]
        return Link(
            url,
            hash8(host_of(url)),
            hash8(url),
            LinkKind(links.kinds[number]),
            links.anchors[number],
            number in self._nofollow,
        )

    def __repr__(self) -> str:
        return repr(list(self))


class StoredPages:
    """The pages of a folder in the order of their commits, from the first one on.

    A page whose text is better after its scripts ran comes a second time, when it was rendered.
    Call it again for what was committed meanwhile. Raises a ``ManifestError``.
    """

    def __init__(self, folder: Path, everything: bool = False) -> None:
        self._folder, self._everything = folder, everything
        self._committed = FolderLines(folder)
        self._rows: Iterator[tuple[JournalRow, UsePolicy]] = iter(())

    def rows(self) -> Iterator[tuple[JournalRow, UsePolicy]]:
        """The rows that were not given yet, and the policy of each.

        Raises ``LogDamaged``, ``JournalError`` or ``OSError``.
        """
        for line, header in self._committed.new_lines():
            policy = header.policy
            row = decode_journal_row(line)
            if row.render is not None:
                if row.render.is_better:
                    yield row, policy
            elif self._everything or (row.kind is FetchKind.PAGE and row.revisit != UNCHANGED):
                yield row, policy

    def next_pages(self, most: int = _BATCH) -> list[Page]:
        """The next pages, none when all were given that are committed now. Blocks."""
        found = list(islice(self._rows, most))
        if not found:
            self._rows = self.rows()
            found = list(islice(self._rows, most))
        return [page_of_row(row, policy, self._folder) for row, policy in found]

    def skip_to_end(self) -> None:
        """Leave out what is committed now. Blocks."""
        self._committed.skip_lines()


class OpenedCrawl:
    """A crawl folder, opened for reading; made by ``lycosa.open``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.crawl = load_manifest(folder).crawl
        """The UUID of the crawl."""

    def __repr__(self) -> str:
        return f"<OpenedCrawl {self.folder}>"

    def pages(
        self,
        *,
        url: str = "",
        host: str = "",
        status: int | Collection[int] = (),
        media_type: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        everything: bool = False,
    ) -> Iterator[Page]:
        """The committed pages, each fetch once, of one worker in the order in which they were
        stored.

        Filters: ``url`` is a prefix, as is ``media_type`` (of the detected type); ``host`` has no
        port; ``since`` and ``until`` bound the time of the fetch, the latter exclusive; a time
        without a zone is local time. With ``everything`` come also sitemaps, robots.txt files, and
        answers that a page has not changed. ``text`` and ``links`` are empty where the settings
        ``store.text`` and ``store.links`` are off.

        Of a page that was rendered comes the better text (``Page.text_from``), at the place of its
        render; a later fetch that found the same body has that text too.

        While the crawl runs, the pages end with the last commit; call it again for more. Raises
        ``JournalError``, ``LogDamaged`` or ``OSError`` for damaged or missing files.
        """
        wanted = frozenset((status,) if isinstance(status, int) else status)
        first, end = _microseconds(since), _microseconds(until)
        better = BetterRenders(FolderView(self.folder))
        for row, policy in StoredPages(self.folder, everything).rows():
            fetched_us, _ = source_capture(row)
            if (
                (shown := better.shown(row)) is not None
                and row.url.startswith(url)
                and (not host or row.host.partition(":")[0] == host)
                and (not wanted or row.status in wanted)
                and (row.media_type_detected or row.media_type).startswith(media_type)
                and (since is None or fetched_us >= first)
                and (until is None or fetched_us < end)
            ):
                yield page_of_row(shown.row, policy, self.folder, shown.is_rendered)


def open(folder: str | Path) -> OpenedCrawl:
    """A crawl folder for reading: ``lycosa.open("example").pages()``.

    The crawl may run. Raises ``NotACrawl``, ``NewerFormat``, or another ``ManifestError``.
    """
    return OpenedCrawl(Path(folder))


def _microseconds(moment: datetime | None) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) if moment else 0


def page_of_row(
    row: JournalRow, policy: UsePolicy, folder: Path, is_rendered: bool = False
) -> Page:
    """The page of a capture in a folder, with its content as far as the policy allows.

    A row that ``is_rendered`` has the text of a render, as that of a render itself.
    """
    usable = usable_row(row, policy)
    is_render = row.render is not None
    other = None if is_render else row.original or row.near_duplicate_of
    fetched_us, _ = source_capture(row)
    return Page(
        url=row.url,
        status=row.status,
        fetched=_EPOCH + timedelta(microseconds=fetched_us),
        media_type=row.media_type_detected or row.media_type,
        charset=row.charset,
        title=usable.title,
        description=usable.description,
        language=row.language,
        text=usable.text,
        links=StoredLinks(usable.links),
        depth=row.depth,
        via=row.via,
        kind=row.kind,
        duplicate_of=other.url if other is not None and other.url != row.url else "",
        is_unchanged=row.revisit == UNCHANGED,
        remarks=remarks_of(row),
        location=Location(layout.warc_name(row.segment), row.offset, row.length, row.record_id),
        preferences=row.preferences,
        may_use=policy.verdict(row.preferences),
        text_from="render" if is_render or is_rendered else "page",
        source=partial(_received, folder, row),
    )


_ENCODING = "content-encoding"


def _received(folder: Path, row: JournalRow) -> Received:
    """The headers of a capture, and the body, which for a revisit is in another record."""
    read = SegmentFiles(folder).read_record
    if row.render is not None and not row.body_offset:
        raise RecordError(f"the place of the page is not known that {row.url} was rendered from")
    is_own = row.render is None
    own = read(
        row.segment if is_own else row.body_segment or row.segment,
        row.offset if is_own else row.body_offset,
    )
    record = own
    if reference_of(own) is not None:
        segment = row.body_segment or row.segment
        places = [(segment, row.body_offset)] if row.body_offset else []
        record = record_with_body(read, [*places, (row.segment, row.offset)])
        if reference_of(record) is not None:
            raise RecordError(
                f"the body of {row.url} is that of an earlier capture, of which this folder does"
                " not know the place, or whose archive is not there"
            )
    headers = header_fields(own.header_block)
    encodings = [value for name, value in header_fields(record.header_block) if name == _ENCODING]
    return Received(headers, record.body, encodings=encodings)


def header_fields(block: bytes) -> list[tuple[str, str]]:
    """The fields of a stored header block, names in lower case."""
    return Fetched("", Reason.NONE, header_block=block).headers()
