"""Two proofs of their own, of what no crawl can end without: parts of its bucket, and its log.

damaged   parts of open segments are damaged in the bucket: one has a wrong byte, one is cut, one is
          gone. The crawl must end with exit code 1 and say so in its summary, its metric and
          ``damaged/``. Every capture that is in none of these parts must be in all indexes, and
          every URL in its state.
remade    the topic of the log is deleted and made again while everything runs. All owners must
          stop and name the way out, and delete nothing. The rescue and a further run must end like
          an undisturbed crawl.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kafka_broker import PATIENCE_S
from proofs.cluster_judges import Ends, damage_notes, read_feed
from proofs.cluster_parts import Cluster
from proofs.cluster_single import shards_of, wait_until
from proofs.outputs import Outputs
from proofs.programs import Program

ALL_OPEN = ("store.segment_age_s=1h", "store.segment_bytes=1GB")
"""Settings by which no segment is closed before the crawl ends."""
_CUT_BYTES = 100
_ARCHIVE = ("parts", "warc", "journal", "pages", "cdxj")


class Part(NamedTuple):
    """An object of an open segment; ``start`` and ``end`` are offsets in the WARC."""

    key: str
    segment: str
    start: int
    end: int

    def has(self, row: dict[str, Any]) -> bool:
        """Whether a capture is in it, by its row of the feed."""
        return bool(row["segment"] == self.segment and self.start <= row["offset"] < self.end)


# -- damaged


def damage_parts(cluster: Cluster, crawl: Program) -> list[Part]:
    """Damages one part of each of three segments, in three ways."""
    found: list[list[Part]] = []

    def are_enough() -> bool:
        found[:] = [parts for parts in _open_segments(cluster).values() if len(parts) > 2]
        return len(found) > 2

    wait_until(are_enough, "no three segments had three parts", crawl)
    flipped, cut, lost = (parts[len(parts) // 2] for parts in found[:3])
    cluster.s3.flip_byte(_stored(cluster, flipped))
    cluster.s3.cut_object(_stored(cluster, cut), _CUT_BYTES)
    cluster.s3.lose_object(_stored(cluster, lost))
    return [flipped, cut, lost]


def judge_damaged(
    cluster: Cluster, crawl: Program, damaged: list[Part], calm: Ends, ends: Ends
) -> tuple[str, list[str]]:
    """Holds what a crawl with damaged parts says and has against an undisturbed one. Gives a line
    for the report and what is wrong.
    """
    wrong = []
    expected = {part.segment: {part.key} for part in damaged}
    if (noted := damage_notes(cluster)) != expected:
        wrong.append(f"damage is noted of {noted}, not of {expected}")
    if "3 segments damaged when sealed" not in crawl.said():
        wrong.append(f"the summary does not name three damaged segments: {crawl.said()}")
    metric = _metric(cluster, "lycosa_damaged_segments")
    if metric != len(damaged):
        wrong.append(f"the metric lycosa_damaged_segments is {metric}")
    wrong += [
        f"{part.key}, which is damaged, was deleted"
        for part in damaged[:2]
        if not (cluster.bucket / part.key).exists()
    ]
    rows = read_feed(cluster)
    concerned = [row for row in rows if any(part.has(row) for part in damaged)]
    sound = [row for row in rows if row not in concerned]
    wrong += _not_indexed(sound, Outputs(cluster.bucket))
    wrong += [
        f"{url} is {ends.states.get(url)}, undisturbed {states}"
        for url, states in calm.states.items()
        if ends.states.get(url) != states
    ]
    excused = {row["url"] for row in concerned}
    wrong += [
        f"{url} has the body {ends.bodies.get(url)}, undisturbed {body}"
        for url, body in calm.bodies.items()
        if url not in excused and ends.bodies.get(url) != body
    ]
    audit = cluster.run("audit", "--cluster", str(cluster.file), timeout=600)
    if audit.code != 1:
        wrong.append(f"the audit of a damaged crawl ended with {audit.code}: {audit.out}")
    lost = len(calm.bodies.keys() - ends.bodies.keys())
    return (
        f"3 parts with {len(concerned)} captures damaged (a byte flipped, {_CUT_BYTES} bytes cut, an"
        f" object lost): exit code 1, {len(noted)} segments noted; {len(sound)} other captures are"
        f" in every index, {lost} are in none",
        wrong,
    )


def _open_segments(cluster: Cluster) -> dict[str, list[Part]]:
    """The parts of each segment, in their order."""
    found: dict[str, list[Part]] = {}
    for path in cluster.bucket.glob("parts/*/*/*"):
        start, size, _ = map(int, path.name.split("-"))
        key = str(path.relative_to(cluster.bucket))
        part = Part(key, path.parent.name, start, start + size)
        found.setdefault(part.segment, []).append(part)
    return {name: sorted(found[name], key=lambda part: part.start) for name in sorted(found)}


def _stored(cluster: Cluster, part: Part) -> str:
    """The key in the whole bucket."""
    return str((cluster.bucket / part.key).relative_to(cluster.s3.bucket))


def _metric(cluster: Cluster, name: str) -> float:
    asked = cluster.run("cluster", "status", str(cluster.file), "--json", timeout=60)
    assert asked.code == 0, asked
    values = json.loads(asked.out)["progress"]["meter"]["numbers"].get(name, {})
    return float(sum(values.values()))


def _not_indexed(rows: Iterable[dict[str, Any]], outputs: Outputs) -> list[str]:
    """Captures that are not in Parquet, not in CDXJ, or cannot be read in their WARC."""
    pages = {(row["url"], row["warc_record_offset"]): row["warc_filename"] for row in outputs.rows}
    lines = {(line["url"], int(line["offset"])) for line in outputs.lines}
    wrong = []
    for row in rows:
        place = row["url"], row["offset"]
        if row["segment"] not in pages.get(place, ""):
            wrong.append(f"{place} is not in Parquet")
        elif place not in lines:
            wrong.append(f"{place} is not in CDXJ")
        elif not _is_record(outputs.folder / pages[place], *place):
            wrong.append(f"{place} cannot be read in {pages[place]}")
    return wrong


def _is_record(warc: Path, url: str, offset: int) -> bool:
    """Whether a WARC has a whole record of a URL at an offset."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        head = member.decompress(warc.read_bytes()[offset:]).partition(b"\r\n\r\n")[0]
    except zlib.error:
        return False
    return member.eof and f"WARC-Target-URI: {url}".encode() in head


