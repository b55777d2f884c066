"""Content keys that other workers own, as one worker sees them: what they answered when they were
asked, and what they were told.

What was told is on its way for a while: first to the end of the commit that it belongs to, then to
its owner. Meanwhile the pages of this worker are compared with it here. It is kept for the last
keys told; forgetting one costs a duplicate that is stored in full.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

Answers = Mapping[bytes, bytes | None]
"""What the owners said: key to value, ``None`` when they have none. A key that is absent was not
answered in time.
"""

NO_ANSWERS: Answers = {}
BUCKET = 64
_SIMHASHES = b"S"


class Told:
    """Remembers up to ``capacity`` keys (about 250 bytes each). ``tell`` sends a key and a value
    to the key's owner.
    """

    def __init__(self, tell: Callable[[bytes, bytes], None], capacity: int = 20_000) -> None:
        self._tell = tell
        self._capacity = capacity
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<Told {len(self)} of {self._capacity}>"

    def get(self, key: bytes, answers: Answers) -> bytes | None:
        """The owner's value; or what it was told, added to it where it is a bucket."""
        answer, told = answers.get(key), self._kept.get(key)
        if told is None:
            return answer
        return (answer or b"") + told if key[:1] == _SIMHASHES else answer or told

    def add(self, key: bytes, value: bytes) -> None:
        """Tells the owner: the whole value of a key, or a simhash for a bucket."""
        self._tell(key, value)
        if key[:1] == _SIMHASHES:
            self._kept[key] = (self._kept.get(key, b"") + value)[-8 * BUCKET :]
        else:
            self._kept.setdefault(key, value)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
