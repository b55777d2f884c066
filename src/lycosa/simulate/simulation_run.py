"""Runs a model: draws the sample, divides it, runs each part in a process, and scales up the sum.

**Scaling law.** Let ``n`` of ``N`` hosts be drawn, one of each ``n``-th of all hosts by size. They
are crawled by ``n / N`` of the crawl: of its processors, network, slots, and places on the
workbench. What a host does by itself (its delay, its robots.txt, its back-off, its pages, one after
another) is not scaled. Then counts of the sample times ``N / n`` are those of the crawl, and shares
and times are the same. The law holds as long as each share is large enough: for a workbench of a
few places, or a web where one host of a million decides, the sample is too small. Parts are samples
of a sample, by the same law.
"""

from __future__ import annotations

import gc
import math
import resource
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.system.private_folder import private_folder
from lycosa.simulate.cluster_means import ClusterMeans
from lycosa.simulate.drive import Drive, Point
from lycosa.simulate.host_answers import Witness
from lycosa.simulate.resources import Meters, Prices, Resources
from lycosa.simulate.sample import HostRow, Sample, draw, parts_of
from lycosa.simulate.sample_parts import run_all
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.visits import Visits
from lycosa.simulate.web_model import Web

_PART_HOSTS = 1000
_MAX_PARTS = 8
_SAMPLE_PAGES = 50_000
_SAMPLE_HOSTS = 2000
_POINTS = 200
_EARLY = 10
_SUMMED = (
    "requests",
    "robots",
    "captures",
    "revisits",
    "body_bytes",
    "stored_bytes",
    "cpu_s",
    "slot_s",
    "known",
    "queued",
    "stored",
    "current",
    "age_s",
)


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    ``rows`` are hosts of a past crawl, if any, which then represent the ``web.hosts`` hosts.
    ``sample`` is the number of hosts to draw (0 = as many as have about 50,000 pages).
    """

    web: Web = Web()
    means: Resources = Resources()
    prices: Prices = Prices()
    cluster: ClusterMeans = ClusterMeans()
    config: Config = Config()
    rows: tuple[HostRow, ...] = ()
    days: float = 30.0
    sample: int = 0

    @property
    def workers(self) -> int:
        """Worker processes: one per core for ``auto``, and at most one per partition."""
        return min(
            self.config.workers or math.ceil(self.means.cores), self.config.frontier.partitions
        )

    @property
    def sample_hosts(self) -> int:
        """The number of hosts to draw."""
        most = min(self.web.hosts, len(self.rows)) if self.rows else self.web.hosts
        wanted = self.sample or max(
            int(_SAMPLE_PAGES * self.web.hosts / self.web.pages), _SAMPLE_HOSTS
        )
        return min(wanted, most)


class SimulationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result: the whole crawl at points in time, the first at its start.

    It also has the virtual second at which every reachable page had been fetched once, and the
    number of these pages; the size of the simulation, and the processor time that it took.
    """

    points: list[Point]
    last_new_s: float
    new_pages: float
    hosts: int
    pages: int
    requests: int
    parts: int
    share: float
    cpu_s: float
    wall_s: float


class _Piece(NamedTuple):
    model: Model
    part: Sample


class _Done(NamedTuple):
    points: list[Point]
    new_pages: int
    last_new_s: float
    cpu_s: float


def simulate(
    model: Model, jobs: int = 1, tell: Callable[[float], None] = lambda _: None
) -> SimulationOutcome:
    """Simulate in up to ``jobs`` processes, whose number changes only the duration.

    ``tell`` gets the share of the work that is done. Raises ``ValueError`` when the sample is too
    large, and ``PartLostError``.
    """
    began = time.monotonic()
    sample = draw(model.web, model.sample_hosts, model.config.seed, model.rows)
    parts = parts_of(sample, min(max(len(sample) // _PART_HOSTS, 1), _MAX_PARTS))
    done = run_all(_work, [_Piece(model, part) for part in parts], jobs, tell)
    points = [
        _sum([each.points[number] for each in done], parts) for number in range(len(done[0].points))
    ]
    return SimulationOutcome(
        points=points,
        last_new_s=max(each.last_new_s for each in done),
        new_pages=sum(each.new_pages for each in done) / sample.share,
        hosts=len(sample),
        pages=sample.pages,
        requests=int(sum(each.points[-1].requests for each in done)),
        parts=len(parts),
        share=sample.share,
        cpu_s=sum(each.cpu_s for each in done),
        wall_s=time.monotonic() - began,
    )


def looks(end_s: float) -> list[float]:
    """The times of the points: at even steps, and more and more dense towards the start.

    There a crawl changes most quickly.
    """
    step = end_s / _POINTS
    return [
        0.0,
        *(step / 2**halved for halved in range(_EARLY, 0, -1)),
        *(step * number for number in range(1, _POINTS + 1)),
    ]


def run_part(
    model: Model,
    part: Sample,
    witness: Witness | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[list[Point], Visits]:
    """Run one part to the end, in this process."""
    web, config, end_s = (
        model.web,
        msgspec.structs.replace(model.config, workers=model.workers),
        model.days * 86_400.0,
    )
    meters = Meters(model.means, model.workers, config.fetch.slots, part.share, part.typical)
    points: list[Point] = []

    def look(point: Point) -> None:
        points.append(point)
        tell(point.at / end_s)

    with private_folder("simulate") as folder:
        table = SimulatedTable(folder, config, part.share)
        visits = Visits(part, web, config, table, meters, witness)
        try:
            visits.seed()
            Drive(part, visits, table).run(end_s, looks(end_s), look)
        finally:
            visits.close()
            table.close()
    return points, visits


def _work(piece: _Piece, tell: Callable[[float], None]) -> _Done:
    """Run a part, in any process."""
    thresholds = gc.get_threshold()
    # no cycles are created here, and a collection over a million records takes seconds
    gc.set_threshold(100_000, 50, 1000)
    began = _cpu_s()
    try:
        points, visits = run_part(piece.model, piece.part, tell=tell)
    finally:
        gc.set_threshold(*thresholds)
    return _Done(points, visits.tally.new_pages, visits.tally.last_new_s, _cpu_s() - began)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _sum(points: Sequence[Point], parts: Sequence[Sample]) -> Point:
    """The sum of the parts at one time."""
    share = sum(part.share for part in parts)
    totals = {name: sum(getattr(point, name) for point in points) / share for name in _SUMMED}
    limits: dict[str, float] = {}
    for point, part in zip(points, parts, strict=True):
        for name, seconds in point.limits.items():
            limits[name] = limits.get(name, 0.0) + seconds * part.share / share
    return Point(at=points[0].at, limits=limits, **totals)
