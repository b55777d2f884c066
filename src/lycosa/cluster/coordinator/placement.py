"""Which node runs which shard.

It is decided here for liveness and enforced by the log for safety:

    free -> given to a node (a new number) -> leaving -> free
              `-> the node is silent for too long -> free

An assignment is a number, greater than all before it: the coordinator's number in the upper half, a
count in the lower. So no two coordinators can give the same number, and of two nodes that claim a
shard, the one with the greater number has it. Reports of nodes take precedence over the memory of
this coordinator. A number greater than the known one is the decision of another coordinator and is
adopted.

A coordinator that starts assigns nothing for one node timeout; by then all living nodes have
reported what they run. A coordinator that was stopped for that long does the same, because it
cannot know which nodes were silent meanwhile.
"""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from lycosa.base.messages.control_records import EndSaved, FormatsSaved, SettingsSaved
from lycosa.base.messages.coordinator_messages import (
    Assignments,
    NodeReport,
    ShardReport,
    ShardState,
)
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.cluster.coordinator.candidates import Candidates
from lycosa.cluster.coordinator.node_view import (
    STALE_REPORT_S,
    ClockState,
    NodeView,
    majority_clock,
)

COUNT_BITS = 32
"""Bits of a number that a coordinator gives for its own count; its own number is above them."""
_RENDER = "render."  # live settings of this section go to nodes
_FORGOTTEN_S = 3600.0  # after that a node that was lost is no longer shown


class ShardPlace:
    """One shard.

    ``node`` is empty while it has none; ``leaving`` is the version of the list that took it from
    its node (0 = none).
    """

    __slots__ = ("assignment", "leaving", "node", "report", "running_since", "shard", "wanted")

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.node = ""  # only ``Placement._put`` changes it
        self.assignment = 0
        self.leaving = 0
        self.wanted = ""  # the node that an operator chose
        self.running_since: float | None = None  # when its owner was first reported as running
        self.report: ShardReport | None = None  # the node's report of this assignment

    def __repr__(self) -> str:
        return f"<Place {self.node or '-'} assignment={self.assignment} leaving={self.leaving}>"

    @property
    def is_over(self) -> bool:
        """Whether its worker reached the end of the crawl."""
        return self.report is not None and self.report.state is ShardState.ENDED

    @property
    def has_failed(self) -> bool:
        """Whether its worker cannot continue, and a restart would not help."""
        return self.report is not None and self.report.state is ShardState.FAILED

    @property
    def is_unable(self) -> bool:
        """Whether its node cannot run it, for a reason of that machine."""
        return self.report is not None and self.report.is_local


