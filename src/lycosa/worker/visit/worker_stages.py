"""The stages of one worker as one value, for the parts that run them in turn."""

from __future__ import annotations

import msgspec

from lycosa.base.ports import Parser
from lycosa.stages.frontier.frontier import Frontier
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.store.segments import SegmentStore
from lycosa.worker.commit.reparser import Reparser
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.near_duplicates import NearDuplicates
from lycosa.worker.visit.capture_builder import CaptureBuilder
from lycosa.worker.visit.errands import Errands
from lycosa.worker.visit.host_robots import Robots
from lycosa.worker.visit.leasing import Leasing
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.visit.request_sender import RequestSender
from lycosa.worker.visit.slicing import Slices


class Stages(msgspec.Struct, frozen=True):
    """The stages of a worker."""

    frontier: Frontier
    robots: Robots
    leasing: Leasing
    sender: RequestSender
    pacing: Pacing
    parser: Parser
    duplicates: Duplicates
    near: NearDuplicates
    capturing: CaptureBuilder
    store: SegmentStore
    intake: Intake
    reparsing: Reparser
    slices: Slices
    errands: Errands
