"""The nodes that may have shards, in the order in which a shard is offered to them.

A cluster has up to a thousand nodes and as many shards, and all shards are looked at several times
a second. So the nodes are judged once, and a heap keeps the one with the fewest shards at hand: a
choice costs the logarithm of the number of nodes, and not a look at all nodes and shards.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from lycosa.base.messages.timeouts import ClusterRules
from lycosa.cluster.coordinator.node_view import NodeView

_Entry = tuple[bool, int, str]  # whether it is in trouble, its number of shards, its name


class Candidates:
    """Those of ``nodes`` that may have shards now; ``load`` is the number that a node has.

    Call ``note_load`` when the load of a node has changed. Everything else about nodes must stay as
    it was.
    """

    def __init__(
        self,
        nodes: Iterable[NodeView],
        rules: ClusterRules,
        load: Callable[[str], int],
        now: float,
    ) -> None:
        self._load, self._now = load, now
        self._able = {node.name: node for node in nodes if node.may_have(rules)}
        self._heap = [self._entry(node) for node in self._able.values() if self._has_room(node)]
        heapq.heapify(self._heap)

    def choose(self, present: str, wanted: str) -> NodeView | None:
        """The node that should have a shard that ``present`` has.

        The operator's choice ``wanted``, unless a shard could not run there lately, otherwise the
        one with the fewest shards, and those where one could not run last. ``present`` is a
        candidate without room too. Both names may be empty.
        """
        chosen, own = self._able.get(wanted), self._able.get(present)
        is_possible = chosen is not None and (chosen is own or self._has_room(chosen))
        if chosen is not None and is_possible and not chosen.is_troubled(self._now):
            return chosen
        least = self._least()
        if own is None or least is None:
            return own or least
        return min(own, least, key=self._entry)

    def note_load(self, name: str) -> None:
        """The load of the node has changed."""
        node = self._able.get(name)
        if node is not None and self._has_room(node):
            heapq.heappush(self._heap, self._entry(node))

    def _least(self) -> NodeView | None:
        """The node with the fewest shards of those with room."""
        while self._heap:
            node = self._able[self._heap[0][-1]]
            if self._heap[0] == self._entry(node) and self._has_room(node):
                return node
            heapq.heappop(self._heap)  # an entry from before its load changed
        return None

    def _entry(self, node: NodeView) -> _Entry:
        return node.is_troubled(self._now), self._load(node.name), node.name

    def _has_room(self, node: NodeView) -> bool:
        return node.has_room(self._load(node.name))
