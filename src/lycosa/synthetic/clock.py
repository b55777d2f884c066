"""Virtual time for asyncio: a loop that jumps to the next timer instead of waiting for it.

Everything that takes time in a crawler goes through its ``Clock``, ``Fetcher``, ``Resolver`` and
``Offload``; with the ones of this package nothing waits for the outside world, so when no callback
is ready the only thing that can happen next is the earliest timer, and time may as well be then. A
month of crawling takes as long as its work does, and one seed gives one history. If there is no
timer either, nothing will ever happen again: that is a deadlock, and it is reported with the place
where every task waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_750_000_000.0  # wall time at virtual time 0, by default


class Deadlock(RuntimeError):
    """Every task waits for another one. The message names them."""


class Crash(SystemExit):
    """The process dies here.

    A kind of ``SystemExit`` because that is what asyncio lets out of a task at once, without
    running any other one.
    """

    def __init__(self, point: str) -> None:
        super().__init__(f"crashed at {point}")
        self.point = point


class _JumpingSelector(selectors.BaseSelector):
    """A selector of files that are never ready: ``select`` moves the clock by the time it was
    asked to wait.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.on_turn: Callable[[], None] | None = None
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is scheduled and nothing is ready")
        self.now += max(0.0, timeout)
        if self.on_turn:
            self.on_turn()
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, single-threaded.

    With a ``seed``, timers due at the same instant fire in an order drawn from it (each is put off
    by less than a microsecond), so that different seeds meet different interleavings. ``on_turn``
    is called once per turn of the loop.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        start: float = 0.0,
        on_turn: Callable[[], None] | None = None,
    ) -> None:
        self._jumping = _JumpingSelector()
        self._jumping.now = start
        self._jumping.on_turn = on_turn
        self._chance = random.Random(seed) if seed is not None else None
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def skip(self, seconds: float) -> None:
        """Let time pass without running anything, as when a machine is suspended."""
        assert seconds >= 0.0
        self._jumping.now += seconds

    def forget_turns(self) -> None:
        """Call ``on_turn`` no more."""
        self._jumping.on_turn = None

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._chance:
            when += self._chance.random() * 1e-6
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        raise RuntimeError("virtual time has no threads: give blocking work to an Offload")


class VirtualClock:
    """The ``Clock`` port on the running loop's time. ``jump`` moves the wall clock alone, as a
    time server does.
    """

    def __init__(self, epoch: float = EPOCH) -> None:
        self._epoch = epoch

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(max(0.0, delay_s))

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or, negative, back."""
        self._epoch += seconds


class VirtualOffload:
    """The ``Offload`` port without threads: the work runs on the loop after a pause, and its result
    is known after another.

    The pauses are exponential with mean ``mean_s``, drawn from ``chance``; both are at least a turn
    of the loop, so that other tasks run before the work and between the work and the knowledge of
    it. Cancelling the caller does not stop the work, as with a thread.
    """

    def __init__(self, chance: random.Random, mean_s: float = 0.0) -> None:
        self._chance = chance
        self._mean_s = mean_s

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.create_task(self._work(work)))

    async def _work(self, work: Callable[[], T]) -> T:
        await self._pause()
        result = work()
        await self._pause()
        return result

    async def _pause(self) -> None:
        await asyncio.sleep(
            self._chance.expovariate(1.0 / self._mean_s) if self._mean_s > 0.0 else 0.0
        )


def run_virtual(
    main: Coroutine[Any, Any, T],
    *,
    seed: int | None = 0,
    start: float = 0.0,
    on_turn: Callable[[], None] | None = None,
) -> T:
    """Run a coroutine in virtual time and give its result.

    ``start`` is the loop's first time in seconds. Raises ``Deadlock``, or ``Crash`` when a fault
    plan says so; after either nothing of the run executes any more (but the ``finally`` blocks of
    abandoned coroutines, up to their first await), as after ``kill -9``.
    """
    loop = VirtualLoop(seed=seed, start=start, on_turn=on_turn)
    with contextlib.closing(main), asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(_watched(main, loop))
        except Deadlock:
            message = _where(loop)
            _abandon(loop)
            raise Deadlock(message) from None
        except Crash:
            _abandon(loop)
            raise


async def _watched(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    try:
        return await main
    finally:
        loop.forget_turns()  # winding up the loop is no part of the run


def _where(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    lines = [f"{task.get_name()} waits in {_innermost(task.get_coro())}" for task in tasks]
    return f"at {loop.time():.6f} s nothing is scheduled and nothing is ready: " + "; ".join(lines)


def _innermost(coroutine: Any) -> str:
    """The function and line where a chain of coroutines is suspended."""
    while inspect.iscoroutine(getattr(coroutine, "cr_await", None)):
        coroutine = coroutine.cr_await
    frame = getattr(coroutine, "cr_frame", None)
    return f"{frame.f_code.co_qualname}:{frame.f_lineno}" if frame else "an awaitable"


def _abandon(loop: VirtualLoop) -> None:
    """Forget every task without letting it run: its coroutine is closed, and what asyncio says
    of that is not said.
    """
    loop.forget_turns()
    loop.set_exception_handler(lambda loop, context: None)
    closed: set[asyncio.Task[Any]] = set()
    # what a finally block starts must land here, to be forgotten as well
    asyncio.events._set_running_loop(loop)
    try:
        while tasks := asyncio.all_tasks(loop) - closed:
            for task in tasks:
                # a finally block that awaits or fails: a dead process would not have run it
                with contextlib.suppress(Exception, Crash):
                    task.get_coro().close()
            closed |= tasks
    finally:
        asyncio.events._set_running_loop(None)
