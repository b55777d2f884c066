"""Divides work among programs on any number of machines: one object says who does a part of it.

A claim only saves work. What a part gives is stored by ``ObjectStore.create``, which decides
between two programs that did the same part. So nothing here must be certain: no clock of another
machine is read, and a program that was only slow and lost its claim does no harm.

The holder writes its claim again every ``RENEWED_S`` seconds, with another number. A claim that
this program has seen unchanged for ``CLAIM_STALE_S`` seconds, by its own clock, is taken over; that
of a process of this machine which does not exist any more, at once.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.objects.object_errors import ObjectError, ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read

CLAIMS = "claims"
RENEWED_S = 10.0
CLAIM_STALE_S = 60.0


class WorkClaim(msgspec.Struct, frozen=True):
    """Who works on a part. ``machine`` distinguishes containers, ``process`` also reused ids."""

    owner: str
    host: str
    pid: int
    machine: str = ""
    process: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def own_claim() -> WorkClaim:
    """The claim of this process, with a new owner."""
    pid = os.getpid()
    return WorkClaim(
        uuid.uuid4().hex, socket.gethostname(), pid, machine_text(), process_text(pid) or ""
    )


class WorkClaims:
    """The claims below ``claims/PREFIX/``, of one program. Calls block; they raise ``ObjectError``.

    ``now`` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        now: Callable[[], float] = time.monotonic,
        mine: WorkClaim | None = None,
    ) -> None:
        self._store, self._prefix, self._now = store, prefix, now
        self.mine = mine or own_claim()
        self._seen: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}

    def try_claim(self, name: str) -> WorkClaim | None:
        """WorkClaim a part. Returns ``None`` when it is ours, otherwise who has it."""
        own = msgspec.json.encode(self.mine)
        found = create_or_read(self._store, self._key(name), own)
        other = _read(found)
        if found != own and other is not None and other.owner != self.mine.owner:
            if not self._is_abandoned(name, found, other):
                return other
            self._store.put(self._key(name), own)
            # Of two that take it over at this moment, at least one is told so. If both work, the
            # result of one counts.
            with suppress(ObjectMissing):
                other = _read(self._store.get(self._key(name)))
                if other is not None and other.owner != self.mine.owner:
                    return other
        elif found != own:  # damaged, or ours from before
            self._store.put(self._key(name), own)
        with self._lock:
            self._held[name] = 0
        self._seen.pop(name, None)
        return None

    def release(self, name: str) -> None:
        """Give a part back, or note that it is done."""
        with self._lock:
            held = self._held.pop(name, None)
        if held is not None:
            self._store.delete([self._key(name)])

    def renew(self) -> None:
        """Write the claims that are held again. Errors are not reported: others then work too."""
        with self._lock:
            for name in self._held:
                self._held[name] += 1
                claim = msgspec.structs.replace(self.mine, number=self._held[name])
                with suppress(ObjectError):
                    self._store.put(self._key(name), msgspec.json.encode(claim))

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew in a thread while this context lasts; give everything back at its end."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(RENEWED_S):
                self.renew()

        thread = threading.Thread(target=renew, name="lycosa-claims", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            for name in list(self._held):
                with suppress(ObjectError):
                    self.release(name)

    def clear(self) -> None:
        """Delete what programs that died left behind, when all parts are done."""
        self._store.delete([each.key for each in self._store.list(f"{CLAIMS}/{self._prefix}/")])

    def _is_abandoned(self, name: str, found: bytes, other: WorkClaim) -> bool:
        if other.machine == self.mine.machine and other.process != process_text(other.pid):
            return True
        before = self._seen.get(name)
        if before is None or before[0] != found:
            self._seen[name] = found, self._now()
            return False
        return self._now() - before[1] >= CLAIM_STALE_S

    def _key(self, name: str) -> str:
        return f"{CLAIMS}/{self._prefix}/{name}.json"


def _read(data: bytes) -> WorkClaim | None:
    try:
        return msgspec.json.decode(data, type=WorkClaim)
    except UNREADABLE:
        return None


def machine_text(root: Path = Path("/proc")) -> str:
    """This boot of this machine and the namespace of its processes; something else each time where
    the system does not say, so that no other claim is taken for one of this machine.
    """
    try:
        boot = (root / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {(root / 'self/ns/pid').readlink()}"
    except OSError:
        return uuid.uuid4().hex


def process_text(pid: int, root: Path = Path("/proc")) -> str | None:
    """When a process of this machine began, in ticks of its clock; ``None`` if there is none."""
    try:
        # The name in parentheses may contain blanks and parentheses.
        fields = (root / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended, and only waits for its parent. Field 22 of proc(5).
    return None if fields[0] in "ZX" else fields[19]
