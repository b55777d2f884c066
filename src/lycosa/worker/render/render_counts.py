"""What the renders of a worker took, for the meter."""

from __future__ import annotations

from lycosa.base.model.finished_render import RoundNote
from lycosa.base.system.meter import Histogram
from lycosa.base.system.metric_catalogue import ROUNDS, SECONDS


class RenderCounts:
    """One per worker whose crawl renders pages; since its start."""

    def __init__(self) -> None:
        self.round_times = Histogram(SECONDS)
        """Seconds of each round."""
        self.rounds = Histogram(ROUNDS)
        """Rounds of each page whose render ended."""
        self.processor_s = 0.0
        """Processor time of browsers."""
        self.wants = 0
        """URLs that rounds wanted."""

    def __repr__(self) -> str:
        return f"<RenderCounts rounds={self.round_times.count} pages={self.rounds.count}>"

    def note_round(self, note: RoundNote, wants: int) -> None:
        """Note a round that ended, and how many URLs it wanted."""
        self.round_times.observe(note.elapsed_s)
        self.processor_s += note.processor_s
        self.wants += wants

    def note_end(self, rounds: int) -> None:
        """Note that the render of a page ended after so many rounds."""
        self.rounds.observe(rounds)
