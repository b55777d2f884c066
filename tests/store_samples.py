"""Captures to store, made from a number, and a store in a folder to put them into."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from lycosa.base.config.sections import StoreSection
from lycosa.base.model.capture import Capture, RobotsDecision, StoredOriginal
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.reasons import Reason
from lycosa.base.urls.surt import surt
from lycosa.state.store import layout
from lycosa.state.store.closing import ClosedSegment
from lycosa.state.store.journal import read_rows
from lycosa.state.store.journal_rows import Extractor, JournalRow, RowBuilder, SegmentHeader
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.stored_data import committed_rows
from lycosa.state.store.warc_records import CrawlInfo

SITE = "https://www.example.org"
START = 1_790_000_000.25
INFO = CrawlInfo(
    crawl="test-crawl",
    software="lycosa/0",
    user_agent="lycosa/0 (+https://operator.example/)",
    operator="https://operator.example/",
)
HEADER = SegmentHeader(
    format=1,
    segment="s",
    crawl="crawl",
    created_us=0,
    warcinfo_id="urn:uuid:1",
    warcinfo_length=1,
    info="",
    options={"links": True, "text": True},
)
SECTION = StoreSection(segment_bytes=100_000_000)


def row_builder(
    section: StoreSection = SECTION, extractors: Sequence[Extractor] = ()
) -> RowBuilder:
    """Makes the rows of the samples, whose hosts are all below ``org``."""
    return RowBuilder(
        surt, lambda name: ("org", "org"), section.text, section.links, extractors=extractors
    )


def digest(body: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()


def page(number: int = 1, size: int = 2000) -> bytes:
    words = Random(number)
    text = " ".join(f"word{words.randrange(5000)}" for _ in range(size // 8))
    return f"<html><title>Page {number}</title><p>{text}</p></html>".encode()


def head(*fields: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join((status, *fields, "", "")).encode("latin-1")


def fetched(
    url: str = "https://www.example.org/page?q=1", body: bytes = b"<p>Hello", **changes: object
) -> Fetched:
    values: dict[str, object] = {
        "url": url,
        "reason": Reason.NONE,
        "status": 200,
        "request_block": (
            b"GET /page?q=1 HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: lycosa/0\r\n\r\n"
        ),
        "header_block": head(
            "Content-Type: text/html; charset=utf-8", f"Content-Length: {len(body)}"
        ),
        "body": body,
        "body_bytes": len(body),
        "address": "192.0.2.7",
        "protocol": "http/1.1",
        "tls": "TLSv1.3",
        "started": START,
        "first_byte_s": 0.01,
        "duration_s": 0.05,
    }
    return Fetched(**{**values, **changes})  # type: ignore[arg-type]


def parsed(links: int = 3, **changes: object) -> Parsed:
    kinds = (LinkKind.A, LinkKind.IMG, LinkKind.CANONICAL)
    values: dict[str, object] = {
        "media_type": "text/html",
        "charset": "utf-8",
        "title": "Zürich, 日本",
        "language": "de",
        "text": "Grüezi mitenand, 日本.\nSecond line.",
        "simhash": 2**64 - 3,
        "links": [
            Link(
                f"https://www.example.org/l{n}",
                b"h" * 8,
                b"u" * 8,
                kinds[n % 3],
                f"anchor {n}",
                n % 2 == 1,
            )
            for n in range(links)
        ],
        "decoded_bytes": 100,
    }
    return Parsed(**{**values, **changes})  # type: ignore[arg-type]


def capture(answer: Fetched | None = None, **changes: object) -> Capture:
    answer = answer or fetched()
    body = Path(answer.spool).read_bytes() if answer.spool else answer.body
    values: dict[str, object] = {
        "fetched": answer,
        "kind": FetchKind.PAGE,
        "host": "www.example.org",
        "site": "example.org",
        "depth": 2,
        "via": "https://www.example.org/",
        "link_kind": LinkKind.A,
        "payload_digest": digest(body),
        "parsed": parsed(),
        "robots": RobotsDecision(True, "V" * 32, START - 10, 200, "lycosa", 4, "Allow: /page"),
    }
    return Capture(**{**values, **changes})  # type: ignore[arg-type]


def numbered(number: int, size: int = 2000) -> Capture:
    """The capture with a number: its own URL, time and body."""
    url = f"https://www.example.org/page/{number}"
    return capture(fetched(url, page(number, size), started=START + number))


def misshapen(spool: Path) -> dict[str, Capture]:
    """One capture of each form that a record can have, by name. A spooled body is put into the
    file ``spool``.
    """
    chunked = head(
        "Content-Type: text/html", "tRANSFER-Encoding: chunked", "X-Note: Transfer-Encoding: kept"
    )
    spool.write_bytes(Random(4).randbytes(1_500_000) + bytes(1_500_000))
    original = StoredOriginal(
        f"{SITE}/first", 1_789_000_000_123_456, "urn:uuid:00000000-0000-4000-8000-000000000001"
    )
    zipped = head("Content-Encoding: gzip", "Transfer-Encoding: chunked")
    odd = b"HTTP/1.1 200 OK\r\nA: b\r\n \x0b\r\n\t\xa0\r\n  c\r\nContent-Type: text/html\r\n\r\n"
    answers = {
        "plain": fetched(),
        "chunked": fetched(f"{SITE}/chunked", page(2), header_block=chunked),
        "gzip": fetched(f"{SITE}/gzip", gzip.compress(page(3), mtime=0), header_block=zipped),
        "br": fetched(
            f"{SITE}/br", b"\x0b\x02\x80Hello\x03", header_block=head("Content-Encoding: br")
        ),
        "h2": fetched(
            f"{SITE}/h2",
            header_block=head("content-type: text/html", status="HTTP/2 200 "),
            protocol="h2",
        ),
        "latin-1": fetched(
            f"{SITE}/latin",
            header_block=b"HTTP/1.1 200 D'accord \xe9\xff\r\nX-Caf\xe9: \xfcber\r\n\r\n",
        ),
        "bare-lf": fetched(
            f"{SITE}/lf", header_block=b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n"
        ),
        "empty-folds": fetched(f"{SITE}/folds", header_block=odd),
        "no-blank-line": fetched(
            f"{SITE}/broken", header_block=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
        ),
        "empty": fetched(f"{SITE}/empty", b""),
        "wrong-length": fetched(
            f"{SITE}/length", b"short", header_block=head("Content-Length: 5000")
        ),
        "truncated": fetched(
            f"{SITE}/cut", page(5), truncated="length", reason=Reason.BODY_TRUNCATED
        ),
    }
    moved = head("Location: /n\xc3\xa9w?x", status="HTTP/1.1 301 Moved")
    unchanged = head('ETag: W/"1"', status="HTTP/1.1 304 Not Modified")
    spooled = fetched(f"{SITE}/large", b"", spool=str(spool), body_bytes=3_000_000)
    return {name: capture(answer) for name, answer in answers.items()} | {
        "redirect": capture(
            fetched(f"{SITE}/old", b"", status=301, header_block=moved), parsed=None
        ),
        "spooled": capture(spooled, chain=(f"{SITE}/a",)),
        "duplicate": capture(fetched(f"{SITE}/again"), original=original),
        "not-modified": capture(
            fetched(f"{SITE}/first", b"", status=304, header_block=unchanged),
            original=original,
            not_modified=True,
            parsed=None,
        ),
        "port": capture(
            fetched("http://[2001:db8::1]:8080/x?", address="2001:db8::1"),
            host="[2001:db8::1]:8080",
            site="[2001:db8::1]",
        ),
        "robots": capture(
            fetched(f"{SITE}/robots.txt", b"User-agent: *\n"),
            kind=FetchKind.ROBOTS,
            parsed=None,
            robots=RobotsDecision(),
        ),
    }


class FileStore(SegmentStore):
    """A store with the files that its segments are in."""

    def __init__(
        self,
        folder: Path,
        section: StoreSection,
        info: CrawlInfo,
        worker: int,
        seed: int,
        extractors: Sequence[Extractor] = (),
    ) -> None:
        self.files = SegmentFiles(folder, worker)
        super().__init__(
            self.files.find_segments(),
            section,
            info,
            worker,
            Random(seed),
            row_builder(section, extractors),
        )

    def finish(self, closed: ClosedSegment) -> None:
        self.files.close_segment(closed.name)
        self.note_closed(closed)


def open_store(
    folder: Path,
    seed: int = 0,
    section: StoreSection = SECTION,
    info: CrawlInfo = INFO,
    worker: int = 0,
    extractors: Sequence[Extractor] = (),
) -> FileStore:
    return FileStore(folder, section, info, worker, seed, extractors)


def commit(store: FileStore) -> dict[str, int]:
    """Freezes and writes; gives the committed lengths."""
    pending = store.freeze()
    store.files.put_records(pending)
    return pending.lengths


def close_all(store: FileStore, now: float = START) -> list[ClosedSegment]:
    """Commits, then closes every segment."""
    commit(store)
    closed = []
    while (segment := store.roll_segment(now, force=True)) is not None:
        store.finish(segment)
        closed.append(segment)
    return closed


def crawl_rows(folder: Path, lengths: Mapping[str, int] | None = None) -> Iterator[JournalRow]:
    """The rows of all journals of a crawl, segment by segment. ``lengths``, if given, bounds the
    open ones to what is committed.
    """
    for name in sorted(layout.segment_names(folder, layout.JOURNAL)):
        path = layout.existing(folder, layout.JOURNAL, name)
        yield from read_rows(path) if lengths is None else committed_rows(path, lengths)
