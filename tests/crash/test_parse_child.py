"""Documents that kill or stall the parse child cost themselves and nobody else."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
import uvloop

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.parse.child_parser import ChildParser
from lycosa.stages.parse.parser_config import ParserConfig


def document(name: str, body: bytes = b"<a href=x>y</a>") -> ParseInput:
    return ParseInput(f"http://example.org/{name}", 200, [("content-type", "text/html")], body)


def made_parser(deadline_s: float = 60.0) -> ChildParser:
    section = ParseSection(
        language=False, deadline_s=deadline_s, memory_bytes=1_000_000_000, recycle_documents=1000
    )
    return ChildParser(ParserConfig(section, CanonicalSection(), "lycosa"), SystemClock())


@pytest.fixture
async def parser(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[ChildParser]:
    monkeypatch.setenv("LYCOSA_TEST_HOOKS", "1")  # the environment of the child, not our code
    # Short only where it is waited for: on a busy machine any document may take a second.
    made = made_parser(deadline_s=1.0 if "hook-hang" in request.node.name else 60.0)
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("hook-segfault", Reason.PARSE_KILLED),
        ("hook-hang", Reason.PARSE_TIMEOUT),
        ("hook-memory", Reason.PARSE_KILLED),
    ],
)
async def test_one_bad_document_costs_only_itself(
    parser: ChildParser, hook: str, reason: Reason
) -> None:
    names = [*(f"before/{n}" for n in range(5)), hook, *(f"after/{n}" for n in range(5))]
    answers = await asyncio.gather(*(parser.parse(document(name)) for name in names))
    assert [answer.reason for answer in answers] == [
        reason if name == hook else Reason.NONE for name in names
    ]
    assert all(len(answer.links) == 1 for answer in answers if not answer.reason)
    assert parser.snapshot().children == 3  # the bad one was tried twice
    assert parser.health().tried_again == 1


async def _send_to_a_dead_child() -> ChildParser:
    """The loop stands still while a child answers two documents and dies of a third, and then
    sends it more.
    """
    parser = made_parser()
    await parser.parse(document("first"))
    child = parser._child
    assert child is not None
    sent = [
        asyncio.ensure_future(parser.parse(document(name)))
        for name in ("before/0", "before/1", "hook-segfault")
    ]
    await asyncio.sleep(0.0)
    child.process.wait()
    sent += [asyncio.ensure_future(parser.parse(document(f"after/{n}"))) for n in range(3)]
    answers = await asyncio.gather(*sent)
    assert [answer.reason for answer in answers] == [
        Reason.NONE,
        Reason.NONE,
        Reason.PARSE_KILLED,
    ] + 3 * [Reason.NONE]
    await parser.close()
    return parser


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_a_child_answered_before_it_died_is_read_although_more_was_sent_to_it(
    run: Callable[[Coroutine[Any, Any, ChildParser]], ChildParser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LYCOSA_TEST_HOOKS", "1")
    parser = run(_send_to_a_dead_child())
    assert (parser.snapshot().children, parser.health().tried_again) == (3, 1)


async def test_bad_documents_in_a_row_each_get_their_reason(parser: ChildParser) -> None:
    answers = await asyncio.gather(
        *(
            parser.parse(document(name))
            for name in ("hook-segfault/1", "hook-segfault/2", "good", "hook-segfault/3")
        )
    )
    assert [answer.reason for answer in answers] == [
        Reason.PARSE_KILLED,
        Reason.PARSE_KILLED,
        Reason.NONE,
        Reason.PARSE_KILLED,
    ]
    assert parser.snapshot().deaths == 6  # each was tried twice


async def test_a_child_killed_while_idle_is_replaced(parser: ChildParser) -> None:
    assert (await parser.parse(document("one"))).reason is Reason.NONE
    child = parser._child
    assert child is not None
    os.kill(child.process.pid, signal.SIGKILL)
    child.process.wait()
    while parser._child is child:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    assert (await parser.parse(document("two"))).reason is Reason.NONE


async def test_recycling_loses_no_document() -> None:
    section = ParseSection(language=False, recycle_documents=3)
    parser = ChildParser(ParserConfig(section, CanonicalSection(), "lycosa"), SystemClock())
    answers = await asyncio.gather(*(parser.parse(document(f"{number}/")) for number in range(10)))
    assert [answer.links[0].url for answer in answers] == [
        f"http://example.org/{number}/x" for number in range(10)
    ]
    assert parser.snapshot().children == 4
    await parser.close()


async def test_a_document_that_comes_while_an_idle_child_is_replaced_is_not_suspected(
    parser: ChildParser,
) -> None:
    await parser.parse(document("one"))
    parser.recycle()
    assert (await parser.parse(document("two"))).reason is Reason.NONE
    assert (parser.snapshot().children, parser.health().tried_again, parser.health().deaths) == (
        2,
        0,
        0,
    )


async def test_closing_cancels_what_is_unanswered_and_ends_the_child(parser: ChildParser) -> None:
    hanging = asyncio.ensure_future(parser.parse(document("hook-hang")))
    while not (parser._child and parser._child.sent):  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    pid = parser._child.process.pid
    await parser.close()
    with pytest.raises(asyncio.CancelledError):  # blamed for nothing: it was us
        await hanging
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(RuntimeError):
        await parser.parse(document("late"))


async def test_a_document_whose_caller_went_away_is_not_awaited(parser: ChildParser) -> None:
    tasks = [asyncio.ensure_future(parser.parse(document(str(number)))) for number in range(6)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [
        number == 2 for number in range(6)
    ]


# -- what is not a document's fault


class _Shortage(SystemClock):
    """A clock on which pauses are over at once; the shortage that ``begin`` makes ends with the
    pause of that number.
    """

    def __init__(self, ends_with: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._ends_with = ends_with
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def begin(self) -> None:
        """No descriptor is left, so no child can be started: the one shortage that a test can
        make for its own process only.
        """
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, self._limits[1]))

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    async def sleep(self, delay_s: float) -> None:
        self.pauses.append(delay_s)
        if len(self.pauses) == self._ends_with:
            self.end()
        await asyncio.sleep(0 if len(self.pauses) <= self._ends_with else delay_s)


async def test_documents_wait_as_long_as_children_end_before_they_are_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Mended(_Shortage):
        def begin(self) -> None:
            monkeypatch.setenv(
                "PYTHONHOME", "/nowhere"
            )  # the child's interpreter does not find its library

        def end(self) -> None:
            monkeypatch.delenv("PYTHONHOME", raising=False)

    clock = Mended(ends_with=10**9)
    parser = ChildParser(
        ParserConfig(ParseSection(language=False), CanonicalSection(), "lycosa"), clock
    )
    clock.begin()
    answering = asyncio.gather(*(parser.parse(document(str(number))) for number in range(5)))
    while parser.snapshot().children < 5:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    assert "before it was ready: exit code 1" in parser.health().away_why
    clock.end()
    assert [answer.reason for answer in await answering] == [Reason.NONE] * 5
    assert (parser.health().away_s, parser.health().away_why) == (0.0, "")
    assert parser.health().away_total_s > 0.0
    await parser.close()


async def test_documents_wait_as_long_as_no_child_can_be_started() -> None:
    clock = _Shortage(ends_with=20)
    parser = ChildParser(
        ParserConfig(ParseSection(language=False), CanonicalSection(), "lycosa"), clock
    )
    clock.begin()
    try:
        answering = asyncio.gather(*(parser.parse(document(str(number))) for number in range(5)))
        while len(clock.pauses) < 4:  # noqa: ASYNC110 - only the next turn of the loop is awaited
            await asyncio.sleep(0)
        assert parser.health().away_why == "Too many open files"
        answers = await answering
    finally:
        clock.end()
        await parser.close()
    assert [answer.reason for answer in answers] == [Reason.NONE] * 5
    assert clock.pauses[:20] == [0.5, 1.0, 2.0, 4.0, *[5.0] * 16]


async def test_a_document_is_not_blamed_for_a_kill_from_outside(parser: ChildParser) -> None:
    await parser.parse(document("first"))
    child = parser._child
    assert child is not None
    os.kill(child.process.pid, signal.SIGSTOP)
    waiting = [asyncio.ensure_future(parser.parse(document(str(number)))) for number in range(5)]
    while len(child.sent) < 5:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    os.kill(child.process.pid, signal.SIGKILL)
    answers = await asyncio.gather(*waiting)
    assert [answer.reason for answer in answers] == [Reason.NONE] * 5


class _Deadline(SystemClock):
    """A clock on which pauses end when ``pass_now`` is called; then a day is over."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead_s = 0.0
        self._passed = asyncio.Event()

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead_s

    async def sleep(self, delay_s: float) -> None:
        if delay_s < 0.1:
            await asyncio.sleep(delay_s)
        else:
            await self._passed.wait()
            self._passed.clear()

    @property
    def has_passed(self) -> bool:
        return self._passed.is_set()

    def pass_now(self, seconds: float) -> None:
        self._ahead_s += seconds
        self._passed.set()


