"""The row of a capture: one line of the row journal, with everything that the derived files need.

CDXJ, Parquet and WET are built from rows alone when a segment closes. So nothing is parsed twice,
and a lost derived file can be rebuilt at any time. A row is JSON, so that it can be read without
this package; fields with their default are left out. The first line of a journal is a
``SegmentHeader``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import urljoin

import msgspec

from lycosa.base.model.capture import ELSEWHERE, Capture, Change, Original, RobotsDecision, Want
from lycosa.base.model.compatibility import LATE_FIELDS, PROTOCOL
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import FetchKind, Privacy
from lycosa.base.model.item_schema import ItemSchema, schema_in
from lycosa.base.model.page_content import PageContent
from lycosa.base.model.parsed import Directives, Link, Parsed
from lycosa.base.model.remark import Remark, distinct
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy
from lycosa.base.reasons import Reason
from lycosa.base.urls.url_parts import name_of
from lycosa.state.store.render_facts import RenderFacts

UNCHANGED = "server-not-modified"
JOURNAL_FORMAT = 1
"""Version of the journal: header and rows together."""
RENDERS_FORMAT = 2
"""That of a journal with renders, which a program that does not know them would take for captures.

Readers know both.
"""

Suffixes = Callable[[str], tuple[str, str]]
"""Maps a host name without port to its public suffixes without and with the private section.

They are empty for an IP address.
"""


class Extractor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """User code whose rows stand in a segment.

    ``schema`` is a digest of the names and types of its columns, and ``fields`` are the columns as
    text (``ItemSchema.fields_text``). Without them the segment has no table of these rows.
    ``code`` is the SHA-256 of the source, in hexadecimal, if it is known.
    """

    name: str
    version: int
    schema: str
    fields: str = ""
    code: str = ""

    @classmethod
    def of(cls, schema: ItemSchema, code: str = "") -> Extractor:
        """The extractor whose rows have these columns."""
        return cls(schema.name, schema.version, schema.digest, schema.fields_text, code)

    def columns(self) -> ItemSchema | None:
        """The columns of its rows; ``None`` if they were not stored.

        Raises ``BadSchema`` (a ``ValueError``) if the header is damaged.
        """
        return schema_in(self.name, self.version, self.fields) if self.fields else None


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a journal.

    ``warcinfo_id`` and ``warcinfo_length`` describe the first WARC record. ``info`` is a digest of
    its fields, which shows a later run whether it may continue the segment. ``options`` say which
    optional derived files the segment has; in the file each of them is a separate key.
    ``extractors`` are those whose rows are in ``JournalRow.items``; the file omits an empty list.
    ``policy`` is the purpose for which the derived files are made, so that a rebuilt file has the
    same bytes; in the file it is the keys ``purpose`` and ``unstated``, omitted without a purpose.
    """

    format: int
    segment: str
    crawl: str
    created_us: int
    warcinfo_id: str
    warcinfo_length: int
    info: str
    options: dict[str, bool]
    extractors: tuple[Extractor, ...] = ()
    policy: UsePolicy = RECORD_ONLY


