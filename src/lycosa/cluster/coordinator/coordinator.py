"""The coordinator of a crawl.

It assigns shards to nodes, grants permits, passes on requests and settings, and detects the end:

    nodes' reports ──> placement ──────> Assignments to nodes
    owners' messages ─> permit_book ───> Permit, recorded first      (absolute numbers)
                   ───> routes      ───> Routes: the addresses of owners
                   ───> price_search ──> PriceFound: the price of a refetch
                   ───> end_rounds ────> the end, recorded first
    callers ─────────> requests ───────> requests to owners, until each is answered

It is pure: messages and a clock come in, messages go out (``OutgoingMessage``) in the order in
which they must be sent. A record (``CONTROL``) is written before the messages after it are sent.
When it cannot be written, another coordinator has the crawl, and this one ends without sending the
rest. The coordinator only ensures liveness. Safety is enforced by the log, by the numbers of
permits and by the owner of each shard. Without a coordinator the crawl continues with what was
granted.

The owner of a shard is the worker that sent a ``WorkerStatus`` under the current assignment, in its
greatest term. Whatever the owner lacks by its status is sent to it: at once when the owner is new
or something changed, and again after ``repeat_s`` while its status still lacks it.
"""

from __future__ import annotations

import msgspec

from lycosa.base.config.sections import LimitSection
from lycosa.base.messages import coordinator_messages as messages
from lycosa.base.messages.control_records import (
    AsksSaved,
    Control,
    DrainSaved,
    EndSaved,
    SettingsSaved,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.messages.worker_messages import (
    ProbeAnswer,
    RefetchGrid,
    SeedsTaken,
    ToldWorker,
    WorkerStatus,
)
from lycosa.base.model.compatibility import FIRST_FORMATS
from lycosa.base.model.end import End
from lycosa.base.system.meter import Number
from lycosa.cluster.coordinator.end_rounds import EndRounds
from lycosa.cluster.coordinator.node_view import NodeView
from lycosa.cluster.coordinator.overview import Decisions, cluster_status
from lycosa.cluster.coordinator.owner_requests import Owner, Requests
from lycosa.cluster.coordinator.permit_book import PermitBook
from lycosa.cluster.coordinator.placement import Placement
from lycosa.cluster.coordinator.price_search import PriceSearch
from lycosa.cluster.coordinator.shard_owners import RouteTable, ShardOwners, lacking
from lycosa.cluster.coordinator.steering import (
    SteeringMessage,
    ended,
    settings_for_owners,
    steered,
    unpaused,
    with_first_code,
)


class Coordinator:
    """The coordinator with this number. ``control`` is the record of earlier ones."""

    def __init__(
        self,
        number: int,
        shards: int,
        limits: LimitSection,
        rules: ClusterRules,
        now: float,
        control: Control | None = None,
    ) -> None:
        control = control or Control()
        if not control.is_first:
            # What the store says of formats counts for a new crawl; later the records do.
            rules = msgspec.structs.replace(rules, formats=FIRST_FORMATS)
        self.number = number
        self.superseded_by = 0
        self._rules = rules
        self._placement = Placement(number, shards, rules, now, control.is_first)
        formats = self._placement.raise_formats(control.formats)
        for name in control.draining:
            self._placement.drain_node(name, is_over=False)
        self._placement.is_ending = bool(control.end.end)
        self._permits = PermitBook(limits, shards, control.permits)
        self._requests = Requests(rules.repeat_s)
        self._rounds = EndRounds()
        self._prices = PriceSearch(shards)
        self._shard_owners = ShardOwners(shards, self._placement)
        self._routes = RouteTable(number)
        # What the store says of code counts for a new crawl; later the records do.
        self._settings = with_first_code(control.settings, rules.code)
        self._placement.follow_settings(self._settings)
        self._end = control.end
        self._asks = control.asks
        self._expects_asks = not control.asks.are_over
        self._is_continuous = limits.continuous
        self._ahead_s = 0.0  # wall clock minus the clock of ``now``
        self._out: list[messages.OutgoingMessage] = []
        if control.is_first and formats.number > FIRST_FORMATS:
            self._send(messages.CONTROL, formats)
        if self._settings != control.settings:
            self._send(messages.CONTROL, self._settings)

    def __repr__(self) -> str:
        return (
            f"<Coordinator {self.number} end={self._end.end!r} {self._placement!r}"
            f" {self._permits!r} {self._requests!r} {self._rounds!r}>"
        )

    # -- what others may know

    @property
    def crawl_end(self) -> End | None:
        """How the crawl ends, once that is decided."""
        return End(self._end.end) if self._end.end else None

    @property
    def is_over(self) -> bool:
        """Whether all workers have ended; a failed one counts once the crawl's end is decided."""
        return self._placement.are_over

    def worker_ends(self) -> list[str]:
        """How the workers that have ended did so."""
        return self._placement.worker_ends()

    def owner_of(self, shard: int) -> str:
        """The node that runs the shard's owner; empty while it has none."""
        return (
            self._placement.places[shard].node
            if self._shard_owners.owner(shard) is not None
            else ""
        )

    @property
    def rates(self) -> dict[str, dict[str, Number]]:
        """The rates of the crawl by metric and window (``CrawlRates``)."""
        return self._shard_owners.rates()

    @property
    def settings(self) -> SettingsSaved:
        """The live settings and their version."""
        return self._settings

    def status(self, crawl: str, now: float) -> messages.ClusterStatus:
        """Everything that is known about ``crawl``, which is a name for operators."""
        decided = Decisions(
            self.number, self._end, self._settings, self._expects_asks, self._requests.open_calls
        )
        return cluster_status(crawl, decided, self._placement, self._shard_owners, now)

    def follow_limits(self, limits: LimitSection) -> None:
        self._permits.follow_limits(limits)
        self._is_continuous = limits.continuous

    # -- messages

    def tick(self, now: float, wall: float) -> list[messages.OutgoingMessage]:
        """Advance the time; returns the messages to send.

        Call it several times within a node's timeout. ``wall`` is the coordinator's wall clock.
        """
        self._ahead_s = wall - now
        if self.superseded_by:
            return []
        self._placement.tick(now, wall)
        self._shard_owners.note_rates(now)
        for shard, found in self._prices.tick(now).items():
            self._relay(shard, found)
        self._update_routes(now)
        for shard in range(len(self._shard_owners)):
            self._tell_requests(shard, now)
        self._look_for_end()
        self._tell_changed_lists(now)
        return self._flush()

    def handle_message(
        self, sender: str, message: messages.ToCoordinator, now: float
    ) -> list[messages.OutgoingMessage]:
        """Handle a message of the node ``sender``, or of ``CALLER``.

        Returns the messages to send, in that order.
        """
        if self.superseded_by:
            return []
        if isinstance(message, messages.NodeReport):
            self._receive_report(sender, message, now)
        elif isinstance(message, messages.Said):
            self._receive_from_worker(sender, message, now)
        elif isinstance(message, messages.Superseded):
            self._supersede(message.coordinator)
        else:
            self._receive_from_caller(message, now)
        self._tell_changed_lists(now)
        return self._flush()

    def _receive_report(self, sender: str, report: messages.NodeReport, now: float) -> None:
        self._supersede(report.coordinator)
        if not self.superseded_by:
            self._placement.record_report(sender, report, now)
            self._end_with_workers()
            self._tell_list(self._placement.nodes[sender], now)

    def _supersede(self, number: int) -> None:
        if number > self.number:
            self.superseded_by = number
            self._out.clear()

    def _receive_from_caller(self, message: messages.ToCoordinator, now: float) -> None:
        # What is asked may make new work, so what workers said about being idle does not count.
        if isinstance(message, messages.Ask):
            self._rounds.start_over()
            answered = self._requests.open_request(
                message.request, message.shards or range(len(self._shard_owners))
            )
            if answered is not None:
                self._send(messages.CALLER, answered)
            for shard in range(len(self._shard_owners)):
                self._tell_requests(shard, now)
        elif isinstance(message, messages.MoreAsks):
            self._expect_asks()
        elif isinstance(message, messages.NoMoreAsks):
            self._expects_asks = False
            if not self._asks.are_over:
                self._asks = AsksSaved(True)
                self._send(messages.CONTROL, self._asks)
            self._tell_all(now)
        elif isinstance(message, messages.StopCrawl):
            if message.by and ended(self._end, message.end, message.at_once) != self._end:
                self._record_action(message, now)
            self._decide_end(message.end, message.at_once)
        elif isinstance(
            message, messages.ChangeSettings | messages.ChangeCode | messages.PauseCrawl
        ):
            self._record_action(message, now)
        elif isinstance(message, messages.Drain):
            self._send(messages.CONTROL, DrainSaved(message.node, message.is_over))
            self._placement.drain_node(message.node, message.is_over)
        elif isinstance(message, messages.Move):
            self._placement.move_shard(message.shard, message.node)
        elif isinstance(message, messages.UpgradeFormats):
            self._send(messages.CONTROL, self._placement.raise_formats(message.number))

    def _expect_asks(self) -> None:
        """Wait for requests; a crawl that ended continues.

        This is not recorded: a caller that is still there says it again to the next coordinator.
        """
        self._expects_asks = True
        self._rounds.start_over()
        if self._end.end:
            if self._settings.is_paused:
                self._steer(unpaused(self._settings))
            self._shard_owners.clear()  # what owners said before the end does not count now
            self._set_end(EndSaved("", False))

    def _record_action(self, message: SteeringMessage, now: float) -> None:
        wall = now + self._ahead_s
        self._steer(steered(self._settings, message, str(self.number), wall))
        self._tell_all(now)

    def _steer(self, settings: SettingsSaved) -> None:
        self._settings = settings
        self._send(messages.CONTROL, settings)
        self._placement.follow_settings(settings)
        self._rounds.start_over()

    # -- what owners say

    def _receive_from_worker(self, sender: str, said: messages.Said, now: float) -> None:
        if not 0 <= said.shard < len(self._shard_owners):
            return
        message = said.message
        if isinstance(message, SeedsTaken):  # valid whichever owner committed it
            self._receive_answer(said.shard, message, now)
        place = self._placement.places[said.shard]
        if place.node != sender or place.assignment != said.assignment:
            return
        entry = self._shard_owners[said.shard]
        owner = (said.assignment, said.term)
        if isinstance(message, WorkerStatus):
            self._receive_status(said.shard, owner, message, now)
        elif entry.owner != owner:
            return
        elif isinstance(message, Progress):
            entry.heard.receive(message)
            self._check_limits()
        elif isinstance(message, ProbeAnswer):
            self._rounds.record_answer(said.shard, owner, message)
        elif isinstance(message, RefetchGrid):
            self._relay(said.shard, self._prices.receive(said.shard, owner, message, now))

    def _receive_status(self, shard: int, owner: Owner, status: WorkerStatus, now: float) -> None:
        entry = self._shard_owners[shard]
        if entry.owner is not None and owner < entry.owner:
            return
        if owner != entry.owner:
            entry.take(owner, status)
        entry.status = status
        changed = self._permits.record_status(shard, status)
        for permit in changed:
            self._send(messages.CONTROL, permit)
        for each in {shard, *(permit.shard for permit in changed)}:
            self._tell_what_lacks(each, now)
        self._tell_requests(shard, now)

    def _receive_answer(self, shard: int, message: SeedsTaken, now: float) -> None:
        answered = self._requests.take_answer(shard, message)
        if answered is not None:
            self._send(messages.CALLER, answered)
        self._tell_what_lacks(shard, now)

    def _check_limits(self) -> None:
        if self._permits.has_limits and self._permits.is_reached(*self._shard_owners.committed()):
            self._decide_end(End.LIMIT.value, at_once=False)

    # -- messages to owners

    def _tell_what_lacks(self, shard: int, now: float) -> None:
        """Send the owner what it lacks by its last status, unless it was just sent."""
        entry = self._shard_owners[shard]
        status = entry.status
        if status is None or self._shard_owners.owner(shard) is None:
            return
        goes_on = self._expects_asks or self._is_continuous
        may_end = not goes_on and not self._requests.are_open_for(shard)
        for message in lacking(
            status,
            self._permits.permit_for(shard),
            settings_for_owners(self._settings),
            self._routes.routes,
            may_end,
        ):
            self._tell_once(shard, message, now)

    def _tell_all(self, now: float) -> None:
        for shard in range(len(self._shard_owners)):
            self._tell_what_lacks(shard, now)

    def _tell_once(self, shard: int, message: ToldWorker, now: float) -> None:
        """Send the owner a message, unless the same was sent less than ``repeat_s`` ago."""
        entry = self._shard_owners[shard]
        what, at = entry.told.get(type(message), (None, now))
        if what != message or now - at >= self._rules.repeat_s:
            entry.told[type(message)] = message, now
            self._relay(shard, message)

    def _update_routes(self, now: float) -> None:
        before = self._routes.routes.version
        self._routes.update(self._shard_owners.addresses())
        if self._routes.routes.version > before:
            self._tell_all(now)

    def _tell_requests(self, shard: int, now: float) -> None:
        owner = self._shard_owners.owner(shard)
        if owner is not None and not self._requests.are_answered:
            for request in self._requests.messages_due(shard, owner, now):
                self._relay(shard, request)

    # -- the end

    def _look_for_end(self) -> None:
        """End the crawl when no shard has anything to do and nothing is in flight between them."""
        if self._end.end:
            return
        owners = self._shard_owners.owners()
        if (
            owners is None
            or self._settings.is_paused
            or self._expects_asks
            or self._is_continuous
            or not self._requests.are_answered
            or not self._shard_owners.are_idle()
        ):
            self._rounds.start_over()
        elif self._rounds.completes_proof(owners, self._shard_owners.captures()):
            self._decide_end(End.FINISHED.value, at_once=False)
        else:
            for shard, probe in self._rounds.probes_due(owners):
                self._relay(shard, probe)

    def _end_with_workers(self) -> None:
        """The only worker of a crawl needs no coordinator to find that it is finished."""
        if not self._end.end and self._shard_owners.have_finished():
            self._set_end(EndSaved(End.FINISHED.value, False))

    def _decide_end(self, end: str, at_once: bool) -> None:
        if (decided := ended(self._end, end, at_once)) != self._end:
            self._set_end(decided)

    def _set_end(self, end: EndSaved) -> None:
        self._end = end
        self._send(messages.CONTROL, end)
        self._placement.is_ending = bool(end.end)
        self._placement.change_all()

    # -- sending

    def _tell_changed_lists(self, now: float) -> None:
        if not self._placement.is_changed:  # asked after each message
            return
        self._placement.is_changed = False
        for node in self._placement.nodes.values():
            if node.report is not None and node.version > node.told:
                self._tell_list(node, now)

    def _tell_list(self, node: NodeView, now: float) -> None:
        node.told = node.version
        self._send(node.name, self._placement.list_for(node, self._end, now))

    def _relay(self, shard: int, message: ToldWorker) -> None:
        owner = self._shard_owners.owner(shard)
        if owner is not None:
            self._send(
                self._placement.places[shard].node,
                messages.Relay(self.number, shard, owner[1], message),
            )

    def _send(self, receiver: str, message: messages.Sendable) -> None:
        self._out.append(messages.OutgoingMessage(receiver, message))

    def _flush(self) -> list[messages.OutgoingMessage]:
        out, self._out = self._out, []
        return out
