"""The resources of a crawl, and meters that show when they are used up.

Every resource is a rate: processor seconds, bytes, slot seconds, each per second. A request uses a
part of each, and while a meter is ahead of the clock no new request starts. This is the fluid form
of a queue, which is right for a thousandth of a slot as well as for a thousand slots, as a sample
needs it.

A meter saves unused capacity for a second, or for ``_BURST`` requests if that is longer. Without
the second rule a sample would queue where the whole crawl does not: with a ten-thousandth of a core
a page takes ten seconds, and two that are ready together would wait for each other, although the
crawl is half idle.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_BURST_S = 1.0
_BURST = 32.0

CPU, NETWORK, SLOTS, WORKBENCH = "cpu", "network", "slots", "workbench"
BROKERS = "brokers"
POLITENESS, HOSTS = "politeness", "hosts"
LIMITS = {
    CPU: "the processors: more or faster cores and workers, or less work for each page",
    NETWORK: "the network: more bandwidth",
    SLOTS: "simultaneous requests: servers are slow, and all slots (fetch.slots) wait for them",
    WORKBENCH: "hosts in memory: all places (frontier.workbench) have hosts waiting for a delay",
    POLITENESS: (
        "every host with something to fetch waits for its delay or answers: more hosts would help,"
        " more machines would not"
    ),
    BROKERS: "commits wait for the brokers of a cluster: more or faster brokers",
    HOSTS: "nothing to do: all known pages are fetched, and few are due yet",
}
"""What can hold a crawl back, and what that means."""


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The resources of the whole crawl, and the costs of a page."""

    cores: Annotated[
        float,
        Meta(description="Cores that the crawl may use; a fraction where a quota sets it.", gt=0),
    ] = 2.0
    bandwidth_bytes_per_s: Annotated[
        int, Meta(description="Network: maximum number of bytes received per second.", ge=1)
    ] = 125_000_000
    page_ms: Annotated[
        float,
        Meta(
            description=(
                "Processor time of a page with all its processing, in all processes together"
                " (bench/page_cost)."
            ),
            gt=0,
        ),
    ] = 1.96
    request_ms: Annotated[
        float,
        Meta(
            description="Processor time of a request without a page: robots.txt, 304, errors.", ge=0
        ),
    ] = 0.8
    start_cpu_s: Annotated[
        float, Meta(description="Processor time of starting and ending a run.", ge=0)
    ] = 0.0
    loop_share: Annotated[
        float,
        Meta(
            description=(
                "Part of a page's time that the worker spends, on at most one core; its parse child"
                " spends the rest."
            ),
            gt=0.1,
            le=1,
        ),
    ] = 0.6
    request_bytes: Annotated[
        int,
        Meta(
            description="Bytes received for a request in addition to the body: headers, TLS.", ge=0
        ),
    ] = 1000
    disk_factor: Annotated[
        float, Meta(description="Bytes on disk for each byte of a body: WARC and text.", ge=0)
    ] = 1.7
    record_bytes: Annotated[
        int,
        Meta(
            description="Further bytes on disk of a capture: records, rows, indexes, links.",
            ge=0,
        ),
    ] = 4000
    url_bytes: Annotated[
        int, Meta(description="Bytes on disk of a known URL (bench/frontier).", ge=0)
    ] = 107
    render_share: Annotated[
        float,
        Meta(description="Share of new bodies that are rendered, with render.mode.", ge=0, le=1),
    ] = 0.1
    render_rounds: Annotated[
        float, Meta(description="Rounds of a page that is rendered.", ge=1)
    ] = 2.0
    render_round_s: Annotated[
        float, Meta(description="Processor time of a round, in the browser.", gt=0)
    ] = 0.25
    render_cores: Annotated[
        float,
        Meta(
            description="Cores for rendering, in addition to the others; 0: as many as needed.",
            ge=0,
        ),
    ] = 0.0


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices, in any currency. The defaults are about a large cloud's list prices in dollars."""

    core_hour: Annotated[float, Meta(description="An hour of one core, used or not.", ge=0)] = 0.04
    gb_received: Annotated[float, Meta(description="A gigabyte received.", ge=0)] = 0.0
    gb_month: Annotated[float, Meta(description="A gigabyte kept for thirty days.", ge=0)] = 0.08


class UsageMeter:
    """One resource with ``per_s`` of it a second; it is free again at ``free_at``.

    ``typical`` is the amount that a request uses.
    """

    __slots__ = ("_burst_s", "free_at", "name", "per_s", "spent")

    def __init__(self, name: str, per_s: float, typical: float) -> None:
        self.name = name
        self.per_s = per_s
        self._burst_s = max(_BURST_S, _BURST * typical / per_s)
        self.free_at = 0.0
        self.spent = 0.0

    def spend(self, amount: float, now: float) -> None:
        """Use an amount, beginning now."""
        self.spent += amount
        self.free_at = max(self.free_at, now - self._burst_s) + amount / self.per_s


class Meters:
    """The meters of a sample that is a ``share`` of the crawl.

    There are ``workers`` with ``slots`` requests each. ``latency_s`` and ``page_bytes`` are those
    of a typical request.
    """

    def __init__(
        self, means: Resources, workers: int, slots: int, share: float, typical: tuple[float, float]
    ) -> None:
        latency_s, page_bytes = typical
        self.page_s, self.request_s = means.page_ms / 1000, means.request_ms / 1000
        self._request_bytes = means.request_bytes
        self.cpu = UsageMeter(CPU, busy_cores(means, workers) * share, self.page_s)
        self.network = UsageMeter(NETWORK, means.bandwidth_bytes_per_s * share, page_bytes)
        self.slots = UsageMeter(SLOTS, workers * slots * share, latency_s)
        self.all: tuple[UsageMeter, ...] = (self.cpu, self.network, self.slots)
        # A run starts one process after the other: that is the work of one core, and nothing is
        # fetched meanwhile.
        self.cpu.spent = means.start_cpu_s * share
        self.cpu.free_at = self.free_at = means.start_cpu_s / min(means.cores, 1.0)

    def pause(self, meter: UsageMeter, until: float) -> None:
        """Start nothing before a time, because of a meter that others share."""
        if meter not in self.all:
            self.all = (*self.all, meter)
        meter.free_at = max(meter.free_at, until)
        self.free_at = max(self.free_at, until)

    def spend(self, is_page: bool, body_bytes: float, slot_s: float, now: float) -> None:
        """Use the resources of one request."""
        self.cpu.spend(self.page_s if is_page else self.request_s, now)
        self.network.spend(body_bytes + self._request_bytes, now)
        self.slots.spend(slot_s, now)
        self.free_at = max(self.cpu.free_at, self.network.free_at, self.slots.free_at)

    @property
    def binding(self) -> str:
        """The meter that is free last."""
        return max(self.all, key=_free_at).name


def busy_cores(means: Resources, workers: int) -> float:
    """Cores that all processes together can keep busy.

    A worker's loop uses at most one, and its parse child works at the same time.
    """
    return min(float(means.cores), workers / means.loop_share)


def _free_at(meter: UsageMeter) -> float:
    return meter.free_at
