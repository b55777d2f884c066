"""Stored HTML parsed again: every outlink that the rules admit must have a record.

This is the second source of links: the frontier's counts can balance although a link never reached
it. A link without a record is checked by the saved settings with the seeds of that time; only a
link that would be admitted is a breach. A link that still waits in an outbox for its owner counts
as known. The tables of a running crawl are read one after the other, so a parcel may have left the
sender's table and not yet be in the receiver's. Links without a record are therefore looked up
again in a second reading, after the parcel has arrived. Links that rules of the user refused are
only counted, so as many may lack a record. Documents that crashed the parse child are not parsed
here, because they could crash the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set

import msgspec

from lycosa.base.model.discovered import LinkKind, redirect_kind
from lycosa.base.model.fetched import PARSED_STATUSES, Fetched, FetchKind
from lycosa.base.model.parsed import Link, Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of, is_own_path, partition_of
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.queries.decision_queries import decisions_backwards
from lycosa.inspect.saved_settings import PureRules, SavedSettings
from lycosa.stages.admit.scope import is_shown
from lycosa.stages.admit.sitemap_scope import may_list
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED
from lycosa.stages.parse.inline_parser import build_parser
from lycosa.stages.parse.media_type import file_type
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.schedule.fetch_outcome import Meaning, judge_answer
from lycosa.state.exchange.outbox import urls_in_outboxes
from lycosa.state.folder.live_changes import saved_changes
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.stored_bodies import BodyPlace, RevisitTarget, record_with_body
from lycosa.state.store.stored_data import RecordError, StoredRecord

_KNOWN = 300_000  # keys remembered as present: the pages of a site link to the same few pages
_OWNERS = 100_000
_MAX_DOUBTFUL = 100_000


class LinkCheck:
    """Call ``check_row`` for captures whose record was read.

    ``in_topics`` are the keys of URLs in parcels that their receiver has not taken, in a cluster.
    """

    def __init__(
        self,
        reader: CrawlReader,
        saved: SavedSettings,
        views: Mapping[int, TableView],
        in_topics: Set[bytes],
    ) -> None:
        self.check = Check(
            "outlinks",
            "outlinks and redirects of stored pages, parsed again: each that the rules admit has a"
            " record",
        )
        self._reader, self._saved, self._views = reader, saved, views
        self._rules = PureRules(reader, saved)
        section = msgspec.structs.replace(saved.config.parse, language=False)
        self._parser = build_parser(
            ParserConfig(
                section,
                saved.config.canonical,
                saved.config.agent.product,
                reads_requisites=saved.config.scope.requisites,
            )
        )
        self._scope_since_us = _scope_changed_us(reader)
        self._known: set[bytes] = set()
        self._owners: dict[bytes, int] = {}
        self._under_way: set[bytes] | None = None
        self._in_topics = in_topics
        self._doubtful: list[
            tuple[bytes, str, str]
        ] = []  # links without a record: key, URL, message
        self.pages = 0

    def check_row(self, row: JournalRow, record: StoredRecord) -> None:
        """Check the links of one capture."""
        if row.kind.is_of_origin:
            return
        is_license = row.link_kind is LinkKind.LICENSE
        answer = Fetched(
            row.url,
            row.reason,
            status=row.status,
            truncated=row.truncated,
            header_block=record.header_block,
        )
        outcome = judge_answer(
            answer,
            tries=self._saved.config.retry.tries,
            conditional=True,
            section=self._saved.config.retry,
        )
        if outcome.meaning is Meaning.REDIRECTED:
            self._redirect(row, answer)
        elif (
            outcome.meaning is Meaning.FETCHED
            and not is_license  # its links are followed only if it is in scope as a page
            and row.status in PARSED_STATUSES
            and row.body_bytes
            and row.parse_reason not in NOT_PARSED
        ):
            self._page(row, answer, record)

    def check_render(self, row: JournalRow) -> None:
        """Check the links of a rendered document that lead to pages, as its row has them."""
        if row.nofollow:
            return
        links, nofollow = row.links, frozenset(row.links.nofollow)
        for at, (url, number) in enumerate(zip(links.urls, links.kinds, strict=True)):
            kind = LinkKind(number)
            if kind.leads:
                link = Link(url, hash8(host_of(url)), hash8(url), kind, "", at in nofollow)
                self._link(row, link, row.depth + 1)

    def _page(self, row: JournalRow, answer: Fetched, record: StoredRecord) -> None:
        body = record.body if not row.revisit else self._body_of(row)
        if body is None:
            self.check.add_note(
                "some duplicates were not parsed: the record that has their body cannot be read, or"
                " an older program did not store its place"
            )
            return
        if file_type(row.media_type_detected, row.url):
            # Their reader belongs into a child process, and links of a row were taken from there.
            self.check.add_note("PDF files and office documents are not parsed again")
            return
        self.pages += 1
        parsed = self._parser.parse(
            ParseInput(
                row.url,
                row.status,
                answer.headers(),
                body,
                "",
                row.kind is FetchKind.SITEMAP,
                bool(row.truncated),
            )
        )
        if parsed.directives.nofollow:
            return
        is_part = self._rules.is_part(row.link_kind)
        if is_part and not is_shown(row.link_kind, parsed.media_type) and self._is_outside(row):
            return  # a page of an error in place of an image: none of its links is followed
        for link in parsed.links:
            if self._rules.is_part(link.kind) and self._may_lack(row, parsed, link):
                continue
            # What a sitemap may list depends on who named it at that time, and on the number of
            # URLs that its host had: only certain cases are checked.
            if link.kind is not LinkKind.SITEMAP_FILE and (
                link.kind is not LinkKind.SITEMAP or may_list(row.url, link.url, ())
            ):
                is_inner = is_part and self._rules.is_part(link.kind)
                self._link(row, link, row.depth + (not is_inner))

    def _is_outside(self, row: JournalRow) -> bool:
        """Whether a document was not in scope as a page; perhaps it is since then."""
        asked = (row.url, LinkKind.A, row.depth, row.date_us / 1_000_000)
        return bool(self._rules.judge_url(*asked) or self._rules.judge_url_then(*asked))

    def _may_lack(self, row: JournalRow, parsed: Parsed, link: Link) -> bool:
        """Whether a limit may have kept a requisite out: on those of a page, of a host, or on how
        far they are from their page.
        """
        config = self._saved.config
        budgets = config.budgets
        if budgets.host_requisites and link.host8 != hash8(row.host):
            return True
        if 0 < budgets.page_requisites < len(parsed.links):
            return True
        if not self._rules.is_part(row.link_kind):
            return False
        source = self._views[self._owner(hash8(row.host), row.host)].url_record(
            hash8(row.host), hash8(row.url)
        )
        return source is None or source.hops + 1 >= config.scope.requisites_depth

    def _redirect(self, row: JournalRow, answer: Fetched) -> None:
        source = self._views[self._owner(hash8(row.host), row.host)].url_record(
            hash8(row.host), hash8(row.url)
        )
        if source is not None and source.hops >= self._saved.config.scope.max_hops:
            return
        try:
            target = self._saved.canonicalizer.canonical(answer.location, row.url)
        except InvalidUrl:
            # The crawl stored this answer as a bad redirect, so there is no link to look for.
            return
        kind = redirect_kind(row.link_kind, self._rules.is_part(row.link_kind))
        if kind is LinkKind.SPECULATIVE and not is_own_path(target, row.url):
            return
        self._link(row, Link(target, hash8(host_of(target)), hash8(target), kind), row.depth)

    def _link(self, row: JournalRow, link: Link, depth: int) -> None:
        self.check.checked += 1
        key = link.host8 + link.url8
        if key in self._known:
            return
        if self._is_known(link):
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known.add(key)
            return
        if row.date_us < self._scope_since_us:
            self.check.add_note(
                "the scope was changed while the crawl ran: links that pages fetched before named,"
                " and that have no record, were not judged"
            )
            return
        wall = row.date_us / 1_000_000
        asked = (link.url, link.kind, depth, wall, link.nofollow, row.url)
        if self._rules.judge_url(*asked) is not None:
            return
        if self._rules.judge_url_then(*asked) is not None or key in self._outboxes():
            return
        told = (
            f"{link.url} ({link.kind.name.lower()} at depth {depth}) was found on {row.url} and has"
            " no record"
        )
        if len(self._doubtful) < _MAX_DOUBTFUL:
            self._doubtful.append((key, link.url, told))
        else:
            self.check.add_breach(told)

    def finish_check(self, again: Callable[[], CrawlReader] | None) -> None:
        """Finish after the last row. ``again`` reads the crawl once more, if it is running."""
        if again is not None and self._doubtful:
            reader = again()
            waiting = _waiting(reader.partition_views())
            self._doubtful = [
                each
                for each in self._doubtful
                if each[0] not in waiting and reader.find_url(each[1]) is None
            ]
        missing, refused = len({key for key, _, _ in self._doubtful}), self._refused_by_code()
        if missing and missing <= refused:
            self.check.add_note(
                f"{missing} links have no record; rules of the user refused links {refused} times,"
                " and which ones is not stored"
            )
            return
        for _, _, told in self._doubtful:
            self.check.add_breach(told)

    def _refused_by_code(self) -> int:
        """How often rules of the user refused a link: these cannot be asked again here."""
        counted = [view.counters().rule_refusals for view in self._views.values()]
        return sum(
            each.get(reason, 0)
            for each in counted
            for reason in (Reason.USER_RULE, Reason.RULE_FAILED)
        )

    def _is_known(self, link: Link) -> bool:
        view = self._views[self._owner(link.host8, host_of(link.url))]
        return view.has_url(link.host8, link.url8)

    def _owner(self, host8: bytes, host: str) -> int:
        owner = self._owners.get(host8)
        if owner is None:
            if len(self._owners) >= _OWNERS:
                self._owners.clear()
            owner = self._owners[host8] = partition_of(
                self._reader.sites.site_of(host), self._reader.partitions
            )
        return owner

    def _outboxes(self) -> set[bytes]:
        """URLs that are on their way to their owner."""
        if self._under_way is None:
            self._under_way = _waiting(self._views.values()) | self._in_topics
        return self._under_way

    def _body_of(self, row: JournalRow) -> bytes | None:
        """The body that a revisit refers to."""
        segment = row.body_segment or row.segment
        place = (segment, row.body_offset) if row.body_offset else (row.segment, row.offset)
        try:
            read = self._reader.source.read_record
            record = record_with_body(read, [place], self._last_captures)
        except (RecordError, OSError):
            return None  # another check reports it
        return record.body if record.fields.get("WARC-Type") == "response" else None

    def _last_captures(self, reference: RevisitTarget) -> Iterator[BodyPlace]:
        """The place of a capture, if it has the present content of its URL."""
        host = host_of(reference.url)
        record = self._views[self._owner(hash8(host), host)].url_record(
            hash8(host), hash8(reference.url)
        )
        history = record.history if record else None
        if history is not None and reference.is_of(history):
            yield history.body_place


def _scope_changed_us(reader: CrawlReader) -> int:
    """When an operator changed the scope last, in microseconds since 1970; 0 if no one did."""
    dates = [0]
    if (folder := reader.origin.folder) is not None:
        changes = saved_changes(folder).items()
        dates += [each.date_us for key, each in changes if key.startswith("scope.")]
    if 0 in reader.here:  # the partition that has the actions on the whole crawl
        with reader.partition_view(0) as view:
            for _, row in decisions_backwards(view):
                if row.action == "set" and "scope." in row.subject:
                    dates.append(row.date_us)
                    break
    return max(dates)


def _waiting(views: Iterable[TableView]) -> set[bytes]:
    """Keys of the URLs in the outboxes of all partitions."""
    return {found.host8 + found.url8 for view in views for found in urls_in_outboxes(view.scan)}
