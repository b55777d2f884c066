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
from collections.abc import Mapping

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.cluster.kafka.log_ends import what_remains
from lycosa.cluster.kafka.new_log import FirstCommit
from lycosa.cluster.kafka.topics import Topics, crawl_topics
from lycosa.cluster.kafka.upkeep import Finding
from lycosa.cluster.shards.stored_crawl import read_crawl
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.new_shards import TopicsUnfit, begin_new_logs, make_fit_topics
from lycosa.moves.rescue_survey import (
    LeftShard,
    RescuePlace,
    newest_mark,
    point_of_view,
    survey_shard,
)
from lycosa.moves.rescued_shard import OtherShards, RescuedShard, ShardRescue
from lycosa.state.commit import NOTHING, Mark
from lycosa.state.objects.generation import placed_objects
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.patient import PatientStore
from lycosa.state.objects.sameness import create_or_read
from lycosa.state.shard.object_snapshots import snapshot_key, stored_marks
from lycosa.state.store.lost_parts import LostPart, fill_lost_parts, find_lost_parts

RESCUE_NAME = "rescue.json"
_FORMAT = 1


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


async def rescue_crawl(places: ClusterPlaces, is_dry: bool = False) -> RescueReport:
    """Rescue the crawl; with ``is_dry`` change nothing outside the local folder.

    Raises ``RescueRefused``, ``KafkaAway``, ``NotStored``, ``ObjectError``, ``OSError``,
    ``ManifestError`` or the errors of damaged files.
    """
    place = _rescue_place(places)
    topics = crawl_topics(places.given, place.crawl.manifest.generation)
    known = read_rescue(place.store)
    _refuse_remains(places, topics, place, known.marks if known else {})
    state = known or _planned(place)
    # Marks and lost parts stay those of the first try: they name snapshots that may be saved
    # already.
    if known is not None:
        places.tell(f"continuing the rescue that began at {known.host}")
    elif not is_dry:
        state = _created(place.store, state)
    remains: dict[int, LeftShard] = {}
    all_lost = [part for parts in state.lost.values() for part in parts]
    # All shards are surveyed before one is made, because each needs the parcels that others took.
    for shard in place.shards:
        places.on_step(f"shard {shard}: reading its newest snapshot", 0, 0)
        remains[shard] = survey_shard(place, shard, state.marks[shard], all_lost)
    common = OtherShards(
        frozenset[str]().union(*(each.places for each in remains.values())),
        {each.digest: each.record_id for left in remains.values() for each in left.lost},
        all_lost,
    )
    for shard in place.shards:
        if shard not in state.shards:
            lost = state.lost.get(shard, [])
            if not is_dry:
                fill_lost_parts(place.store, shard, lost)
            view = point_of_view(place, shard, remains)
            rescue = ShardRescue(place, remains[shard], view, common, state.marks[shard])
            made = msgspec.structs.replace(await rescue.run(is_dry), lost_parts=len(lost))
            state = msgspec.structs.replace(state, shards={**state.shards, shard: made})
            if not is_dry:
                # from here on a rescue that continues does not make this shard again
                place.store.put(RESCUE_NAME, msgspec.json.encode(state))
        shutil.rmtree(place.folder(shard), ignore_errors=True)
    topics_made, findings = ([], []) if is_dry else _begin_logs(places, topics, place, state)
    return RescueReport(state, topics_made, findings, known is not None, is_dry)


def _rescue_place(places: ClusterPlaces) -> RescuePlace:
    def tell(text: str) -> None:
        if text:
            places.tell(f"waiting for {text}")

    crawl = read_crawl(places.objects, places.given)
    placed = placed_objects(places.objects, crawl.manifest.generation)
    store = PatientStore(placed, tell)
    return RescuePlace(crawl, store, places.work, places.open_table, places.on_step)


def _refuse_remains(
    places: ClusterPlaces, topics: Topics, place: RescuePlace, begun: Mapping[int, Mark]
) -> None:
    left = what_remains(places.client, topics, place.crawl.manifest.crawl, begun, places.tell)
    if left:
        raise RescueRefused(
            "\n".join(
                [
                    "the topics still have a log of this crawl; a rescue is for lost topics:",
                    *(f"  {line}" for line in left),
                    "If the log is whole, `lycosa serve` and `lycosa node` continue the crawl;"
                    " `lycosa audit --cluster FILE` tells. If it is damaged, it can be"
                    " replaced: end all nodes and the coordinator, delete the topics, and"
                    " repeat this command:",
                    f"  kafka-topics.sh --bootstrap-server {places.client.addresses} --delete"
                    f" --topic '{topics.name}\\.(changelog|inbox)'",
                ]
            )
        )


def _planned(place: RescuePlace) -> RescueState:
    lost = {shard: find_lost_parts(place.store, shard) for shard in place.shards}
    return RescueState(
        id=str(uuid.uuid4()),
        began=time.time(),
        host=socket.gethostname(),
        marks={shard: newest_mark(place, shard) for shard in place.shards},
        lost={shard: parts for shard, parts in lost.items() if parts},
    )


def _begin_logs(
    places: ClusterPlaces, topics: Topics, place: RescuePlace, state: RescueState
) -> tuple[list[str], list[Finding]]:
    """Make the topics, and begin the logs behind the first snapshots."""
    try:
        made, findings = make_fit_topics(places.client, topics)
    except TopicsUnfit as error:
        raise RescueRefused(
            "\n".join(
                [
                    "the shards are made, but the topics are not as the crawl needs them;"
                    " correct them and repeat this command:",
                    *(f"  {each.what}\n    {each.fix}" for each in error.findings),
                ]
            )
        ) from error
    for shard, mark in state.marks.items():
        # A log that names a missing snapshot could not be opened by any owner.
        if place.store.find(key := snapshot_key(shard, mark)) is None:
            raise RescueRefused(
                f"{key}, the first snapshot of shard {shard}, has vanished from the object storage;"
                f" delete {RESCUE_NAME} there and repeat this command"
            )
    wall = time.time()
    begin_new_logs(
        places.client,
        topics,
        place.crawl.manifest.crawl,
        [
            FirstCommit(shard, mark, wall, max(wall, state.shards[shard].time))
            for shard, mark in state.marks.items()
        ],
        lambda done: places.on_step("beginning logs", done, len(state.marks)),
        places.tell,
    )
    for shard, first in state.marks.items():
        # snapshots that could not be used look like a choice of the next owner
        used = state.shards[shard].snapshot or NOTHING
        between = [mark for mark in stored_marks(place.store, shard) if used < mark < first]
        place.store.delete([snapshot_key(shard, mark) for mark in between])
    # The report is stored before `rescue.json` is deleted, so a kill in between loses neither.
    done_name = f"rescues/{state.began:.0f}-{state.id}.json"
    place.store.put(done_name, msgspec.json.encode(state))
    place.store.delete([RESCUE_NAME])
    return made, findings


def read_rescue(store: ObjectStore) -> RescueState | None:
    """The rescue that is not complete yet, if there is one. Raises ``RescueRefused``."""
    try:
        state = msgspec.json.decode(store.get(RESCUE_NAME), type=RescueState)
    except ObjectMissing:
        # Most starts are the first: there is no rescue to continue.
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
