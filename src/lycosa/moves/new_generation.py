"""Writes a divided state as a new generation of a crawl on a cluster, and puts it in force.

    topics -> for each shard: table, snapshot, log -> [what the caller has to do before it counts]
    -> control -> settings -> manifest, created and never replaced

Everything before the manifest is written under the name of this generation, which no other program
uses. So a program that is killed leaves nothing that anyone reads, and the next one begins again;
what was left is deleted once a generation is in force.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.config.sections import Config
from lycosa.base.messages.control_records import AsksSaved, EndSaved, Record, folded, key_of
from lycosa.base.model.end import End
from lycosa.base.urls.identity import Sites
from lycosa.cluster.kafka.control_topic import KafkaControl
from lycosa.cluster.kafka.generations import delete_state_topics, extend_feeds, generation_number
from lycosa.cluster.kafka.kafka_clients import KafkaClient
from lycosa.cluster.kafka.new_log import FirstCommit
from lycosa.cluster.kafka.topics import crawl_topics
from lycosa.cluster.kafka.upkeep import KafkaAway
from lycosa.cluster.shards.stored_crawl import SETTINGS_NAME, create_manifest, store_formats
from lycosa.moves.gathered import GatheredState, open_tables
from lycosa.moves.new_shards import (
    SnapshotPlace,
    begin_new_logs,
    make_fit_topics,
    save_first_snapshot,
)
from lycosa.moves.reshard.counting import recounted
from lycosa.moves.reshard.division import Division, OldState
from lycosa.moves.reshard.host_owners import HostOwners, StateDamaged
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.state.commit import Mark
from lycosa.state.folder.manifest import Manifest
from lycosa.state.folder.names import suffix_list, table_folder
from lycosa.state.kv.kv_port import KeyValue, Opener
from lycosa.state.objects.generation import (
    GENERATIONS,
    OF_SHARDS,
    generation_prefix,
    placed_objects,
)
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.counters import Counters, counters_of

_AT_ONCE = 32  # shards whose tables are open at the same time
OnStep = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0 = unknown)."""


class AnotherImport(Exception):
    """Another program has imported the crawl at the same time."""


class ClusterPlaces(msgspec.Struct, frozen=True):
    """The services of a cluster, for a program that changes its generation.

    ``objects`` has the keys of all generations. ``work`` is a local folder that the program may
    fill. ``on_step`` is called with what is done, ``tell`` with lines for the operator.
    """

    given: ClusterFile
    client: KafkaClient
    objects: ObjectStore
    work: Path
    open_table: Opener
    on_step: OnStep
    tell: Callable[[str], None]


def new_generation_name(number: int) -> str:
    """A name that no other generation has."""
    return f"g{number}-{secrets.token_hex(3)}"


