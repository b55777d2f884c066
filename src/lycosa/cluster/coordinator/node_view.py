"""One node as the coordinator knows it: its last report, when it came, and its clock."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Sequence
from enum import Enum

from lycosa.base.messages.coordinator_messages import NodeReport, ShardReport
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.model.code_version import code_refusal
from lycosa.base.model.compatibility import work_together

TROUBLED_S = 300.0
"""After a shard could not run on a node, other nodes are preferred to it for so long."""
_CLOCK_LOOKS = 8
STALE_REPORT_S = 0.5
"""A node reads its clock when it ticks, so its report may be younger by some of this."""
_Look = tuple[float, float]
"""Its clock minus the time of a report's arrival, and how long the report may have travelled."""


class ClockState(Enum):
    """What is known about the clock of a node."""

    UNKNOWN = "unknown"  # it was not compared yet
    RIGHT = "right"  # it agrees with the majority
    WRONG = "wrong"  # it does not
    DOUBTED = "doubted"  # there is no majority: the node keeps what it runs and gets nothing new


class NodeView:
    """One node; accepts its reports in any order."""

    def __init__(self, name: str, is_draining: bool = False) -> None:
        self.name, self.is_draining = name, is_draining
        self.report: NodeReport | None = None
        self.heard = 0.0
        self.deaths = 0
        """Worker processes that died since the first report that this coordinator received."""
        self.is_lost = False
        self.is_admitted = False
        self.version = 0  # of its list of assignments
        self.told = 0  # the version that was sent last
        self.trouble = ""
        """Why a shard could last not run there, for a reason of that machine."""
        self._troubled_at = -math.inf
        self.clock = ClockState.UNKNOWN
        self.ahead_s = 0.0
        """Its clock minus the coordinator's, when they were last compared."""
        self.span: ClockSpan = (0.0, 0.0)
        """Between which seconds its clock is ahead of the monotonic one of the coordinator."""
        self._looks: deque[_Look] = deque(maxlen=_CLOCK_LOOKS)
        self._error_s = 0.0  # its clock minus that of the majority, or the coordinator's

    def __repr__(self) -> str:
        return (
            f"<NodeView {self.name} heard={self.heard:.1f} lost={self.is_lost}"
            f" version={self.version}>"
        )

    def record_report(
        self,
        report: NodeReport,
        now: float,
        timeout_s: float,
        travel_s: float | None = None,
    ) -> bool:
        """Store a report unless a later one is stored; returns whether it was stored.

        A report of an earlier run of the node's program is late. But if the later run has sent
        nothing for a timeout, the clock was set back between the two runs. ``travel_s`` is a bound
        of the time from the report's making to its handling, ``None`` when it may be of any age.
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
            self._looks.clear()
        self.deaths += deaths
        if travel_s is not None:
            self._look_at_clock((report.wall - now, max(travel_s, 0.0)))
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

    def note_trouble(self, report: ShardReport, now: float) -> None:
        """Note that the node cannot run a shard, although another one may."""
        self._troubled_at = now
        self.trouble = f"shard {report.shard} could not run there: {report.why}"

    def is_troubled(self, now: float) -> bool:
        """Whether a shard could not run there in the last minutes."""
        return now - self._troubled_at < TROUBLED_S

    # -- its clock

    def _look_at_clock(self, look: _Look) -> None:
        self._looks.append(look)
        self.span = _span(self._looks)
        if (
            self.span[0] - self.span[1] > STALE_REPORT_S
        ):  # the clock was set since the earlier reports
            self._looks.clear()
            self._looks.append(look)
            self.span = _span(self._looks)

    def forget_clock(self) -> None:
        """Forget what is known about its clock, until its next report."""
        self._looks.clear()

    @property
    def has_clock(self) -> bool:
        """Whether its clock was compared with the coordinator's."""
        return bool(self._looks)

    def judge_clock(self, own: float, right: float | None, tolerance_s: float) -> None:
        """Compare its clock with the coordinator's, and with the right one (``majority_clock``)."""
        if math.isinf(tolerance_s):
            self.clock = ClockState.RIGHT
        elif self._looks:
            self.ahead_s = self.span[0] - own
            self._error_s = self.span[0] - (own if right is None else right)
            if right is None:
                self.clock = ClockState.DOUBTED
            else:
                is_right = agrees(self.span, right, tolerance_s)
                self.clock = ClockState.RIGHT if is_right else ClockState.WRONG
        else:
            self.clock = ClockState.UNKNOWN

    def may_have(self, rules: ClusterRules) -> bool:
        """Whether the node may get another shard."""
        is_known = self.report is not None and not self.is_lost and self.is_admitted
        if self.report is None or not is_known or self.clock is not ClockState.RIGHT:
            return False
        if self.must_lose(rules) or code_refusal(rules.code, self.report.code):
            return False
        return (
            self.report.free_disk >= rules.low_disk and self.report.free_memory >= rules.low_memory
        )

    def is_spare(self, rules: ClusterRules) -> bool:
        """Whether it gets no shards only because enough other nodes have some."""
        if self.report is None or self.is_lost or self.is_admitted or self.must_lose(rules):
            return False
        return self.clock is ClockState.RIGHT

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
        return self.clock is ClockState.WRONG or (
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
        if self.clock in (ClockState.WRONG, ClockState.DOUBTED):
            return self._clock_refusal(rules.clock_off_s)
        if report.is_leaving:
            return "its program is ending"
        if self.is_draining:
            return "it is being drained; `lycosa cluster drain --over` ends that"
        if not self.is_admitted and not has_room:
            return (
                f"at most {rules.most_nodes} nodes may have shards at the same time (nodes in"
                " cluster.toml): it waits until one of them is drained or lost"
            )
        if objection := code_refusal(rules.code, report.code):
            return objection
        if report.free_disk < rules.low_disk:
            return f"{_gb(report.free_disk)} are free on its disk, less than {_gb(rules.low_disk)}"
        if report.free_memory < rules.low_memory:
            free = _gb(report.free_memory)
            return f"{free} of its memory are free, less than {_gb(rules.low_memory)}"
        return ""

    def _clock_refusal(self, tolerance_s: float) -> str:
        """What is wrong with its clock, or with those of other machines."""
        way = "ahead of" if self._error_s > 0 else "behind"
        whose = "the coordinator's" if self._error_s == self.ahead_s else "those of most machines"
        differs = f"its clock is {abs(self._error_s):.1f} s {way} {whose}"
        if self.clock is ClockState.WRONG:
            return (
                f"{differs}, and at most {tolerance_s:g} s are allowed: synchronise the clocks"
                " (NTP)"
            )
        if abs(self._error_s) <= tolerance_s:
            differs = "the clocks of other machines differ from its own"
        return (
            f"{differs}, and there is no majority of clocks that says which one is right, so it"
            " keeps what it runs and gets nothing else: synchronise the clocks (NTP)"
        )


def _span(looks: Collection[_Look]) -> ClockSpan:
    """Between which seconds the clock is ahead, by at least one look.

    A report that was on its way, or waited in the coordinator, makes the node's clock look late by
    that time, never early. So the greatest difference is the minimum that the clock is ahead, and
    it is ahead at most by a difference and the time of that report's travel. While no such time is
    known (a node of an older version, or its first report to this coordinator), the minimum is
    taken for both.
    """
    least = max(ahead_s for ahead_s, _ in looks)
    greatest = min(ahead_s + travel_s for ahead_s, travel_s in looks)
    return least, least if math.isinf(greatest) else greatest


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


# Decides which clock is right when the clocks of a cluster disagree.
#
# The coordinator compares each node's clock with its own. That is a difference and says of neither
# clock that it is wrong. With several nodes the majority decides: a clock with which more than
# half of all clocks agree, the coordinator's among them, is taken for right. Otherwise one
# coordinator with a wrong clock would take the shards of all nodes, although these agree with each
# other.


ClockSpan = tuple[float, float]
"""The minimum and the maximum by which a wall clock may be ahead of some other clock, in seconds.

That one is the coordinator's monotonic clock, so that a coordinator whose wall clock is set does
not seem to have set those of the nodes.
"""


def majority_clock(own: float, nodes: Sequence[ClockSpan], tolerance_s: float) -> float | None:
    """The clock with which more than half agree, or ``None`` when there is no majority.

    With two clocks that differ no one knows which one is right. ``own`` is the coordinator's, which
    is the result if it is one of the majority. Clocks agree that differ by at most ``tolerance_s``.
    """
    clocks: list[ClockSpan] = [(own, own), *nodes]
    # A clock with which most agree is in the middle of all, unless the tolerance just excludes one.
    for clock in (own, statistics.median_low(least for least, _ in clocks)):
        agreeing = sum(agrees(span, clock, tolerance_s) for span in clocks)
        if 2 * agreeing > len(clocks):
            return clock
    return None


def agrees(span: ClockSpan, clock: float, tolerance_s: float) -> bool:
    """Whether a clock within ``span`` may differ from ``clock`` by at most ``tolerance_s``."""
    least, greatest = span
    return least - clock <= tolerance_s and clock - greatest <= tolerance_s
