"""The frontier of one worker: its partitions' front queues above one workbench.

``acquire`` gives a host that may be fetched now, ``release`` takes it back with the time from which
it may be fetched again. The workbench holds no more hosts than fetching needs: it grows when a slot
finds nothing ready while hosts wait in front queues (the required front size of BUbiNG). While
others wait, a host goes back to the end of its front queue after ``QUANTUM`` visits, so that a few
large hosts cannot keep the rest out, and as soon as its best URL is of a worse band than the one it
came from, so that important URLs of other hosts come first. Hosts that wait for long sleep outside
of the workbench: it would fill up with those that were asked to wait for hours, and nobody else
could come in.

An address that is shared by many hosts has only as many of them on the workbench as it can be asked
for (``resize``). The others wait in the line of the address (``address_lines``). When one of its
hosts leaves the workbench, the next of the line comes in.

**Bound.** Front queues are served one host a turn, and a partition with waiting hosts has its turn
before any other has another. So a host that takes the ``n``-th place of band ``b`` is attended
after at most ``n * 2 ** (b + 1) * partitions`` turns of the worker (``front_queues``). A turn is
due whenever a slot finds nothing ready, and each host makes room after at most ``QUANTUM`` visits:
with ``m`` hosts on the workbench, ``t`` turns have come after at most ``QUANTUM * (t + m)`` visits.
Who is attended is visited when its own delay and its address's are over. Divided by the rate of
turns, or of visits, that is a time; no host, however large, and no number of hosts in better bands
adds to it. Lines take at most every second turn of those that are due because nothing is ready, so
beside them the numbers of turns above are doubled. A host whose address is full takes its turn by
going to the end of a band of its address's line. There the same bound holds again, in turns of the
line: one for each host of the address that leaves the workbench, after at most ``QUANTUM`` visits,
and for each partition in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle, islice
from math import ceil, inf

import msgspec

from lycosa.frontier.address_lines import LineTurns
from lycosa.frontier.due import NEVER_DUE
from lycosa.frontier.partition import Partition
from lycosa.frontier.strays import recall_strays
from lycosa.frontier.visit_state import HostState, VisitState
from lycosa.frontier.workbench import Workbench

_PULL = 64
_ROUNDS = 20
QUANTUM = 32  # visits, after which a host makes room while others wait
_LONGEST_WAIT_S = 86_400.0
_LONGEST_DUE_S = 366 * 86_400.0
_ADDRESS_SHARE = 8  # at most one of so many places on the workbench is for hosts of one address
_SLEEP_S = 120.0  # a host that waits for longer sleeps


class FrontierSnapshot(msgspec.Struct, frozen=True):
    """What the queues hold: hosts on the workbench, of them ready; hosts in front queues; visits
    going on.
    """

    benched: int
    ready: int
    snoozed: int
    front: int
    in_process: int


class Frontier:
    """The partitions of one worker, and the workbench they share. Times: ``now`` monotonic,
    ``wall`` crawl time (``crawl_clock``).

    ``longest_wait_s`` is the longest that a host can be made to wait, ``longest_due_s`` the longest
    that a URL can.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        workbench: Workbench,
        capacity: int,
        address_hosts: float = inf,
    ) -> None:
        """``address_hosts`` is how many hosts of one address can be of use at a time."""
        self.partitions: Mapping[int, Partition] = {p.number: p for p in partitions}
        self._lines = LineTurns((p.number, p.lines) for p in self.partitions.values())
        self._address_hosts = address_hosts
        self._is_line_turn = False
        self.workbench = workbench
        self._alarms = [
            queue for partition in self.partitions.values() for queue in partition.alarms
        ]
        self._required = _PULL
        self.resize(capacity)
        self._turns = cycle(self.partitions.values())
        self._visits: dict[bytes, int] = {}
        self._not_before: dict[str, float] = {}
        self._held_until = 0.0
        self._delay_of: Callable[[VisitState], float] = lambda _: 0.0  # after that
        self._now = self._wall = 0.0  # of the last ``acquire``
        self.in_process: dict[bytes, VisitState] = {}
        self.longest_wait_s, self.longest_due_s = _LONGEST_WAIT_S, _LONGEST_DUE_S
        self._strayed = list(self.partitions.values())  # those that may hold times that cannot be
        # told the hosts that come to the workbench, to look up their names
        self.on_benched: Callable[[str], None] = lambda _: None

    def __repr__(self) -> str:
        return (
            f"<Frontier {self.workbench!r} required={self._required}"
            f" in_process={len(self.in_process)}>"
        )

    def hold_back(self, not_before: Mapping[str, float]) -> None:
        """After a restart: hosts contacted recently, with the monotonic time before which they
        are not fetched.
        """
        self._not_before.update(not_before)

    def hold_all(self, until: float, delay_of: Callable[[VisitState], float]) -> None:
        """After an unclean takeover, before the first ``acquire``: an owner before this one may
        still be asking any host until ``until`` (monotonic). So there is no visit before, and every
        host, whenever it is met, then waits ``delay_of`` it in seconds.
        """
        assert not len(self.workbench) and not self.in_process, (
            "a hold comes before the first visit"
        )
        self._held_until, self._delay_of = until, delay_of

    def resize(self, capacity: int) -> None:
        """The workbench holds no more hosts than that, and of one address no more than a share of
        it; those beyond that line up again after their next visit. A few for each slot of an
        address are always let in.
        """
        self.capacity = capacity
        self._required = min(self._required, capacity)
        self.workbench.most_of_address = max(
            4 * self.workbench.address_slots, min(self._address_hosts, capacity // _ADDRESS_SHARE)
        )

    def shed(self) -> None:
        """Lets go of what is only kept to save look-ups: visit states that nobody holds, bounds
        of hosts.
        """
        for partition in self.partitions.values():
            partition.visits.shed()
            partition.bounds.clear()

    def acquire(self, now: float, wall: float) -> VisitState | None:
        """A host that is ready, or ``None``. The caller gives it back by ``release``."""
        self._now, self._wall = now, wall
        if now < self._held_until:
            # nor does any host come to the workbench: it would fill up with hosts that wait, and
            # these would go to sleep
            return None
        host = self.workbench.acquire(now)
        if host is None and self._refill_or_gather(now, wall):
            host = self.workbench.acquire(now)
        if host is not None:
            self.in_process[host.host8] = host
            if host.next_time <= now:  # else its turn is for an errand
                self.partitions[host.partition].aside.wake(host)
        return host

    def recall_host(self, host: VisitState) -> None:
        """Something came for a host (an errand, or the answer to its own) that may be done
        before what it waits for.
        """
        if host.in_process:
            return  # it is looked at when it is given back
        if host.benched:
            self.workbench.move_host(host)
        else:
            self.partitions[host.partition].places.recall_host(host)

    def release(self, host: VisitState, next_time: float, wall_next: float) -> None:
        """The exchange is over; the host may be fetched again at ``next_time``, which is
        ``wall_next`` on the wall.
        """
        host.next_time = host.rest_time = next_time
        host.record.next_at = host.record.rest_at = wall_next
        self.give_back(host)

    def give_back(self, host: VisitState) -> None:
        """The visit ended without a request, so the host keeps its time."""
        partition = self.partitions[host.partition]
        del self.in_process[host.host8]
        self.workbench.leave_address(host)
        if not partition.settle_host(host) or self._sleeps(host):
            self._visits.pop(host.host8, None)
            return
        address = host.record.address
        is_waited_for = self._lines.is_waited_for(address)
        is_spent = self._is_spent(host)
        if self.workbench.is_full(address) or (is_spent and is_waited_for):
            self._send_to_line(partition, host)
        elif is_spent and self._has_waiting():
            self._visits.pop(host.host8, None)
            partition.places.rotate_host(host)
        else:
            self.workbench.put_host(host)
        if is_waited_for:
            # at once: the address would idle until a slot finds nothing ready
            self._fill_from_line(address)

    def _send_to_line(self, partition: Partition, host: VisitState) -> None:
        """The host waits for room at its address, or for its turn there."""
        self._visits.pop(host.host8, None)
        partition.places.rotate_host(host, host.record.address)
        self._lines.note_line_up(host.record.address)

    def _fill_from_line(self, address: str) -> None:
        """Hosts of an address come in as far as there is room. The last places are left to
        ``_refill``, where front queues have a turn.
        """
        last = self.capacity - _PULL if self._has_waiting() else self.capacity
        while len(self.workbench) < last and not self.workbench.is_full(address):
            pulled = self._lines.pull_host(address)
            if pulled is None:
                return
            self._bench(self.partitions[pulled[0]], pulled[1], self._now, self._wall)

    def _has_room(self, address: str) -> bool:
        return len(self.workbench) < self.capacity and not self.workbench.is_full(address)

    def _sleeps(self, host: VisitState) -> bool:
        """Whether the host waits for so long that it does so outside of the workbench."""
        wait = host.ready_time - self._now
        if wait > _SLEEP_S:
            # What holds a host back after a restart is known in memory alone, and an errand may end
            # its sleep.
            host.record.rest_at = max(
                host.record.rests_until, self._wall + host.rest_time - self._now
            )
            self.partitions[host.partition].places.sleep_host(host, ceil(self._wall + wait))
        return wait > _SLEEP_S

    def recall_strays(self, wall: float) -> int:
        """Some of what waits for a time that is too far ahead is due now; gives how much. A
        look, once a run, when there is none.
        """
        if not self._strayed:
            return 0
        latest_due, latest_parked = (
            ceil(wall + self.longest_due_s),
            ceil(wall + self.longest_wait_s),
        )
        recalled = {
            each: recall_strays(each, wall, latest_due, latest_parked) for each in self._strayed
        }
        self._strayed = [each for each, number in recalled.items() if number]
        return sum(recalled.values())

    def next_time(self) -> float | None:
        """When the next host on the workbench is ready (monotonic)."""
        if self._now < self._held_until and self.waiting_in_front():
            return self._held_until
        return self.workbench.next_time()

    def _refill_or_gather(self, now: float, wall: float) -> bool:
        """Whether hosts came to the workbench. Links that gathered are taken in until some come,
        and no more of them: taking in those of one partition is a long step already.
        """
        partitions = self.partitions.values()
        return any(
            partition.take_gathered() and self._refill(now, wall) for partition in partitions
        ) or self._refill(now, wall)

    def _take_gathered(self) -> None:
        for partition in self.partitions.values():
            partition.take_gathered()

    def wake_due(self, wall: float) -> None:
        """Puts back what is due in the partition where something has been due for longest; what
        is due besides is due at the next call.
        """
        min(self.partitions.values(), key=Partition.next_due).wake_due(wall)

    def next_due(self) -> int:
        """When the first retry, refetch, re-examination or awakening is due, in crawl time.
        Asked at every turn of the loop.
        """
        return min([queue.earliest for queue in self._alarms], default=NEVER_DUE)

    def waiting_in_front(self) -> int:
        """Hosts in front queues and in lines of addresses."""
        self._take_gathered()
        return sum(len(p.front) + len(p.lines) for p in self.partitions.values())

    def snapshot(self, now: float) -> FrontierSnapshot:
        """Counts, for progress and metrics."""
        hosts = self.workbench.hosts()
        return FrontierSnapshot(
            benched=len(hosts),
            ready=sum(
                v.next_time <= now and v.record.state is not HostState.SNOOZED for v in hosts
            ),
            snoozed=sum(v.record.state is HostState.SNOOZED for v in hosts)
            + sum(p.counters.hosts_asleep for p in self.partitions.values()),
            front=sum(len(p.front) for p in self.partitions.values()),
            in_process=len(self.in_process),
        )

    def _has_waiting(self) -> bool:
        return any(len(partition.front) for partition in self.partitions.values())

    def _is_spent(self, host: VisitState) -> bool:
        visits = self._visits[host.host8] = self._visits.get(host.host8, 0) + 1
        front = host.record.front
        if visits >= QUANTUM or len(self.workbench) >= self._required:
            return True
        # A host that has fetched its important URLs gives its place to those that still have some.
        return front is not None and host.best_band > front[0]

    def _refill(self, now: float, wall: float) -> bool:
        """Moves hosts from front queues and lines to the workbench, one a turn; says whether any
        came.
        """
        room, moved, idle = min(_PULL, self.capacity - len(self.workbench)), 0, 0
        # more turns than there is room: who comes may go to sleep, or to a line
        for _ in range(2 * _ROUNDS * _PULL):
            if moved >= room or idle == 2:
                break
            self._is_line_turn = not self._is_line_turn
            turn = self._line_turn(now, wall) if self._is_line_turn else self._front_turn(now, wall)
            idle = idle + 1 if turn is None else 0
            moved += turn is True
        if moved:
            self._required = min(self.capacity, max(self._required, len(self.workbench)))
        return moved > 0

    def _next_waiting(self) -> Partition | None:
        """The partition whose turn it is, of those with waiting hosts: each has its turn before
        any has another.
        """
        return next(
            (
                partition
                for partition in islice(self._turns, len(self.partitions))
                if len(partition.front)
            ),
            None,
        )

    def _front_turn(self, now: float, wall: float) -> bool | None:
        """One turn of the front queues: whether a host came to the workbench, ``None`` when
        nobody waits.
        """
        partition = self._next_waiting()
        if partition is None:
            return None
        return any(
            self._bench(partition, host8, now, wall, from_front=True)
            for host8 in partition.front.pull_hosts(1)
        )

    def _line_turn(self, now: float, wall: float) -> bool | None:
        """One turn of the lines, in the same words; ``None`` also when no address has room."""
        address = self._lines.first_address(self._has_room)
        pulled = self._lines.pull_host(address) if address is not None else None
        return (
            self._bench(self.partitions[pulled[0]], pulled[1], now, wall)
            if pulled is not None
            else None
        )

    def _bench(
        self, partition: Partition, host8: bytes, now: float, wall: float, from_front: bool = False
    ) -> bool:
        """A host whose turn has come; whether it came to the workbench. It may sleep, or wait
        for room at its address, instead.
        """
        host = partition.visits.find_host(host8)
        if host is None or host.benched:
            return False
        host.pulled = True
        if not host.may_be_visited:
            partition.settle_host(host)  # it lines up again when it is reopened
            return False
        if max(host.record.next_at, host.record.rest_at) > wall + self.longest_wait_s:
            host.bound_wait(wall, self.longest_wait_s)
            partition.visits.mark_changed(host)
        held = self._not_before.pop(host.name, 0.0)
        if self._held_until and now < self._held_until + self.longest_wait_s:
            held = max(held, self._held_until + self._delay_of(host))
        host.next_time = max(host.next_time, now + max(host.record.next_at - wall, 0.0), held)
        host.rest_time = max(host.rest_time, now + max(host.record.rests_until - wall, 0.0), held)
        if self._sleeps(host):
            return False
        address = host.record.address
        if from_front and (self.workbench.is_full(address) or self._lines.is_waited_for(address)):
            self._send_to_line(partition, host)
            return False
        self.workbench.put_host(host)
        self.on_benched(host.name)
        return True
