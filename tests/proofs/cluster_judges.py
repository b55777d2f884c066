"""What a crawl of a cluster is judged by: its bucket, its topics, its tables, and the logs of the
web's servers, which know nothing of it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.synthetic.request_log import LoggedRequest
from nginx_site import RESOLUTION_S
from proofs.cluster_parts import Cluster
from proofs.cluster_web import ADDRESS_SLOTS, DELAY_S, Web
from proofs.outputs import Outputs

_LATE_S = 0.05
"""How late a busy server may stamp the end of an answer that its client has had already: 36 ms were
seen at a load of 10. What lycosa keeps to the microsecond is judged by the audit, from its own logs.
"""


class Seen(NamedTuple):
    """One request, as a server saw it."""

    start: float
    end: float
    host: str
    address: str
    target: str


class Ends(NamedTuple):
    """What a crawl came to: the states of each URL, one for each table that has it; and status
    and digest of the bodies that were stored.
    """

    states: dict[str, list[str]]
    bodies: dict[str, tuple[Any, ...]]


def requests_of(web: Web, after: float = 0.0) -> list[Seen]:
    """All requests that began after a wall time, by both servers' logs."""
    static = [
        Seen(hit.start, hit.end, hit.host, hit.address, hit.target) for hit in web.site.hits()
    ]
    computed = [
        Seen(each.wall, each.wall + each.end - each.start, each.host, each.address, each.path)
        for each in read_requests(web.log)
    ]
    return sorted(each for each in [*static, *computed] if each.start > after)


def read_requests(log: Path) -> list[LoggedRequest]:
    """The log of the synthetic server; a line that is being written is left out."""
    found = []
    for line in log.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            start, end, host, address, status, path = line[:-1].split("\t", 5)
            first, last = int(start) / 1e6, int(end) / 1e6
            found.append(LoggedRequest(host, address, path, first, first, last, int(status)))
    return found


def judge_politeness(seen: Iterable[Seen], slots: int = ADDRESS_SLOTS) -> tuple[str, list[str]]:
    """By the servers' own logs. Gives a line for the report and what is wrong."""
    hosts: dict[str, list[Seen]] = {}
    addresses: dict[str, list[Seen]] = {}
    for each in seen:
        hosts.setdefault(each.host.partition(":")[0], []).append(each)
        addresses.setdefault(each.address, []).append(each)
    wrong, least, near = [], float("inf"), 0
    for host, requests in hosts.items():
        for earlier, later in pairwise(sorted(requests)):
            gap = later.start - earlier.end
            least = min(least, gap)
            near += gap < DELAY_S - RESOLUTION_S
            if gap < DELAY_S - _LATE_S:
                wrong.append(
                    f"{host}: {later.target} began at {later.start:.3f}, {gap:.4f} s after the end"
                    f" of {earlier.target}, which had begun at {earlier.start:.3f}"
                )
    most = max((_max_at_once(each) for each in addresses.values()), default=0)
    if most > slots:
        wrong.append(f"{most} requests were open at an address, which has {slots} slots")
    return (
        f"{sum(map(len, hosts.values()))} requests to {len(hosts)} hosts at {len(addresses)}"
        f" addresses; least pause of a host {least:.4f} s ({near} shorter than the delay, by less than"
        f" {_LATE_S} s unless named below), at most {most} open at an address",
        wrong,
    )


def _max_at_once(requests: Iterable[Seen]) -> int:
    events = sorted(
        event
        for each in requests
        for event in ((each.start, 1), (max(each.end, each.start + 0.0005), -1))
    )
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def folder_ends(folder: Path) -> Ends:
    """Of a crawl on one machine."""
    return _ends(read_folder(folder), Outputs(folder))


def cluster_ends(cluster: Cluster, outputs: Outputs) -> Ends:
    """Of the crawl of a cluster, from Kafka and object storage."""
    opened = _opened(cluster.file, cluster.work / "cache", cluster.env)
    try:
        opened.view.open_shards()
        return _ends(CrawlReader(opened.view), outputs)
    finally:
        opened.close()


def _opened(file: Path, cache: Path, env: Mapping[str, str]) -> OpenedCluster:
    before = dict(os.environ)
    os.environ.update(env)  # the store's client reads it when it is made
    try:
        return OpenedCluster(read_cluster_file(file), cache)
    finally:
        os.environ.clear()
        os.environ.update(before)


