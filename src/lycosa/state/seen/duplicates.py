"""Content-seen and near-duplicates over all partitions of a crawl.

Was this body, or a very similar text, stored before? A key belongs to partition ``hash(key) mod
P``, whichever worker owns that partition in this run. Before a page is settled, ``ask`` requests
the keys that other workers own; it is the only method that waits. ``find_original`` and
``remember_capture`` then decide in one step with the information at hand. A late answer counts as
"never seen", so the page is stored in full. Other workers learn of a page from rows in the commit
that stores it, so they never learn of one that a crash removed. Two workers that store the same
body within about the same second may both store it in full.

Between machines near-duplicates are not asked for: fingerprints go to the owners by parcel and the
verdicts come later (``NearVerdicts``). Only the question for the digest remains.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.model.capture import Original, StoredOriginal
from lycosa.base.model.parcel_items import Fingerprint, PartitionKey
from lycosa.state.seen.content_seen import (
    SeenContent,
    content_key,
    decode_stored_original,
    encode_original,
)
from lycosa.state.seen.foreign_keys import NO_ANSWERS, ContentAnswers, ForeignKeys
from lycosa.state.seen.seen_port import ForeignTables, NearVerdicts, PointTable
from lycosa.state.seen.simhash import MAX_DISTANCE, NearIndex


class Duplicates:
    """Content-seen of one worker.

    ``tables`` are the worker's partitions, by number; the crawl has ``partitions`` in all.
    ``others`` is needed if the worker does not own all of them. ``max_distance`` is -1 to disable
    the search for near-duplicates. With ``verdicts``, near-duplicates are judged by events.
    """

    def __init__(
        self,
        partitions: int,
        tables: Mapping[int, PointTable],
        others: ForeignTables | None = None,
        max_distance: int = MAX_DISTANCE,
        verdicts: NearVerdicts | None = None,
    ) -> None:
        self._verdicts = verdicts if max_distance >= 0 else None
        self._partitions = partitions
        self._tables = tables
        self._others = others if len(tables) < partitions else None
        self._max_distance = max_distance
        self._told = ForeignKeys(self._tell)
        # ``owner_of`` written inline, because each page looks up about thirty keys.
        self._near = NearIndex(
            lambda key: tables.get(int.from_bytes(key[-2:], "big") % partitions), self._told
        )
        self.asked = self.unanswered = 0

    @property
    def is_judged_later(self) -> bool:
        """Whether a page may turn out to be a near-duplicate after it is stored."""
        return self._verdicts is not None

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

    async def ask_owners(self, digest: bytes, simhash: int) -> ContentAnswers:
        """Ask other workers for the keys that ``find_original`` needs.

        Each is asked at most twice, within the time limit of ``ForeignTables``.
        """
        if self._others is None:
            return NO_ANSWERS
        key, near = content_key(digest), self._max_distance >= 0 and self._verdicts is None
        wanted = [key] if self.owner_of(key) not in self._tables else []
        if wanted and self._told.get(key, NO_ANSWERS) is not None:
            return NO_ANSWERS  # this worker stored it a moment ago
        wanted += self._near.keys_wanted(simhash) if near else []
        answers = await self._answered(wanted)
        if near and self._original(digest, answers) is None:
            more = self._near.keys_wanted_next(simhash, self._max_distance, answers)
            if more:
                return {**answers, **await self._answered(more)}
        return answers

    def find_original(
        self,
        digest: bytes,
        simhash: int,
        answers: ContentAnswers = NO_ANSWERS,
        page: Original | None = None,
    ) -> tuple[StoredOriginal | None, Original | None]:
        """The first capture with this body, or otherwise the nearest one by text.

        The results are (original, near-duplicate), at most one of them set. A ``simhash`` of 0
        means too little text. ``page`` is the capture itself, so far as it is known; verdicts need
        it.
        """
        original = self._original(digest, answers)
        if original is not None or not simhash or self._max_distance < 0:
            return original, None
        if self._verdicts is not None:
            known = page or Original("", 0)
            return None, self._verdicts.find_earlier(Fingerprint(simhash, known))
        found = self._near.find_nearest(simhash, self._max_distance, answers)
        return None, found[0] if found else None

    def remember_capture(
        self,
        digest: bytes,
        simhash: int,
        original: StoredOriginal,
        answers: ContentAnswers = NO_ANSWERS,
        is_near: bool = False,
    ) -> None:
        """Record a capture that the open commit stores.

        ``is_near`` when it is a near-duplicate, which is not the original of others.
        """
        key = content_key(digest)
        table = self._tables.get(self.owner_of(key))
        if table is None:
            self._told.tell_owner(key, encode_original(original))
        else:
            SeenContent(table).remember_original(digest, original)
        # Without the place: the record of a near-duplicate has its own body.
        page = Original(original.url, original.date_us, original.record_id)
        self.remember_text(simhash, page, answers, is_near)

    def remember_text(
        self,
        simhash: int,
        page: Original,
        answers: ContentAnswers = NO_ANSWERS,
        is_near: bool = False,
    ) -> None:
        """Record the text of a capture, also of one whose body an earlier crawl has."""
        if not simhash:
            return
        if self._verdicts is None:
            self._near.remember_capture(0 if is_near else simhash, page, answers)
        else:
            # Also a near-duplicate: another owner may know an earlier original.
            self._verdicts.post_fingerprint(Fingerprint(simhash, page))

    def file_row(self, partition: int, key: bytes, value: bytes) -> None:
        """Store a row from another worker whose key is owned here. Repeating it changes nothing."""
        self._near.file_row(self._tables[partition], key, value)

    def snapshot(self) -> dict[str, int]:
        """Keys that others were asked for and did not answer in time, and counts of the index."""
        index = self._near if self._verdicts is None else self._verdicts
        return {"asked": self.asked, "unanswered": self.unanswered, **index.snapshot()}

    def _original(self, digest: bytes, answers: ContentAnswers) -> StoredOriginal | None:
        key = content_key(digest)
        table = self._tables.get(self.owner_of(key))
        if table is None:
            value = self._told.get(key, answers)
        elif (found := SeenContent(table).find_original(digest)) is not None:
            return found
        else:
            value = answers.get(key)  # of an earlier crawl
        return None if value is None else decode_stored_original(value)

    async def _answered(self, wanted: list[bytes]) -> ContentAnswers:
        if not wanted or self._others is None:
            return NO_ANSWERS
        keys: list[PartitionKey] = [(self.owner_of(key), key) for key in wanted]
        answers = await self._others.ask_owners(keys)
        self.asked += len(keys)
        self.unanswered += len(keys) - len(answers)
        return answers

    def _tell(self, key: bytes, value: bytes) -> None:
        assert self._others is not None, "another worker owns every key that is not owned here"
        self._others.tell_owner(self.owner_of(key), key, value)
