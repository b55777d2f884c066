"""Foreign records of topics that were stepped over: counted, told to the operator, and kept.

The bytes of the first ones go to object storage, below ``foreign/``, where an operator finds out
what wrote them. They are few and small: a program that writes a million records must not fill the
bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lycosa.base.model.foreign_record import ForeignRecord
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore

FOREIGN = "foreign"
MAX_KEPT = 20
"""Number of records of a topic's partition that one process keeps."""
_MAX_BYTES = 1_000_000


def foreign_key(record: ForeignRecord) -> str:
    """The key of the object with the record's bytes."""
    return f"{FOREIGN}/{record.topic}/{record.partition:05d}/{record.offset:020d}"


class ForeignRecords:
    """Those that one process met. ``tell`` gets a line for each one that is kept."""

    def __init__(self, store: ObjectStore, tell: Callable[[str], None] = lambda line: None) -> None:
        self._store, self.tell = store, tell
        self._told: Counter[tuple[str, int]] = Counter()
        self.counts: Counter[str] = Counter()
        """How many there were, by the kind of the topic."""

    def note(self, record: ForeignRecord) -> None:
        """Count a record, and keep it if there are not many yet. Blocks, on any thread."""
        place = record.topic, record.partition
        self.counts[record.kind] += 1
        self._told[place] += 1
        if self._told[place] > MAX_KEPT:
            return
        key = foreign_key(record)
        kept = f"its {len(record.data)} bytes are in object storage: {key}"
        try:
            self._store.put(key, record.data[:_MAX_BYTES])
        except ObjectError as error:
            # The crawl needs nothing of it, so it does not wait. The topic still has the record.
            kept = f"its bytes could not be kept ({error})"
        last = "; further ones are only counted" if self._told[place] == MAX_KEPT else ""
        self.tell(
            f"stepped over a record that no program of this crawl wrote: {record}; {kept}{last}"
        )
