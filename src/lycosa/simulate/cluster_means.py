"""The costs and limits of the exchange between shards, for ``lycosa simulate --shards``.

The defaults are measured: records by ``python -m bench.kafka`` (bench/RESULTS.md, records of 5 and
of 92 kB), questions by ``python -m bench.inquiry`` (over TLS), rows and bytes with the crawler's
own encoders. Acknowledgements are those of three brokers with replication 3.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class ClusterMeans(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a page sends to other shards, what that costs, and what the brokers have."""

    links: Annotated[
        float,
        Meta(
            description=(
                "URLs of a page on other hosts that were not sent a moment ago; the shard that owns"
                " the host gets each."
            ),
            ge=0,
        ),
    ] = 10.0
    fingerprints: Annotated[
        float,
        Meta(
            description=(
                "Rows of content-seen that a page sends: one for its body, and its fingerprint to"
                " at most four owners."
            ),
            ge=0,
        ),
    ] = 5.0
    row_bytes: Annotated[
        float, Meta(description="Bytes of a URL or another row in a parcel.", gt=0)
    ] = 140.0
    log_bytes: Annotated[
        float, Meta(description="Bytes of a page in the changelog, compressed.", ge=0)
    ] = 1000.0
    row_us: Annotated[
        float,
        Meta(description="Processor time of a row at both ends, in microseconds.", ge=0),
    ] = 2.0
    question_us: Annotated[
        float,
        Meta(
            description=(
                "Processor time of the question for a body's digest at both ends, in microseconds."
            ),
            ge=0,
        ),
    ] = 50.0
    record_us: Annotated[
        float,
        Meta(description="Processor time of a record in the Kafka client, in microseconds.", ge=0),
    ] = 39.0
    record_kb_us: Annotated[float, Meta(description="The same for each kilobyte of it.", ge=0)] = (
        0.64
    )
    broker_us: Annotated[
        float,
        Meta(description="Processor time of a record in all brokers, in microseconds.", ge=0),
    ] = 39.0
    broker_kb_us: Annotated[float, Meta(description="The same for each kilobyte of it.", ge=0)] = (
        4.1
    )
    commit_us: Annotated[
        float,
        Meta(
            description=(
                "Processor time of a commit's transaction in all brokers, in microseconds, without"
                " its bytes."
            ),
            ge=0,
        ),
    ] = 2500.0
    broker_cores: Annotated[float, Meta(description="Cores of all brokers together.", gt=0)] = 12.0
    append_s: Annotated[
        float, Meta(description="Time until the brokers acknowledge an append.", ge=0)
    ] = 0.09