# -- remade


def remake_log(cluster: Cluster, crawl: Program) -> list[str]:
    """Deletes the topic of the log and makes it again, ends everything when all owners have
    stopped, and follows the way out that they name. Gives a report and raises ``AssertionError``.
    """
    cluster.broker.remake(cluster.topics, cluster.topics.changelog)
    before = _archived(cluster)

    def have_all_failed() -> bool:
        states = [shard["state"] for shard in shards_of(cluster).values()]
        return bool(states) and set(states) == {"failed"}

    wait_until(have_all_failed, "not every shard stopped", crawl)
    reasons = {shard: each["why"] for shard, each in shards_of(cluster).items()}
    unguided = {shard: why for shard, why in reasons.items() if "cluster rescue" not in why}
    assert not unguided, f"shards that do not name the way out: {unguided}"
    crawl.end()
    for program in (*cluster.nodes, cluster.coordinator):
        program.end()
    after = _archived(cluster)
    assert not (gone := before.keys() - after.keys()), f"were deleted: {sorted(gone)}"
    changed = [key for key, data in before.items() if after[key] != data]
    assert not changed, f"were changed: {changed}"
    return [
        f"the log was made again: {len(reasons)} of {cluster.size.shards} shards stopped,"
        f" {len(before)} objects are as before",
        f"  one said: {reasons[0]}",
        _rescued(cluster),
    ]


def _rescued(cluster: Cluster) -> str:
    """Follows the commands that ``lycosa cluster rescue`` prints."""
    command = ("cluster", "rescue", str(cluster.file), "--work", str(cluster.work / "rescue"))
    refused = cluster.run(*command)
    assert refused.code == 2 and "kafka-topics.sh" in refused.err, refused
    names = [cluster.topics.changelog, cluster.topics.inbox]
    admin = cluster.broker.client.admin()
    for deleted in admin.delete_topics(names, operation_timeout=PATIENCE_S).values():
        deleted.result(PATIENCE_S)
    while set(names) & admin.list_topics(timeout=PATIENCE_S).topics.keys():
        admin.poll(0.1)
    done = cluster.run(*command, "--json")
    assert done.code == 0, done
    shards = json.loads(done.out)["shards"]
    captures = sum(shard["captures"] for shard in shards)
    return f"rescued: {captures} captures behind the snapshots of {len(shards)} shards"


def _archived(cluster: Cluster) -> dict[str, bytes]:
    """All objects of the archive."""
    return {
        str(path.relative_to(cluster.bucket)): path.read_bytes()
        for kind in _ARCHIVE
        for path in (cluster.bucket / kind).rglob("*")
        if path.is_file()
    }
