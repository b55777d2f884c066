"""The results of a simulated crawl: rates, freshness, queue, bandwidth, disk, cost, and its limit.

Rates are of the time between two points. Pages a day are captures; bandwidth counts all received
bytes, headers too; disk is everything that the crawl folder keeps. Cost is that of the cores for
the whole time, used or not, of received bytes, and of kept bytes for as long as they are kept.
*What binds* is what held the crawl back while most pages were fetched: by time it would be the last
few large hosts, which do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from lycosa.simulate.drive import Point
from lycosa.simulate.render_tier import RenderAnswers, render_answers
from lycosa.simulate.resources import HOSTS, LIMITS, Resources, busy_cores
from lycosa.simulate.simulation_run import Model, SimulationOutcome

DAY_S = 86_400.0
_MONTH_S = 30 * DAY_S
_GB = 1e9
_MAX = 0.9
_MANY = 500
_LATE = 0.25  # of the run: the period of "at the end"


class ReportRow(msgspec.Struct, frozen=True, kw_only=True):
    """The crawl at day ``day``; rates are since the row before.

    ``limit`` is what held it back most since then.
    """

    day: float
    pages_per_day: float
    known: float
    stored: float
    queued: float
    fresh: float
    age_days: float
    bits_per_s: float
    disk_bytes: float
    busy_cores: float
    limit: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of the whole time, in the currency of the prices."""

    cores: float
    received: float
    kept: float

    @property
    def total(self) -> float:
        return self.cores + self.received + self.kept


class SimulationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answers.

    ``*_late`` are of the last quarter of the time. ``first_round_day`` is when the last reachable
    page had been fetched once, ``most_day`` when 90 % of them had; both are negative when the crawl
    still finds new pages at the end. ``limits`` are shares of the time by what held the crawl back,
    ``limits_of_pages`` of the captures. ``renders`` is there when pages are rendered. ``binds`` is
    the largest of the latter except for "nothing to do", or empty.
    """

    days: float
    pages_per_day: float
    pages_per_day_most: float
    pages_per_day_late: float
    first_round_day: float
    most_day: float
    first_round_pages: float
    known: float
    stored: float
    fresh_late: float
    age_days_late: float
    queued_most: float
    queued_end: float
    queue_growth_per_day: float
    requests: float
    captures: float
    revisits: float
    received_bytes: float
    bits_per_s: float
    bits_per_s_most: float
    disk_bytes: float
    disk_bytes_per_day_late: float
    busy_cores: float
    busy_cores_most: float
    cost: Cost
    limits: dict[str, float]
    limits_of_pages: dict[str, float]
    binds: str
    rows: list[ReportRow]
    renders: RenderAnswers | None = None


def report(model: Model, outcome: SimulationOutcome) -> SimulationReport:
    """The answers of a simulated crawl."""
    points, means = outcome.points, model.means
    rows = [_row(means, before, after) for before, after in pairwise(points)]
    end, seconds = points[-1], points[-1].at
    wide = [
        _row(means, before, after)
        for before, after in pairwise(_wide(points, _MANY / outcome.share))
    ]
    late = [row for row in rows if row.day > (1 - _LATE) * seconds / DAY_S]
    since = next(point for point in reversed(points) if point.at <= (1 - _LATE) * seconds)
    of_pages = _ranked(_pages(points))
    return SimulationReport(
        days=seconds / DAY_S,
        pages_per_day=end.captures / seconds * DAY_S,
        pages_per_day_most=max(row.pages_per_day for row in wide),
        pages_per_day_late=_mean(row.pages_per_day for row in late),
        first_round_day=outcome.last_new_s / DAY_S if _is_round(points) else -1.0,
        most_day=(
            min(_day_of(points, _MAX * end.stored), outcome.last_new_s / DAY_S)
            if _is_round(points)
            else -1.0
        ),
        first_round_pages=outcome.new_pages,
        known=end.known,
        stored=end.stored,
        fresh_late=_mean(row.fresh for row in late),
        age_days_late=_mean(row.age_days for row in late),
        queued_most=max(row.queued for row in rows),
        queued_end=end.queued,
        queue_growth_per_day=(end.queued - since.queued) / max(end.at - since.at, 1.0) * DAY_S,
        requests=end.requests,
        captures=end.captures,
        revisits=end.revisits,
        received_bytes=_received(means, end),
        bits_per_s=8 * _received(means, end) / seconds,
        bits_per_s_most=max(row.bits_per_s for row in wide),
        disk_bytes=_disk(means, end),
        disk_bytes_per_day_late=(_disk(means, end) - _disk(means, since))
        / max(end.at - since.at, 1.0)
        * DAY_S,
        busy_cores=end.cpu_s / seconds,
        busy_cores_most=max(row.busy_cores for row in wide),
        cost=_cost(model, points),
        limits=_ranked(_seconds(points)),
        limits_of_pages=of_pages,
        binds=next((name for name, share in of_pages.items() if name != HOSTS and share > 0), ""),
        rows=rows,
        renders=_renders(model, points),
    )


def _renders(model: Model, points: Sequence[Point]) -> RenderAnswers | None:
    section = model.config.render
    if not section.is_on:
        return None
    return render_answers(model.means, model.prices, points, section.queue * model.workers)


def some_rows(model: Model, outcome: SimulationOutcome, most: int = 14) -> list[ReportRow]:
    """The crawl at some of the points, close together at the start, where most happens.

    Rates are between these points.
    """
    points = outcome.points
    places = sorted({round((len(points) - 1) ** (step / (most - 1))) for step in range(most)})
    found, before = [], 0
    for place in places:
        limits: dict[str, float] = {}
        for point in points[before + 1 : place + 1]:
            for name, seconds in point.limits.items():
                limits[name] = limits.get(name, 0.0) + seconds
        found.append(
            _row(model.means, points[before], msgspec.structs.replace(points[place], limits=limits))
        )
        before = place
    return found


def max_cores(model: Model) -> float:
    """Cores that this crawl can keep busy: a worker has one loop, whatever the number of cores."""
    return busy_cores(model.means, model.workers)


def as_document(
    model: Model, outcome: SimulationOutcome, found: SimulationReport
) -> dict[str, Any]:
    """All results, for JSON."""
    return {
        "web": msgspec.to_builtins(model.web),
        "means": msgspec.to_builtins(model.means),
        "prices": msgspec.to_builtins(model.prices),
        "workers": model.workers,
        "listed_hosts": len(model.rows),
        "sample": {
            "hosts": outcome.hosts,
            "pages": outcome.pages,
            "share": outcome.share,
            "requests": outcome.requests,
            "parts": outcome.parts,
            "cpu_s": round(outcome.cpu_s, 2),
            "wall_s": round(outcome.wall_s, 2),
        },
        **{
            name: getattr(found, name)
            for name in found.__struct_fields__
            if name not in ("cost", "rows", "renders")
        },
        "renders": msgspec.to_builtins(found.renders),
        "cost": {**msgspec.to_builtins(found.cost), "total": found.cost.total},
        "meanings": {name: LIMITS[name] for name in found.limits},
        "rows": msgspec.to_builtins(found.rows),
    }


def _row(means: Resources, before: Point, after: Point) -> ReportRow:
    seconds = after.at - before.at
    return ReportRow(
        day=after.at / DAY_S,
        pages_per_day=(after.captures - before.captures) / seconds * DAY_S,
        known=after.known,
        stored=after.stored,
        queued=after.queued,
        fresh=after.current / after.stored if after.stored else 1.0,  # none is stale
        age_days=after.age_s / after.stored / DAY_S if after.stored else 0.0,
        bits_per_s=8 * (_received(means, after) - _received(means, before)) / seconds,
        disk_bytes=_disk(means, after),
        busy_cores=(after.cpu_s - before.cpu_s) / seconds,
        limit=max(after.limits, key=lambda name: after.limits[name], default=HOSTS),
    )


def _wide(points: Sequence[Point], captures: float) -> list[Point]:
    """Points with a minimum number of captures, or a tenth of all, between them.

    A rate of a few requests of a small sample has no meaning.
    """
    least, found = min(captures, points[-1].captures / 10), [points[0]]
    for point in points[1:]:
        if point.captures - found[-1].captures >= least and point.captures > found[-1].captures:
            found.append(point)
    return found if len(found) > 1 else [points[0], points[-1]]


def _seconds(points: Sequence[Point]) -> Iterator[tuple[str, float]]:
    """The time, by what held the crawl back."""
    for point in points[1:]:
        yield from point.limits.items()


def _pages(points: Sequence[Point]) -> Iterator[tuple[str, float]]:
    """The captures, by what held the crawl back at the time."""
    for before, after in pairwise(points):
        for name, seconds in after.limits.items():
            yield name, (after.captures - before.captures) * seconds / (after.at - before.at)


def _ranked(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The share of each name, the largest first."""
    found: dict[str, float] = {}
    for name, part in parts:
        found[name] = found.get(name, 0.0) + part
    total = sum(found.values()) or 1.0
    return {name: part / total for name, part in sorted(found.items(), key=lambda item: -item[1])}


