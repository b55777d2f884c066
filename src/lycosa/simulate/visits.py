"""Performs the visits of hosts as ``worker.visit.pipeline`` does, without bytes.

The decisions are the crawler's own code, ``schedule.visit_decisions``. The steps are performed by
``simulated_stages``.
"""

from __future__ import annotations

import heapq

from lycosa.base.config.sections import Config
from lycosa.simulate.host_answers import Underway, Witness
from lycosa.simulate.page_copies import Copies
from lycosa.simulate.resources import Meters
from lycosa.simulate.sample import Sample
from lycosa.simulate.simulated_stages import SimulatedStages
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.web_model import Web
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule import steps
from lycosa.stages.schedule.visit_decisions import decide


class Visits:
    """The visits of one part.

    ``begin`` starts the request of a host's visit, ``end_due`` ends the requests whose time has
    passed.
    """

    def __init__(
        self,
        sample: Sample,
        web: Web,
        config: Config,
        table: SimulatedTable,
        meters: Meters,
        witness: Witness | None = None,
        copies: Copies | None = None,
    ) -> None:
        """``copies`` are those of an earlier run."""
        stages = SimulatedStages(sample, web, config, table, meters, witness, copies)
        self._stages, self._acts = stages, stages.acts
        self._rules = steps.VisitRules(config.retry, config.budgets, config.scope.max_hops)
        self.partition, self.meters = stages.partition, meters
        self.prices = stages.prices
        self.clock, self.frontier = stages.clock, stages.frontier
        self.tally, self.copies, self.captures = stages.tally, stages.copies, stages.captures
        self.pacing = stages.pacing
        self.going: list[Underway] = []
        self._tickets = 0

    def close(self) -> None:
        """Release the address table."""
        self._stages.close()

    def seed(self) -> None:
        """Discover every host's first page."""
        self._stages.seed()

    def begin(self, host: VisitState) -> None:
        """Start a visit of a host from ``Frontier.acquire``.

        Its request leaves, or the host is released.
        """
        self._tickets += 1
        known = self._stages.exchanges.hosts[host.name]
        visit = Underway(0.0, self._tickets, host, known)
        self._run(visit, steps.TurnBegan(host.ready_time - self.clock.now))

    def end_due(self) -> int:
        """End the requests whose answers have arrived; returns their number."""
        ended = 0
        while self.going and self.going[0].ends_at <= self.clock.now:
            visit = heapq.heappop(self.going)
            self._run(visit, self._stages.end(visit))
            ended += 1
        return ended

    def _run(self, visit: Underway, event: steps.Event | None) -> None:
        """Perform the steps of a visit, until it is over or its request is in flight."""
        while event is not None:
            step = decide(event, self._rules, self.clock.wall())
            self._keep(visit, step.keeps)
            if type(step) is steps.GiveBack:
                return
            event = self._acts[type(step)](visit, step)
        heapq.heappush(self.going, visit)

    def _keep(self, visit: Underway, kept: steps.Keeps) -> None:
        """Release what is not kept. A slot is released when its request has ended."""
        if visit.lease is not None and not kept.lease:
            self.partition.restore_lease(visit.lease)
            visit.lease = None
        if not kept.host and visit.state.in_process:
            self.frontier.give_back(visit.state)
