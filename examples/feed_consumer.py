"""Stores each capture of a cluster's crawl once, in SQLite, however often it is killed.

``feed_consumer.py BROKERS NAME.pages FILE``: the rows and the position in the topic behind them are
stored in one transaction, so neither can be there without the other.
"""

import json
import sqlite3
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

brokers, topic, path = sys.argv[1:]
db = sqlite3.connect(path)
db.execute("CREATE TABLE IF NOT EXISTS positions (part PRIMARY KEY, next)")
db.execute("CREATE TABLE IF NOT EXISTS pages (url8, fetch_number, record_id, url, status)")
settings = {"bootstrap.servers": brokers, "group.id": "pages", "enable.auto.commit": False}
settings |= {"isolation.level": "read_committed", "auto.offset.reset": "error"}
consumer = Consumer(settings)
saved = dict(db.execute("SELECT part, next FROM positions"))
parts = consumer.list_topics(topic, timeout=60).topics[topic].partitions
begin = [TopicPartition(topic, part, saved.get(part, OFFSET_BEGINNING)) for part in parts]
consumer.assign(begin)
names = ("url8", "fetch_number", "record_id", "url", "status")
while True:
    messages = consumer.consume(500, timeout=0.5)
    with db:  # one transaction
        for message in messages:
            if message.error():
                sys.exit(str(message.error()))
            position = message.partition(), message.offset() + 1
            db.execute("REPLACE INTO positions VALUES (?, ?)", position)
            if not message.value():
                continue  # such a record means nothing
            try:
                row = json.loads(message.value())
                values = [row[name] for name in names]
            except (ValueError, LookupError, TypeError):
                print(f"not a row of a crawl: {position}", file=sys.stderr)  # of another program
                continue
            db.execute("INSERT INTO pages VALUES (?, ?, ?, ?, ?)", values)
