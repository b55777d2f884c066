"""The frontier of one worker: its partitions' front queues above one workbench.

``acquire`` returns a host that may be fetched now. ``release`` returns it with the time from which
it may be fetched again. The workbench has no more hosts than fetching needs. It grows when a slot
finds no ready host while hosts wait in front queues (the required front size of BUbiNG). While
others wait, a host leaves the workbench for the end of its front queue in two cases: after
``QUANTUM`` visits, so that a few large hosts cannot keep the others out, and as soon as its best
URL is of a worse band than the one it came from, so that important URLs of other hosts come first.
Hosts with a long wait sleep outside the workbench. Otherwise hosts that have to wait for hours
would fill it.

Of hosts that share an address, only as many are on the workbench as the address can use
(``resize``). The others wait in the line of the address (``address_lines``). When one of its hosts
leaves the workbench, the next host of the line enters it.

**Bound.** Front queues are served one host a turn, and every partition with waiting hosts has a
turn before any has a second one. So a host with the ``n``-th place of band ``b`` is pulled after at
most ``n * 2 ** (b + 1) * partitions`` turns of the worker, or that number divided by the share of
its kind while hosts wait for new pages and for due ones (``front_queues``). A turn is due
whenever a slot finds no ready host, and each host makes room after at most ``QUANTUM`` visits. So
with ``m`` hosts on the workbench, ``t`` turns have come after at most ``QUANTUM * (t + m)`` visits.
A host that was pulled is visited when its own delay and that of its address are over. Divided by
the rate of turns, or of visits, this gives a time. No host, however large, and no number of hosts
in better bands lengthens it. Lines take at most every second of the turns that are due because no
host is ready, so with lines the numbers of turns above double. When a host's address is full, its
turn moves it to the end of a band of its address's line. There the same bound holds again, in turns
of the line. The line has a turn for each host of the address that leaves the workbench, after at
most ``QUANTUM`` visits, and its partitions take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle, islice
from math import ceil, inf

import msgspec

from lycosa.base.messages.progress import PromiseNote
from lycosa.stages.frontier.address_lines import LineTurns
from lycosa.stages.frontier.due import NEVER_DUE
from lycosa.stages.frontier.impossible_waits import repair_impossible_waits
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.policy_walk import DelayOf, worst_promises
from lycosa.stages.frontier.turn_shares import FIRST_DUE
from lycosa.stages.frontier.visit_state import HostState, VisitState
from lycosa.stages.frontier.workbench import Workbench

_PULL = 64
_ROUNDS = 20
QUANTUM = 32  # visits after which a host makes room while others wait
_LONGEST_WAIT_S = 86_400.0
LONGEST_DUE_S = 366 * 86_400.0
_ADDRESS_SHARE = 8  # hosts of one address have at most 1/8 of the places on the workbench
_WALKED = 100  # records in one step of a change of policies: 5 ms
_MANY = 256  # hosts on the workbench of which some have URLs that are not set back
_SLEEP_S = 120.0  # a host with a longer wait sleeps


class FrontierSnapshot(msgspec.Struct, frozen=True):
    """Counts of hosts: on the workbench, ready and snoozed; in front queues; in visits."""

    on_workbench: int
    ready: int
    snoozed: int
    front: int
    in_process: int


class Frontier:
    """The partitions of one worker and their common workbench.

    Times are ``now`` (monotonic) and ``wall`` (crawl time, see ``crawl_clock``). ``longest_wait_s``
    is the longest time for which a host can have to wait, ``longest_due_s`` for a URL.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        workbench: Workbench,
        capacity: int,
        address_hosts: float = inf,
        longest_wait_s: float = _LONGEST_WAIT_S,
        longest_due_s: float = LONGEST_DUE_S,
        on_workbench: list[str] | None = None,
    ) -> None:
        """``address_hosts`` is the number of hosts of one address that can be of use at a time.

        ``on_workbench`` gets the name of each host that enters the workbench, so that the worker
        can look up names before they are needed.
        """
        self.partitions: Mapping[int, Partition] = {p.number: p for p in partitions}
        for partition in self.partitions.values():
            partition.recall_host = self.recall_host
        self._lines = LineTurns((p.number, p.lines) for p in self.partitions.values())
        self._address_hosts = address_hosts
        self._is_line_turn = False
        self.workbench = workbench
        self._alarms = [
            queue
            for partition in self.partitions.values()
            for queue in (*partition.alarms, partition.probes)
        ]
        self._fronts = [partition.front for partition in self.partitions.values()]
        self._gathered = [partition.take_gathered for partition in self.partitions.values()]
        self._required = _PULL
        self.resize(capacity)
        self._turns = cycle(self.partitions.values())
        self._visits: dict[bytes, int] = {}
        self._not_before: dict[str, float] = {}
        self._held_until = 0.0
        self._delay_of: Callable[[VisitState], float] = lambda _: 0.0  # after that
        self._now = self._wall = 0.0  # of the last ``acquire``
        self.in_process: dict[bytes, VisitState] = {}
        self.longest_wait_s, self.longest_due_s = longest_wait_s, longest_due_s
        self._impossible = list(self.partitions.values())  # those that may have impossible times
        self._benched = on_workbench
        self._walking: list[Partition] = []  # changed policies are applied to their records
        self.follow_policies()

    def __repr__(self) -> str:
        return (
            f"<Frontier {self.workbench!r} required={self._required}"
            f" in_process={len(self.in_process)}>"
        )

    def hold_back(self, not_before: Mapping[str, float]) -> None:
        """Hold hosts contacted shortly before a restart, until the given monotonic times."""
        self._not_before.update(not_before)

    def hold_all(self, until: float, delay_of: Callable[[VisitState], float]) -> None:
        """Hold all hosts until ``until`` (monotonic), after an unclean takeover.

        A previous owner may still be requesting any host until then. So there is no visit before,
        and every host, whenever it is met, then waits for ``delay_of`` it in seconds. This must be
        called before the first ``acquire``.
        """
        assert not len(self.workbench) and not self.in_process, (
            "a hold comes before the first visit"
        )
        self._held_until, self._delay_of = until, delay_of

    def resize(self, capacity: int) -> None:
        """Set the maximum number of hosts on the workbench, and with it the share of one address.

        Hosts beyond it leave after their next visit. A few hosts for each slot of an address are
        always allowed.
        """
        self.capacity = capacity
        self._required = min(self._required, capacity)
        self.workbench.max_hosts_of_address = max(
            4 * self.workbench.address_slots, min(self._address_hosts, capacity // _ADDRESS_SHARE)
        )

    def drop_caches(self) -> None:
        """Drop what is kept only to save lookups: idle visit states and the bounds of hosts."""
        for partition in self.partitions.values():
            partition.visits.drop_caches()
            partition.bounds.clear()

    def acquire(self, now: float, wall: float) -> VisitState | None:
        """A host that is ready, or ``None``. The caller returns it by ``release``."""
        self._now, self._wall = now, wall
        if now < self._held_until:
            # No host enters the workbench either: it would fill up with waiting hosts, which would
            # then be put to sleep.
            return None
        host = self.workbench.acquire(now)
        # Only when no host is ready: a refill reads the table, and a visit that is possible now is
        # never late for it.
        if host is None and self._refill_or_gather(now, wall):
            host = self.workbench.acquire(now)
        if host is not None:
            self.in_process[host.host8] = host
            if host.next_time <= now:  # else its turn is for an errand
                self.partitions[host.partition].set_aside_hosts.wake(host)
        return host

    def recall_host(self, host: VisitState) -> None:
        """Let a host have a turn before the end of its wait, for an errand or an answer."""
        if host.in_process:
            return  # ``give_back`` will handle it
        if host.on_workbench:
            self.workbench.move_host(host)
        else:
            self.partitions[host.partition].places.recall_host(host)

    def release(self, host: VisitState, next_time: float, wall_next: float) -> None:
        """Return a host after a request.

        It may be fetched again at ``next_time`` (monotonic), which is ``wall_next`` in crawl time.
        """
        host.next_time = host.rest_time = next_time
        host.record.next_at = host.record.rest_at = wall_next
        self.give_back(host)

    def give_back(self, host: VisitState) -> None:
        """Return a host whose times are set already, or whose visit ended without a request."""
        partition = self.partitions[host.partition]
        # Before anything that may put the host elsewhere: a host is in one place only.
        del self.in_process[host.host8]
        if host.is_judged:
            self._rest_for_copies(partition, host)
        self.workbench.leave_address(host)
        if not partition.settle_host(host) or self._sleeps(host):
            self._visits.pop(host.host8, None)
            return
        address = host.record.address
        is_waited_for = self._lines.is_waited_for(address)
        is_spent = self._is_spent(host)
        if self.workbench.is_full(address) or (is_spent and is_waited_for):
            self._send_to_line(partition, host)
        # Others wait, so the host goes to the end of its front queue. Without others, the workbench
        # keeps it and saves the writes.
        elif is_spent and self._has_waiting():
            self._visits.pop(host.host8, None)
            partition.places.rotate_host(host)
        else:
            self.workbench.put_host(host)
        if is_waited_for:
            # At once, because the address would otherwise idle until a slot finds no ready host.
            self._fill_from_line(address)

    def _rest_for_copies(self, partition: Partition, host: VisitState) -> None:
        """Let a host rest for longer whose pages are mostly copies of others."""
        delay_s = host.next_time - self._now
        host.rest_band = -1
        if rest_s := partition.copies.rest_s(host, delay_s, self._others_wait):
            # A sitemap or a check ends it, and where all URLs are set back, any other URL.
            host.rest_band = 0 if host.is_set_back else FIRST_DUE
            host.resumes_at = host.next_time
            host.next_time = max(host.next_time, self._now + rest_s)
            host.record.next_at = max(host.record.next_at, self._wall + rest_s)
        host.is_leased = False

    def _others_wait(self) -> bool:
        """Whether hosts have URLs that are not set back, besides the one that is given back."""
        bench = self.workbench
        # Among so many there is one. To look at all of them would take a millisecond.
        if self._has_waiting() or len(bench) > _MANY:
            return True
        return any(not each.is_set_back for each in (*self.in_process.values(), *bench.hosts()))

    def _send_to_line(self, partition: Partition, host: VisitState) -> None:
        """Let the host wait for room at its address, or for its turn there."""
        self._visits.pop(host.host8, None)
        partition.places.rotate_host(host, host.record.address)
        self._lines.note_line_up(host.record.address)

    def _fill_from_line(self, address: str) -> None:
        """Move hosts of an address to the workbench as far as there is room.

        The last places are left to ``_refill``, where front queues have turns.
        """
        # Otherwise addresses with many hosts would fill the workbench, and front queues would never
        # have a turn.
        last = self.capacity - _PULL if self._has_waiting() else self.capacity
        while len(self.workbench) < last and not self.workbench.is_full(address):
            pulled = self._lines.pull_host(address)
            if pulled is None:
                return
            self._put_on_workbench(self.partitions[pulled[0]], pulled[1], self._now, self._wall)

    def _has_room(self, address: str) -> bool:
        return len(self.workbench) < self.capacity and not self.workbench.is_full(address)

    def _sleeps(self, host: VisitState) -> bool:
        """Put the host to sleep outside the workbench if its wait is long; return whether it is."""
        wait = host.ready_time - self._now
        if wait > _SLEEP_S:
            # The hold after a restart is known only in memory, and an errand may end the sleep. So
            # the rest is stored.
            host.record.rest_at = max(
                host.record.rests_until, self._wall + host.rest_time - self._now
            )
            self.partitions[host.partition].places.sleep_host(host, ceil(self._wall + wait))
        return wait > _SLEEP_S

    def repair_impossible_waits(self, wall: float) -> int:
        """Make some waits that are impossibly long due now; return their number.

        Without any, this costs one lookup per run.
        """
        if not self._impossible:
            return 0
        latest_due, latest_parked = (
            ceil(wall + self.longest_due_s),
            ceil(wall + self.longest_wait_s),
        )
        repaired_waits = {
            each: repair_impossible_waits(each, wall, latest_due, latest_parked)
            for each in self._impossible
        }
        self._impossible = [each for each, number in repaired_waits.items() if number]
        return sum(repaired_waits.values())

    def follow_policies(self) -> None:
        """Begin to apply the refetch policies of the partitions' rules, where they are new."""
        self._walking = [each for each in self.partitions.values() if each.follow_policies()]

    @property
    def walks_policies(self) -> bool:
        """Whether changed policies are being applied to records."""
        return bool(self._walking)

    def step_policies(self, wall: float, delay_of: DelayOf) -> None:
        """Apply changed policies to the next records."""
        walk = self._walking[0].policy_walk
        walk.step(wall, _WALKED, delay_of)
        if walk.is_done:
            self._walking.pop(0)

    def policy_records_left(self) -> int:
        """About how many records changed policies are not applied to yet."""
        return sum(
            max(each.counters.discovered - each.policy_walk.row.seen, 0) for each in self._walking
        )

    def broken_promises(self) -> list[PromiseNote]:
        """Hosts whose pages were promised more fetches than the host has turns."""
        rows = [each.policy_walk.row for each in self.partitions.values()]
        return worst_promises([note for row in rows for note in row.promises])

    def next_time(self) -> float | None:
        """The time (monotonic) at which the next host on the workbench is ready."""
        if self._now < self._held_until and self.waiting_in_front():
            return self._held_until
        return self.workbench.next_time()

    def _refill_or_gather(self, now: float, wall: float) -> bool:
        """Move hosts to the workbench; return whether any came.

        Gathered links are taken in only until some hosts come, because those of one partition are a
        long step already.
        """
        for take_gathered in self._gathered:
            if take_gathered() and self._refill(now, wall):
                return True
        return self._refill(now, wall)

    def _take_gathered(self) -> None:
        for take_gathered in self._gathered:
            take_gathered()

    def wake_due(self, wall: float) -> None:
        """Put back what is due in the partition that has the earliest due time.

        Other partitions follow at the next calls.
        """
        min(self.partitions.values(), key=Partition.next_due).wake_due(wall)

    def next_due(self) -> int:
        """Crawl time of the first retry, refetch, or end of a host's wait.

        It is asked at every turn of the loop.
        """
        return min([queue.earliest for queue in self._alarms], default=NEVER_DUE)

    def next_event_s(self, now: float, wall: float) -> float:
        """Seconds until a host is ready or anything is due."""
        ready, due_s = self.next_time(), self.next_due() - wall
        return due_s if ready is None else min(ready - now, due_s)

    def has_work(self, now: float, wait: float) -> bool:
        """Whether a host is ready within ``wait``, or anything but a due time may make work."""
        if any(partition.counters.asking for partition in self.partitions.values()):
            return True  # an answer or its deadline will come
        if self.walks_policies:
            return True  # it may find pages that are due
        if any(partition.cold.returning for partition in self.partitions.values()):
            return True  # their records are being read
        ready = self.next_time()
        if self.waiting_in_front() and (ready is None or ready > now):
            return True
        return ready is not None and ready <= now + wait

    def waiting_in_front(self) -> int:
        """Number of hosts in front queues and in lines of addresses."""
        self._take_gathered()
        return sum(len(p.front) + len(p.lines) for p in self.partitions.values())

    def snapshot(self, now: float) -> FrontierSnapshot:
        """Counts for progress and metrics.

        Parked, retired and paused hosts are counted by their partition, not here, also while they
        run errands or a visit ends.
        """
        on_workbench = self.workbench.hosts()
        hosts = [each for each in on_workbench if each.may_wait]
        return FrontierSnapshot(
            on_workbench=len(on_workbench),
            ready=sum(
                v.next_time <= now and v.record.state is not HostState.SNOOZED for v in hosts
            ),
            snoozed=sum(v.record.state is HostState.SNOOZED for v in hosts)
            + sum(p.counters.hosts_asleep for p in self.partitions.values()),
            front=sum(len(p.front) for p in self.partitions.values()),
            in_process=sum(each.may_wait for each in self.in_process.values()),
        )

    def _has_waiting(self) -> bool:
        # a loop, because a generator would be a call for each partition, at every turn
        for front in self._fronts:  # noqa: SIM110
            if front.count:
                return True
        return False

    def _is_spent(self, host: VisitState) -> bool:
        visits = self._visits[host.host8] = self._visits.get(host.host8, 0) + 1
        front = host.record.front
        if visits >= QUANTUM or len(self.workbench) >= self._required:
            return True
        # A host that has fetched its important URLs, or its due pages, makes room for hosts that
        # still have some.
        return front is not None and not host.queue.has_as_good(front[0])

    def _refill(self, now: float, wall: float) -> bool:
        """Move hosts from front queues and lines to the workbench; return whether any came."""
        room, moved, idle = min(_PULL, self.capacity - len(self.workbench)), 0, 0
        # More turns than places, because a pulled host may be put to sleep or into a line.
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
        """The partition with waiting hosts whose turn it is.

        Each has a turn before any has a second one.
        """
        for partition in islice(self._turns, len(self.partitions)):
            if partition.front.count:
                return partition
        return None

    def _front_turn(self, now: float, wall: float) -> bool | None:
        """One turn of the front queues.

        Returns whether a host entered the workbench, ``None`` if none waits.
        """
        partition = self._next_waiting()
        if partition is None:
            return None
        return any(
            self._put_on_workbench(partition, host8, now, wall, from_front=True)
            for host8 in partition.front.pull_hosts(1)
        )

    def _line_turn(self, now: float, wall: float) -> bool | None:
        """One turn of the lines, with the same result; ``None`` also when no address has room."""
        address = self._lines.first_address(self._has_room)
        pulled = self._lines.pull_host(address) if address is not None else None
        return (
            self._put_on_workbench(self.partitions[pulled[0]], pulled[1], now, wall)
            if pulled is not None
            else None
        )

    def _put_on_workbench(
        self, partition: Partition, host8: bytes, now: float, wall: float, from_front: bool = False
    ) -> bool:
        """Move a pulled host to the workbench; return whether it entered it.

        It may instead sleep, or wait for room at its address.
        """
        host = partition.visits.find_host(host8)
        if host is None or host.on_workbench:
            return False
        host.pulled = True
        if not host.may_be_visited:
            partition.settle_host(host)  # it gets a place again when it is reopened
            return False
        # Stored under a clock that was ahead. The host would be lost for as long as the clock was
        # wrong.
        if max(host.record.next_at, host.record.rest_at) > wall + self.longest_wait_s:
            host.bound_wait(wall, self.longest_wait_s)
            partition.visits.mark_changed(host)
        held = self._not_before.pop(host.name, 0.0)
        # After an unclean takeover: the last request of the previous owner to this host is unknown,
        # so it counts as made at the end of the hold.
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
        if self._benched is not None:
            self._benched.append(host.name)
        return True
