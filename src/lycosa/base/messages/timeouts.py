"""The times and bounds by which coordinator and nodes judge each other."""

from __future__ import annotations

import math

import msgspec

from lycosa.base.model.code_version import CodeVersion
from lycosa.base.model.compatibility import FIRST_FORMATS, PROTOCOL


class ClusterRules(msgspec.Struct, frozen=True):
    """The defaults are those of a cluster.

    ``node_timeout_s``: a node that is silent for longer loses its shards, and a coordinator that
    starts, or was stopped, assigns nothing for that long. ``repeat_s``: a message without
    acknowledgement is sent again after this time. ``clock_off_s``: a node whose clock differs by
    more gets no shards. Below ``low_disk`` or ``low_memory`` (bytes) a node gets no new shards;
    below half of them its shards move. ``balances`` moves shards from nodes that have more than
    others, ``restarts`` starts workers again that ended with a crawl that continues. At most
    ``most_nodes`` have shards at the same time; the place of a node that was lost is free after
    ``vacant_s``, when it certainly sends no more requests. ``protocol`` is the number of the
    coordinator, ``formats`` are those in force (``model.compatibility``). A node that lacks any of
    the ``code`` that the crawl runs gets no new shards.
    """

    node_timeout_s: float = 20.0
    repeat_s: float = 5.0
    clock_off_s: float = 2.0
    low_disk: int = 10_000_000_000
    low_memory: int = 500_000_000
    balances: bool = True
    restarts: bool = True
    most_nodes: int = 1024
    vacant_s: float = 90.0
    protocol: int = PROTOCOL
    formats: int = FIRST_FORMATS
    code: dict[str, CodeVersion] = {}


ONE_PROCESS = ClusterRules(
    node_timeout_s=0.0,
    repeat_s=math.inf,
    clock_off_s=math.inf,
    low_disk=0,
    low_memory=0,
    balances=False,
    restarts=False,
)
"""Rules for coordinator and node in one process.

Neither can be missing alone, no message between them is lost, and the lock of the folder guarantees
that no other node runs anything. A timeout of 0 means none.
"""
