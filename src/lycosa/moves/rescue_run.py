"""Continues a crawl on many machines whose topics are lost, from its object storage.

    nothing of the log is left -> ``rescue.json`` -> survey of all shards -> each shard made and its
    first snapshot saved -> topics made -> the log of each shard begun -> report

``rescue.json`` says which commit the first snapshot of each shard is named after. So a rescue that
was killed, on any machine, continues: shards whose first snapshot is there are not made again, and
logs that were begun stay. No worker can begin a shard before its new log names the new snapshot:
its log is missing, or older than every snapshot. When everything is done the object moves to
``rescues/``, with the report. Crawl time, which only commits have, continues with the present wall
time, or with the newest capture if that is later.
"""

from __future__ import annotations

import shutil
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.cluster.kafka import (
    Finding,
    FirstCommit,
    KafkaClient,
    Topics,
    begin_log,
    check_topics,
    make_topics,
    what_remains,
)
from lycosa.moves.rescue_survey import (
    LeftShard,
    RescuePlace,
    newest_mark,
    point_of_view,
    survey_shard,
)
from lycosa.moves.rescued_shard import OtherShards, RescuedShard, ShardRescue
from lycosa.state.commit import NOTHING, Mark
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read
from lycosa.state.shard.object_snapshots import snapshot_key, stored_marks
from lycosa.state.store.lost_parts import LostPart, fill_lost_parts, find_lost_parts

RESCUE_NAME = "rescue.json"
_FORMAT = 1
_T = TypeVar("_T")


class RescueRefused(Exception):
    """The crawl cannot be rescued as things are; the message says why and what to do."""


