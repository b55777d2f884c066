"""The example consumer of a cluster's feed, killed twenty times: it stores each capture once."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from kafka_broker import PATIENCE_S, Broker
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.state.commit import Commit, FeedRow, Fenced

pytestmark = pytest.mark.service
EXAMPLE = Path(__file__).parents[2] / "examples" / "feed_consumer.py"
CRAWL = "2f0cf3d2"
COMMITS, ROWS, KILLS = 60, 50, 20


def rows(commit: int) -> list[FeedRow]:
    return [FeedRow("pages", b"12345678", json.dumps(row).encode()) for row in captures(commit)]


def captures(commit: int) -> list[dict[str, object]]:
    numbers = range(commit * ROWS, (commit + 1) * ROWS)
    return [
        {
            "url8": f"{number // 2:016x}",
            "fetch_number": number % 2 + 1,
            "record_id": f"id-{number}",
            "url": f"http://a.test/{number // 2}",
            "status": 200,
        }
        for number in numbers
    ]


def stored(path: Path) -> list[tuple[str, int]]:
    """The captures in the database, as its reader sees them."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=300)) as db:
        try:
            return list(db.execute("SELECT url8, fetch_number FROM pages"))
        except sqlite3.OperationalError:  # the table is not created yet
            return []


def test_a_consumer_that_is_killed_twenty_times_stores_each_capture_once(
    kafka: Broker, tmp_path: Path
) -> None:
    topics, path = kafka.topics(), tmp_path / "pages.sqlite"
    log = KafkaLog(kafka.client, topics, CRAWL, 1, 0)
    term = log.claim().term
    brokers, topic = ",".join(kafka.addresses), topics.named("pages")
    command = [sys.executable, str(EXAMPLE), brokers, topic, str(path)]
    kafka.write(topic, 1, [b"junk", b"", b"[]"])  # of another program, and a record without a value
    given = 0
    for kill in range(KILLS + 1):
        consumer = subprocess.Popen(command)
        try:
            for commit in range(kill * COMMITS // (KILLS + 1), (kill + 1) * COMMITS // (KILLS + 1)):
                log.append(
                    Commit(term=term, sequence=commit + 1, wall=1.0, crawl=CRAWL, shard=1),
                    lambda commit=commit: rows(commit),
                )
                given += ROWS
            # some kills come while it reads, the others when it has read a part or all of it
            wanted = given if kill in (KILLS, KILLS // 2) else given - (kill % 4) * ROWS
            until = time.monotonic() + PATIENCE_S
            while len(stored(path)) < wanted:
                assert consumer.poll() is None and time.monotonic() < until
        finally:
            consumer.send_signal(signal.SIGKILL)
            consumer.wait(30)
        if kill == KILLS // 2:  # a commit of an owner that was overtaken is not given to readers
            second = KafkaLog(kafka.client, topics, CRAWL, 1, 1)
            second.claim()
            with pytest.raises(Fenced):
                log.append(
                    Commit(term=term, sequence=999, wall=1.0, crawl=CRAWL, shard=1),
                    lambda: rows(999),
                )
            log.close()
            log, term = second, term + 1
    log.close()
    wanted_rows = [
        (str(row["url8"]), row["fetch_number"]) for n in range(COMMITS) for row in captures(n)
    ]
    assert sorted(stored(path)) == sorted(wanted_rows)
