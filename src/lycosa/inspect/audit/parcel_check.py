"""Parcels between the shards of a cluster: none may be lost between outbox and inbox.

For each pair of shards the sender's table has the number of the last parcel that it made and the
rows that it has not handed over, the receiver's table the number of the last parcel that it took,
and the topic the parcels that the receiver has not taken. So every parcel that was made and not
taken must be a row of the sender or in the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import TableView
from lycosa.state.exchange.agreement import ParcelNumbers
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.kv.table_records import prefix_end

ReadInbox = Callable[[int], Iterator[Parcel]]
"""The parcels in the topic for a shard that it has not taken."""


class ParcelChecks:
    """The parcels of all shards. ``finals`` are the shards whose owner ended orderly."""

    def __init__(self, views: Mapping[int, TableView], finals: Mapping[int, bool]) -> None:
        self.check = Check(
            "parcels",
            "pairs of shards: each parcel made and not taken is in the outbox or in the topic",
        )
        self._numbers = {shard: _numbers_of(view) for shard, view in views.items()}
        self._finals = finals
        self.in_topics: set[bytes] = set()
        """Keys of the URLs in parcels that are in topics."""

    def run(self, read_inbox: ReadInbox) -> None:
        """Read the topics and compare all pairs."""
        for destination in self._numbers:
            held: dict[int, set[int]] = {}
            for parcel in read_inbox(destination):
                held.setdefault(parcel.source, set()).add(parcel.sequence)
                self.in_topics.update(each.host8 + each.url8 for each in parcel.discovered)
            for source in self._numbers:
                self._compare(source, destination, held.get(source, set()))

    def _compare(self, source: int, destination: int, held: set[int]) -> None:
        sender = self._numbers[source]
        made = sender.made.get(destination, 0)
        taken = self._numbers[destination].taken.get(source, 0)
        if not made and not taken:
            return
        here = sender.waiting.get(destination, set()) | held
        lost = [number for number in range(taken + 1, made + 1) if number not in here]
        pair = f"from shard {source} to shard {destination}"
        self.check.expect(
            not lost,
            f"{len(lost)} parcels {pair} are lost, the first is {lost[0] if lost else 0}"
            f" ({made} made, {taken} taken)",
        )
        # otherwise the sender may have made more after its table was read
        if self._finals.get(source, False):
            self.check.expect(
                taken <= made, f"{pair} {taken} parcels were taken, and {made} were made"
            )


def _numbers_of(view: TableView) -> ParcelNumbers:
    numbers = ParcelNumbers()
    for prefix in (b"I", b"O"):
        for key, value in view.scan(prefix, prefix_end(prefix)):
            numbers.apply(key, value)
    return numbers
