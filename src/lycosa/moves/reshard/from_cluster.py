"""Gathers the state of a stopped crawl on a cluster.

Each shard is its newest snapshot with the commits behind it. Parcels that are in topics, which
their receivers have not taken, become rows of their senders' outboxes again, under their numbers.
So all parcels can be taken in one place, each once and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.moves.reshard.gathered import GatheredState, prepare_gathering
from lycosa.moves.reshard.host_owners import StateDamaged
from lycosa.state.commit import MARK_KEY, Mark
from lycosa.state.exchange import Parcel, ParcelNumbers
from lycosa.state.exchange.parcel_rows import ParcelRow, encode_row
from lycosa.state.folder.names import table_folder
from lycosa.state.kv.kv_port import KeyValue, Opener
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.shard.view import ShardPosition


def gather_cluster(
    opened: OpenedCluster, work: Path, open_table: Opener, told: Callable[[int], None]
) -> GatheredState:
    """Gather all shards of a crawl in the folder ``work``. Blocks.

    ``told`` is called with the number of shards that are there. Raises what opening a shard raises,
    ``StateDamaged`` when a parcel is lost, ``PositionLost``, ``InboxDamaged`` or ``OSError``.
    """
    stored, view = opened.stored, opened.view
    prepare_gathering(work, stored.suffixes)
    view.open_shards()
    positions = [view.shards[number] for number in sorted(view.shards)]
    tables: dict[int, KeyValue] = {}
    try:
        for number in view.shards:
            view.copy_table(number, table_folder(work, number))
            tables[number] = open_table(table_folder(work, number))
            # a worker of one machine would look for the commit in its own log
            tables[number].write({MARK_KEY: None})
            told(len(tables))
        numbers = {number: _numbers_of(table) for number, table in tables.items()}
        for each in positions:
            parcels = opened.read_inbox(each.shard, each.inbox)
            _return_parcels(tables, numbers, each.shard, parcels)
    finally:
        for table in tables.values():
            table.flush()
            table.close()
    term = max(each.owner_term for each in positions)
    return GatheredState(
        work,
        stored.manifest,
        stored.config,
        Mark(term, max(each.last.sequence for each in positions)),
        term,
        *_times(positions),
        settings=max(each.settings for each in positions),
        was_on_machine=False,
        is_orderly=all(each.is_final for each in positions),
    )


def _times(positions: list[ShardPosition]) -> tuple[float, float]:
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
    held: dict[int, dict[int, Parcel]] = {}
    for parcel in parcels:
        if parcel.sequence > taken.get(parcel.source, 0):
            held.setdefault(parcel.source, {}).setdefault(parcel.sequence, parcel)
    for source, table in tables.items():
        here = held.get(source, {})
        made = numbers[source].made.get(receiver, 0)
        waiting = numbers[source].waiting.get(receiver, set())
        for number in range(taken.get(source, 0) + 1, made + 1):
            if number in waiting:
                continue
            if number not in here:
                raise StateDamaged(
                    f"parcel {number} from shard {source} to shard {receiver} is neither in"
                    " its outbox nor in the topic: `lycosa audit` shows what is lost"
                )
            table.write({_row_key(receiver, number): _row_of(here[number])})


def _numbers_of(table: KeyValue) -> ParcelNumbers:
    numbers = ParcelNumbers()
    for prefix in (b"I", b"O"):
        for key, value in table.scan(prefix, prefix_end(prefix)):
            numbers.apply(key, value)
    return numbers


def _row_key(destination: int, number: int) -> bytes:
    return b"O" + destination.to_bytes(4, "big") + number.to_bytes(8, "big")


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
        )
    )