class NewGeneration:
    """One generation in the making. ``manifest`` is the one that will be in force."""

    def __init__(self, places: ClusterPlaces, manifest: Manifest, config: Config) -> None:
        self._places, self.manifest, self._config = places, manifest, config
        self._shards = manifest.identity.partitions
        self._topics = crawl_topics(places.given, manifest.generation, self._shards)

    def make_topics(self) -> None:
        """Make the topics, and check them. Raises ``TopicsUnfit`` or ``KafkaAway``."""
        extend_feeds(self._places.client, self._topics)
        make_fit_topics(self._places.client, self._topics)

    def write_shards(self, state: GatheredState, held: Mapping[bytes, float]) -> list[Counters]:
        """Divide the state and save each shard, with its log; returns the counters by shard.

        ``held`` are hosts (``host8``) that may not be requested before a crawl time. Raises
        ``StateDamaged``, ``NotStored``, ``OSError`` and the errors of ``begin_log``.
        """
        places = self._places
        with open_tables() as tables:
            for number in range(state.manifest.identity.partitions):
                tables[number] = places.open_table(table_folder(state.folder, number))
            owners = HostOwners(tables, Sites(suffix_list(state.folder)).site_of, self._shards)
            total = sum(counters_of(table).discovered for table in tables.values())
            counters = recounted(owners, lambda done: places.on_step("counting URLs", done, total))
            old = OldState(
                owners,
                state.manifest.identity.bands,
                state.was_on_machine,
                held,
                len(state.manifest.earlier),
            )
            mark = Mark(max(state.term, state.newest.term) + 1, state.newest.sequence + 1)
            first = FirstCommit(0, mark, state.wall, state.time, state.settings, state.is_orderly)
            # In groups, because each open table takes memory and files.
            for start in range(0, self._shards, _AT_ONCE):
                shards = range(start, min(start + _AT_ONCE, self._shards))
                self._write_group(old, shards, counters, first)
            return counters

    def _write_group(
        self, old: OldState, shards: range, counters: list[Counters], first: FirstCommit
    ) -> None:
        places, on_step = self._places, self._places.on_step
        folder = places.work / "shards"
        shutil.rmtree(folder, ignore_errors=True)
        store = placed_objects(places.objects, self.manifest.generation)
        place = SnapshotPlace(store, folder, self._config, places.open_table)
        data = {shard: place.open_partition(shard) for shard in shards}
        tables = {shard: each.table for shard, each in data.items()}
        try:
            division = Division(old, RowSink(tables), counters)
            step = f"dividing rows for shards {shards[0]} to {shards[-1]}"
            division.write(lambda done: on_step(step, done, 0))
            # Before the first snapshot is saved: a row that is lost here would stay unnoticed.
            _check(old.owners, tables, counters)
            for shard in shards:
                on_step("saving shards", shard + 1, self._shards)
                save_first_snapshot(place, shard, data[shard], first.mark)
        finally:
            for each in data.values():
                each.close()
            shutil.rmtree(folder, ignore_errors=True)
        begin_new_logs(
            places.client,
            self._topics,
            self.manifest.crawl,
            [msgspec.structs.replace(first, shard=shard) for shard in shards],
            lambda done: on_step("beginning logs", shards[0] + done, self._shards),
            places.tell,
        )

    def put_in_force(self, number: int, records: Sequence[Record]) -> None:
        """Write what coordinators must know, and then the manifest; the crawl is stopped.

        ``number`` is that of the generation. Raises ``AnotherImport``, ``ObjectError``, ``Fenced``,
        ``ControlDamaged``.
        """
        saved = [*records, EndSaved(End.STOPPED.value, False), AsksSaved(True)]
        places = self._places
        control = KafkaControl(places.client, self._topics, self.manifest.crawl, places.tell)
        # The claim fences a coordinator of this generation, so two programs cannot both append.
        try:
            control.claim()
            control.append([(key_of(each), msgspec.msgpack.encode(each)) for each in saved])
        finally:
            control.close()
        # A new crawl is complete with its manifest, so its settings are there before. Those of a
        # crawl that is divided again must stay until the new division is in force: ``read_crawl``
        # corrects them if a program is killed in between.
        if number == 1:
            store_formats(places.objects, folded(saved).formats)
            self._save_settings()
        if not create_manifest(places.objects, self.manifest, number):
            raise AnotherImport(
                "another program has put a division of this crawl in force in the meantime; what"
                " this one wrote is not used"
            )
        if number > 1:
            self._save_settings()

    def _save_settings(self) -> None:
        content = msgspec.json.format(msgspec.json.encode(self._config), indent=2)
        self._places.objects.put(SETTINGS_NAME, content)


def delete_others(places: ClusterPlaces, manifest: Manifest) -> str:
    """Delete the state of other generations than that of ``manifest``, which is in force, and that
    no one reads any more; may be repeated.

    Attempt logs stay, by which politeness is judged, and the parts of damaged segments with the
    notes about them. Those of later generations stay, which another program may be writing. Returns
    why not everything was deleted, or an empty text.
    """
    if not (generation := manifest.generation):
        return ""  # there never was another one; its own keys have no prefix
    number = generation_number(generation)
    try:
        # the keys of the first generation have no prefix
        found = [each.key for kind in OF_SHARDS for each in places.objects.list(f"{kind}/")]
        for each in places.objects.list(f"{GENERATIONS}/"):
            is_later = generation_number(each.key.split("/")[1]) > number
            if not each.key.startswith(generation_prefix(generation)) and not is_later:
                found.append(each.key)
        places.objects.delete(unneeded(found))
        delete_state_topics(places.client, places.given.name, generation, number)
    except (ObjectError, KafkaAway) as error:
        # the move is done all the same
        return (
            f"what is left of the earlier division could not be deleted ({error}); it is not"
            " used; the same command, given again, deletes it"
        )
    return ""


def unneeded(keys: Sequence[str]) -> list[str]:
    """Those of the keys of earlier generations that no one may need any more.

    The parts of a segment that was damaged when it was sealed may be all that is left of it.
    """
    notes = [key.rpartition("damaged/") for key in keys if "damaged" in key.split("/")]
    kept = tuple(f"{place}parts/{name.removesuffix('.json')}/" for place, _, name in notes)
    return [
        key
        for key in keys
        if not {"attempts", "damaged"} & {*key.split("/")} and not key.startswith(kept)
    ]


def _check(
    before: HostOwners, tables: Mapping[int, KeyValue], counters: Sequence[Counters]
) -> None:
    """Count the new tables again, as the old ones were counted. Raises ``StateDamaged``."""
    owners = HostOwners(tables, before.site_of, before.shards)
    found = recounted(owners)
    for shard in tables:
        one, other = found[shard], counters[shard]
        if (one.states, one.hosts, one.asking) != (other.states, other.hosts, other.asking):
            raise StateDamaged(
                f"shard {shard} got {one.discovered} URLs of {one.hosts} hosts, and"
                f" {other.discovered} of {other.hosts} belong to it; nothing was put in force"
            )