async def watched_child(deadline_s: float = 30.0) -> tuple[ChildParser, _Deadline]:
    """A parser whose child is ready and watched by the clock, which passes time when it is told."""
    clock = _Deadline()
    section = ParseSection(language=False, deadline_s=deadline_s, recycle_documents=1000)
    parser = ChildParser(ParserConfig(section, CanonicalSection(), "lycosa"), clock)
    await parser.parse(document("first"))
    await pass_time(clock, 0.0)  # the pause that began before the child was ready
    return parser, clock


async def pass_time(clock: _Deadline, seconds: float) -> None:
    clock.pass_now(seconds)
    while clock.has_passed:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)


async def test_the_document_behind_one_that_was_answered_at_its_deadline_is_not_suspected() -> None:
    parser, clock = await watched_child()
    child = parser._child
    assert child is not None
    waiting = [
        asyncio.ensure_future(parser.parse(each))
        for each in (document("late"), document("long", b"<p>word " * 200_000))
    ]
    await asyncio.sleep(0)
    answered = select.poll()
    answered.register(child.sock, select.POLLIN)
    answered.poll()  # it has answered the first, and the loop has not read that
    clock.pass_now(20 * 30.0)
    assert [answer.reason for answer in await asyncio.gather(*waiting)] == [
        Reason.NONE,
        Reason.NONE,
    ]
    assert parser.health().tried_again == 0
    await parser.close()


