"""Makes the WARC records of a capture: request, response or revisit, metadata.

It also makes the warcinfo and DNS records. IDs are drawn when a draft is made, in the order of the
calls. ``Draft.pack`` depends on nothing else, so compressing a large body in another thread does
not change what is written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
from isal import isal_zlib

from lycosa.base.model.capture import Capture
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.preferences.preference_words import answers_words, statement_words
from lycosa.state.store import warc
from lycosa.state.store.journal_rows import date_us, revisit_profile

_CHUNK = 256 * 1024
_FORM = (
    "Bodies are transfer-decoded: Transfer-Encoding is renamed X-Crawler-Transfer-Encoding, and a"
    " Content-Length in the same block X-Crawler-Content-Length. HTTP/2 headers are in HTTP/1.1"
    " syntax."
)
_EMPTY_DIGEST = warc.block_digest()


class CrawlInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The description of the crawl in the warcinfo record of every segment.

    ``robots`` says in words how robots.txt is obeyed. ``settings`` is a digest of the settings that
    affect what is stored. A later run continues a segment only if all of these are unchanged.
    """

    crawl: str
    software: str
    user_agent: str
    operator: str = ""
    hostname: str = ""
    robots: str = "RFC 9309"
    settings: str = ""

    def block(self) -> bytes:
        """The fields as the record's block."""
        fields = (
            ("software", self.software),
            ("format", "WARC File Format 1.1"),
            (
                "conformsTo",
                "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            ),
            ("isPartOf", self.crawl),
            ("operator", self.operator),
            ("hostname", self.hostname),
            ("http-header-user-agent", self.user_agent),
            ("robots", self.robots),
            ("settings", self.settings),
            ("description", _FORM),
        )
        return warc.named_fields(fields).encode("utf-8", "replace")

    def digest(self) -> str:
        """A digest of the fields."""
        return warc.block_digest(self.block())


class Member(msgspec.Struct, frozen=True):
    """Finished gzip members in order.

    ``data`` has bytes, or files whose content is copied and which are deleted afterwards.
    ``length`` is the sum. The other three are the lengths of the records of a capture (0 = no such
    record).
    """

    data: tuple[bytes | Path, ...]
    length: int
    request_length: int
    main_length: int
    metadata_length: int
    leftovers: tuple[Path, ...] = ()


class Packed(NamedTuple):
    """A response record that was made before the other records of its draft.

    It has its bytes, or the file that contains them, and their number.
    """

    draft: Draft
    data: bytes | Path
    length: int


class Draft(msgspec.Struct, frozen=True):
    """A capture with the IDs of its records."""

    capture: Capture
    request_id: str
    record_id: str
    metadata_id: str
    warcinfo_id: str
    level: int

    def pack(self) -> Packed:
        """Make the response record: nearly all the work for a large body, independent of dedup.

        Reads a spooled body twice; otherwise pure. Raises ``OSError`` only for a spooled body.
        """
        spool = self.capture.fetched.spool
        if not spool:
            data = self._response()
            return Packed(self, data, len(data))
        file = packed_file(spool)
        return Packed(self, file, self._spooled_response(Path(spool), file))

    def build(self, packed: Packed | None = None) -> Member:
        """Make the records; the response is ``packed`` if that was made of this draft before.

        Raises like ``pack``.
        """
        request = self._request()
        metadata = self._metadata()
        spool = self.capture.fetched.spool
        leftovers = (Path(spool), packed_file(spool)) if spool else ()
        if self.capture.original:
            revisit = self._revisit()
            return _member(
                (request + revisit + metadata,), request, len(revisit), metadata, leftovers
            )
        _, main, length = packed or self.pack()
        data = (
            (request + main + metadata,) if isinstance(main, bytes) else (request, main, metadata)
        )
        return _member(data, request, length, metadata, leftovers)

    def _request(self) -> bytes:
        fetched = self.capture.fetched
        if not fetched.request_block:
            return b""
        fields = (
            ("WARC-Warcinfo-ID", warc.bracketed(self.warcinfo_id)),
            ("WARC-Concurrent-To", warc.bracketed(self.record_id)),
            ("WARC-Target-URI", fetched.url),
            ("WARC-IP-Address", fetched.address),
            ("Content-Type", warc.HTTP_REQUEST),
        )
        block = (warc.stored_request(fetched.request_block),)
        return warc.record(
            "request", self.request_id, date_us(fetched.started), fields, block, self.level
        )

    def _common(self) -> list[tuple[str, str]]:
        fetched = self.capture.fetched
        return [
            ("WARC-Warcinfo-ID", warc.bracketed(self.warcinfo_id)),
            (
                "WARC-Concurrent-To",
                warc.bracketed(self.request_id if fetched.request_block else ""),
            ),
            ("WARC-Target-URI", fetched.url),
            ("WARC-IP-Address", fetched.address),
            *warc.protocols(fetched.protocol, fetched.tls),
        ]

    def _response_fields(self) -> list[tuple[str, str]]:
        parsed = self.capture.parsed
        return [
            *self._common(),
            ("WARC-Payload-Digest", self.capture.payload_digest),
            ("WARC-Truncated", self.capture.fetched.truncated),
            (
                "WARC-Identified-Payload-Type",
                self.capture.media_type or (parsed.media_type if parsed else ""),
            ),
            ("Content-Type", warc.HTTP_RESPONSE),
        ]

    def _response(self) -> bytes:
        fetched = self.capture.fetched
        block = (warc.stored_response_head(fetched.header_block), fetched.body)
        return warc.record(
            "response",
            self.record_id,
            date_us(fetched.started),
            self._response_fields(),
            block,
            self.level,
        )

    def _revisit(self) -> bytes:
        capture = self.capture
        original = capture.original
        assert original is not None
        profile = warc.NOT_MODIFIED if capture.not_modified else warc.IDENTICAL_DIGEST
        # With the digest of a 304's empty body, replay tools would search for an empty original.
        digest = (
            ""
            if capture.not_modified and capture.payload_digest == _EMPTY_DIGEST
            else capture.payload_digest
        )
        fields = [
            *self._common(),
            ("WARC-Profile", profile),
            ("WARC-Refers-To", warc.bracketed(original.record_id)),
            ("WARC-Refers-To-Target-URI", original.url),
            ("WARC-Refers-To-Date", warc.warc_date(original.date_us)),
            ("WARC-Payload-Digest", digest),
            # WARC 1.1 section 6.7.2: a body left out because it is identical is a truncation by
            # length.
            ("WARC-Truncated", "" if capture.not_modified else "length"),
            ("Content-Type", warc.HTTP_RESPONSE),
        ]
        block = (warc.stored_response_head(capture.fetched.header_block),)
        return warc.record(
            "revisit", self.record_id, date_us(capture.fetched.started), fields, block, self.level
        )

    def _metadata(self) -> bytes:
        fetched = self.capture.fetched
        fields = (
            ("WARC-Warcinfo-ID", warc.bracketed(self.warcinfo_id)),
            ("WARC-Concurrent-To", warc.bracketed(self.record_id)),
            ("WARC-Target-URI", fetched.url),
            ("Content-Type", warc.WARC_FIELDS),
        )
        block = (warc.named_fields(capture_fields(self.capture)).encode("utf-8", "replace"),)
        return warc.record(
            "metadata", self.metadata_id, date_us(fetched.started), fields, block, self.level
        )

    def _spooled_response(self, source: Path, packed: Path) -> int:
        """Write the response's gzip member to the file ``packed``, in chunks; return its length."""
        fetched = self.capture.fetched
        head = warc.stored_response_head(fetched.header_block)
        digest = hashlib.sha1(head, usedforsecurity=False)
        size = 0
        for chunk in _chunks(source):
            digest.update(chunk)
            size += len(chunk)
        fields = (
            *self._response_fields(),
            ("WARC-Block-Digest", warc.base32_sha1(digest.digest())),
        )
        record_head = warc.record_head(
            "response", self.record_id, date_us(fetched.started), len(head) + size, fields
        )
        gzip = isal_zlib.compressobj(self.level, isal_zlib.DEFLATED, 16 + isal_zlib.MAX_WBITS)
        with packed.open("wb") as out:
            out.write(gzip.compress(record_head))
            out.write(gzip.compress(head))
            for chunk in _chunks(source):
                out.write(gzip.compress(chunk))
            out.write(gzip.compress(warc.END))
            out.write(gzip.flush())
            return out.tell()


def packed_file(spool: str) -> Path:
    """The file for the response record of a spooled body."""
    return Path(spool + ".member")


def _member(
    data: tuple[bytes | Path, ...],
    request: bytes,
    main_length: int,
    metadata: bytes,
    leftovers: tuple[Path, ...],
) -> Member:
    whole = len(request) + main_length + len(metadata)
    return Member(data, whole, len(request), main_length, len(metadata), leftovers)


def _chunks(path: Path) -> Iterator[bytes]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while chunk := os.read(fd, _CHUNK):
            yield chunk
    finally:
        os.close(fd)


def record_id(chance: Random) -> str:
    """A new record ID: a random UUID (version 4) as a URN."""
    # version and variant: RFC 9562 section 5.4
    bits = chance.getrandbits(128) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{bits:032x}"
    return f"urn:uuid:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def capture_fields(capture: Capture) -> list[tuple[str, str]]:
    """Fields of a capture's metadata record: those that WARC 1.1 section 6.5 names, then ours.

    ``hopsFromSeed`` has Heritrix's letters: L for a link, R for a redirect, P for a robots.txt that
    was needed first.
    """
    fetched, parsed, robots = capture.fetched, capture.parsed, capture.robots
    letters = "P" if capture.kind.is_of_origin else "L" * capture.depth + "R" * len(capture.chain)
    fields = [
        ("via", capture.via),
        ("hopsFromSeed", letters),
        ("fetchTimeMs", str(round(fetched.duration_s * 1000))),
        ("firstByteTimeMs", str(round(fetched.first_byte_s * 1000))),
        ("fetchKind", capture.kind.name.lower()),
        ("fetchNumber", str(capture.fetch_number)),
        ("linkKind", capture.link_kind.name.lower()),
        *(("redirectedFrom", url) for url in capture.chain),
    ]
    if fetched.fetcher:
        fields.append(("outsideFetcher", fetched.fetcher))
    if fetched.privacy:
        fields.append(("privacy", fetched.privacy.name.lower()))
    if fetched.reason:
        fields += [("fetchRemark", fetched.reason.label), ("fetchRemarkDetail", fetched.detail)]
    if robots.version or robots.status or not robots.allowed:
        fields += _robots_fields(capture)
    if capture.preferences is not NOTHING_STATED:
        fields += _preference_fields(capture.preferences)
    if parsed is not None:
        fields += [
            ("charset-detected", parsed.charset),
            ("languages-detected", parsed.language),
            ("parseRemark", parsed.reason.label if parsed.reason else ""),
            ("outlinks", str(len(parsed.links))),
        ]
    if capture.near_duplicate_of is not None:
        fields.append(
            (
                "nearDuplicateOf",
                (
                    f"{capture.near_duplicate_of.url}"
                    f" {warc.warc_date(capture.near_duplicate_of.date_us)}"
                ),
            )
        )
    profile = revisit_profile(capture)
    return [*fields, ("revisit", profile)]


def _preference_fields(stated: Preferences) -> list[tuple[str, str]]:
    """What the site stated about the use of the page, in words; ``read_answers`` reads the first.

    A use about which statements disagree has one answer, so each statement is there as well.
    """
    return [
        ("usePreferences", answers_words(stated.answers)),
        *(("useStatement", statement_words(each)) for each in stated.statements),
        ("license", stated.license),
        ("paymentPrice", stated.price),
    ]


def _robots_fields(capture: Capture) -> list[tuple[str, str]]:
    robots = capture.robots
    return [
        ("robotsDecision", "allowed" if robots.allowed else "disallowed"),
        ("robotsVersion", robots.version),
        ("robotsStatus", str(robots.status)),
        ("robotsFetched", warc.warc_date(date_us(robots.fetched)) if robots.fetched else ""),
        ("robotsGroup", robots.group),
        ("robotsLine", str(robots.line) if robots.line else ""),
        ("robotsRule", robots.rule),
    ]


def warcinfo(info: CrawlInfo, warcinfo_id: str, created_us: int, file: str, level: int) -> bytes:
    """The first record of a segment."""
    fields = (("WARC-Filename", file), ("Content-Type", warc.WARC_FIELDS))
    return warc.record("warcinfo", warcinfo_id, created_us, fields, (info.block(),), level)


def dns(
    name: str, addresses: Sequence[str], record: str, moment_us: int, warcinfo_id: str, level: int
) -> bytes:
    """The addresses of a name as a ``dns:`` resource record with master file lines.

    Source: RFC 4027, RFC 1035 section 5.
    """
    lines = "".join(
        f"{name}.\tIN\t{'AAAA' if ':' in address else 'A'}\t{address}\r\n" for address in addresses
    )
    fields = (
        ("WARC-Warcinfo-ID", warc.bracketed(warcinfo_id)),
        ("WARC-Target-URI", f"dns:{name}"),
        ("Content-Type", "text/dns"),
    )
    return warc.record(
        "resource", record, moment_us, fields, (lines.encode("ascii", "replace"),), level
    )