class Placement:
    """All shards and nodes.

    ``number`` is the coordinator's; ``is_first``: there was none before, so nothing runs yet.
    """

    def __init__(
        self, number: int, shards: int, rules: ClusterRules, now: float, is_first: bool = False
    ) -> None:
        self._number = number
        self._rules = rules
        self._render: dict[str, str] = {}
        self._count = 0
        self._version = 0
        self._timeout_s = rules.node_timeout_s or math.inf
        self._quiet_until = now + (0.0 if is_first else rules.node_timeout_s)
        self._ticked = now
        self.places = [ShardPlace(shard) for shard in range(shards)]
        self._held: defaultdict[str, set[int]] = defaultdict(set)  # the shards of each node
        self.nodes: dict[str, NodeView] = {}
        self._draining: set[str] = set()  # names of nodes, also of some that are not there
        self.worker_deaths = 0
        """Worker processes of all nodes that died, also of nodes that are forgotten since."""
        self.is_ending = False
        self._own_clock = math.inf  # its wall clock minus its monotonic one, at the last tick
        # the coordinator's clock minus that of the majority
        self._clock_error_s: float | None = 0.0
        self.is_changed = False
        """Whether a node's list may have changed since this was last reset."""

    def __repr__(self) -> str:
        return f"<Placement {dict(enumerate(self.places))} {list(self.nodes.values())}>"

    # -- what nodes say

    def record_report(self, name: str, report: NodeReport, now: float) -> None:
        node = self.nodes.setdefault(name, NodeView(name, name in self._draining))
        deaths = node.deaths
        # An older report than the last one, or of an older process of the node: it says nothing
        # about now.
        if not node.record_report(report, now, self._timeout_s, self._travel_s(report, now)):
            return
        self.worker_deaths += node.deaths - deaths
        node.version = node.version or self._next_version()
        for each in report.shards:
            if 0 <= each.shard < len(self.places):
                self._compare(node, self.places[each.shard], each, now)
        if running := node.shards:
            node.is_admitted = True  # an earlier coordinator admitted it
        # Each coordinator numbers its lists from the beginning, so the version of an earlier one
        # means nothing.
        obeyed = report.obeyed if report.coordinator == self._number else 0
        for shard in self._held[name] - running.keys():
            # it was not started yet, or the node's program was restarted
            place = self.places[shard]
            place.report = None
            # The node has the list without the shard, and does not run it: only now may another
            # node start it.
            if place.leaving and obeyed >= place.leaving:
                self._free(place)

    def _travel_s(self, report: NodeReport, now: float) -> float | None:
        """A bound of the time since the report was made.

        ``None`` when the report may be of any age: the node has not heard this coordinator, or the
        coordinator's machine was suspended meanwhile. A node of the version before does not give
        back the time that it heard.
        """
        if report.coordinator != self._number:
            return None
        travel_s = now - report.echo - report.echo_age_s if report.echo else math.inf
        return travel_s if travel_s >= -STALE_REPORT_S else None

    def _compare(self, node: NodeView, place: ShardPlace, report: ShardReport, now: float) -> None:
        """Compare a node's report of a shard with the known state."""
        if report.assignment < place.assignment or report.state is ShardState.STOPPING:
            return  # by its list the shard is no longer the node's
        # Assigned by an earlier coordinator. The node runs it, so taking it over costs nothing, and
        # moving it a hold.
        if report.assignment > place.assignment or not place.node:
            self._change(self.nodes.get(place.node))
            self._put(place, node.name)
            place.assignment, place.leaving = report.assignment, 0
            self._change(node)
        if place.node == node.name:
            if report.state is not ShardState.RUNNING:
                place.running_since = None
            elif place.running_since is None or _is_other_owner(place.report, report):
                place.running_since = now
            place.report = report
            if report.is_local:
                node.note_trouble(report, now)

    # -- what an operator says

    def drain_node(self, name: str, is_over: bool) -> None:
        """Take the node's shards away, or allow it to have some again.

        The node may report later, or never: it may be gone since an earlier coordinator's time.
        """
        (self._draining.discard if is_over else self._draining.add)(name)
        if (node := self.nodes.get(name)) is not None:
            node.is_draining = not is_over

    def move_shard(self, shard: int, name: str) -> None:
        """Assign the shard to that node as soon as the node can have it."""
        place = self.places[shard]
        place.wanted = name
        if place.has_failed and place.node == name:
            self._give(place, self.nodes[name])  # try again there

    # -- what is decided

    @property
    def are_over(self) -> bool:
        """Whether all workers have ended and stay so; a failed one counts when the crawl ends."""
        stay_so = self.is_ending or not self._rules.restarts
        return stay_so and all(
            place.is_over or (place.has_failed and self.is_ending) for place in self.places
        )

    def worker_ends(self) -> list[str]:
        """How the workers that have ended did so."""
        return [
            place.report.end for place in self.places if place.report is not None and place.is_over
        ]

    def is_quiet(self, now: float) -> bool:
        """Whether assigning is suspended."""
        return now < self._quiet_until

    def tick(self, now: float, wall: float) -> None:
        """Drop silent nodes, move shards, and assign those without a node."""
        # This process stood still. Reports may wait unread, and without them every node would look
        # silent.
        if now - self._ticked > self._timeout_s / 2:
            self._quiet_until = now + self._timeout_s
        self._ticked = now
        self._judge_clocks(wall - now)
        if self.is_quiet(now):
            return
        for node in self.nodes.values():
            if not node.is_lost and now - node.heard > self._timeout_s:
                node.is_lost = True
                self._change(node)
                for place in [self.places[shard] for shard in self._held[node.name]]:
                    if not place.is_over:
                        self._free(place)
        self._admit(now)
        self._restart_workers()
        candidates = Candidates(self.nodes.values(), self._rules, self._load, now)
        self._send_away(candidates)
        for place in self.places:
            if not place.node and (chosen := candidates.choose("", place.wanted)) is not None:
                self._give(place, chosen)
                candidates.note_load(chosen.name)

    def _judge_clocks(self, own: float) -> None:
        """Find whose clock is wrong, the coordinator's (``own``) or that of some nodes."""
        if abs(own - self._own_clock) > STALE_REPORT_S:
            # Its wall clock was set, or its monotonic clock stood still because the machine was
            # suspended: then reports of before and after cannot be compared.
            for node in self.nodes.values():
                node.forget_clock()
        self._own_clock = own
        tolerance_s = self._rules.clock_off_s
        spans = [node.span for node in self.nodes.values() if node.has_clock and not node.is_lost]
        right = majority_clock(own, spans, tolerance_s)
        self._clock_error_s = None if right is None else own - right
        for node in self.nodes.values():
            node.judge_clock(own, right, tolerance_s)

    def _admit(self, now: float) -> None:
        """Admit nodes in the order in which they reported, up to the maximum number."""
        for node in list(self.nodes.values()):
            has_none = not self._load(node.name)
            # Its place is kept for a restart, so that two nodes that restart in turn do not change
            # places.
            if node.is_lost and now - node.heard > self._rules.vacant_s:
                node.is_admitted = False
                if has_none and now - node.heard > _FORGOTTEN_S:
                    del self.nodes[node.name]
                    del self._held[node.name]
            elif (node.is_draining or node.is_leaving) and has_none and not node.shards:
                node.is_admitted = False
        # Counted once: each admission below lowers it.
        free = self._room()
        for node in self.nodes.values():
            may_come = not (
                node.is_admitted
                or node.is_lost
                or node.is_draining
                or node.report is None
                or node.is_refused(self._rules)
            )
            if free > 0 and may_come:
                node.is_admitted = True
                self._change(node)
                free -= 1

    @property
    def most_nodes(self) -> int:
        """The maximum number of nodes that have shards."""
        return self._rules.most_nodes

    def _room(self) -> int:
        """How many more nodes may be admitted."""
        return self._rules.most_nodes - sum(node.is_admitted for node in self.nodes.values())

    def _restart_workers(self) -> None:
        """Let workers that ended start again, under a new assignment number.

        Those that end as ``ASKING`` were fenced, or do not know the outcome of an append. The
        others ended with a crawl that continues.
        """
        for place in self.places:
            if place.node and not place.leaving and place.report is not None:
                node = self.nodes[place.node]
                is_resumed = place.is_over and not self.is_ending and self._rules.restarts
                # The crawl continues, and the node that ended the shard is draining or refused now.
                if is_resumed and not node.may_have(self._rules):
                    self._free(place)
                elif is_resumed or place.report.state is ShardState.ASKING:
                    self._give(place, node)

    def _send_away(self, candidates: Candidates) -> None:
        """Take shards from nodes that should not have them, one at a time unless it is urgent."""
        # a shard without a node is about to change the loads
        is_moving = any(place.leaving or not place.node for place in self.places)
        for place in self.places:
            # A shard that fails everywhere is not moved around: it would end workers on each node
            # in turn.
            stays_failed = place.has_failed and not place.is_unable
            is_kept = place.is_over or (stays_failed and place.wanted in ("", place.node))
            if not place.node or place.leaving or is_kept:
                continue
            node = self.nodes[place.node]
            other = candidates.choose(place.node, place.wanted)
            is_better = (
                other is not None
                and other is not node
                and self._should_move(place, node, other, is_moving)
            )
            if node.is_refused(self._rules) or is_better:
                place.leaving = self._change(node)
                is_moving = True

    def _should_move(
        self, place: ShardPlace, node: NodeView, other: NodeView, is_moving: bool
    ) -> bool:
        if node.must_lose(self._rules) or place.wanted == other.name:
            return True
        if place.is_unable:  # it is not sent from one node in trouble to the next
            return not other.is_troubled(self._ticked)
        is_settled = self._is_settled(place)
        # A difference of one cannot become smaller by a move.
        is_uneven = self._load(node.name) - self._load(other.name) >= 2
        return (
            self._rules.balances and is_settled and is_uneven and not is_moving and not place.wanted
        )

    def _is_settled(self, place: ShardPlace) -> bool:
        """Whether a move does not make the shard's hosts wait again.

        After an unclean takeover they wait, and the next owner of a shard that is still waiting
        starts from the beginning. The first owner of a shard never waits.
        """
        if place.report is None or place.running_since is None:
            return False
        return place.report.term == 1 or self._ticked - place.running_since >= self._rules.vacant_s

    def _load(self, name: str) -> int:
        """The number of shards that the node has."""
        return len(self._held[name])

    def _put(self, place: ShardPlace, name: str) -> None:
        """Let the node of that name have the shard, or none if it is empty."""
        self._held[place.node].discard(place.shard)
        self._held[name].add(place.shard)
        place.node = name

    def _give(self, place: ShardPlace, node: NodeView) -> None:
        self._count += 1
        self._put(place, node.name)
        place.assignment = (self._number << COUNT_BITS) + self._count
        place.leaving, place.report = 0, None
        self._change(node)

    def _free(self, place: ShardPlace) -> None:
        self._put(place, "")
        place.leaving, place.report = 0, None

    def _change(self, node: NodeView | None) -> int:
        """Mark the node's list as changed; returns its new version."""
        if node is None:
            return 0
        node.version = self._next_version()
        self.is_changed = True
        return node.version

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def refusal(self, node: NodeView) -> str:
        """Why the node gets no shards; empty when it may have some."""
        return node.refusal(self._rules, node.is_admitted or self._room() > 0)

    @property
    def clock(self) -> ClockState:
        """What the clocks of the nodes say of the coordinator's."""
        if self._clock_error_s is None:
            return ClockState.DOUBTED
        # the coordinator's is the right one if it is one of the majority
        return ClockState.RIGHT if self._clock_error_s == 0.0 else ClockState.WRONG

    @property
    def clock_alarm(self) -> str:
        """A line for the operator when the coordinator's clock is wrong or doubted, else empty."""
        if self._clock_error_s is None:
            return (
                "the clocks of the coordinator and of the nodes differ by more than"
                f" {self._rules.clock_off_s:g} s, and there is no majority that says which one is"
                " right: nodes keep the shards that they run and get no others; synchronise all"
                " clocks (NTP)"
            )
        if self._clock_error_s == 0.0:
            return ""
        way = "ahead of" if self._clock_error_s > 0 else "behind"
        return (
            f"the clock of the coordinator is {abs(self._clock_error_s):.1f} s {way} those of most"
            " nodes: they keep their shards, and their clocks are taken for right; synchronise the"
            " clock of the coordinator (NTP)"
        )

    def change_all(self) -> None:
        for node in self.nodes.values():
            self._change(node)

    @property
    def rules(self) -> ClusterRules:
        """The rules that apply now."""
        return self._rules

    def raise_formats(self, number: int) -> FormatsSaved:
        """Let these formats be in force, unless newer ones are; all nodes receive them."""
        formats = max(number, self._rules.formats)
        self._rules = msgspec.structs.replace(self._rules, formats=formats)
        self.change_all()
        return FormatsSaved(formats)

    def follow_settings(self, settings: SettingsSaved) -> None:
        """Give new shards only to nodes that have the code of these settings; all receive it, and
        the settings of rendering."""
        render = {k: v for k, v in settings.values.items() if k.startswith(_RENDER)}
        if settings.code != self._rules.code or render != self._render:
            self._rules = msgspec.structs.replace(self._rules, code=settings.code)
            self._render = render
            self.change_all()

    def list_for(self, node: NodeView, end: EndSaved, now: float) -> Assignments:
        """Everything that the node should run, and how the crawl ends."""
        shards = {
            shard: self.places[shard].assignment
            for shard in sorted(self._held[node.name])
            if not self.places[shard].leaving
        }
        return Assignments(
            self._number,
            node.version,
            node.report.serial if node.report is not None else 0,
            shards,
            end.end,
            end.at_once,
            self.are_over,
            self.refusal(node),
            self.rules.formats,
            now,
            self.rules.code,
            self._render,
        )


def _is_other_owner(before: ShardReport | None, after: ShardReport) -> bool:
    return before is None or (before.assignment, before.term) != (after.assignment, after.term)
