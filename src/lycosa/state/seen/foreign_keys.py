"""Content keys owned by other workers, as one worker knows them.

It combines the owners' answers with the entries that this worker has sent to them. A sent entry is
in flight for a while: first until the end of its commit, then on its way to the owner. Meanwhile
this worker's pages are compared with it here. Only the last entries are kept; forgetting one costs
a duplicate that is stored in full.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

ContentAnswers = Mapping[bytes, bytes | None]
"""Answers of the owners: key to value, ``None`` when there is no value.

A key that is absent was not answered in time.
"""

NO_ANSWERS: ContentAnswers = {}
BUCKET = 64
_SIMHASHES = b"S"


class ForeignKeys:
    """Remembers up to ``capacity`` keys (about 250 bytes each).

    ``tell`` sends a key and a value to the key's owner.
    """

    def __init__(self, tell: Callable[[bytes, bytes], None], capacity: int = 20_000) -> None:
        self._tell = tell
        self._capacity = capacity
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes, answers: ContentAnswers) -> bytes | None:
        """The owner's value combined with what was sent to it; a bucket contains both."""
        answer, told = answers.get(key), self._kept.get(key)
        if told is None:
            return answer
        return (answer or b"") + told if key[:1] == _SIMHASHES else answer or told

    def tell_owner(self, key: bytes, value: bytes) -> None:
        """Send the owner the value of a key, or one simhash for a bucket."""
        self._tell(key, value)
        if key[:1] == _SIMHASHES:
            self._kept[key] = (self._kept.get(key, b"") + value)[-8 * BUCKET :]
        else:
            self._kept.setdefault(key, value)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