class RescueState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``rescue.json``.

    ``began`` is seconds since 1970, ``host`` the machine. ``marks`` are the commits that the first
    snapshots are named after, ``[term, sequence]`` by shard. ``lost`` are missing parts of
    segments. ``shards`` are those that are made.
    """

    id: str
    began: float
    host: str
    marks: dict[int, Mark]
    lost: dict[int, list[LostPart]] = {}
    shards: dict[int, RescuedShard] = {}
    format: int = _FORMAT


class RescueReport(msgspec.Struct, frozen=True):
    """The result; ``topics`` were made. ``is_again``: an earlier rescue was continued."""

    state: RescueState
    topics: list[str]
    findings: list[Finding]
    is_again: bool
    is_dry: bool


class Rescue:
    """One run. ``tell`` is called with lines for the operator, ``progress`` with what is done now.

    ``wall`` is the wall clock.
    """

    def __init__(
        self,
        place: RescuePlace,
        client: KafkaClient,
        topics: Topics,
        tell: Callable[[str], None],
        progress: Callable[[str], None] = lambda text: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._place, self._client, self._topics = place, client, topics
        self._tell, self._progress, self._wall = tell, progress, wall
        self._crawl = place.crawl.manifest.crawl

    def __repr__(self) -> str:
        return f"<Rescue {self._topics.name}>"

    async def run(self, is_dry: bool = False) -> RescueReport:
        """Rescue the crawl; with ``is_dry`` change nothing outside the local folder.

        Raises ``RescueRefused``, ``KafkaAway``, ``NotStored``, ``ObjectError``, ``OSError`` or the
        errors of damaged files.
        """
        place, known = self._place, read_rescue(self._place.store)
        self._refuse_remains(known.marks if known else {})
        state = known or self._planned()
        if not is_dry and known is None:
            state = _created(place.store, state)
        if known is not None:
            self._tell(f"continuing the rescue that began at {known.host}")
        remains = self._survey(state)
        places = frozenset[str]().union(*(each.places for each in remains.values()))
        for shard in place.shards:
            if shard not in state.shards:
                if not is_dry:
                    fill_lost_parts(place.store, shard, state.lost.get(shard, []))
                made = await self._make(shard, remains, places, state, is_dry)
                state = msgspec.structs.replace(state, shards={**state.shards, shard: made})
                if not is_dry:
                    place.store.put(RESCUE_NAME, msgspec.json.encode(state))
            shutil.rmtree(place.folder(shard), ignore_errors=True)
        made_topics, findings = ([], []) if is_dry else self._begin_logs(state)
        return RescueReport(state, made_topics, findings, known is not None, is_dry)

    def _refuse_remains(self, begun: Mapping[int, Mark]) -> None:
        left = what_remains(self._client, self._topics, self._crawl, begun, self._progress)
        if left:
            name, addresses = self._topics.name, self._client.addresses
            raise RescueRefused(
                "\n".join(
                    [
                        "the topics still have a log of this crawl; a rescue is for lost topics:",
                        *(f"  {line}" for line in left),
                        "If the log is whole, `lycosa serve` and `lycosa node` continue the crawl;"
                        " `lycosa audit --cluster FILE` tells. If it is damaged, it can be"
                        " replaced: end all nodes and the coordinator, delete the topics, and"
                        " repeat this command:",
                        f"  kafka-topics.sh --bootstrap-server {addresses} --delete --topic"
                        f" '{name}\\.(changelog|inbox)'",
                    ]
                )
            )

    def _planned(self) -> RescueState:
        marks = {shard: newest_mark(self._place, shard) for shard in self._place.shards}
        lost = {
            shard: parts
            for shard in self._place.shards
            if (parts := find_lost_parts(self._place.store, shard))
        }
        return RescueState(
            id=str(uuid.uuid4()),
            began=self._wall(),
            host=socket.gethostname(),
            marks=marks,
            lost=lost,
        )

    def _survey(self, state: RescueState) -> dict[int, LeftShard]:
        found = {}
        for shard in self._place.shards:
            self._progress(f"shard {shard}: reading its newest snapshot")
            lost = state.lost.get(shard, [])
            found[shard] = survey_shard(self._place, shard, state.marks[shard], lost)
        return found

    async def _make(
        self,
        shard: int,
        remains: Mapping[int, LeftShard],
        places: frozenset[str],
        state: RescueState,
        is_dry: bool,
    ) -> RescuedShard:
        def show(number: int) -> None:
            self._progress(f"shard {shard}: {number} captures read")

        view, _ = point_of_view(self._place, shard, remains)
        lost = {each.digest: each.record_id for left in remains.values() for each in left.lost}
        common = OtherShards(places, lost)
        rescue = ShardRescue(self._place, remains[shard], view, common, state.marks[shard], show)
        made = await rescue.run(is_dry)
        return msgspec.structs.replace(made, lost_parts=len(state.lost.get(shard, [])))

    def _begin_logs(self, state: RescueState) -> tuple[list[str], list[Finding]]:
        """Make the topics, and begin the logs behind the first snapshots."""
        made = make_topics(self._client, self._topics)
        findings = check_topics(self._client, self._topics)
        if wrong := [each for each in findings if not each.is_warning]:
            raise RescueRefused(
                "\n".join(
                    [
                        "the shards are made, but the topics are not as the crawl needs them;"
                        " correct them and repeat this command:",
                        *(f"  {each.what}\n    {each.fix}" for each in wrong),
                    ]
                )
            )
        wall = self._wall()
        for shard, mark in state.marks.items():
            self._progress(f"shard {shard}: beginning its log")
            self._check_snapshot(shard, mark)
            first = FirstCommit(shard, mark, wall, max(wall, state.shards[shard].time))
            begin_log(self._client, self._topics, self._crawl, first, self._progress)
            self._drop_incomplete(shard, mark, state.shards[shard].snapshot)
        store = self._place.store
        store.put(f"rescues/{state.began:.0f}-{state.id}.json", msgspec.json.encode(state))
        store.delete([RESCUE_NAME])
        return made, findings

    def _drop_incomplete(self, shard: int, first: Mark, used: Mark | None) -> None:
        """Delete snapshots that could not be used; they look like a choice of the next owner."""
        marks = stored_marks(self._place.store, shard)
        between = [mark for mark in marks if (used or NOTHING) < mark < first]
        self._place.store.delete([snapshot_key(shard, mark) for mark in between])

    def _check_snapshot(self, shard: int, mark: Mark) -> None:
        if self._place.store.find(key := snapshot_key(shard, mark)) is None:
            raise RescueRefused(
                f"{key}, the first snapshot of shard {shard}, has vanished from the object storage;"
                f" delete {RESCUE_NAME} there and repeat this command"
            )


def read_rescue(store: ObjectStore) -> RescueState | None:
    """The rescue that is not complete yet, if there is one. Raises ``RescueRefused``."""
    try:
        state = msgspec.json.decode(store.get(RESCUE_NAME), type=RescueState)
    except ObjectMissing:
        return None
    except UNREADABLE as error:
        raise RescueRefused(
            f"{RESCUE_NAME} in the object storage cannot be read ({error}); it may be from a newer"
            " program. Without it, the rescue begins again: delete it"
        ) from error
    if state.format > _FORMAT:
        raise RescueRefused(f"{RESCUE_NAME} in the object storage is from a newer program")
    return state


def _created(store: ObjectStore, state: RescueState) -> RescueState:
    """The state, or that of a rescue that was begun in the same moment."""
    create_or_read(store, RESCUE_NAME, msgspec.json.encode(state))
    return read_rescue(store) or state
