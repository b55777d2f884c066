"""What a crawl folder says about links: the links of its pages, and the answer to each URL.

Links and anchors are read from the stored pages, because the crawl keeps neither fragments nor
lines. Of each URL the newest capture counts. Pages are read in a parse child, as those of a crawl:
one that crashes it, or takes too long, is reported and ends nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from lycosa.base.config.sections import Config, ScopeRule
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.linked_page import LinkPlace
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.base.urls.identity import Canonicalizer, host_of
from lycosa.feeds.stored_pages import StoredPages, page_of_row
from lycosa.inspect.committed_state import CrawlReader, TableView, UrlEntry, read_folder
from lycosa.inspect.linked.link_judgement import UrlAnswer
from lycosa.inspect.linked.link_survey import LinkSurvey
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED
from lycosa.stages.parse.child_parser import ChildParser
from lycosa.stages.parse.link_places import resolved_reference
from lycosa.stages.parse.page import Page
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.state.kv.table_records import robots_key
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow
from lycosa.state.store.stored_data import RecordError

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_BEGINNINGS = frozenset({LinkKind.SEED, LinkKind.GIVEN, LinkKind.REDIRECT})
_NO_HISTORY = History()
_NO_ANSWER = frozenset(
    each for each in Reason if each.is_failure and each < Reason.HTTP_CLIENT_ERROR
)
_STATUS = re.compile(r"status ([1-9]\d\d)\b")
_ROBOTS = msgspec.msgpack.Decoder(RobotsRecord)
_FATAL = frozenset({Reason.PARSE_KILLED, Reason.PARSE_TIMEOUT})
_EVERY = 50  # pages between two reports of progress
_AHEAD = 4  # pages given to the parse child before its answer is used: each may have 64 MB

Answers = dict[str, UrlAnswer]
_TakePage = Callable[[JournalRow, Page, Parsed | None], None]


class OwnPlaces:
    """Which URLs belong to the site that is checked: those of its hosts, or of its sites.

    A crawl begins on them: its seeds, and what seeds redirect to.
    """

    def __init__(self, reader: CrawlReader) -> None:
        config: Config = load_saved_settings(reader).config
        self.rule = config.scope.rule
        self._site_of = reader.sites.site_of if self.rule is ScopeRule.SITE else None
        self._places = {
            self._place(entry.url)
            for entry in reader.urls()
            if not entry.record.depth and entry.record.kind in _BEGINNINGS
        }

    def __contains__(self, url: object) -> bool:
        assert isinstance(url, str)
        return self.rule is ScopeRule.ANY or self._place(url) in self._places

    def _place(self, url: str) -> str:
        host = host_of(url)
        return self._site_of(host) if self._site_of is not None else host


def url_answers(folder: Path) -> Answers:
    """What is known of each URL of a crawl. Raises what ``read_folder`` raises."""
    found: Answers = {}
    reader = read_folder(folder)
    for view in reader.partition_views():
        found.update(_answers(view))
    return found


def _answers(view: TableView) -> Iterator[tuple[str, UrlAnswer]]:
    for entry in view.urls():
        record, past = entry.record, entry.record.history or _NO_HISTORY
        reason, detail = record.reason, record.detail
        if (not reason or reason is Reason.ROBOTS_UNREACHABLE) and entry.state not in (
            UrlState.FETCHED,
            UrlState.REDIRECTED,
        ):
            reason, detail = _reason_of_host(view, entry)
        # The status of an answer after which the URL is tried again is not in its history.
        status = past.status or _status_in(detail)
        yield (
            entry.url,
            UrlAnswer(entry.state, status, reason, detail, past.redirect_to, past.fetched_at),
        )


def _status_in(detail: str) -> int:
    found = _STATUS.match(detail)
    return int(found[1]) if found else 0


def named_sitemaps(
    reader: CrawlReader, canonicalizer: Canonicalizer
) -> Iterator[tuple[str, LinkPlace]]:
    """The Sitemap lines of the robots.txt of each host, with the URL of that file."""
    for view in reader.partition_views():
        for host in view.hosts():
            for scheme in ("http", "https"):
                value = view.get(robots_key(host.host8, scheme == "https"))
                if value is None:
                    continue
                file = f"{scheme}://{host.record.host}/robots.txt"
                for raw in _ROBOTS.decode(value).rules.sitemaps:
                    resolved = resolved_reference(raw, canonicalizer, file)
                    yield file, LinkPlace(raw, LinkKind.SITEMAP_FILE, "", 0, *resolved)


def _reason_of_host(view: TableView, entry: UrlEntry) -> tuple[Reason, str]:
    """Why its host waits or was retired.

    A robots.txt that no server sent is no rule of the site: then the connection is the reason.
    """
    host = view.host_record(entry.host8)
    if host is None:
        return Reason.NONE, ""
    is_away = host.last_error in _NO_ANSWER and host.failures > 0
    return (host.last_error if is_away else host.reason), host.detail


class PageReader:
    """Reads pages of crawl folders for a check with these settings.

    ``show`` gets the number of pages that were read, and of all. The methods block, and raise
    ``JournalError``, ``LogDamaged`` or ``OSError``.
    """

    def __init__(
        self, config: Config, show: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        self._config = msgspec.structs.replace(ParserConfig.of(config), reads_places=True)
        self._show = show

    def survey_pages(
        self, folder: Path, survey: LinkSurvey, answers: Answers, own: Container[str]
    ) -> None:
        """Add the own pages of a crawl to the survey, and what each page is to its answer."""

        def take(row: JournalRow, page: Page, parsed: Parsed | None) -> None:
            if row.url in own:
                _add_page(survey, row, page, parsed)

        asyncio.run(self._read_pages(folder, answers, own, take))

    def foreign_anchors(
        self, folder: Path, answers: Answers, wanted: Container[str]
    ) -> dict[str, frozenset[str]]:
        """The anchors of the ``wanted`` pages of a crawl of other sites."""
        anchors: dict[str, frozenset[str]] = {}

        def take(row: JournalRow, page: Page, parsed: Parsed | None) -> None:
            if parsed is not None and parsed.linked is not None:
                anchors[row.url] = parsed.linked.anchors

        asyncio.run(self._read_pages(folder, answers, wanted, take))
        return anchors

    async def _read_pages(
        self, folder: Path, answers: Answers, wanted: Container[str], take: _TakePage
    ) -> None:
        """Give each page in its order, with what the parse child found if it is wanted."""
        newest = _newest(folder, answers)
        parser = ChildParser(self._config, SystemClock())
        ahead: deque[tuple[JournalRow, Page, asyncio.Task[Parsed] | None]] = deque()

        async def take_first() -> None:
            row, page, reading = ahead.popleft()
            parsed = None if reading is None else await reading
            _note_page(answers, row, page, _why_unread(row, parsed))
            take(row, page, parsed)

        try:
            for done, (row, page) in enumerate(_pages(folder, newest)):
                is_read = row.url in wanted and _has_places(row, page)
                reading = asyncio.create_task(self._read(parser, row, page)) if is_read else None
                ahead.append((row, page, reading))
                if len(ahead) > _AHEAD:
                    await take_first()
                if done % _EVERY == 0:
                    self._show(done, len(newest))
            while ahead:
                await take_first()
        finally:
            await parser.close()

    async def _read(self, parser: ChildParser, row: JournalRow, page: Page) -> Parsed:
        try:
            body = page.body[: self._config.section.max_bytes]
        except (RecordError, OSError) as error:
            return Parsed(detail=str(error))
        charset = f"; charset={page.charset}" if page.charset else ""
        headers = [("content-type", f"text/html{charset}")]
        return await parser.parse(ParseInput(row.url, row.status, headers, body))


def _newest(folder: Path, answers: Answers) -> dict[str, int]:
    """The fetch that counts of each URL that has content now."""
    newest: dict[str, int] = {}
    for row, _ in StoredPages(folder, everything=True).rows():
        answer = answers.get(row.url)
        if (
            row.kind in (FetchKind.PAGE, FetchKind.SITEMAP)
            and row.revisit != UNCHANGED
            and answer is not None
            and answer.state is UrlState.FETCHED
        ):
            newest[row.url] = max(newest.get(row.url, 0), row.fetch_number)
    return newest


def _pages(folder: Path, newest: dict[str, int]) -> Iterator[tuple[JournalRow, Page]]:
    for row, policy in StoredPages(folder, everything=True).rows():
        if newest.get(row.url) == row.fetch_number and row.revisit != UNCHANGED:
            yield row, page_of_row(row, policy, folder)


def _has_places(row: JournalRow, page: Page) -> bool:
    """Whether a page has lines and places: not feeds, sitemaps, PDF files, style sheets, and what
    scripts made.

    A page that ended two parse children of the crawl is not given to others.
    """
    is_html = page.media_type in _HTML
    return is_html and row.render is None and row.parse_reason not in _FATAL


def _why_unread(row: JournalRow, parsed: Parsed | None) -> str:
    """Why not all links of a document were read; empty if they were."""
    if parsed is not None and parsed.linked is not None:
        is_cut, number = parsed.linked.is_cut, len(parsed.linked.places)
        return f"only the first {number:,}" if is_cut else ""
    reason = row.parse_reason if parsed is None else parsed.reason
    if parsed is None and reason not in NOT_PARSED:
        return ""
    return reason.meaning if reason or parsed is None else parsed.detail


def _note_page(answers: Answers, row: JournalRow, page: Page, unread: str) -> None:
    answers[row.url] = answers[row.url]._replace(
        is_page=page.media_type in _HTML,
        is_cut=bool(row.is_cut or row.truncated),
        unread=unread,
    )


def _add_page(survey: LinkSurvey, row: JournalRow, page: Page, parsed: Parsed | None) -> None:
    if parsed is None or parsed.linked is None:
        survey.add_links(row.url, ((link.url, link.kind, link.anchor) for link in page.links))
        return
    linked = parsed.linked
    if row.nofollow:
        linked.places.clear()  # the page asks robots not to follow its links
    else:
        linked.places += _sent_with(page)
    survey.add_page(row.url, linked)
    if not row.noindex and row.canonical in ("", row.url) and _is_plain(row.url):
        survey.indexable.add(row.url)


def _sent_with(page: Page) -> list[LinkPlace]:
    """Links of the header fields Link and Refresh are rows of the crawl; they have no line."""
    if not any(name in ("link", "refresh") for name, _ in page.headers):
        return []
    kinds = (LinkKind.STYLE, LinkKind.SCRIPT, LinkKind.REFRESH, LinkKind.CANONICAL)
    return [
        LinkPlace(each.url, each.kind, each.anchor, 0, each.url)
        for each in page.links
        if each.kind in kinds
    ]


def _is_plain(url: str) -> bool:
    """Whether a sitemap may be expected to list it: variants by query are left out often."""
    return not urlsplit(url).query
