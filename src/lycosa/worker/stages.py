"""The stages of one worker as one value, for the parts that run them in turn."""

from __future__ import annotations

import msgspec

from lycosa.frontier.frontier import Frontier
from lycosa.ports import Parser
from lycosa.seen.duplicates import Duplicates
from lycosa.store.segments import SegmentStore
from lycosa.worker.capture_builder import CaptureBuilder
from lycosa.worker.errands import Errands
from lycosa.worker.intake import Intake
from lycosa.worker.leasing import Leasing
from lycosa.worker.near_duplicates import NearDuplicates
from lycosa.worker.pacing import Pacing
from lycosa.worker.reparser import Reparser
from lycosa.worker.request_sender import RequestSender
from lycosa.worker.robots import Robots
from lycosa.worker.slicing import Slices


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
