"""A stopped crawl on a cluster as the source of a move to more shards.

Each shard is its newest snapshot with the commits behind it. Parcels that are in topics, which
their receivers have not taken, become rows of their senders' outboxes again, under their numbers.
So all parcels can be taken in one place, each once and in order.

Nothing is changed until the new shards are written. Then the logs are closed, so that no owner of
an old shard can commit any more, and the open segments get their final form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from lycosa.base.messages.control_records import (
    DrainSaved,
    FormatsSaved,
    Record,
    SettingsSaved,
    decode_records,
    folded,
)
from lycosa.cluster.kafka.control_topic import KafkaControl
from lycosa.cluster.kafka.generations import close_log
from lycosa.cluster.kafka.topics import crawl_topics
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.cluster.shards.stored_crawl import (
    CrawlFrozen,
    NoStoredCrawl,
    newest_manifest,
    read_crawl,
)
from lycosa.moves.gathered import GatheredState, open_tables, prepare_gathering
from lycosa.moves.move import MoveReport, delete_other_generations, move_crawl
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.reshard.host_owners import StateDamaged
from lycosa.moves.returned_records import return_records
from lycosa.stages.frontier.alike_pages import find_alike
from lycosa.state.commit import MARK_KEY, Mark
from lycosa.state.exchange.agreement import ParcelNumbers
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.parcel_rows import ParcelRow, encode_row
from lycosa.state.exchange.renumbering import numbers_of, row_key
from lycosa.state.folder.manifest import EarlierOwners, Manifest
from lycosa.state.folder.names import table_folder
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.objects.generation import generation_prefix, placed_objects
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.shard.view import ShardPosition
from lycosa.state.store import layout
from lycosa.state.store.object_segments import ObjectSegments

_LOGS_AT_ONCE = 8
_KEPT = (SettingsSaved, DrainSaved, FormatsSaved)  # by the coordinators of the next generation


class CrawlRuns(Exception):
    """The crawl on the cluster was not stopped."""


def import_shards(places: ClusterPlaces, shards: int) -> MoveReport:
    """Divide a stopped crawl on a cluster into more shards.

    Blocks. Raises ``CrawlRuns``, ``LogWentOn``, ``ManifestError``, ``StateDamaged``,
    ``TopicsUnfit``, and the errors of the services and of files.
    """
    report = move_crawl(StoppedCluster(places, shards), places, shards)
    return delete_other_generations(report, places)


class StoppedCluster:
    """The crawl of a cluster that is to have ``shards`` shards; implements ``MoveSource``.

    Raises ``NoStoredCrawl``, another ``ManifestError`` or ``ObjectError``.
    """

    def __init__(self, places: ClusterPlaces, shards: int) -> None:
        self._shards = shards
        try:
            self._manifest, number = newest_manifest(places.objects)
        except ObjectMissing as error:
            raise NoStoredCrawl(
                f"{places.given.objects} has no crawl that could be divided; check objects.url"
            ) from error
        self.number, self._before = number + 1, self._manifest.identity.partitions
        given = msgspec.structs.replace(places.given, shards=self._before)
        self._places = msgspec.structs.replace(places, given=given)
        self._topics = crawl_topics(given, self._manifest.generation)

    def find_moved(self) -> Manifest | None:
        """See ``MoveSource``: a crawl that has so many shards was moved. Raises ``CrawlFrozen``."""
        read_crawl(self._places.objects, self._places.given)
        if self._before == self._shards:
            return self._manifest
        if self._shards < self._before:
            raise CrawlFrozen(
                f"the crawl {self._places.given.name!r} has {self._before} shards, which cannot"
                f" become fewer; give a number greater than {self._before}"
            )
        return None

    def gather(self, generation: str) -> GatheredState:
        """See ``MoveSource``.

        Raises ``CrawlRuns`` if the crawl was not stopped, ``StateDamaged`` if a parcel is lost,
        ``PositionLost`` or ``InboxDamaged``.
        """
        places, records = self._places, self._records()
        opened = OpenedCluster(places.given, places.work / "read", tell=places.tell)
        try:
            state = self._gathered(opened, records)
        finally:
            opened.close()
        owners = EarlierOwners(
            generation_prefix(self._manifest.generation),
            self._before,
            is_machine=False,
            term=state.term,
        )
        return msgspec.structs.replace(state, earlier=(*self._manifest.earlier, owners))

    def complete_segments(self, state: GatheredState) -> int:
        """Close all logs, and then the open segments. Raises ``LogWentOn`` and as
        ``seal_segments``.
        """
        places = self._places

        def close(item: tuple[int, Mark]) -> None:
            shard, last = item
            close_log(places.client, self._topics, self._manifest.crawl, shard, last, places.tell)

        # Closing a log waits for Kafka most of the time.
        with ThreadPoolExecutor(_LOGS_AT_ONCE) as pool:
            for done, _ in enumerate(pool.map(close, state.ends.items()), 1):
                places.on_step("closing logs", done, len(state.ends))
        return seal_segments(places, state)

    def _records(self) -> list[Record]:
        """What the coordinators of the next generation must know. Raises ``CrawlRuns``."""
        given, places = self._places.given, self._places
        control = KafkaControl(places.client, self._topics, self._manifest.crawl, places.tell)
        try:
            known = decode_records(control.read().values.values())
        finally:
            control.close()
        if not folded(known).end.end:
            raise CrawlRuns(
                f"the crawl {given.name!r} was not stopped: `lycosa cluster stop {given.path}` ends"
                " it, and `lycosa cluster status` shows when it has ended"
            )
        return [each for each in known if isinstance(each, _KEPT)]

    def _gathered(self, opened: OpenedCluster, records: Sequence[Record]) -> GatheredState:
        places, view, work = self._places, opened.view, self._places.work / "gathered"
        prepare_gathering(work, opened.stored.suffixes)
        view.open_shards()
        positions = [view.shards[number] for number in sorted(view.shards)]
        with open_tables() as tables:
            for each in positions:
                view.copy_table(each.shard, table_folder(work, each.shard))
                table = tables[each.shard] = places.open_table(table_folder(work, each.shard))
                # a worker of one machine would look for the commit in its own log
                table.write({MARK_KEY: None})
                return_records(table, opened.objects)
                places.on_step("shards", len(tables), self._before)
            numbers = {number: numbers_of(table.scan) for number, table in tables.items()}
            for each in positions:
                parcels = opened.read_inbox(each.shard, each.inbox)
                _return_parcels(tables, numbers, each.shard, parcels)
        term = max(each.owner_term for each in positions)
        wall, time = _times(positions)
        return GatheredState(
            work,
            opened.stored.manifest,
            opened.stored.config,
            Mark(term, max(each.last.sequence for each in positions)),
            term,
            wall,
            time,
            was_on_machine=False,
            is_orderly=all(each.is_final for each in positions),
            settings=max(each.settings for each in positions),
            records=records,
            ends={each.shard: each.last for each in positions},
            lengths=view.seen.last.lengths,
            sums=view.seen.last.sums,
        )


def seal_segments(places: ClusterPlaces, state: GatheredState) -> int:
    """Give all open segments their final form, as the next owners would; returns their number.
    Damaged ones are reported to the operator.

    Raises ``NotStored``, ``StoreDamaged`` or ``OSError``.
    """
    objects, sealed = placed_objects(places.objects, state.manifest.generation), 0
    for shard in state.ends:
        lengths = {
            name: length
            for name, length in state.lengths.items()
            if layout.segment_worker(layout.stem_of(name)) == shard
        }
        segments = ObjectSegments(objects, shard, places.work / "segment")
        segments.recover_segments(lengths, state.sums)
        table = places.open_table(table_folder(state.folder, shard))
        try:
            for name in sorted({layout.stem_of(each) for each in lengths}):
                if damage := segments.close_segment(name, partial(find_alike, table.get)):
                    places.tell(damage)
                sealed += 1
        finally:
            table.close()
    return sealed


def _times(positions: Sequence[ShardPosition]) -> tuple[float, float]:
    """Wall time and crawl time from which no stored time of any shard is reached early.

    The crawl time of some shards is behind the wall clock, after moves between machines. The one
    that is furthest behind counts for all: times of the others are then reached later.
    """
    begun = [each for each in positions if each.wall]
    wall = max((each.wall for each in begun), default=0.0)
    return wall, wall + min((each.time - each.wall for each in begun), default=0.0)


def _return_parcels(
    tables: Mapping[int, KeyValue],
    numbers: Mapping[int, ParcelNumbers],
    receiver: int,
    parcels: Iterator[Parcel],
) -> None:
    """Put the parcels for one shard that it has not taken into their senders' outboxes."""
    taken = numbers[receiver].taken
    held: dict[tuple[int, int], Parcel] = {}
    for parcel in parcels:
        # Those up to the number that the receiver's table has are in its rows already.
        if parcel.sequence > taken.get(parcel.source, 0):
            held.setdefault((parcel.source, parcel.sequence), parcel)
    for source, table in tables.items():
        made = numbers[source].made.get(receiver, 0)
        waiting = numbers[source].waiting.get(receiver, set())
        for number in range(taken.get(source, 0) + 1, made + 1):
            if number in waiting:
                continue
            if (source, number) not in held:
                raise StateDamaged(
                    f"parcel {number} from shard {source} to shard {receiver} is neither in"
                    " its outbox nor in the topic: `lycosa audit` shows what is lost"
                )
            table.write({row_key(receiver, number): _row_of(held[source, number])})


def _row_of(parcel: Parcel) -> bytes:
    return encode_row(
        ParcelRow(
            parcel.discovered,
            parcel.contents,
            parcel.errands,
            parcel.answers,
            parcel.places,
            parcel.fingerprints,
            parcel.verdicts,
            parcel.wants,
            parcel.settled,
        )
    )
