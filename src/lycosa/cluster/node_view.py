"""One node as the coordinator knows it: its last report, when it came, and its clock's error."""

from __future__ import annotations

import math
from collections import deque

from lycosa.cluster.messages import NodeReport, ShardReport
from lycosa.cluster.rules import ClusterRules
from lycosa.model.compatibility import work_together

_CLOCK_LOOKS = 8


class NodeView:
    """One node; accepts its reports in any order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.report: NodeReport | None = None
        self.heard = 0.0
        self.deaths = 0
        """Worker processes that died since the first report that this coordinator received."""
        self.is_draining = False
        self.is_lost = False
        self.is_admitted = False
        self.version = 0  # of its list of assignments
        self.told = 0  # the version that was sent last
        self._ahead_s: deque[float] = deque(maxlen=_CLOCK_LOOKS)

    def __repr__(self) -> str:
        return (
            f"<NodeView {self.name} heard={self.heard:.1f} lost={self.is_lost}"
            f" version={self.version}>"
        )

    def record_report(
        self, report: NodeReport, now: float, wall: float | None, timeout_s: float
    ) -> bool:
        """Store a report unless a later one is stored; returns whether it was stored.

        A report of an earlier run of the node's program is late. But if the later run has sent
        nothing for a timeout, the clock was set back between the two runs.
        """
        deaths = report.deaths  # of a program that started since
        if self.report is None:
            deaths = 0  # an earlier coordinator may have counted them
        elif report.began == self.report.began:
            if report.serial <= self.report.serial:
                return False
            deaths -= self.report.deaths
        elif report.began < self.report.began and now - self.heard <= timeout_s:
            return False
        if self.report is None or report.began != self.report.began:
            self._ahead_s.clear()
        self.deaths += deaths
        if wall is not None:
            self._ahead_s.append(report.wall - wall)
        self.report, self.heard, self.is_lost = report, now, False
        return True

    @property
    def is_leaving(self) -> bool:
        """Whether its program is ending."""
        return self.report is not None and self.report.is_leaving

    @property
    def shards(self) -> dict[int, ShardReport]:
        """The shards that the node reports."""
        return {each.shard: each for each in self.report.shards} if self.report is not None else {}

    def is_clock_off(self, tolerance_s: float) -> bool:
        """Whether the clocks differ by more than ``tolerance_s``.

        The travel time of a report makes the node's clock look late, never early. So the greatest
        difference of the last reports is the most accurate.
        """
        return abs(self.ahead_s) > tolerance_s

    @property
    def ahead_s(self) -> float:
        """The node's clock minus the coordinator's, in seconds; 0 while it is unknown."""
        return max(self._ahead_s, default=0.0)

    def may_have(self, rules: ClusterRules) -> bool:
        """Whether the node may get another shard."""
        is_clock_known = bool(self._ahead_s) or math.isinf(rules.clock_off_s)
        if self.report is None or self.is_lost or not self.is_admitted or not is_clock_known:
            return False
        if self.must_lose(rules):
            return False
        return (
            self.report.free_disk >= rules.low_disk and self.report.free_memory >= rules.low_memory
        )

    def has_room(self, shards: int) -> bool:
        """Whether the node can run one more shard than ``shards``."""
        most = self.report.most_shards if self.report is not None else 0
        return not most or shards < most

    def must_lose(self, rules: ClusterRules) -> bool:
        """Whether the node's shards have to move, if another node can have them."""
        if self.report is None or self.is_draining or self.is_refused(rules):
            return True
        return (
            self.report.free_disk < rules.low_disk // 2
            or self.report.free_memory < rules.low_memory // 2
        )

    def is_refused(self, rules: ClusterRules) -> bool:
        """Whether the node may run nothing, even if no other node can.

        Its clock is wrong, so it would request hosts too early, or its version does not work
        together with the coordinator's, or it is about to end.
        """
        return self.is_clock_off(rules.clock_off_s) or (
            self.report is not None
            and (self.report.is_leaving or bool(_version_objection(self.report.protocol, rules)))
        )

    def refusal(self, rules: ClusterRules, has_room: bool) -> str:
        """Why the node gets no shards, as a line for its operator; empty when it may have some.

        ``has_room``: fewer nodes than the maximum have shards.
        """
        report = self.report
        if report is None:
            return "it has not reported yet"
        if objection := _version_objection(report.protocol, rules):
            return objection
        if self.is_clock_off(rules.clock_off_s):
            way = "ahead of" if self.ahead_s > 0 else "behind"
            return (
                f"its clock is {abs(self.ahead_s):.1f} s {way} the coordinator's, and at most"
                f" {rules.clock_off_s:g} s are allowed: synchronise both clocks (NTP)"
            )
        if report.is_leaving:
            return "its program is ending"
        if self.is_draining:
            return "it is being drained; `lycosa cluster drain --over` ends that"
        if not self.is_admitted and not has_room:
            return (
                f"at most {rules.most_nodes} nodes may have shards at the same time (nodes in"
                " cluster.toml): it waits until one of them is drained or lost"
            )
        if report.free_disk < rules.low_disk:
            return f"{_gb(report.free_disk)} are free on its disk, less than {_gb(rules.low_disk)}"
        if report.free_memory < rules.low_memory:
            free = _gb(report.free_memory)
            return f"{free} of its memory are free, less than {_gb(rules.low_memory)}"
        return ""


def _version_objection(protocol: int, rules: ClusterRules) -> str:
    """Why the program of a node does not suit; empty when it does."""
    if not work_together(protocol, rules.protocol):
        return (
            f"it uses protocol {protocol} and the coordinator {rules.protocol}, and only neighbours"
            " work together: install the same version of lycosa on both"
        )
    if protocol < rules.formats:
        return (
            f"it reads formats up to number {protocol}, and those of {rules.formats} are in force"
            " since `lycosa cluster upgrade`: install the version of the coordinator"
        )
    return ""


def _gb(size: int) -> str:
    return f"{size / 1e9:.3g} GB"
