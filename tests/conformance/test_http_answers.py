"""Answers that break rules, held against what the majority of four mature clients makes of them."""

from __future__ import annotations

import io
from pathlib import Path

from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from http_answers import ANSWERS, Verdict, fetch_all
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import decode_content
from lycosa.state.store.warc_records import Draft
from store_samples import capture

# Each with the reason why we differ from the majority.
KNOWN_MISSES = {
    "HTTP/0.9 status": "libcurl takes no version but 1.0, 1.1, 2 and 3",
    "chunked lf": (
        "libcurl takes a bare line feed for an end of line in chunks too, as RFC 9112 section 2.2"
        " allows elsewhere"
    ),
    "101": (
        "what follows a change of protocol that nobody asked for is kept as its body, as curl"
        " keeps it"
    ),
    "302 two locations": (
        "libcurl reads nothing after a second target; a redirect has one (RFC 9110 section 10.2.2)"
    ),
    "gzip that ends in its trailer": (
        "the same text is read, but that the file is cut is on record (decode_failed)"
    ),
    "gzip that is none": (
        "a text that was only labelled gzip is read as it is, or the page would be lost"
    ),
    "gzip as a transfer coding": (
        "libcurl refuses what was not asked for (TE); others give the packed bytes as the page"
    ),
}


def verdict(fetched: Fetched) -> Verdict:
    encodings = [value for name, value in fetched.headers() if name == "content-encoding"]
    body, reason, *_ = decode_content(fetched.body, encodings, 10_000_000, 1000)
    return (
        None if (fetched.reason, reason) != (Reason.NONE, Reason.NONE) else (fetched.status, body)
    )


async def test_answers_that_break_rules(tmp_path: Path) -> None:
    fetched = await fetch_all([case[0] for case in ANSWERS.values()], tmp_path)
    misses = {
        name: f"{verdict(answer)} ({answer.reason.label}: {answer.detail}), majority {case[1:]}"
        for (name, case), answer in zip(ANSWERS.items(), fetched, strict=True)
        if verdict(answer) not in case[1:]
    }
    print(f"raw answers of our own: passed {len(ANSWERS) - len(misses)} of {len(ANSWERS)}")
    for name in sorted(misses.keys() & KNOWN_MISSES.keys()):
        print(f"  {name}: {KNOWN_MISSES[name]}")
    assert not {name: told for name, told in misses.items() if name not in KNOWN_MISSES}
    assert not KNOWN_MISSES.keys() - misses.keys(), "listed misses that pass"


async def test_their_records_are_read_alike_by_other_readers(tmp_path: Path) -> None:
    """Whatever stands in the header block: status and body are found, and both digests are
    right.
    """
    for answer in await fetch_all([case[0] for case in ANSWERS.values()], tmp_path):
        if not answer.status:
            continue
        made = Draft(
            capture(answer), "urn:uuid:1", "urn:uuid:2", "urn:uuid:3", "urn:uuid:4", 1
        ).build()
        main = b"".join(piece for piece in made.data if isinstance(piece, bytes))[
            made.request_length :
        ][: made.main_length]
        fast = next(iter(FastIterator(io.BytesIO(main), parse_http=False)))
        assert fast.verify_block_digest()
        fast.parse_http()
        assert fast.verify_payload_digest()
        assert (fast.http_headers.status_code, fast.reader.read()) == (
            answer.status,
            answer.body,
        ), answer.header_block
        for slow in ArchiveIterator(io.BytesIO(main), check_digests="raise"):
            assert (slow.http_headers.get_statuscode(), slow.raw_stream.read()) == (
                str(answer.status),
                answer.body,
            ), answer.header_block
