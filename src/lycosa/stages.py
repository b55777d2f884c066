"""The stages of one worker, by name, for those who ask them in turn."""

from __future__ import annotations

import msgspec

from lycosa.capturing import Capturing
from lycosa.errands import Errands
from lycosa.frontier.frontier import Frontier
from lycosa.intake import Intake
from lycosa.leasing import Leasing
from lycosa.ports import Parser
from lycosa.reparsing import Reparsing
from lycosa.robots import Robots
from lycosa.sender import Sender
from lycosa.slicing import Slices
from lycosa.store.segments import SegmentStore


class Stages(msgspec.Struct, frozen=True):
    """In the order in which they are asked."""

    frontier: Frontier
    robots: Robots
    leasing: Leasing
    sender: Sender
    parser: Parser
    capturing: Capturing
    store: SegmentStore
    intake: Intake
    reparsing: Reparsing
    slices: Slices
    errands: Errands