async def test_a_child_that_gets_no_processor_time_has_its_document_for_longer() -> None:
    parser, clock = await watched_child(deadline_s=2.0)
    child = parser._child
    assert child is not None
    os.kill(child.process.pid, signal.SIGSTOP)
    waiting = asyncio.ensure_future(parser.parse(document("starved")))
    while not child.sent:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    for _ in range(9):
        await pass_time(clock, 2 * 2.0)
    os.kill(child.process.pid, signal.SIGCONT)
    assert (await waiting).reason is Reason.NONE
    assert (parser.snapshot().children, parser.health().tried_again) == (1, 0)
    await parser.close()


async def test_a_suspended_machine_is_not_the_documents_fault() -> None:
    parser, clock = await watched_child()
    child = parser._child
    assert child is not None
    os.kill(child.process.pid, signal.SIGSTOP)
    waiting = asyncio.ensure_future(parser.parse(document("slept")))
    while not child.sent:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    await pass_time(clock, 86_400.0)
    os.kill(child.process.pid, signal.SIGCONT)
    assert (await waiting).reason is Reason.NONE
    assert parser.snapshot().children == 1
    await parser.close()


@pytest.mark.parametrize("tries", [0, 1, 3, 4])
async def test_a_child_that_hangs_without_using_the_processor_is_killed_late(
    monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    monkeypatch.setenv("LYCOSA_TEST_HOOKS", "1")
    parser, clock = await watched_child()
    child = parser._child
    assert child is not None
    sent = msgspec.structs.replace(document("hook-stall"), tries=tries)
    waiting = [asyncio.ensure_future(parser.parse(each)) for each in (sent, document("next"))]
    while len(child.sent) < 2:  # noqa: ASYNC110 - only the next turn of the loop is awaited
        await asyncio.sleep(0)
    bounds = 2 ** min(tries, 3)  # the wall time doubles with each failed try
    for _ in range(bounds - 1):
        await pass_time(clock, 20 * 30.0)
        assert parser._child is child and not child.is_late
    clock.pass_now(20 * 30.0)
    answers = await asyncio.gather(*waiting)
    # It is not tried again at once, because the documents behind it would wait for as long.
    assert [answer.reason for answer in answers] == [Reason.PARSE_STALLED, Reason.NONE]
    assert (parser.snapshot().children, parser.health().tried_again) == (2, 0)
    await parser.close()


async def test_processor_time_is_limited_although_the_parent_ignores_the_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LYCOSA_TEST_HOOKS", "1")
    before = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        parser = made_parser(deadline_s=0.5)
        assert (await parser.parse(document("hook-hang"))).reason is Reason.PARSE_TIMEOUT
        await parser.close()
    finally:
        signal.signal(signal.SIGPROF, before)
