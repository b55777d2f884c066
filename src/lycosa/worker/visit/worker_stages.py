"""The stages that several steps of a visit use, as one value."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.model.dead_letter import DeadLetter
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.frontier import Frontier
from lycosa.state.attempts import Suspicion
from lycosa.state.store.segments import SegmentStore
from lycosa.worker.intake.intake import Intake
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.slicing import Slices


class EndedUrls:
    """The URLs whose request or lease ended since the last commit was cut; one per worker.

    The steps of visits add to it, and the commit takes it.
    """

    def __init__(self) -> None:
        self.settled: list[str] = []
        self.given_up: list[DeadLetter] = []
        """Those of them that failed for good."""

    def __repr__(self) -> str:
        return f"<EndedUrls settled={len(self.settled)} given_up={len(self.given_up)}>"

    def take(self) -> tuple[list[str], list[DeadLetter]]:
        """The URLs that ended, and those that failed for good; the next commit begins empty."""
        taken = self.settled, self.given_up
        self.settled, self.given_up = [], []
        return taken


class Stages(msgspec.Struct, frozen=True):
    """The stages of a worker below the visit.

    ``suspicion`` says what is known of a URL that was in flight when a worker died.
    """

    frontier: Frontier
    intake: Intake
    store: SegmentStore
    sender: RequestSender
    pacing: Pacing
    slices: Slices
    ended: EndedUrls
    clock: CrawlClock
    suspicion: Callable[[str], Suspicion]