def _ends(reader: CrawlReader, outputs: Outputs) -> Ends:
    states: dict[str, list[str]] = {}
    for entry in reader.urls():
        states.setdefault(entry.url, []).append(entry.state.label)
    bodies = {
        row["url"]: (row["fetch_status"], row["content_digest"])
        for row in outputs.rows
        if row["kind"] != "robots"
    }
    return Ends(states, bodies)


def differences(calm: Ends, other: Ends) -> list[str]:
    """URLs that are not in one state, or not in the same with the same body as undisturbed."""
    twice = [f"{url} is in {states}" for url, states in other.states.items() if len(states) != 1]
    return twice + [
        f"{url}: {one} undisturbed, {two} disturbed"
        for url in sorted(calm.states.keys() | other.states.keys())
        if (one := (calm.states.get(url), calm.bodies.get(url)))
        != (two := (other.states.get(url), other.bodies.get(url)))
    ]


def judge_outputs(outputs: Outputs) -> list[str]:
    """What is wrong with the sealed files in the bucket."""
    return [
        *(
            f"{url} has more than one capture of its fetch {number}"
            for url, number in outputs.captured_twice()
        ),
        *outputs.disagreements(),
    ]


def read_feed(cluster: Cluster) -> list[dict[str, Any]]:
    """The rows of the topic ``pages`` that a reader outside sees; it steps over foreign records."""
    values = [
        value
        for shard in range(cluster.topics.shards)
        for value in cluster.broker.values(cluster.topics.named("pages"), shard)
    ]
    return [json.loads(value) for value in values if b'"record_id"' in value]


def judge_feed(rows: list[dict[str, Any]], outputs: Outputs) -> tuple[str, list[str]]:
    """Each capture that was committed is in the feed once, and in a sealed WARC where the feed says
    it is. Gives a line for the report and what is wrong.
    """
    told = Counter(_bare(row["record_id"]) for row in rows)
    records = outputs.records()
    stored = {_bare(record): place for place, record in records.items()}
    wrong = [f"record {record} is {n} times in the feed" for record, n in told.items() if n > 1]
    for row in rows:
        place = stored.get(_bare(row["record_id"]))
        if place is None:
            wrong.append(f"{row['url']} is in the feed and in no sealed WARC")
        elif (place.url, place.offset) != (row["url"], row["offset"]) or (
            row["segment"] not in place.filename
        ):
            wrong.append(
                f"{row['url']}: the feed says {row['segment']} {row['offset']}, it is {place}"
            )
    missing = [place for record, place in stored.items() if record not in told]
    wrong += [f"{place.url} is in {place.filename} and not in the feed" for place in missing]
    return f"feed: {len(rows)} rows for {len(stored)} records of {len(outputs.warcs)} WARCs", wrong


def _bare(record_id: str) -> str:
    return record_id.removeprefix("urn:uuid:")


def judge_audit(cluster: Cluster) -> tuple[str, list[str]]:
    """``lycosa audit --cluster``."""
    done = cluster.run("audit", "--cluster", str(cluster.file), timeout=600)
    text = (done.out or done.err).strip()
    last = text.splitlines()[-1] if text else ""
    return f"audit: {last}", [] if done.code == 0 else [f"audit ended with {done.code}: {text}"]


def judge_foreign(cluster: Cluster, written: list[bytes]) -> tuple[str, list[str]]:
    """Records of other programs in the inboxes must be kept in object storage: owners read these
    topics all the time. They try that once, so as many may be missing as puts failed. Gives a line
    for the report and what is wrong.
    """
    places = cluster.bucket.glob(f"foreign/{cluster.topics.inbox}/*/*")
    kept = {path.read_bytes() for path in places}
    missing = [record for record in written if record not in kept]
    failed = sum(1 for _, path, verdict in cluster.proxy.seen if verdict and "/foreign/" in path)
    return (
        f"foreign records: {len(written) - len(missing)} of {len(written)} in inboxes are kept",
        [f"the bucket does not have the foreign record {record!r}" for record in missing[failed:]],
    )


def damage_notes(cluster: Cluster) -> dict[str, set[str]]:
    """The damaged segments that are noted in the bucket, with the keys of the parts concerned."""
    notes = [json.loads(path.read_text()) for path in cluster.bucket.glob("damaged/*/*.json")]
    return {note["segment"]: {part["key"] for part in note["parts"]} for note in notes}


def parts_left(bucket: Path) -> list[str]:
    """Objects of segments that are not sealed."""
    return [str(path.relative_to(bucket)) for path in bucket.glob("parts/**/*") if path.is_file()]
