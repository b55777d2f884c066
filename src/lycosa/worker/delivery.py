"""The exchange as one worker uses it: what leaves (``outgoing_parcels``) and what arrives
(``incoming_parcels``), around one commit.
"""

from __future__ import annotations

from lycosa.worker.committer import Cut
from lycosa.worker.incoming_parcels import IncomingParcels
from lycosa.worker.outgoing_parcels import OutgoingParcels


class Delivery:
    """One per worker of several. ``cut_parcels`` and ``send_parcels`` are called by the worker
    around a commit.
    """

    def __init__(self, departures: OutgoingParcels, arrivals: IncomingParcels) -> None:
        self.departures, self.arrivals = departures, arrivals

    def __repr__(self) -> str:
        return f"<Delivery {self.departures!r} {self.arrivals!r}>"

    @property
    def activity(self) -> int:
        """Rises with everything that leaves or arrives."""
        return self.departures.activity + self.arrivals.activity

    @property
    def is_idle(self) -> bool:
        """Whether everything that leaves is handed over and everything that was read is
        committed.
        """
        return self.departures.is_idle and self.arrivals.is_idle

    def stalled(self) -> str:
        """See ``OutgoingParcels``."""
        return self.departures.stalled()

    def start(self) -> None:
        """The exchange is open: what earlier runs left goes out, and the inbox topic is read."""
        self.departures.start()
        self.arrivals.start()

    def cut_parcels(self) -> Cut:
        """A commit is being cut: what is in it."""
        return Cut(self.departures.cut_parcels(), self.arrivals.position)

    def send_parcels(self, cut: Cut) -> None:
        """The commit is on disk."""
        self.departures.send_parcels(cut.posted)
        self.arrivals.note_committed(cut.inbox)

    async def close(self) -> None:
        """Stops both halves."""
        await self.arrivals.close()
        await self.departures.close()
