"""Content-seen and near-duplicates over all partitions of a crawl.

Was this body, or a very similar text, stored before? A key belongs to partition ``hash(key) mod
P``, whichever worker owns that partition in this run. Before a page is settled, ``ask`` requests
the keys that other workers own; it is the only method that waits. ``find`` and ``remember`` then
decide in one step with the information at hand. A late answer counts as "never seen", so the page
is stored in full. Other workers learn of a page from rows in the commit that stores it, so they
never learn of one that a crash removed. Two workers that store the same body within about the same
second may both store it in full.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.model.capture import Original
from lycosa.seen.content import SeenContent, content_key, decode_original, encode_original
from lycosa.seen.port import Key, Others, Table
from lycosa.seen.simhash import MAX_DISTANCE, NearIndex
from lycosa.seen.told import NO_ANSWERS, Answers, Told


class Duplicates:
    """Content-seen of one worker.

    ``tables`` are the worker's partitions, by number; the crawl has ``partitions`` in all.
    ``others`` is needed if the worker does not own all of them. ``max_distance`` is -1 to disable
    the search for near-duplicates.
    """

    def __init__(
        self,
        partitions: int,
        tables: Mapping[int, Table],
        others: Others | None = None,
        max_distance: int = MAX_DISTANCE,
    ) -> None:
        self._partitions = partitions
        self._tables = tables
        self._others = others if len(tables) < partitions else None
        self._max_distance = max_distance
        self._told = Told(self._tell)
        # ``owner_of`` written inline, because each page looks up about thirty keys.
        self._near = NearIndex(
            lambda key: tables.get(int.from_bytes(key[-2:], "big") % partitions), self._told
        )
        self.asked = self.unanswered = 0

    def __repr__(self) -> str:
        return (
            f"<Duplicates tables={len(self._tables)} of {self._partitions} asked={self.asked}"
            f" unanswered={self.unanswered} {self._told!r}>"
        )

    @property
    def must_ask(self) -> bool:
        """Whether other workers own some of the keys."""
        return self._others is not None

    def owner_of(self, key: bytes) -> int:
        """The partition that owns a key.

        It is determined by the key's last bytes, which are uniform in digests and in SimHash
        blocks.
        """
        return int.from_bytes(key[-2:], "big") % self._partitions

    async def ask(self, digest: bytes, simhash: int) -> Answers:
        """Ask other workers for the keys that ``find`` needs.

        Each is asked at most twice, within the time limit of ``Others``.
        """
        if self._others is None:
            return NO_ANSWERS
        key, near = content_key(digest), self._max_distance >= 0
        wanted = [key] if self.owner_of(key) not in self._tables else []
        if wanted and self._told.get(key, NO_ANSWERS) is not None:
            return NO_ANSWERS  # this worker stored it a moment ago
        wanted += self._near.wanted(simhash) if near else []
        answers = await self._answered(wanted)
        if near and self._original(digest, answers) is None:
            more = self._near.wanted_next(simhash, self._max_distance, answers)
            if more:
                return {**answers, **await self._answered(more)}
        return answers

    def find(
        self, digest: bytes, simhash: int, answers: Answers = NO_ANSWERS
    ) -> tuple[Original | None, Original | None]:
        """The first capture with this body, or otherwise the nearest one by text.

        The results are (original, near-duplicate), at most one of them set. A ``simhash`` of 0
        means too little text.
        """
        original = self._original(digest, answers)
        if original is not None or not simhash or self._max_distance < 0:
            return original, None
        found = self._near.find(simhash, self._max_distance, answers)
        return None, found[0] if found else None

    def remember(
        self, digest: bytes, simhash: int, original: Original, answers: Answers = NO_ANSWERS
    ) -> None:
        """Record a capture that the open commit stores.

        ``simhash`` is 0 when the capture must not be found by its text.
        """
        key = content_key(digest)
        table = self._tables.get(self.owner_of(key))
        if table is None:
            self._told.add(key, encode_original(original))
        else:
            SeenContent(table).remember(digest, original)
        self._near.remember(simhash, original, answers)

    def take(self, partition: int, key: bytes, value: bytes) -> None:
        """Store a row from another worker whose key is owned here. Repeating it changes nothing."""
        self._near.file(self._tables[partition], key, value)

    def snapshot(self) -> dict[str, int]:
        """Keys that others were asked for and did not answer in time, and counts of the index."""
        return {"asked": self.asked, "unanswered": self.unanswered, **self._near.snapshot()}

    def _original(self, digest: bytes, answers: Answers) -> Original | None:
        key = content_key(digest)
        table = self._tables.get(self.owner_of(key))
        if table is not None:
            return SeenContent(table).find(digest)
        value = self._told.get(key, answers)
        return None if value is None else decode_original(value)

    async def _answered(self, wanted: list[bytes]) -> Answers:
        if not wanted or self._others is None:
            return NO_ANSWERS
        keys: list[Key] = [(self.owner_of(key), key) for key in wanted]
        answers = await self._others.ask(keys)
        self.asked += len(keys)
        self.unanswered += len(keys) - len(answers)
        return answers

    def _tell(self, key: bytes, value: bytes) -> None:
        assert self._others is not None, "another worker owns every key that is not owned here"
        self._others.tell(self.owner_of(key), key, value)
