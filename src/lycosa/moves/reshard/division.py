"""The division of a crawl's rows into new shards: where the rows under each prefix go.

=========================  ======================================================================
``U Q R t N B X Y E g z``  to the shard of the host; ``z`` with the new numbers of dead letters
``a l i f r v o``          to the shard of the host
``d``                      to the shard of the host; the pages that wait are named by their shards
``H F W w``, ``Mfront``    to the shard of the host, in new places (``host_rows``)
``D P``                    to the shard of each URL or host; the URLs of a second in shared rows
``V``                      to the shard of the host in its value
``A L``                    to the shard of the site
``T``                      to the shard of the sitemap's URL
``C S``                    to the shard that their own key gives
``s``                      to the shards that have buckets for it (``_capture``)
``J``                      to all shards
``Z``                      to the shard of the host, numbered again from 1
``G``                      to the shard of the host, by time, numbered again from 1
``K``                      to the shard of the host that was decided about, numbered again; those
                           about no host stay with the number of their partition
``h``                      made again, complete
``O I``                    nowhere: all parcels must have been taken
``M``                      counters are counted again (``counting``); ``allowed`` and ``unparsed``
                           go to all shards, and so does the sum of ``truths``; the others are
                           made by the first commit
=========================  ======================================================================

A prefix that is not in this table stops the import: nothing may be left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from operator import itemgetter

import msgspec

from lycosa.base.urls.identity import hash8
from lycosa.moves.reshard.changes_moved import put_changes
from lycosa.moves.reshard.counting import OnRows
from lycosa.moves.reshard.divided_hosts import HostRows
from lycosa.moves.reshard.host_owners import HostOwners, StateDamaged
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.stages.frontier.address_grids import ADDRESS_PRICES
from lycosa.stages.frontier.change_log import CHANGE_BOUNDS
from lycosa.stages.frontier.cold_urls import COLD_WALK_KEY
from lycosa.stages.frontier.dead_letters import decisions_of, decode_letter, number_of
from lycosa.stages.frontier.decision_log import ACTIONS, MAX_ACTIONS, decode_action
from lycosa.stages.frontier.demands import DEMAND_KEY, decode_demand
from lycosa.stages.frontier.front_queues import FRONT_KEY
from lycosa.stages.frontier.policy_walk import WALK_KEY, WalkRow
from lycosa.stages.frontier.pooled_truths import TRUTHS_KEY, decode_pools, merged_pools
from lycosa.stages.frontier.probe_line import PROBES_KEY
from lycosa.state.commit import MARK_KEY
from lycosa.state.kv.table_records import (
    action_key,
    dead_letter_key,
    decision_key,
    due_key,
    due_urls,
    encode_record,
    meta_key,
    prefix_end,
)
from lycosa.state.seen.content_seen import decode_original
from lycosa.state.seen.simhash import upper_block_of, upper_blocks
from lycosa.state.shard.counters import COUNTERS_KEY, Counters

_BY_HOST = b"UQRtNBXYEaglifrvo"
_MADE_AGAIN = b"FGKWZhw"
_DUE_ROW = 64  # URLs of one second that share a row
_EVERY = 20_000
_MAX_VOUCHING = 100
_CRASHES, _LETTERS = meta_key("crashes"), meta_key("dead_letters")
_UNPARSED, _ALLOWED = meta_key("unparsed"), meta_key("allowed")
_NAMES, _ACTIONS, _ACTIONS_REPORTED = map(meta_key, ("host_names", "actions", "told_actions"))
_MADE_ANEW = frozenset(
    {
        COUNTERS_KEY,
        MARK_KEY,
        FRONT_KEY,
        CHANGE_BOUNDS,
        WALK_KEY,
        COLD_WALK_KEY,
        ADDRESS_PRICES,
        PROBES_KEY,
        TRUTHS_KEY,
        _CRASHES,
        _LETTERS,
        _NAMES,
        _ACTIONS,
        _ACTIONS_REPORTED,
    }
)
_TO_ALL = frozenset({_UNPARSED, _ALLOWED})
_LAST_KEY = b"\xff" * 32
_OUTBOX_COUNT = 5  # bytes of a key that has the number of the last parcel
_HOSTS = msgspec.msgpack.Decoder(list[str])


class OldState(msgspec.Struct, frozen=True):
    """What is divided: the old partitions, and what concerns all of them.

    ``bands`` is frozen with the crawl. ``was_on_machine``: its content tables are those of one
    machine. ``held`` as in ``HostRows``. ``generation`` counts the imports before.
    """

    owners: HostOwners
    bands: int
    was_on_machine: bool
    held: Mapping[bytes, float] = {}
    generation: int = 0


class Division:
    """Writes the rows of some new shards, those of ``sink``; ``counters`` are those of all shards.

    Raises ``StateDamaged`` when rows contradict each other, or are of a kind that is not known.
    """

    def __init__(self, state: OldState, sink: RowSink, counters: Sequence[Counters]) -> None:
        self._owners, self._sink, self._counters = state.owners, sink, counters
        self._tables = state.owners.tables
        self._generation = state.generation
        self._before = 0 if state.was_on_machine else len(self._tables)
        self._hosts = HostRows(state.owners, sink, state.bands, state.held)
        self._letters: dict[int, int] = dict.fromkeys(sink.shards, 0)
        self._renumbered: dict[tuple[int, int], int] = {}
        self._due: dict[int, tuple[int, list[bytes]]] = {}
        self._sitemaps: dict[bytes, set[int]] = {}
        self._has_walk = False  # rules of refetches were applied to records

    def write(self, on_rows: OnRows = lambda number: None) -> None:
        """Write all rows; ``on_rows`` is called with the number of rows read so far. Blocks."""
        read = 0
        for partition, table in self._tables.items():
            self._hosts.line_up(partition)
            self._number_dead_letters(partition)
            self._sitemaps = {key[1:]: set() for key, _ in table.scan(b"T", prefix_end(b"T"))}
            for key, value in table.scan(b"", _LAST_KEY):
                self._move(partition, key, value)
                read += 1
                if read % _EVERY == 0:
                    on_rows(read)
            self._finish_due()
        on_rows(read)
        self._hosts.finish()
        for shard in self._sink.shards:
            self._sink.put(shard, COUNTERS_KEY, encode_record(self._counters[shard]))
            self._sink.put(shard, _LETTERS, encode_record(self._letters[shard]))
            self._sink.put(shard, _CRASHES, encode_record({}))
            self._sink.put(shard, _NAMES, encode_record(b""))
        if self._has_walk:
            # Records of several partitions are together now, so the rules are applied to all again.
            for shard in self._sink.shards:
                self._sink.put(shard, WALK_KEY, encode_record(WalkRow(b"")))
        self._put_actions()
        put_changes(self._owners, self._sink, self._generation)
        self._put_agreed()
        self._sink.flush()

    def _move(self, partition: int, key: bytes, value: bytes) -> None:
        prefix = key[:1]
        if (route := _ROUTES.get(prefix)) is not None:
            shard = route(self._owners, partition, key, value)
            if prefix == b"U" and self._sitemaps and key[9:] in self._sitemaps:
                self._sitemaps[key[9:]].add(shard)
            self._sink.put(shard, key, value)
        elif (mover := _MOVERS.get(prefix)) is not None:
            mover(self, partition, key, value)
        elif prefix not in _MADE_AGAIN:
            raise StateDamaged(
                f"partition {partition} has rows under {prefix!r}, which this program does not"
                " know: they may be from a newer version; import with that version"
            )

    def _host(self, partition: int, key: bytes, value: bytes) -> None:
        self._hosts.put(partition, key[1:], value)

    def _place(self, partition: int, key: bytes, value: bytes) -> None:
        for shard in self._sink.shards:
            self._sink.put(shard, key, value)

    def _capture(self, partition: int, key: bytes, value: bytes) -> None:
        """Write the first capture with a SimHash to all its owners.

        The owner of a bucket of SimHashes keeps the captures of those that it has filed
        (``seen.near_judge``). On one machine each row is at the partition of its key, and every
        SimHash is filed in all its tables. On a cluster an owner files a SimHash only if it knows
        no earlier capture like it. So its capture goes where this owner's buckets for it go, and
        nowhere else.
        """
        blocks = set(upper_blocks(int.from_bytes(key[1:], "big")))
        if self._before:
            blocks = {block for block in blocks if block % self._before == partition}
        for shard in {block % self._owners.shards for block in blocks}:
            self._sink.merge(shard, key, value, _earlier)

    def _due_urls(self, partition: int, key: bytes, value: bytes) -> None:
        """Gather the URLs of one second by shard, so that they share rows again."""
        due_at = int.from_bytes(key[1:5], "big")
        for url in due_urls(key, value):
            shard = self._owners.shard_of(partition, url[:8])
            second, urls = self._due.get(shard, (due_at, []))
            if second != due_at or len(urls) == _DUE_ROW:
                self._put_due(shard, second, urls)
                urls = []
            self._due[shard] = due_at, [*urls, url]

    def _finish_due(self) -> None:
        for shard, (second, urls) in self._due.items():
            self._put_due(shard, second, urls)
        self._due.clear()

    def _put_due(self, shard: int, second: int, urls: Sequence[bytes]) -> None:
        self._sink.put(shard, due_key(second) + urls[0], b"".join(urls[1:]))

    def _sitemap(self, partition: int, key: bytes, value: bytes) -> None:
        """Write who vouches for a sitemap.

        One without a record was left out, as its host had too many. Any shard that gets hosts of
        this partition may own it.
        """
        shards: Iterable[int] = self._sitemaps[key[1:]]
        if not shards:
            step = gcd(len(self._tables), self._owners.shards)
            shards = range(partition % step, self._owners.shards, step)
        for shard in shards:
            self._sink.merge(shard, key, value, _both_vouching)

    def _number_dead_letters(self, partition: int) -> None:
        """Write the dead letters, and note the new numbers of those that were decided."""
        table = self._tables[partition]
        for key, value in table.scan(b"Z", prefix_end(b"Z")):
            url = decode_letter(value).url
            shard = self._owners.shard_of(partition, url[:8])
            if shard in self._letters:
                self._letters[shard] += 1
                self._sink.put(shard, dead_letter_key(self._letters[shard]), value)
                if table.get(decision_key(url[:8], url[8:])) is not None:
                    self._renumbered[partition, number_of(key)] = self._letters[shard]

    def _decisions(self, partition: int, key: bytes, value: bytes) -> None:
        url = key[1:]
        kept = [
            msgspec.structs.replace(each, number=self._renumbered.get((partition, each.number), 0))
            for each in decisions_of(lambda _: value, url)
        ]
        self._sink.put(self._owners.shard_of(partition, url[:8]), key, encode_record(kept))

    def _demand(self, partition: int, key: bytes, value: bytes) -> None:
        """Write a demand for the shards of the pages that wait, or the count of those of a host.

        A page without a visit state does not wait any more, so its shard does not matter.
        """
        shard = self._owners.shard_of(partition, key[1:9])
        if len(key) == DEMAND_KEY:
            row = decode_demand(value)
            pages = tuple(
                msgspec.structs.replace(
                    page, partition=self._owners.find_shard(page.partition, page.host8) or 0
                )
                for page in row.pages
            )
            value = encode_record(msgspec.structs.replace(row, pages=pages))
        self._sink.put(shard, key, value)

    def _parcels(self, partition: int, key: bytes, value: bytes) -> None:
        if key[:1] == b"O" and len(key) > _OUTBOX_COUNT:
            raise StateDamaged(
                f"partition {partition} has parcels that were not taken; give the same command"
                " again"
            )

    def _cold_file(self, partition: int, key: bytes, value: bytes) -> None:
        raise StateDamaged(
            f"partition {partition} still has records in cold files, which would be lost; give the"
            " same command again"
        )

    def _metadata(self, partition: int, key: bytes, value: bytes) -> None:
        self._has_walk |= key == WALK_KEY
        if key not in _MADE_ANEW and key not in _TO_ALL:
            raise StateDamaged(
                f"partition {partition} has the row {key!r}, which this program does not know: it"
                " may be from a newer version; import with that version"
            )

    def _put_actions(self) -> None:
        """Write the newest decisions of operators, by their dates."""
        found: dict[int, list[tuple[int, bytes]]] = {shard: [] for shard in self._sink.shards}
        for partition, table in self._tables.items():
            for _, value in table.scan(ACTIONS, prefix_end(ACTIONS)):
                row = decode_action(value)
                shard = self._owners.find_shard(partition, hash8(row.subject))
                shard = partition % self._owners.shards if shard is None else shard
                if shard in found:
                    found[shard].append((row.date_us, value))
        for shard, rows in found.items():
            rows.sort(key=itemgetter(0))
            for number, (_, value) in enumerate(rows[-MAX_ACTIONS:], 1):
                self._sink.put(shard, action_key(number), value)
            self._sink.put(shard, _ACTIONS, encode_record(len(rows[-MAX_ACTIONS:])))

    def _put_agreed(self) -> None:
        """Write rows that all partitions have with one value, and sums; each may be made again."""
        for key in _TO_ALL:
            values = {table.get(key) for table in self._tables.values()}
            if len(values) == 1 and (value := values.pop()) is not None:
                for shard in self._sink.shards:
                    self._sink.put(shard, key, value)
        rows = (decode_pools(table.get(TRUTHS_KEY)) for table in self._tables.values())
        if pools := merged_pools(rows):
            for shard in self._sink.shards:
                self._sink.put(shard, TRUTHS_KEY, encode_record(pools))


def _shard_of_site(owners: HostOwners, partition: int, key: bytes, value: bytes) -> int:
    return owners.shard_of_site(key[1:].decode())


def _shard_of_host(owners: HostOwners, partition: int, key: bytes, value: bytes) -> int:
    return owners.shard_of(partition, key[1:9])


_ROUTES: Mapping[bytes, Callable[[HostOwners, int, bytes, bytes], int]] = {
    **{bytes([prefix]): _shard_of_host for prefix in _BY_HOST},
    b"A": _shard_of_site,
    b"C": lambda owners, partition, key, value: int.from_bytes(key[-2:], "big") % owners.shards,
    b"L": _shard_of_site,
    b"P": lambda owners, partition, key, value: owners.shard_of(partition, key[5:]),
    b"S": lambda owners, partition, key, value: upper_block_of(key) % owners.shards,
    b"V": lambda owners, partition, key, value: owners.shard_of(partition, value),
}
"""The shard of a row that stays what it is: by the owners, the old partition, key and value."""

_MOVERS: Mapping[bytes, Callable[[Division, int, bytes, bytes], None]] = {
    b"D": Division._due_urls,
    b"H": Division._host,
    b"I": Division._parcels,
    b"J": Division._place,
    b"M": Division._metadata,
    b"O": Division._parcels,
    b"T": Division._sitemap,
    b"c": Division._cold_file,
    b"d": Division._demand,
    b"k": Division._cold_file,
    b"s": Division._capture,
    b"z": Division._decisions,
}


def _earlier(before: bytes, value: bytes) -> bytes:
    """The earlier one of two captures."""
    one, other = decode_original(before), decode_original(value)
    return before if (one.date_us, one.url) <= (other.date_us, other.url) else value


def _both_vouching(before: bytes, value: bytes) -> bytes:
    hosts = dict.fromkeys([*_HOSTS.decode(before), *_HOSTS.decode(value)])
    return encode_record(list(hosts)[:_MAX_VOUCHING])
