"""The keys and record formats of a partition's table.

Keys are big-endian and begin with one prefix byte, so the keys of one host are adjacent and queues
are sorted:

    ==========================  =================================================
    ``U host8 url8``            the URL record
    ``Q host8 band1 seq6``      waiting URLs (value: their url8); dense sequence numbers make a
                                refill a range of keys
    ``H host8``                 the visit state of one host
    ``h reversed host``         index of host names (value: host8; module ``frontier.host_names``)
    ``F band1 seq6``            host waiting in a front queue (value: host8)
    ``W address NUL band1 seq6``  host waiting for room at its address (value: host8); ``w address``
                                  holds the bounds of that line
    ``D due4 host8 url8``       a URL that is due again, a retry or a refetch (value: host8 url8 of
                                other URLs of the same commit that are due in the same second)
    ``P due4 host8``            a parked host, due for re-examination, or a sleeping one, due to
                                line up
    ``R host8 scheme1``         robots.txt of one origin
    ``t host8 scheme1``         ``/.well-known/tdmrep.json`` of one origin
    ``A site``                  usage of one site
    ``L site``                  which other sites link to it (module ``admit.linking_sites``)
    ``J url``                   a URL whose place belongs to the scope: a seed, or the target of a
                                seed's redirect
    ``V url8``                  a known URL, when URL-seen is a Bloom filter that the table confirms
    ``C digest`` ``S`` ``s``    content-seen (module ``seen``)
    ``T url8``                  the hosts whose robots.txt names this sitemap
    ``N host8``                 how many sitemaps and feeds the host had, and how many URLs its
                                sitemaps listed
    ``l host8 url8``            what a sitemap or feed listed (module ``frontier.listings``)
    ``a host8 url8``            signals that a page has changed (module ``frontier.change_signals``)
    ``i host8``                 keys of a site that announces changes (module ``visit.key_files``)
    ``B host8 url8``            a stored body that was not parsed (``frontier.unparsed_bodies``)
    ``Y host8 url8``            the verdict that the page is a near-duplicate (module
                                ``frontier.alike_pages``)
    ``X host8 url8``            crashes at which the URL was in flight (module ``attempts.crashes``)
    ``Z number6``               a dead letter, in the order of their numbers; ``z host8 url8`` has
                                the operators' decisions (module ``frontier.dead_letters``)
    ``K number6``               a decision of an operator (module ``frontier.decision_log``)
    ``G number6``               a change of a page (module ``frontier.change_log``)
    ``E host8 url8``            the lease of an outside fetcher (module ``frontier.outside_leases``)
    ``g host8``                 the pages of a large host by cell (module ``frontier.host_grids``)
    ``f host8 form8``           the first URL (value: its url8) of a form without parameters that
                                change no content (module ``frontier.copy_judgement``)
    ``c number6``               a cold file, ``r host8 url8`` a cold URL that is to come back
                                (module ``state.cold.cold_rows``)
    ``d host8 url8``            a URL that pages wait for; without the URL, how many of a host were
                                fetched for other sites (module ``frontier.demands``)
    ``v host8 url8``            a page to be rendered; with a NUL behind it, what it was answered so
                                far; ``o host8 url8`` its last render that ended (module
                                ``frontier.render_rows``)
    ``k host8``                 the cold pages of a host by cell (module ``frontier.cold_cells``)
    ``O`` ``I``                 outbox and watermarks (module ``exchange``)
    ``M name``                  metadata and counters
    ==========================  =================================================

Records are msgpack arrays. A new field is always added at the end, with a default. Version 1 stored
record ids as text and complete dates in the history of a URL; versions 1 and 2 stored one URL in
each ``Q`` and ``D`` row. Both versions can still be read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason

SEQ_BYTES = 6
PARKED_BAND = 255
SET_BACK_BAND = 254
SPECULATIVE_BAND = 253
LINE_PREFIX = b"w"
CRASH_PREFIX = b"X"
_URL8, _DUE = 8, 5  # bytes of a URL's hash, and of the prefix and due time in a ``D`` key
_DATE, _ID = 9, 10  # indexes in a stored history

if TYPE_CHECKING:
    _History = History | None
else:
    _History = Any  # decoded as the stored array, then unfolded


class UrlRecord(msgspec.Struct, array_like=True, gc=False):
    """Everything that is remembered of one URL.

    Times are whole seconds since 1970; ``priority`` is in 255ths. ``target`` is path and query.
    ``via`` is the page on which the URL was found: a complete URL if that page is on another host,
    otherwise only its target. ``tries`` counts failed requests since the last capture.
    ``importance`` is that of the link by which the URL was first found, in 255ths (-1 in a record
    from before this field existed). ``chain`` has the redirects before ``via``, the first one
    first. ``score`` is what user code said of the URL, in 255ths (-1 = nothing): a term of the
    priority, for which the greatest counts while the URL is queued. ``listed`` is the mark of a
    page that is listed by a sitemap or feed which a refetch policy names (formats 2; module
    ``frontier.listed_pages``). A row omits the last fields where they have their defaults.
    """

    state: UrlState
    secure: bool
    target: str
    depth: int
    priority: int
    kind: LinkKind
    found_at: int
    via: str = ""
    hops: int = 0
    reason: Reason = Reason.NONE
    detail: str = ""
    tries: int = 0
    due_at: int = 0
    history: _History = None
    importance: int = -1
    chain: tuple[str, ...] = ()
    score: int = -1
    listed: int = NOT_LISTED


_ENCODER = msgspec.msgpack.Encoder()
_URL_DECODER = msgspec.msgpack.Decoder(UrlRecord)
# the first bytes of a MessagePack array with 18 fields, with 17, 16 and 15
_WHOLE_HEAD, _HEAD_WITHOUT_MARK = b"\xdc\x00\x12", b"\xdc\x00\x11"
_HEAD_WITHOUT_SCORE, _HEAD_WITHOUT_CHAIN = b"\xdc\x00\x10", b"\x9f"
assert len(UrlRecord.__struct_fields__) == 18, "the array heads above are for 18 fields"
_DEFAULTS = msgspec.structs.astuple(History())
_FIRST_LATE = History.__struct_fields__.index("redirect_to")
_LATE_DEFAULTS = _DEFAULTS[_FIRST_LATE:]
_URN = "urn:uuid:"
_OWN_ID = re.compile(
    _URN + "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
).fullmatch

encode_record = _ENCODER.encode


def encode_url(record: UrlRecord) -> bytes:
    """The value of a ``U`` row, without the last fields where they have their defaults.

    Each of them then is one byte. Fields before ``chain`` are always written: hardly any record
    has a default there.
    """
    history = record.history
    if history is None:
        value = encode_record(record)
    else:
        record.history = _folded(history)
        value = encode_record(record)
        record.history = history
    if record.listed:
        return value
    if record.score != -1:
        return _HEAD_WITHOUT_MARK + value[len(_WHOLE_HEAD) : -1]
    if record.chain:
        return _HEAD_WITHOUT_SCORE + value[len(_WHOLE_HEAD) : -2]
    return _HEAD_WITHOUT_CHAIN + value[len(_WHOLE_HEAD) : -3]


def decode_url(value: bytes) -> UrlRecord:
    """The record in a ``U`` row of any version. Raises one of ``system.frames.UNREADABLE``."""
    record = _URL_DECODER.decode(value)
    if record.history is not None:
        record.history = _unfolded(record.history)  # type: ignore[arg-type]  # an array so far
    return record


def _folded(history: History) -> Any:
    """A history in its stored form.

    The record's id becomes the 16 bytes of its UUID, and ``date_us`` is counted from
    ``fetched_at``. A history whose id is not a UUID keeps id and date unchanged, as version 1
    stored them. The last fields are left out where they have their defaults.
    """
    values = msgspec.structs.astuple(history)
    end = _FIRST_LATE
    if values[end:] != _LATE_DEFAULTS:  # one comparison for most records
        end = len(values)
        while values[end - 1] == _DEFAULTS[end - 1]:
            end -= 1
    if not _OWN_ID(history.record_id):
        return values[:end]
    date_us = history.date_us - history.fetched_at * 1_000_000
    record_id = bytes.fromhex(history.record_id[len(_URN) :].replace("-", ""))
    return (*values[:_DATE], date_us, record_id, *values[_ID + 1 : end])


def _unfolded(fields: list[Any]) -> History:
    try:
        if len(fields) > _ID and isinstance(fields[_ID], bytes):
            fields[_DATE] += fields[1] * 1_000_000
            fields[_ID] = f"{_URN}{UUID(bytes=fields[_ID])}"
    except (TypeError, ValueError) as error:
        raise msgspec.ValidationError(f"no history: {error}") from error
    return msgspec.convert(fields, History)


def url_key(host8: bytes, url8: bytes) -> bytes:
    return b"U" + host8 + url8


def queue_key(host8: bytes, band: int, seq: int) -> bytes:
    return b"Q" + host8 + band.to_bytes(1, "big") + seq.to_bytes(SEQ_BYTES, "big")


def row_urls(row: bytes) -> list[bytes]:
    """The ``url8`` values in a row of a back queue."""
    return [row[at : at + _URL8] for at in range(0, len(row), _URL8)]


def host_key(host8: bytes) -> bytes:
    return b"H" + host8


def host_name_key(reversed_name: str) -> bytes:
    return b"h" + reversed_name.encode()


def front_key(band: int, seq: int) -> bytes:
    return b"F" + band.to_bytes(1, "big") + seq.to_bytes(SEQ_BYTES, "big")


def line_key(address: str, band: int, seq: int) -> bytes:
    return (
        b"W" + address.encode() + b"\0" + band.to_bytes(1, "big") + seq.to_bytes(SEQ_BYTES, "big")
    )


def waiting_key(address: str, band: int, seq: int) -> bytes:
    """The row of a waiting host: in the line of an address, or in a front queue if it is empty."""
    return line_key(address, band, seq) if address else front_key(band, seq)


def place_of(key: bytes) -> tuple[str, int, int]:
    """The address, band and number of a ``waiting_key``."""
    seq = int.from_bytes(key[-SEQ_BYTES:], "big")
    return key[1 : -SEQ_BYTES - 2].decode() if key[:1] == b"W" else "", key[-SEQ_BYTES - 1], seq


def due_key(due_at: int, host8: bytes = b"", url8: bytes = b"") -> bytes:
    """The key of a row of the refetch schedule, or the prefix of all rows due in one second."""
    return b"D" + due_at.to_bytes(4, "big") + host8 + url8


def due_urls(key: bytes, row: bytes) -> list[bytes]:
    """The ``host8 url8`` of all URLs in a row of the refetch schedule.

    The first one is in the key, the others are the value.
    """
    return [key[_DUE:], *(row[at : at + 2 * _URL8] for at in range(0, len(row), 2 * _URL8))]


def parked_key(due_at: int, host8: bytes) -> bytes:
    return b"P" + due_at.to_bytes(4, "big") + host8


def robots_key(host8: bytes, secure: bool) -> bytes:
    return b"R" + host8 + (b"s" if secure else b"h")


def tdm_key(host8: bytes, secure: bool) -> bytes:
    return b"t" + host8 + (b"s" if secure else b"h")


def site_key(site: str) -> bytes:
    return b"A" + site.encode()


def linking_key(site: str) -> bytes:
    return b"L" + site.encode()


def known_key(url8: bytes) -> bytes:
    return b"V" + url8


def joined_key(url: str) -> bytes:
    return b"J" + url.encode()


def unparsed_key(host8: bytes, url8: bytes) -> bytes:
    return b"B" + host8 + url8


def alike_key(host8: bytes, url8: bytes) -> bytes:
    return b"Y" + host8 + url8


def form_key(host8: bytes, form8: bytes) -> bytes:
    return b"f" + host8 + form8


def crash_key(host8: bytes, url8: bytes) -> bytes:
    return CRASH_PREFIX + host8 + url8


def dead_letter_key(number: int) -> bytes:
    return b"Z" + number.to_bytes(SEQ_BYTES, "big")


def change_key(number: int) -> bytes:
    return b"G" + number.to_bytes(SEQ_BYTES, "big")


def decision_key(host8: bytes, url8: bytes) -> bytes:
    return b"z" + host8 + url8


def action_key(number: int) -> bytes:
    return b"K" + number.to_bytes(SEQ_BYTES, "big")


def outside_key(host8: bytes, url8: bytes) -> bytes:
    return b"E" + host8 + url8


def render_key(row: bytes) -> bytes:
    """The key of the render of a page, given by its host8 and url8."""
    return b"v" + row


def story_key(row: bytes) -> bytes:
    """The key of what the page of a render was answered so far."""
    return b"v" + row + b"\0"


def outcome_key(row: bytes) -> bytes:
    """The key of the last render of a page that ended."""
    return b"o" + row


def host_grid_key(host8: bytes) -> bytes:
    return b"g" + host8


def sitemap_key(url8: bytes) -> bytes:
    return b"T" + url8


def sitemap_count_key(host8: bytes) -> bytes:
    return b"N" + host8


def announced_key(url: bytes) -> bytes:
    """The key of the signals about a URL, given by its host8 and url8."""
    return b"a" + url


def listing_key(host8: bytes, url8: bytes = b"") -> bytes:
    """The key of what a sitemap or feed listed, or the prefix of those of a host."""
    return b"l" + host8 + url8


def indexnow_key(host8: bytes) -> bytes:
    """The key of the IndexNow keys of a host."""
    return b"i" + host8


def demand_key(host8: bytes, url8: bytes = b"") -> bytes:
    """The key of the demand of a URL, or of the count of those of a host."""
    return b"d" + host8 + url8


def meta_key(name: str) -> bytes:
    return b"M" + name.encode()


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix, whose last byte must not be 0xFF."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
