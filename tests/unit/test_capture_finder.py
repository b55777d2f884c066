"""Stored captures as renderers get them, from the records of a crawl."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import msgspec

from crawling import QUICK, Pages, crawl_folder, html, moved, page
from lycosa.base.calls import AskedCapture, FoundCapture
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.state.store.stored_data import RecordError, StoredRecord
from lycosa.synthetic import Response
from lycosa.worker.assemble import Assembled
from lycosa.worker.calls.capture_finder import CaptureFinder

SITE = "http://a.example"
SCRIPT = b"let answer = 42;" * 20
WEB = {
    f"{SITE}/": page("/app.js", "/copy.js", "/moved.js", "/gone", "/packed.js"),
    f"{SITE}/app.js": Response(200, [("Content-Type", "text/javascript")], SCRIPT),
    f"{SITE}/copy.js": Response(200, [("Content-Type", "text/javascript")], SCRIPT),
    f"{SITE}/moved.js": moved(f"{SITE}/app.js"),
    f"{SITE}/packed.js": Response(
        200,
        [("Content-Type", "text/javascript"), ("Content-Encoding", "gzip")],
        gzip.compress(SCRIPT),
    ),
    f"{SITE}/gone": html("nothing", 404),
}


class CountingSegments:
    """Those of a crawl folder; the first ``failures`` reads find nothing."""

    def __init__(self, folder: Path, failures: int = 0) -> None:
        self._files, self.failures = SegmentFiles(folder, 0), failures
        self.reads = 0

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        self.reads += 1
        if self.failures:
            self.failures -= 1
            raise RecordError("not yet")
        return self._files.read_record(segment, offset)


class Direct:
    async def run(self, work):  # type: ignore[no-untyped-def]
        return work()


class Asking:
    """Asks in the worker of a crawl, at its end."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commits = folder, 0
        self.finder: CaptureFinder | None = None

    async def commit(self) -> None:
        self.commits += 1

    def begin(self, failures: int = 0, most_bytes: int = 1_000_000) -> CountingSegments:
        segments = CountingSegments(self.folder, failures)
        self.finder = CaptureFinder(segments, Direct(), self.commit, most_bytes)  # type: ignore[arg-type]
        return segments

    async def ask(self, assembled: Assembled, *asked: AskedCapture) -> Sequence[FoundCapture]:
        number = assembled.intake.partition_of_host(host_of(asked[0].url))
        assert self.finder is not None
        return await self.finder.find_captures(assembled.worker.frontier.partitions[number], asked)


def asked(path: str, **fields: str) -> AskedCapture:
    return AskedCapture(f"{SITE}{path}", **fields)


def test_captures_are_found_by_url_with_their_decoded_bodies(tmp_path: Path) -> None:
    """One crawl, and then everything that may be asked."""
    asking = Asking(tmp_path / "crawl")
    crawl_folder(asking.folder, Pages(WEB), [f"{SITE}/"], QUICK)

    async def judge(assembled: Assembled) -> None:
        segments = asking.begin()
        paths = ("/app.js", "/copy.js", "/packed.js", "/moved.js", "/gone", "/never")
        app, copy, packed, move, gone, never = await asking.ask(assembled, *map(asked, paths))
        assert (app.status, app.body) == (200, SCRIPT) and app.digest.startswith("sha1:")
        assert ("content-type", "text/javascript") in app.headers
        assert copy == app, "the record with the body answers"
        assert packed.body == SCRIPT and packed.digest != app.digest
        assert move.status == 301 and ("location", f"{SITE}/app.js") in move.headers
        assert (gone.status, gone.body) == (404, b"nothing")
        assert never == FoundCapture()
        # a body that the renderer has is neither sent nor read again
        reads = segments.reads
        (known,) = await asking.ask(assembled, asked("/app.js", digest=app.digest))
        assert known == msgspec.structs.replace(app, body=b"")
        assert segments.reads == reads
        # a later round gets the record that an earlier one had, whatever the URL has now
        (pinned,) = await asking.ask(assembled, asked("/gone", record=app.record))
        assert pinned == app
        (other,) = await asking.ask(assembled, asked("/app.js?_=5", also=f"{SITE}/app.js"))
        assert other.is_other and other.body == SCRIPT
        (other,) = await asking.ask(assembled, asked("/x?_=5", also=f"{SITE}/never"))
        assert other == FoundCapture()
        # what has no room is cut, and what never has any is none
        asking.begin(most_bytes=len(SCRIPT) + 10)
        first, second = await asking.ask(assembled, asked("/app.js"), asked("/packed.js"))
        assert first.body and second.is_cut and not second.body
        asking.begin(most_bytes=10)
        (large,) = await asking.ask(assembled, asked("/app.js"))
        assert large == FoundCapture(reason=Reason.DECODE_LIMIT)
        # a capture of the open commit is read after it; one that is damaged has no body
        asking.begin(failures=1)
        (late,) = await asking.ask(assembled, asked("/app.js"))
        assert late == app and asking.commits == 1
        asking.begin(failures=9)
        (damaged,) = await asking.ask(assembled, asked("/app.js"))
        assert damaged == FoundCapture(reason=Reason.INTERNAL)

    crawl_folder(asking.folder, Pages(WEB), [], QUICK, meanwhile=judge)
    assert asking.commits == 2
