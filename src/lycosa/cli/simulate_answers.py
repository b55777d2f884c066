"""What ``lycosa simulate`` prints as text."""

from __future__ import annotations

from lycosa.cli.output import (
    Column,
    counted,
    emit,
    emit_columns,
    emit_pairs,
    emit_table,
    human_bytes,
    human_count,
    human_duration,
)
from lycosa.simulate.resources import LIMITS
from lycosa.simulate.simulation_report import (
    DAY_S,
    ReportRow,
    SimulationReport,
    max_cores,
    some_rows,
)
from lycosa.simulate.simulation_run import Model, SimulationOutcome

_MIN_SHOWN = 0.0005


def title_of(model: Model) -> str:
    """One line about the simulated web and crawl."""
    web = model.web
    days = f"{model.days:g} day{'' if model.days == 1 else 's'}"
    return (
        f"{counted(web.pages, 'page')} on {counted(web.hosts, 'host')}, {days},"
        f" {counted(model.workers, 'worker')}"
    )


def subtitle_of(model: Model, outcome: SimulationOutcome) -> str:
    """The settings and the sample of the simulation."""
    kind = "as listed" if model.rows else model.web.sizes.value
    delay = human_duration(model.config.politeness.delay_s)
    return (
        f"sizes {kind}, {delay} between requests to a host, {model.means.cores:g} cores,"
        f" {human_bytes(model.means.bandwidth_bytes_per_s)}/s; sample:"
        f" {counted(outcome.hosts, 'host')} with {counted(outcome.pages, 'page')}"
    )


def print_answers(model: Model, outcome: SimulationOutcome, found: SimulationReport) -> None:
    """Print the answers, what held the crawl back, and a table of points in time."""
    emit(title_of(model))
    emit(subtitle_of(model, outcome))
    emit(f"simulated {counted(outcome.requests, 'request')} in {human_duration(outcome.wall_s)}\n")
    emit_pairs(_answers(model, found))
    emit("")
    emit_table(("limit", "of the fetches", "of the time", "meaning"), _limits(found))
    emit_columns(_COLUMNS, some_rows(model, outcome))


def _limits(found: SimulationReport) -> list[tuple[str, str, str, str]]:
    return [
        (name, f"{100 * share:.1f} %", f"{100 * found.limits[name]:.1f} %", LIMITS[name])
        for name, share in found.limits_of_pages.items()
        if share >= _MIN_SHOWN or found.limits[name] >= _MIN_SHOWN
    ]


def _answers(model: Model, found: SimulationReport) -> list[tuple[str, str]]:
    day = _three(found.pages_per_day, found.pages_per_day_most, found.pages_per_day_late)
    fresh = (
        f"{100 * found.fresh_late:.1f} % of the copies are current at the end, mean age"
        f" {_days(found.age_days_late)}"
    )
    sign = "+" if found.queue_growth_per_day >= 0 else "-"
    queue = (
        f"{human_count(found.queued_end)} URLs wait at the end,"
        f" {sign}{human_count(abs(found.queue_growth_per_day))} a day; at most"
        f" {human_count(found.queued_most)}"
    )
    return [
        ("pages a day", day),
        ("first round", f"{counted(found.first_round_pages, 'page')}: {_round(found)}"),
        ("freshness", fresh),
        ("queue", queue),
        *_spent(model, found),
        *_renders(found),
        ("binds", found.binds or "nothing"),
    ]


def _spent(model: Model, found: SimulationReport) -> list[tuple[str, str]]:
    """What the crawl uses of network, disk, processors and money."""
    bandwidth = (
        f"{human_count(found.bits_per_s)} bit/s on average, at most"
        f" {human_count(found.bits_per_s_most)}"
    )
    disk = (
        f"{human_bytes(found.disk_bytes)}, at the end"
        f" {human_bytes(found.disk_bytes_per_day_late)} more each day"
    )
    processors = (
        f"{found.busy_cores:.2f} cores on average, at most {found.busy_cores_most:.2f} of"
        f" {max_cores(model):.2f}"
    )
    cost = found.cost
    money = (
        f"{cost.total:,.2f}: cores {cost.cores:,.2f}, traffic {cost.received:,.2f}, storage"
        f" {cost.kept:,.2f}"
    )
    return [
        ("bandwidth", bandwidth),
        ("received", human_bytes(found.received_bytes)),
        ("disk", disk),
        ("processors", processors),
        ("cost", money),
    ]


def _renders(found: SimulationReport) -> list[tuple[str, str]]:
    """What is rendered, what waits, and the cores of that."""
    if (tier := found.renders) is None:
        return []
    pages = (
        f"{human_count(tier.rendered)} pages, {human_count(tier.crowded_out)} stay as they are; at"
        f" most {human_count(tier.queue_most)} wait, {human_count(tier.queue_end)} at the end"
    )
    cores = (
        f"{tier.busy_cores:.2f} of {tier.cores:.2f} cores on average, {tier.cores_needed:.2f} when"
        f" most is new; cost {tier.cost:,.2f}"
    )
    return [("rendered", pages), ("renderers", cores)]


def _three(mean: float, most: float, late: float) -> str:
    return (
        f"{human_count(mean)} on average, at most {human_count(most)}, at the end"
        f" {human_count(late)}"
    )


def _round(found: SimulationReport) -> str:
    if not found.first_round_pages:
        return "nothing could be fetched"
    if found.first_round_day < 0:
        return "it still finds new ones at the end"
    return f"90 % after {_days(found.most_day)}, the last after {_days(found.first_round_day)}"


def _days(days: float) -> str:
    return human_duration(days * DAY_S)


_COLUMNS: tuple[Column[ReportRow], ...] = (
    Column("day", lambda x: f"{x.day:.3g}"),
    Column("pages a day", lambda x: human_count(x.pages_per_day)),
    Column("known", lambda x: human_count(x.known)),
    Column("stored", lambda x: human_count(x.stored)),
    Column("fresh", lambda x: f"{100 * x.fresh:.1f} %"),
    Column("age", lambda x: _days(x.age_days)),
    Column("queued", lambda x: human_count(x.queued)),
    Column("bits/s", lambda x: human_count(x.bits_per_s)),
    Column("disk", lambda x: human_bytes(x.disk_bytes)),
    Column("cores", lambda x: f"{x.busy_cores:.2f}"),
    Column("limit", lambda x: x.limit),
)
