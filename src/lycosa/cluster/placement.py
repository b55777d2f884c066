"""Which node runs which shard: decided here for liveness, and enforced by the log for safety.

    free -> given to a node (a new number) -> leaving -> free
              `-> the node is silent for too long -> free

An assignment is a number, greater than all before it: the coordinator's own number in the upper
half, a count in the lower. So no two coordinators can give the same number, and of two nodes that
claim a shard the one of the greater number has it. What nodes report counts before what this
coordinator remembers: a greater number than it knows is another coordinator's decision, and is
taken over.

A coordinator that starts assigns nothing for one node time-out: by then all nodes that live have
said what they run. One that was stopped itself for that long does the same, because it cannot know
who was silent meanwhile.
"""

from __future__ import annotations

import math

from lycosa.cluster.messages import NodeReport, ShardReport, ShardState
from lycosa.cluster.node_view import NodeView
from lycosa.cluster.rules import ClusterRules

_COUNT_BITS = 32
_OVER = (ShardState.ENDED, ShardState.FAILED)


class Place:
    """One shard. ``node`` is empty while it has none; ``leaving`` is the version of the list
    that took it from its node (0 = none did).
    """

    __slots__ = ("assignment", "leaving", "node", "report", "wanted")

    def __init__(self) -> None:
        self.node = ""
        self.assignment = 0
        self.leaving = 0
        self.wanted = ""  # the node that an operator chose
        self.report: ShardReport | None = None  # what the node says of this assignment

    def __repr__(self) -> str:
        return f"<Place {self.node or '-'} assignment={self.assignment} leaving={self.leaving}>"

    @property
    def is_over(self) -> bool:
        """Whether its worker came to the end of the crawl."""
        return self.report is not None and self.report.state is ShardState.ENDED


class Placement:
    """All shards and nodes. ``number`` is the coordinator's."""

    def __init__(self, number: int, shards: int, rules: ClusterRules, now: float) -> None:
        self._number = number
        self._rules = rules
        self._count = 0
        self._version = 0
        self._timeout_s = rules.node_timeout_s or math.inf
        self._quiet_until = now + rules.node_timeout_s
        self._ticked = now
        self.places = [Place() for _ in range(shards)]
        self.nodes: dict[str, NodeView] = {}

    def __repr__(self) -> str:
        return f"<Placement {dict(enumerate(self.places))} {list(self.nodes.values())}>"

    # -- what nodes say

    def hear(self, name: str, report: NodeReport, now: float, wall: float) -> None:
        """A node's report; ``wall`` is the coordinator's own clock."""
        node = self.nodes.setdefault(name, NodeView(name))
        if not node.hear(report, now, wall, self._timeout_s):
            return
        node.version = node.version or self._next_version()
        for each in report.shards:
            if each.shard < len(self.places):
                self._compare(node, self.places[each.shard], each)
        obeyed = report.obeyed if report.coordinator == self._number else 0
        running = node.shards
        for shard, place in enumerate(self.places):
            if place.node == name and shard not in running:
                place.report = (
                    None  # it was not started yet, or the node's program was started again
                )
                if place.leaving and obeyed >= place.leaving:
                    self._free(place)

    def _compare(self, node: NodeView, place: Place, report: ShardReport) -> None:
        """What a node says of a shard against what is known of it."""
        if report.assignment < place.assignment or report.state is ShardState.STOPPING:
            return  # its list says that it is no longer the node's
        if report.assignment > place.assignment or not place.node:
            self._change(self.nodes.get(place.node))
            place.node, place.assignment, place.leaving = node.name, report.assignment, 0
            self._change(node)
        if place.node == node.name:
            place.report = report

    # -- what an operator says

    def drain(self, name: str, is_over: bool) -> None:
        """The node loses its shards, or may have some again."""
        self.nodes.setdefault(name, NodeView(name)).is_draining = not is_over

    def move(self, shard: int, name: str) -> None:
        """The shard should be that node's, if it can have it."""
        self.places[shard].wanted = name

    # -- what is decided

    def is_quiet(self, now: float) -> bool:
        """Whether nothing is assigned yet, or again."""
        return now < self._quiet_until

    def tick(self, now: float) -> None:
        """Loses silent nodes, moves shards and gives those that have none."""
        if now - self._ticked > self._timeout_s / 2:
            self._quiet_until = now + self._timeout_s
        self._ticked = now
        if self.is_quiet(now):
            return
        for node in self.nodes.values():
            if not node.is_lost and now - node.heard > self._timeout_s:
                node.is_lost = True
                self._change(node)
                for place in self.places:
                    if place.node == node.name and not place.is_over:
                        self._free(place)
        self._answer_asking()
        self._send_away()
        for place in self.places:
            if not place.node and (chosen := self._choose(place)) is not None:
                self._give(place, chosen)

    def _answer_asking(self) -> None:
        """A worker that was fenced, or does not know what became of its append, may try again
        under a new number.
        """
        for place in self.places:
            if (
                place.node
                and not place.leaving
                and place.report is not None
                and place.report.state is ShardState.ASKING
            ):
                self._give(place, self.nodes[place.node])

    def _send_away(self) -> None:
        """Shards whose node should not have them. One at a time where there is no hurry."""
        is_moving = any(place.leaving for place in self.places)
        for place in self.places:
            if (
                not place.node
                or place.leaving
                or (place.report is not None and place.report.state in _OVER)
            ):
                continue
            node, other = self.nodes[place.node], self._choose(place)
            is_better = (
                other is not None
                and other is not node
                and self._should_move(place, node, other, is_moving)
            )
            if node.is_refused(self._rules) or is_better:
                place.leaving = self._change(node)
                is_moving = True

    def _should_move(self, place: Place, node: NodeView, other: NodeView, is_moving: bool) -> bool:
        if node.must_lose(self._rules) or place.wanted == other.name:
            return True
        is_settled = place.report is not None and place.report.state is ShardState.RUNNING
        is_uneven = self._load(node) - self._load(other) >= 2
        return (
            self._rules.balances and is_settled and is_uneven and not is_moving and not place.wanted
        )

    def _choose(self, place: Place) -> NodeView | None:
        """The node that should have the shard: the operator's choice, else the one with the
        fewest.
        """
        able = [node for node in self.nodes.values() if node.may_have(self._rules)]
        chosen = next((node for node in able if node.name == place.wanted), None)
        return chosen or min(able, key=lambda node: (self._load(node), node.name), default=None)

    def _load(self, node: NodeView) -> int:
        return sum(place.node == node.name for place in self.places)

    def _give(self, place: Place, node: NodeView) -> None:
        self._count += 1
        place.node, place.assignment = node.name, (self._number << _COUNT_BITS) + self._count
        place.leaving, place.report = 0, None
        self._change(node)

    def _free(self, place: Place) -> None:
        place.node, place.leaving, place.report = "", 0, None

    def _change(self, node: NodeView | None) -> int:
        """The node's list is another one now; gives its version."""
        if node is None:
            return 0
        node.version = self._next_version()
        return node.version

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def change_all(self) -> None:
        """All lists are others now."""
        for node in self.nodes.values():
            self._change(node)

    def assigned(self, name: str) -> dict[int, int]:
        """What a node should run: its assignments by shard."""
        return {
            shard: place.assignment
            for shard, place in enumerate(self.places)
            if place.node == name and not place.leaving
        }
