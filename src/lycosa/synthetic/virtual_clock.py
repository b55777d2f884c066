"""Virtual time for asyncio: a loop that jumps to the next timer instead of waiting for it.

Everything that takes time in a crawler goes through its ``Clock``, ``Fetcher``, ``Resolver`` and
``Offload``. With those of this package nothing waits for anything outside the process. So when no
callback is ready, the next event is the earliest timer, and the clock can jump to it. A month of
crawling takes only the time of its work, and one seed gives one history. If there is no timer
either, nothing can ever happen again: that is a deadlock, and is reported with the place where
every task waits.
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

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

VIRTUAL_EPOCH = 1_750_000_000.0  # default wall time at virtual time 0


class Deadlock(RuntimeError):
    """Every task waits for another one. The message names them."""


class Crash(SystemExit):
    """The simulated death of the process.

    It is a ``SystemExit`` because asyncio propagates that from a task at once, without running any
    other task.
    """

    def __init__(self, point: str) -> None:
        super().__init__(f"crashed at {point}")
        self.point = point


class _JumpingSelector(selectors.BaseSelector):
    """A selector whose files are never ready: ``select`` advances the clock by its timeout."""

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

    With a ``seed``, timers due at the same instant fire in a random order (each is delayed by less
    than a microsecond), so that different seeds give different interleavings. ``on_turn`` is called
    once per turn of the loop.
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
        """Advance time without running anything, as while a machine is suspended."""
        assert seconds >= 0.0
        self._jumping.now += seconds

    def forget_turns(self) -> None:
        self._jumping.on_turn = None

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._chance:
            when += self._chance.random() * 1e-6
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        raise RuntimeError("virtual time has no threads: give blocking work to an Offload")


class VirtualClock:
    """The ``Clock`` port on the running loop's time.

    ``jump`` moves only the wall clock, as a time server does.
    """

    def __init__(self, epoch: float = VIRTUAL_EPOCH) -> None:
        self._epoch = epoch

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(max(0.0, delay_s))

    def jump(self, seconds: float) -> None:
        """Move the wall clock forward or, if negative, back."""
        self._epoch += seconds


class VirtualOffload:
    """The ``Offload`` port without threads.

    The work runs on the loop after a pause, and its result arrives after another one. The pauses
    are exponential with mean ``mean_s``, drawn from ``chance``. Each is at least one turn of the
    loop, so that other tasks run before the work, and between the work and its result. As with a
    thread, cancelling the caller does not stop the work.
    """

    def __init__(self, chance: random.Random, mean_s: float = 0.0) -> None:
        self._chance = chance
        self._mean_s = mean_s

    async def run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.shield(asyncio.create_task(self._work(work)))

    async def _work(self, work: Callable[[], _T]) -> _T:
        await self._pause()
        result = work()
        await self._pause()
        return result

    async def _pause(self) -> None:
        await asyncio.sleep(
            self._chance.expovariate(1.0 / self._mean_s) if self._mean_s > 0.0 else 0.0
        )


def run_virtual(
    main: Coroutine[Any, Any, _T],
    *,
    seed: int | None = 0,
    start: float = 0.0,
    on_turn: Callable[[], None] | None = None,
) -> _T:
    """Run a coroutine in virtual time and return its result.

    ``start`` is the loop's first time in seconds. Raises ``Deadlock``, or ``Crash`` by a fault
    plan. After either, nothing of the run executes any more, as after ``kill -9``, except the
    ``finally`` blocks of abandoned coroutines up to their first await.
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


async def _watched(main: Coroutine[Any, Any, _T], loop: VirtualLoop) -> _T:
    try:
        return await main
    finally:
        loop.forget_turns()  # shutting down the loop is not part of the run


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
    """Drop every task without letting it run.

    Its coroutine is closed, and asyncio's warnings about that are suppressed.
    """
    loop.forget_turns()
    loop.set_exception_handler(lambda loop, context: None)
    closed: set[asyncio.Task[Any]] = set()
    # tasks that a finally block starts belong to this loop, so that they are dropped as well
    asyncio.events._set_running_loop(loop)
    try:
        while tasks := asyncio.all_tasks(loop) - closed:
            for task in tasks:
                # a finally block that awaits or fails; in a dead process it would not have run at
                # all
                with contextlib.suppress(Exception, Crash):
                    if (coroutine := task.get_coro()) is not None:  # None since Python 3.12
                        coroutine.close()
            closed |= tasks
    finally:
        asyncio.events._set_running_loop(None)