def _received(means: Resources, point: Point) -> float:
    return point.body_bytes + means.request_bytes * point.requests


def _disk(means: Resources, point: Point) -> float:
    """Bytes of stored bodies, of captures without their bodies, and of known URLs."""
    return (
        means.disk_factor * point.stored_bytes
        + means.record_bytes * point.captures
        + means.url_bytes * point.known
    )


def _cost(model: Model, points: Sequence[Point]) -> Cost:
    prices, means = model.prices, model.means
    kept = sum(
        (_disk(means, before) + _disk(means, after)) / 2 * (after.at - before.at)
        for before, after in pairwise(points)
    )
    return Cost(
        cores=prices.core_hour * means.cores * points[-1].at / 3600,
        received=prices.gb_received * _received(means, points[-1]) / _GB,
        kept=prices.gb_month * kept / _GB / _MONTH_S,
    )


def _is_round(points: Sequence[Point]) -> bool:
    """Whether the crawl had found all its pages some time before the end."""
    then = next(point for point in reversed(points) if point.at <= 0.95 * points[-1].at)
    return then.stored >= 0.999 * points[-1].stored > 0


def _day_of(points: Sequence[Point], stored: float) -> float:
    """The day when this number of pages had been fetched."""
    for before, after in pairwise(points):
        if after.stored >= stored:
            share = (stored - before.stored) / max(after.stored - before.stored, 1e-9)
            return (before.at + share * (after.at - before.at)) / DAY_S
    return -1.0


def _mean(values: Iterable[float]) -> float:
    """The mean of values at even steps."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0
