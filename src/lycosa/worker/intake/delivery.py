"""The exchange as one worker uses it around a commit.

``outgoing_parcels`` sends parcels, ``incoming_parcels`` receives them.
"""

from __future__ import annotations

from lycosa.worker.commit.parcel_commit import Cut
from lycosa.worker.intake.incoming_parcels import IncomingParcels
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels


class Delivery:
    """One per worker of several.

    The worker calls ``cut_parcels`` and ``send_parcels`` around a commit.
    """

    def __init__(self, departures: OutgoingParcels, arrivals: IncomingParcels) -> None:
        self.departures, self.arrivals = departures, arrivals

    def __repr__(self) -> str:
        return f"<Delivery {self.departures!r} {self.arrivals!r}>"

    @property
    def activity(self) -> int:
        """A number that grows with everything that is sent or received."""
        return self.departures.activity + self.arrivals.activity

    @property
    def is_idle(self) -> bool:
        """Whether everything sent is handed over and everything received is committed."""
        return self.departures.is_idle and self.arrivals.is_idle

    def stalled(self) -> str:
        """See ``OutgoingParcels``."""
        return self.departures.stalled()

    def start(self) -> None:
        """Send what earlier runs left, and read the inbox topic. The exchange must be open."""
        self.departures.start()
        self.arrivals.start()

    def cut_parcels(self) -> Cut:
        """What the commit that is being cut contains of the exchange."""
        return Cut(self.departures.cut_parcels(), self.arrivals.position)

    def send_parcels(self, cut: Cut) -> None:
        """Send the parcels of a commit that is on disk."""
        self.departures.send_parcels(cut.posted)
        self.arrivals.note_committed(cut.inbox)

    def trim_inbox(self, position: int) -> None:
        """Let the inbox topic drop what two snapshots contain."""
        self.arrivals.trim_inbox(position)

    async def close(self) -> None:
        await self.arrivals.close()
        await self.departures.close()
