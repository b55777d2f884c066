"""What handing parcels over through Kafka costs, by the form in which they are posted: ``python -m
bench.kafka [--brokers HOST:PORT,... --pid PID ...] [--shards 16,64,256]``.

A commit of 200 pages has some 2,000 URLs for other shards, spread evenly: with 256 shards these are
250 parcels of 8 URLs. One process posts as one shard does, as fast as acknowledgements come, for a
number of commits; what is posted late gathers five commits (one every 2 s). Printed are records and
requests, CPU time of the client (all its threads) and of the brokers, each for a commit, and what a
cluster of so many shards comes to. Without ``--brokers`` one broker is started
(``script/services``).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay

ROOT = Path(__file__).parents[1]
PAGES, URLS, COMMIT_S, LATE_COMMITS = 200, 2000, 2.0, 5
_TICK = os.sysconf("SC_CLK_TCK")
_ENCODE = msgspec.msgpack.Encoder().encode

Records = list[tuple[int, bytes]]
"""Destination and value of each."""


def parcels(shards: int, commit: int) -> Iterator[tuple[int, list[Discovered]]]:
    """The parcels of one commit."""
    each = max(URLS // (shards - 1), 1)
    for destination in range(1, shards):
        yield (
            destination,
            [
                Discovered(
                    f"https://www.site-{destination}.example/section/{commit}/article-{number}.html",
                    destination.to_bytes(8),
                    (commit * 10_000 + number).to_bytes(8),
                    LinkKind.A,
                    3,
                    f"https://www.another.example/list/{commit}/{number // 7}.html",
                )
                for number in range(each)
            ],
        )


def one_each(shards: int, commits: Sequence[int]) -> Records:
    """A record for each parcel."""
    return [
        (destination, _ENCODE((0, commit, found)))
        for commit in commits
        for destination, found in parcels(shards, commit)
    ]


def together(shards: int, commits: Sequence[int]) -> Records:
    """All parcels of a destination in one record."""
    rows: dict[int, list[tuple[int, list[Discovered]]]] = {}
    for commit in commits:
        for destination, found in parcels(shards, commit):
            rows.setdefault(destination, []).append((commit, found))
    return [(destination, _ENCODE((0, each))) for destination, each in rows.items()]


FORMS = {
    "each commit, a record a parcel": (one_each, 1),
    "late, a record a parcel": (one_each, LATE_COMMITS),
    "late, one record": (together, LATE_COMMITS),
}


class Acknowledgements:
    """Counts what the brokers have."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.count += 1


def cpu_s(pids: Sequence[int]) -> float:
    """User and system time of processes."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICK


def own_s() -> float:
    """User and system time of this process with its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(
    brokers: str, pids: Sequence[int], shards: int, form: str, options: dict[str, object]
) -> None:
    """Posts in one form and prints what it cost."""
    make, late = FORMS[form]
    admin = AdminClient({"bootstrap.servers": brokers})
    topic = f"bench-{shards}-{time.monotonic_ns()}"
    replication = min(3, len(brokers.split(",")))
    admin.create_topics([NewTopic(topic, shards, replication)])[topic].result()
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "statistics.interval.ms": 0,
            **options,
        }
    )
    done = Acknowledgements()
    turns = max(40 // late, 3)
    made = [make(shards, range(turn * late, (turn + 1) * late)) for turn in range(turns + 1)]
    records, size = sum(map(len, made[1:])), sum(len(v) for each in made[1:] for _, v in each)
    for turn, batch in enumerate(made):
        if turn == 1:  # the first finds the partitions' leaders
            began, own, theirs = time.monotonic(), own_s(), cpu_s(pids)
        for destination, value in batch:
            producer.produce(topic, value, partition=destination, on_delivery=done)
        producer.flush()
    wall, own, theirs = time.monotonic() - began, own_s() - own, cpu_s(pids) - theirs
    assert done.count == sum(map(len, made))
    commits = turns * late
    needed = shards * records / commits / COMMIT_S
    print(
        f"| {shards} | {form} | {records / commits:.0f} | {size / records / 1000:.1f}"
        f" | {records / wall:,.0f} | {own / records * 1e6:.0f} | {theirs / records * 1e6:.0f}"
        f" | {own / commits * 1e3:.1f} | {theirs / commits * 1e3:.1f}"
        f" | {needed:,.0f} | {theirs / commits * shards / COMMIT_S:.2f} |",
        flush=True,
    )
    admin.delete_topics([topic])[topic].result()


def outbox(shards: int) -> None:
    """What numbering parcels costs: a counter row for each destination, or none."""
    for numbering in ("by destination", "by commit"):
        store = MemoryKeyValue()
        table = Overlay(store)
        box = Outbox(0, table, store)
        found = [list(parcels(shards, commit)) for commit in range(40)]
        began = own_s()
        for commit, each in enumerate(found, 1):
            for destination, urls in each:
                if numbering == "by commit":
                    key = b"O" + destination.to_bytes(4) + commit.to_bytes(8)
                    table.put(key, _ENCODE(urls))
                else:
                    box.enqueue(destination, urls)
            store.write(table.freeze())
            table.settle()
        print(f"rows of a commit, {shards} shards, numbered {numbering}: ", end="")
        print(f"{(own_s() - began) / 40 * 1e3:.2f} ms")


def main() -> None:
    """Reads the options and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default="")
    parser.add_argument("--pid", type=int, action="append", default=[])
    parser.add_argument("--shards", default="16,64,256")
    parser.add_argument(
        "--warm-up", type=int, default=3, help="Rounds before the first one that counts."
    )
    parser.add_argument("--linger", type=int, default=5)
    parser.add_argument("--compression", default="zstd")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not given.brokers:
            started = subprocess.run(
                [ROOT / "script" / "services", "start", "kafka", folder],
                check=True,
                text=True,
                stdout=subprocess.PIPE,
            ).stdout
            values = dict(line.split("=", 1) for line in started.split())
            given.brokers = values.pop("KAFKA")
            given.pid = list(map(int, values.values()))
        try:
            print("| shards | form | records a commit | kB each | records a second", end="")
            print(" | client us | brokers us | client ms a commit | brokers ms a commit", end="")
            print(" | records a second wanted | broker cores wanted |")
            print("|" + "---|" * 11)
            options = {"linger.ms": given.linger, "compression.type": given.compression}
            for _ in range(given.warm_up):  # a broker that just started compiles its code first
                measure(given.brokers, given.pid, 64, next(iter(FORMS)), options)
            for shards in map(int, given.shards.split(",")):
                for form in FORMS:
                    measure(given.brokers, given.pid, shards, form, options)
                outbox(shards)
        finally:
            subprocess.run([ROOT / "script" / "services", "stop", "kafka", folder], check=True)


if __name__ == "__main__":
    main()