class Links(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The outlinks of a page by column: half the bytes of a list of links, and ready for Parquet.

    ``kinds`` are ``LinkKind`` values. ``nofollow`` has the positions of links with rel=nofollow or
    a similar relation. ``scores`` are those of user code in 255ths, -1 for a link without one; it
    is empty if no link has one. Programs before formats 2 ignore it.
    """

    urls: list[str] = []
    kinds: list[int] = []
    anchors: list[str] = []
    nofollow: list[int] = []
    scores: list[int] = []


class JournalRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One capture, or a render of one (``render_facts``).

    ``date_us`` is the start of the request in microseconds since 1970. ``segment`` is the stem of
    the segment's files. ``offset`` and ``length`` are those of the response or revisit record in
    its WARC. The request record comes before it with ``request_length`` and the metadata record
    after it with ``metadata_length``. ``record_id`` has no angle brackets. ``digest`` is ``sha1:``
    and base32 of the payload. ``revisit`` is empty or the last part of the profile's URI.
    ``original`` is the capture that a revisit refers to. ``reason`` and ``parse_reason`` are
    ``Reason`` values of the fetch and of the parse. ``outlinks`` and ``text_characters`` are the
    sizes of ``links`` and ``text``, even if these are not stored. ``location`` is the absolute
    target of a redirect. ``is_cut`` says that only the beginning of the content was parsed; the
    stored record is complete unless ``truncated`` says otherwise. ``registry_suffix`` and
    ``private_suffix`` are the host's public suffixes without and with the list's private section.

    The fields after ``fetcher`` are of formats 2 (``model.compatibility``). ``remarks`` has
    everything that there is to note about fetch and parse, of which ``reason`` and ``parse_reason``
    are the first of each (see ``remarks_of``). ``body_segment`` (a stem) and ``body_offset`` name
    the record with the body of a revisit; the segment is empty when it is that of the row, the
    offset 0 when no place is known. A segment that begins with ``@`` is a WARC file of an
    earlier crawl. ``change`` says how the content differs from that of the
    capture before, ``change_distance`` in how many SimHash bits. ``wants`` are the requisites that
    the page needs to be rendered. ``items`` are rows of user code, by the name of the extractor.
    ``preferences`` are what the site stated about the use of the page, as of this fetch.
    ``content`` is the main content of a page with its metadata, if ``store.content`` asks for it.
    ``render`` is set in the row of a render; the place of the body is then that of the page.
    ``privacy`` says whether the request carried credentials, of a render that of its page.
    """

    url: str
    surt: str
    host: str
    site: str
    date_us: int
    status: int
    segment: str
    offset: int
    length: int
    record_id: str
    kind: FetchKind = FetchKind.PAGE
    request_length: int = 0
    metadata_length: int = 0
    registry_suffix: str = ""
    private_suffix: str = ""
    digest: str = ""
    revisit: str = ""
    original: Original | None = None
    near_duplicate_of: Original | None = None
    reason: Reason = Reason.NONE
    detail: str = ""
    parse_reason: Reason = Reason.NONE
    media_type: str = ""
    media_type_detected: str = ""
    charset: str = ""
    language: str = ""
    title: str = ""
    description: str = ""
    canonical: str = ""
    simhash: int = 0
    depth: int = 0
    via: str = ""
    link_kind: LinkKind = LinkKind.SEED
    chain: tuple[str, ...] = ()
    fetch_number: int = 1
    robots: RobotsDecision | None = None
    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False
    truncated: str = ""
    etag: str = ""
    last_modified: str = ""
    location: str = ""
    address: str = ""
    protocol: str = ""
    tls: str = ""
    body_bytes: int = 0
    decoded_bytes: int = 0
    first_byte_s: float = 0.0
    duration_s: float = 0.0
    parse_s: float = 0.0
    outlinks: int = 0
    links: Links = Links()
    refused_links: dict[int, int] = {}
    text_characters: int = 0
    text: str = ""
    is_cut: bool = False
    fetcher: str = ""
    remarks: tuple[Remark, ...] = ()
    body_segment: str = ""
    body_offset: int = 0
    change: Change = Change.NONE
    change_distance: int | None = None
    wants: tuple[Want, ...] = ()
    items: dict[str, list[list[Any]]] = {}
    preferences: Preferences = NOTHING_STATED
    content: PageContent | None = None
    render: RenderFacts | None = None
    privacy: Privacy = Privacy.PUBLIC

    @property
    def is_private(self) -> bool:
        """Whether the capture stays in the crawl: no feed, no export and no replay has it."""
        return self.privacy is Privacy.PRIVATE


class _PrivacyOfLine(msgspec.Struct):
    privacy: Privacy = Privacy.PUBLIC


_decode_privacy = msgspec.json.Decoder(_PrivacyOfLine).decode
PRIVATE_LINE = b'"privacy":%d' % Privacy.PRIVATE
"""Is in each line of a private capture, and in few others."""


def is_private_line(line: bytes) -> bool:
    """Whether a line of a journal is that of a private capture or render."""
    # An item of user code may have such a field too.
    return PRIVATE_LINE in line and _decode_privacy(line).privacy is Privacy.PRIVATE


def remarks_of(row: JournalRow) -> tuple[Remark, ...]:
    """Everything that there is to note about fetch and parse, also of a row without ``remarks``.

    An older program, or one that wrote older formats, stored the first of each only.
    """
    if row.remarks:
        return row.remarks
    first = (Remark(row.reason, row.detail), Remark(row.parse_reason))
    return tuple(each for each in first if each.reason is not Reason.NONE)


def source_capture(row: JournalRow) -> tuple[int, str]:
    """Start of the fetch (microseconds) and record ID of the capture that a row is of.

    For a render they are those of the capture that was rendered.
    """
    if row.render is None or row.original is None:
        return row.date_us, row.record_id
    return row.original.date_us, row.original.record_id


def original_url(row: JournalRow) -> str:
    """The URL of the capture of this crawl that has the body of a revisit; empty without one."""
    if row.original is None or row.body_segment.startswith(ELSEWHERE):
        return ""
    return row.original.url


class RecordPlace(msgspec.Struct, frozen=True):
    """The location of the records of one capture.

    It has the offset of the response or revisit record and the lengths of all three. The last two
    are as in ``JournalRow``.
    """

    segment: str
    offset: int
    length: int
    request_length: int
    metadata_length: int
    record_id: str
    body_segment: str = ""
    body_offset: int = 0


class RowBuilder:
    """Makes rows with the functions and settings that are the same for all of them.

    ``surt`` returns a URL's SURT key. ``suffixes`` may be absent; then the public suffix columns
    stay empty. ``text`` and ``links`` say whether those are stored. ``formats`` are those that are
    written (``model.compatibility``). ``extractors`` are those whose items are stored.
    """

    def __init__(
        self,
        surt: Callable[[str], str],
        suffixes: Suffixes | None,
        text: bool,
        links: bool,
        formats: int = PROTOCOL,
        extractors: Sequence[Extractor] = (),
    ) -> None:
        self._surt, self._suffixes = surt, suffixes
        self.has_text, self.has_links = text, links
        self.formats = formats
        self.extractors: tuple[Extractor, ...] = ()
        self.use_extractors(extractors)

    def use_extractors(self, extractors: Sequence[Extractor]) -> None:
        """Store the items of these extractors from now on. Formats 1 have no items."""
        self.extractors = tuple(extractors) if self.formats >= LATE_FIELDS else ()

    def build_row(self, capture: Capture, place: RecordPlace) -> JournalRow:
        """The row of a capture whose records are at ``place``."""
        fetched = capture.fetched
        parsed = capture.parsed or _UNPARSED  # has the default of every field
        sent = fetched.header
        directives: Directives = parsed.directives
        registry, private = self._suffixes(name_of(capture.host)) if self._suffixes else ("", "")
        first = capture.original
        return JournalRow(
            url=fetched.url,
            surt=self._surt(fetched.url),
            host=capture.host,
            site=capture.site,
            date_us=date_us(fetched.started),
            status=fetched.status,
            segment=place.segment,
            offset=place.offset,
            length=place.length,
            record_id=place.record_id,
            kind=capture.kind,
            request_length=place.request_length,
            metadata_length=place.metadata_length,
            registry_suffix=registry,
            private_suffix=private,
            digest=capture.payload_digest,
            revisit=revisit_profile(capture),
            # Without the place, for which the row has fields.
            original=Original(first.url, first.date_us, first.record_id) if first else None,
            near_duplicate_of=capture.near_duplicate_of,
            reason=fetched.reason,
            detail=fetched.detail,
            parse_reason=parsed.reason,
            media_type=sent("content-type").partition(";")[0].strip().lower(),
            media_type_detected=capture.media_type or parsed.media_type,
            charset=parsed.charset,
            language=parsed.language,
            title=parsed.title,
            description=parsed.description,
            canonical=parsed.canonical,
            simhash=parsed.simhash,
            depth=capture.depth,
            via=capture.via,
            link_kind=capture.link_kind,
            chain=capture.chain,
            fetch_number=capture.fetch_number,
            robots=None if capture.robots == _NO_ROBOTS else capture.robots,
            noindex=directives.noindex,
            nofollow=directives.nofollow,
            noarchive=directives.noarchive,
            truncated=fetched.truncated,
            etag=sent("etag"),
            last_modified=sent("last-modified"),
            location=redirect_target(fetched.url, fetched.status, fetched.location),
            address=fetched.address,
            protocol=fetched.protocol,
            tls=fetched.tls,
            body_bytes=fetched.body_bytes or len(fetched.body),
            decoded_bytes=parsed.decoded_bytes,
            first_byte_s=fetched.first_byte_s,
            duration_s=fetched.duration_s,
            parse_s=parsed.elapsed_s,
            outlinks=len(parsed.links),
            links=link_columns(parsed.links, capture.scores)
            if self.has_links and parsed.links
            else _NO_LINKS,
            refused_links=parsed.refused_links,
            text_characters=len(parsed.text),
            text=parsed.text if self.has_text else "",
            is_cut=parsed.is_cut,
            fetcher=fetched.fetcher,
            remarks=_remarks(capture, parsed) if self.formats >= LATE_FIELDS else (),
            change=capture.change,
            change_distance=capture.change_distance,
            body_segment=place.body_segment,
            body_offset=place.body_offset,
            preferences=capture.preferences,
            content=parsed.content,
            items=self.items_of(capture.items) if capture.items else {},
            privacy=fetched.privacy,
        )

    def names_of(self, url: str, host: str) -> tuple[str, str, str]:
        """SURT key and public suffixes (without and with the private section) of a URL."""
        return self._surt(url), *(self._suffixes(name_of(host)) if self._suffixes else ("", ""))

    def items_of(self, items: Mapping[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
        """The items that the header of the segment describes: others could not be read."""
        names = {each.name for each in self.extractors}
        return {name: rows for name, rows in items.items() if name in names and rows}


_UNPARSED, _NO_ROBOTS, _NO_LINKS = Parsed(), RobotsDecision(), Links()


def _remarks(capture: Capture, parsed: Parsed) -> tuple[Remark, ...]:
    """The remarks, unless ``reason``, ``detail`` and ``parse_reason`` of the row say the same."""
    fetched, of_code = capture.fetched, capture.remarks
    if parsed.reason is Reason.NONE and not of_code:
        return ()
    of_fetch, of_parse = Remark(fetched.reason, fetched.detail), parsed.remarks
    if not of_parse and not parsed.detail and not of_code:
        return ()
    return distinct((of_fetch, *(of_parse or (Remark(parsed.reason, parsed.detail),)), *of_code))


def date_us(seconds: float) -> int:
    """Wall time in whole microseconds, as in all our files.

    It is rounded down, so that a record is never from the future.
    """
    return int(seconds * 1_000_000)


def revisit_profile(capture: Capture) -> str:
    """The last part of the revisit profile's URI; empty for a response."""
    if capture.original is None:
        return ""
    return UNCHANGED if capture.not_modified else "identical-payload-digest"


def link_columns(links: list[Link], scores: Mapping[str, int] = MappingProxyType({})) -> Links:
    """Links as columns, in the same order; ``scores`` by URL."""
    return Links(
        [link.url for link in links],
        [int(link.kind) for link in links],
        [link.anchor for link in links],
        [at for at, link in enumerate(links) if link.nofollow],
        [scores.get(link.url, -1) for link in links] if scores else [],
    )


def redirect_target(url: str, status: int, location: str) -> str:
    """The absolute URL that a redirect names, not canonical; empty if there is no valid one."""
    if not (300 <= status < 400 and location):
        return ""
    try:
        return urljoin(url, location)
    except ValueError:
        return ""
