"""The parts of a renderer process: its bodies, its calls, the archive of a page, and its loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder
from lycosa.base.calls import (
    AskedCapture,
    Call,
    CallReply,
    CapturesFound,
    FindCaptures,
    FoundCapture,
    GiveRender,
    LentRender,
    RendersLent,
    RenderTaken,
    RenderVerdict,
    TakeRenders,
)
from lycosa.base.config.sections import Config, RenderMode, RenderSection
from lycosa.base.logs.log_writer import opened_log
from lycosa.base.messages.progress import Progress, total
from lycosa.base.messages.renderer_messages import RendererUse, summed_uses
from lycosa.base.model.packed_render import (
    MOST_PACKED_BYTES,
    UnreadableRender,
    pack_rendered,
    unpack_rendered,
)
from lycosa.base.model.rendered_page import (
    ArchiveQuery,
    MissingAnswer,
    Rendered,
    RenderEnd,
    RenderTask,
    StoredAnswer,
)
from lycosa.base.ports import Archive
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites
from lycosa.processes.rendering.body_cache import BodyCache
from lycosa.processes.rendering.called_archive import CalledArchive
from lycosa.processes.rendering.capture_caller import CaptureCaller, OwnerLost
from lycosa.processes.rendering.render_loop import RenderLoop
from lycosa.processes.rendering.renderer_job import RendererJob
from lycosa.processes.rendering.renderer_process import (
    RendererProcess,
    TooMuchMemory,
    most_pages,
)
from lycosa.service.api.places import PartitionFinder
from lycosa.state.exchange.exchange_errors import NoAnswer
from lycosa.synthetic.virtual_clock import run_virtual
from lycosa.worker.assemble import Assembled
from lycosa.worker.worker_progress import ProgressReport

SITE = "http://app.example"
PAGE_SITE = "app.example"


def virtual(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return run_virtual(work(), seed=1)


# -- bodies


def test_the_body_whose_last_use_is_the_oldest_goes_first(tmp_path: Path) -> None:
    cache = BodyCache(tmp_path / "bodies", 400)
    for name in "abcd":
        cache.add((name, ""), name.encode() * 100)
    assert cache.find(("a", "")) == b"a" * 100
    cache.add(("e", ""), b"e" * 100)
    assert [name for name in "abcde" if (name, "") in cache] == ["a", "c", "d", "e"]
    assert cache.size_bytes == 400 == sum(each.stat().st_size for each in _files(tmp_path))


def test_a_body_that_would_take_the_room_of_others_is_not_kept(tmp_path: Path) -> None:
    cache = BodyCache(tmp_path / "bodies", 400)
    cache.add(("large", ""), b"x" * 101)
    cache.add(("empty", ""), b"")
    assert not len(cache) and not _files(tmp_path)


def test_equal_bytes_in_another_encoding_are_another_body(tmp_path: Path) -> None:
    cache = BodyCache(tmp_path / "bodies", 4000)
    cache.add(("digest", ""), b"as sent")
    cache.add(("digest", "gzip"), b"unpacked")
    assert (cache.find(("digest", "")), cache.find(("digest", "gzip"))) == (b"as sent", b"unpacked")


def test_a_body_whose_file_is_gone_is_asked_for_again(tmp_path: Path) -> None:
    cache = BodyCache(tmp_path / "bodies", 4000)
    cache.add(("digest", ""), b"body")
    for each in _files(tmp_path):
        each.unlink()
    assert cache.find(("digest", "")) is None and cache.size_bytes == 0
    cache.add(("digest", ""), b"body")
    assert cache.find(("digest", "")) == b"body"


def _files(folder: Path) -> list[Path]:
    return list((folder / "bodies").iterdir())


# -- calls


class Owners:
    """A crawl of four partitions, two at each of two workers, whose owners answer from a table."""

    def __init__(self) -> None:
        config = Config()
        self.addressing = PartitionFinder(config, Sites())
        self.stored: dict[str, FoundCapture] = {}
        self.asked: list[list[AskedCapture]] = []
        self.failures = 0
        self.lent: list[LentRender] = []
        self.given: list[GiveRender] = []
        self.takes: list[TakeRenders] = []
        self.answer_s = 0.1

    def shard_of(self, partition: int) -> int:
        return partition % 2

    async def call_owner(self, partition: int, call: Call) -> CallReply:
        await asyncio.sleep(self.answer_s)
        if self.failures:
            self.failures -= 1
            raise NoAnswer("it starts")
        if isinstance(call, FindCaptures):
            self.asked.append(call.captures)
            return CapturesFound([self._find(each, len(call.captures)) for each in call.captures])
        if isinstance(call, TakeRenders):
            self.takes.append(call)
            taken, self.lent = self.lent[: call.most], self.lent[call.most :]
            return RendersLent(taken)
        assert isinstance(call, GiveRender)
        self.given.append(call)
        return RenderTaken(RenderVerdict.TAKEN)

    def _find(self, asked: AskedCapture, together: int) -> FoundCapture:
        found = self.stored.get(asked.record or asked.url, FoundCapture())
        if found.is_cut:  # too large to be sent with others
            whole = FoundCapture(found.record, 200, (), found.digest, found.body)
            return whole if together == 1 else found
        is_here = bool(asked.digest) and asked.digest == found.digest
        return msgspec.structs.replace(found, body=b"") if is_here else found

    def add(self, url: str, body: bytes, number: int = 1) -> FoundCapture:
        record = f"urn:uuid:{number}"
        found = FoundCapture(record, 200, (), f"sha1:{number}", body, place=f"w.warc.gz {number}")
        self.stored[url] = self.stored[record] = found
        return found


@pytest.fixture
def owners() -> Owners:
    return Owners()


def caller_of(owners: Owners, folder: Path) -> CaptureCaller:
    bodies = BodyCache(folder / "bodies", 1_000_000)
    return CaptureCaller(owners, bodies, lambda: asyncio.get_running_loop().time())


def test_questions_that_come_together_go_in_one_call(owners: Owners, tmp_path: Path) -> None:
    for number in range(5):
        owners.add(f"{SITE}/{number}", b"body", number + 1)

    async def run() -> None:
        calls = caller_of(owners, tmp_path)
        questions = [AskedCapture(f"{SITE}/{number}") for number in range(5)]
        await asyncio.gather(*(calls.find(3, each) for each in questions))

    virtual(run)
    assert [len(each) for each in owners.asked] == [1, 4] or [len(e) for e in owners.asked] == [5]


def test_a_capture_is_asked_for_once_in_a_minute_and_its_body_is_sent_once(
    owners: Owners, tmp_path: Path
) -> None:
    owners.add(f"{SITE}/a.js", b"script")

    async def run() -> list[bool]:
        calls, found = caller_of(owners, tmp_path), list[bool]()
        for pause_s in (0, 30, 40, 0):
            await asyncio.sleep(pause_s)
            answer = await calls.find(1, AskedCapture(f"{SITE}/a.js"))
            assert answer.capture.body == b"script"
            found.append(answer.was_here)
        return found

    assert virtual(run) == [False, True, True, True]
    assert [each[0].digest for each in owners.asked] == ["", "sha1:1"]


def test_a_later_round_gets_its_record_without_a_call(owners: Owners, tmp_path: Path) -> None:
    owners.add(f"{SITE}/a.js", b"first")

    async def run() -> tuple[bytes, bytes]:
        calls = caller_of(owners, tmp_path)
        await calls.find(1, AskedCapture(f"{SITE}/a.js"))
        owners.add(f"{SITE}/a.js", b"second", 2)
        await asyncio.sleep(61)
        old = await calls.find(1, AskedCapture(f"{SITE}/a.js", "urn:uuid:1"))
        new = await calls.find(1, AskedCapture(f"{SITE}/a.js"))
        return old.capture.body, new.capture.body

    assert virtual(run) == (b"first", b"second")
    assert len(owners.asked) == 2


def test_what_did_not_fit_into_an_answer_is_asked_for_alone(owners: Owners, tmp_path: Path) -> None:
    owners.add(f"{SITE}/small", b"small", 1)
    large = FoundCapture("urn:uuid:2", 200, (), "sha1:2", b"large", is_cut=True)
    owners.stored[f"{SITE}/large"] = large

    async def run() -> list[bytes]:
        calls = caller_of(owners, tmp_path)
        await calls.find(1, AskedCapture(f"{SITE}/other"))
        names = ("small", "large")
        found = await asyncio.gather(
            *(calls.find(1, AskedCapture(f"{SITE}/{each}")) for each in names)
        )
        return [each.capture.body for each in found]

    assert virtual(run) == [b"small", b"large"]
    assert len(owners.asked[-1]) == 1


def test_an_owner_that_does_not_answer_is_asked_three_times(owners: Owners, tmp_path: Path) -> None:
    owners.add(f"{SITE}/a.js", b"script")

    async def run(failures: int) -> bytes:
        owners.failures = failures
        calls = caller_of(owners, tmp_path / str(failures))
        return (await calls.find(1, AskedCapture(f"{SITE}/a.js"))).capture.body

    for failures in (2, 3):
        (tmp_path / str(failures)).mkdir()
    assert virtual(lambda: run(2)) == b"script"
    with pytest.raises(OwnerLost, match="it starts"):
        virtual(lambda: run(3))


# -- the archive of a page


def test_the_archive_gives_a_url_one_answer_and_tells_where_it_is(
    owners: Owners, tmp_path: Path
) -> None:
    owners.add(f"{SITE}/a.js", b"first")
    owners.stored[f"{SITE}/gone"] = FoundCapture(reason=Reason.HTTP_CLIENT_ERROR)

    async def run() -> None:
        archive = CalledArchive(caller_of(owners, tmp_path), owners.addressing, {}, PAGE_SITE)
        queries = [ArchiveQuery(f"{SITE}/{each}") for each in ("a.js", "b.js", "gone", "a.js#x")]
        first, missing, gone, again = await archive.find(queries)
        assert isinstance(first, StoredAnswer) and isinstance(again, StoredAnswer)
        assert first.record == again.record == "urn:uuid:1"
        assert missing == MissingAnswer() and isinstance(gone, MissingAnswer) and gone.reason
        assert await archive.find([ArchiveQuery("mailto:ann")]) == [MissingAnswer(Reason.SCHEME)]
        owners.add(f"{SITE}/a.js", b"second", 2)
        await asyncio.sleep(61)
        (later,) = await archive.find([ArchiveQuery(f"{SITE}/a.js")])
        assert isinstance(later, StoredAnswer) and later.body == b"first"
        assert archive.places == {f"{SITE}/a.js": "w.warc.gz 1"}
        assert archive.missing == 2 and not archive.lost

    virtual(run)


def test_a_private_capture_is_for_pages_of_its_site_whatever_the_rules_are_now(
    owners: Owners, tmp_path: Path
) -> None:
    private = FoundCapture("urn:uuid:9", 200, (), "sha1:9", b"private", is_private=True)
    owners.stored[f"{SITE}/mine"] = private

    async def run(site: str) -> StoredAnswer | MissingAnswer:
        (tmp_path / site).mkdir()
        calls = caller_of(owners, tmp_path / site)
        archive = CalledArchive(calls, owners.addressing, {}, site)
        (answer,) = await archive.find([ArchiveQuery(f"{SITE}/mine")])
        return answer

    assert virtual(lambda: run("other.test")) == MissingAnswer(Reason.WANT_ELSEWHERE)
    shown = virtual(lambda: run(PAGE_SITE))
    assert isinstance(shown, StoredAnswer) and shown.body == b"private"


def test_a_later_round_names_record_and_place(owners: Owners, tmp_path: Path) -> None:
    owners.add(f"{SITE}/a.js", b"first")
    records, places = {f"{SITE}/a.js": "urn:uuid:1"}, {f"{SITE}/a.js": "w.warc.gz 1"}

    async def run() -> None:
        archive = CalledArchive(
            caller_of(owners, tmp_path), owners.addressing, records, PAGE_SITE, places
        )
        await archive.find([ArchiveQuery(f"{SITE}/a.js?_=1", also=f"{SITE}/a.js")])

    virtual(run)
    ((asked,),) = owners.asked
    assert (asked.url, asked.record, asked.place) == (f"{SITE}/a.js", "urn:uuid:1", "w.warc.gz 1")


def test_a_page_whose_owner_is_lost_is_not_to_blame(owners: Owners, tmp_path: Path) -> None:
    async def run() -> CalledArchive:
        archive = CalledArchive(caller_of(owners, tmp_path), owners.addressing, {}, PAGE_SITE)
        owners.failures = 3
        (answer,) = await archive.find([ArchiveQuery(f"{SITE}/a.js")])
        assert isinstance(answer, MissingAnswer) and answer.reason is Reason.REQUEST_UNANSWERED
        return archive

    assert "does not say what is stored" in virtual(run).lost


# -- the loop


class Scripted:
    """A renderer that does what a test says, after ``seconds``."""

    def __init__(self, ends: list[RenderEnd | Exception], seconds: float = 1.0) -> None:
        self.ends, self.seconds, self.at_work, self.most = ends, seconds, 0, 0
        self.closed = 0

    async def render(self, task: RenderTask, archive: Archive) -> Rendered:
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            await archive.find([ArchiveQuery(task.url, "document")])
            await asyncio.sleep(self.seconds)
        finally:
            self.at_work -= 1
        end = self.ends.pop(0) if self.ends else RenderEnd.QUIET
        if isinstance(end, Exception):
            raise end
        return Rendered(end, "why", task.url, html="<p>" * end.has_document)

    def describe(self) -> str:
        return "a browser 1.0"

    async def close(self) -> None:
        self.closed += 1


def lent(number: int) -> LentRender:
    task = RenderTask(f"{SITE}/{number}", 1.8e9, "app.example")
    return LentRender(1, f"row {number:012}".encode(), number, task, 60.0)


async def packed(rendered: Rendered) -> bytes:
    """Without a thread, for which virtual time does not wait."""
    return pack_rendered(rendered)


async def looped(
    owners: Owners,
    folder: Path,
    renderer: Scripted,
    during: Callable[[RenderLoop], Awaitable[None]],
) -> list[str]:
    """Run a loop with two pages at a time while ``during`` lasts; what it told the operator."""
    told: list[str] = []
    pages = RenderLoop(
        "here", owners, lambda: renderer, caller_of(owners, folder), told.append, packed
    )
    pages.set_most(2)
    running = asyncio.create_task(pages.run())
    try:
        await during(pages)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return told


def test_so_many_pages_are_in_work_as_the_settings_say_at_that_moment(
    owners: Owners, tmp_path: Path
) -> None:
    owners.lent, renderer = [lent(number) for number in range(30)], Scripted([])

    async def during(pages: RenderLoop) -> None:
        await asyncio.sleep(3)
        assert 0 < renderer.at_work <= renderer.most == 2
        pages.set_most(4)
        await asyncio.sleep(3)
        assert 2 < renderer.at_work <= renderer.most == 4
        pages.set_most(0)
        await asyncio.sleep(5)
        done = len(owners.given)
        assert not renderer.at_work and done < 30
        await asyncio.sleep(5)
        assert len(owners.given) == done, "what waits stays with its owner"
        pages.set_most(2)
        await asyncio.sleep(30)

    virtual(lambda: looped(owners, tmp_path, renderer, during))
    assert {each.lending for each in owners.given} == set(range(30))
    assert all(each.result for each in owners.given)
    assert {each.at_once for each in owners.takes} == {2, 4}
    assert owners.takes[-1].browser == "a browser 1.0"


def test_pages_in_work_are_given_back_at_the_end(owners: Owners, tmp_path: Path) -> None:
    owners.lent, renderer = [lent(number) for number in range(3)], Scripted([], 1000.0)

    async def during(pages: RenderLoop) -> None:
        await asyncio.sleep(3)
        assert renderer.at_work == 2

    virtual(lambda: looped(owners, tmp_path, renderer, during))
    assert {(each.lending, each.result) for each in owners.given} == {(0, b""), (1, b"")}
    assert not renderer.at_work and renderer.closed


def test_a_page_that_has_no_browser_is_given_back_and_the_reason_is_told(
    owners: Owners, tmp_path: Path
) -> None:
    owners.lent = [lent(1)]
    renderer = Scripted([RenderEnd.NO_BROWSER])

    async def during(pages: RenderLoop) -> None:
        await asyncio.sleep(5)
        assert pages.report().trouble == "no browser: why"
        asked = len(owners.takes)
        await asyncio.sleep(3)
        assert len(owners.takes) == asked, "another try comes later"
        owners.lent = [lent(2)]
        await asyncio.sleep(30)
        assert not pages.report().trouble

    told = virtual(lambda: looped(owners, tmp_path, renderer, during))
    assert [(each.lending, bool(each.result)) for each in owners.given] == [(1, False), (2, True)]
    assert told == ["no browser: why", "the browser works again"]
    assert "no browser: why" in {each.trouble for each in owners.takes}


def test_a_renderer_that_raises_counts_against_its_page(owners: Owners, tmp_path: Path) -> None:
    owners.lent, renderer = [lent(1)], Scripted([ValueError("a bug")])

    async def during(pages: RenderLoop) -> None:
        await asyncio.sleep(5)

    told = virtual(lambda: looped(owners, tmp_path, renderer, during))
    (given,) = owners.given
    assert unpack_rendered(given.result).end is RenderEnd.CRASHED
    assert "a bug" in told[0]


def test_a_result_is_given_until_it_is_taken(owners: Owners, tmp_path: Path) -> None:
    owners.lent, renderer = [lent(1)], Scripted([])

    async def during(pages: RenderLoop) -> None:
        await asyncio.sleep(0.9)
        owners.failures = 6
        await asyncio.sleep(30)
        assert pages.report().rendered == 1

    virtual(lambda: looped(owners, tmp_path, renderer, during))
    assert len(owners.given) == 1


# -- results as they travel


def test_a_result_that_is_too_large_loses_its_picture_and_then_its_document() -> None:
    both = Rendered(RenderEnd.QUIET, html="<p>", screenshot=os.urandom(MOST_PACKED_BYTES + 1))
    assert unpack_rendered(pack_rendered(both)) == Rendered(RenderEnd.QUIET, html="<p>")
    large = Rendered(RenderEnd.QUIET, url="u", html="x" * 101_000_000)
    assert unpack_rendered(pack_rendered(large)).end is RenderEnd.TOO_LARGE


@pytest.mark.parametrize("bytes_", [b"", b"x", b"\x28\xb5\x2f\xfd" + b"\0" * 40])
def test_what_is_no_result_is_an_error_of_its_own(bytes_: bytes) -> None:
    with pytest.raises(UnreadableRender):
        unpack_rendered(bytes_)
    with pytest.raises(UnreadableRender):
        unpack_rendered(pack_rendered(Rendered(RenderEnd.QUIET, html="<p>" * 50))[:-4])


# -- the process


def job(pages: int = -1, **section: Any) -> RendererJob:
    return RendererJob("here", RenderSection(**section), pages=pages)


def test_live_settings_say_how_many_pages_a_process_renders() -> None:
    assert most_pages(job(mode=RenderMode.AUTO), {}) == 2
    assert most_pages(job(mode=RenderMode.AUTO), {"render.pages": "5"}) == 5
    assert most_pages(job(7, mode=RenderMode.AUTO), {"render.pages": "5"}) == 7
    assert most_pages(job(7, mode=RenderMode.AUTO), {"render.pages": "0"}) == 0, "a pause"
    assert most_pages(job(7), {}) == most_pages(job(), {}) == 0
    assert most_pages(job(7), {"render.mode": "auto"}) == 7
    assert most_pages(job(), {"render.policies": '["app.example always"]'}) == 2
    assert most_pages(job(mode=RenderMode.AUTO), {"render.mode": "never"}) == 0


def test_a_process_that_holds_too_much_memory_ends_after_five_looks(
    owners: Owners, tmp_path: Path
) -> None:
    """Its keeper then kills its group, and starts another one."""

    class Unread:
        """The socket to the keeper."""

        reports = 0

        def write(self, frame: bytes) -> None:
            self.reports += 1

    async def run() -> int:
        keeper: Any = Unread()
        process = RendererProcess(keeper, opened_log("renderer"))
        pages = RenderLoop("here", owners, lambda: Scripted([]), caller_of(owners, tmp_path), print)
        held = iter([400_000_000, 100_000_000, *(400_000_000 for _ in range(9))])
        with pytest.raises(TooMuchMemory, match=r"render\.memory_bytes"):
            await process.report(RenderSection(memory_bytes=300_000_000), pages, held.__next__)
        return keeper.reports

    assert virtual(run) == 2 + 5


def test_renderers_of_several_workers_are_shown_once_with_all_their_pages() -> None:
    busy = RendererUse("b", 2, 4, "Chrome/150")
    both = summed_uses([busy, RendererUse("a", trouble="no browser: why"), RendererUse("b", 1, 4)])
    assert [each.line() for each in both] == [
        "a: no browser: why",
        "b: 3 of 4 pages in work, Chrome/150",
    ]
    reports = [Progress(renderers=[busy]), Progress(renderers=[busy])]
    assert total(reports).renderers == [RendererUse("b", 4, 4, "Chrome/150")]


def test_a_desk_knows_the_renderers_that_asked_in_the_last_minute(tmp_path: Path) -> None:
    seen: list[list[RendererUse]] = []

    async def meanwhile(assembled: Assembled) -> None:
        assert assembled.renders is not None
        call = TakeRenders("b", 3, "Chrome/150", "run", 4)
        await assembled.calls.answer(0, call)
        seen.append(ProgressReport(assembled, QUICK).make_report().renderers)
        await asyncio.sleep(61)
        seen.append(assembled.renders.renderers())

    crawl_folder(tmp_path / "crawl", Pages({}), [f"{SITE}/"], meanwhile=meanwhile)
    assert seen == [[RendererUse("b", 0, 4, "Chrome/150")], []]
