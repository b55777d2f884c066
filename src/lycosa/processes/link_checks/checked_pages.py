"""What a crawl folder says about links: the links of its pages, and the answer to each URL.

Links and anchors are read from the stored pages, because the crawl keeps neither fragments nor
lines. Of each URL the newest capture counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from lycosa.base.config.sections import Config, ScopeRule
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.feeds.stored_pages import StoredPages, page_of_row
from lycosa.inspect.committed_state import CrawlReader, TableView, UrlEntry, read_folder
from lycosa.inspect.linked.link_judgement import UrlAnswer
from lycosa.inspect.linked.link_survey import LinkSurvey
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.stages.parse.link_places import LinkPlace, read_anchors, read_link_places
from lycosa.stages.parse.page import Page
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow
from lycosa.state.store.stored_data import RecordError

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_BEGINNINGS = frozenset({LinkKind.SEED, LinkKind.GIVEN, LinkKind.REDIRECT})
_NO_HISTORY = History()
_NO_ANSWER = frozenset(
    each for each in Reason if each.is_failure and each < Reason.HTTP_CLIENT_ERROR
)
_EVERY = 50  # pages between two reports of progress

Answers = dict[str, UrlAnswer]


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
        yield (
            entry.url,
            UrlAnswer(entry.state, past.status, reason, detail, past.redirect_to, past.fetched_at),
        )


def _reason_of_host(view: TableView, entry: UrlEntry) -> tuple[Reason, str]:
    """Why its host waits or was retired.

    A robots.txt that no server sent is no rule of the site: then the connection is the reason.
    """
    host = view.host_record(entry.host8)
    if host is None:
        return Reason.NONE, ""
    is_away = host.last_error in _NO_ANSWER and host.failures > 0
    return (host.last_error if is_away else host.reason), host.detail


def survey_pages(
    folder: Path,
    survey: LinkSurvey,
    answers: Answers,
    own: Collection[str] | OwnPlaces,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Add the own pages of a crawl to the survey, and whether each is HTML to its answer.

    ``show`` gets the number of pages that were read, and of all. Raises ``JournalError``,
    ``LogDamaged`` or ``OSError``.
    """
    newest = _newest(folder, answers)
    for done, (row, page) in enumerate(_pages(folder, newest)):
        _note_page(answers, row, page)
        if row.url in own:
            _add_page(survey, row, page)
        if done % _EVERY == 0:
            show(done, len(newest))


def foreign_anchors(
    folder: Path, answers: Answers, wanted: Collection[str]
) -> dict[str, frozenset[str]]:
    """The anchors of the ``wanted`` pages of a crawl of other sites."""
    anchors: dict[str, frozenset[str]] = {}
    for row, page in _pages(folder, _newest(folder, answers)):
        _note_page(answers, row, page)
        if row.url in wanted and page.media_type in _HTML:
            anchors[row.url] = read_anchors(page.body, page.charset or None)
    return anchors


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


def _note_page(answers: Answers, row: JournalRow, page: Page) -> None:
    is_cut = bool(row.is_cut or row.truncated)
    answers[row.url] = answers[row.url]._replace(is_page=page.media_type in _HTML, is_cut=is_cut)


def _add_page(survey: LinkSurvey, row: JournalRow, page: Page) -> None:
    is_html = page.media_type in _HTML and row.kind is FetchKind.PAGE
    if not is_html or row.render is not None:
        # what has no lines: feeds, sitemaps, PDF files, style sheets, what scripts made
        survey.add_links(row.url, ((link.url, link.kind, link.anchor) for link in page.links))
        return
    try:
        linked = read_link_places(page.body, row.url, page.charset or None)
    except (RecordError, OSError):
        survey.add_links(row.url, ((link.url, link.kind, link.anchor) for link in page.links))
        return
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
        LinkPlace(each.url, each.kind, each.anchor, 0) for each in page.links if each.kind in kinds
    ]


def _is_plain(url: str) -> bool:
    """Whether a sitemap may be expected to list it: variants by query are left out often."""
    return not urlsplit(url).query
