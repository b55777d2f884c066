"""What ``lycosa simulate --shards`` prints."""

from __future__ import annotations

from typing import Any

from lycosa.cli.output import (
    counted,
    emit,
    emit_pairs,
    emit_table,
    human_bytes,
    human_count,
    human_duration,
)
from lycosa.simulate.resources import LIMITS
from lycosa.simulate.shards import ShardsOutcome
from lycosa.simulate.simulated_post import REASONS, STEP_S
from lycosa.simulate.simulation_run import Model

_DAY_S = 86_400
_QUANTILES = (0.5, 0.9, 0.99)
_MIN_SHOWN = 0.0005


def shards_document(model: Model, outcome: ShardsOutcome) -> dict[str, Any]:
    """All results by name, for ``--json``. Rates are of the cluster, per second or per page."""
    post, seconds = outcome.post, outcome.seconds
    pages = sum(outcome.pages)
    rates = [number / seconds for number in outcome.pages]
    each, posts = max(pages, 1.0), max(post.posts, 1.0)
    urls = model.cluster.links / max(model.cluster.links + model.cluster.fingerprints, 1e-9)
    return {
        "shards": outcome.shards,
        "seconds": seconds,
        "sample_hosts": outcome.hosts,
        "sample_share": outcome.share,
        "pages_per_s": pages / seconds,
        "pages_per_s_least": min(rates),
        "pages_per_s_most": max(rates),
        "rows_per_page": post.rows / each,
        "urls_per_page": post.rows / each * urls,
        "questions_per_page": 1.0 - 1.0 / outcome.shards,
        "parcels_per_page": post.parcels / each,
        "records_per_page": post.records / each,
        "record_bytes": post.bytes / max(post.records, 1.0),
        "handover_s": {f"{100 * share:g} %": _delay(outcome, share) for share in _QUANTILES},
        "handover_most_s": _delay(outcome, 1.0),
        "posts_by_reason": {name: number / posts for name, number in post.reasons.items()},
        "records_per_s": post.records / seconds,
        "commits_per_s": post.commits / seconds,
        "inbox_bytes_per_s": post.bytes / seconds,
        "broker_cores": post.broker_s / seconds,
        "broker_cores_available": model.cluster.broker_cores,
        "exchange_cpu_share": outcome.exchange_cpu,
        "limits": outcome.limits,
        "binds": max(outcome.limits, key=lambda name: outcome.limits[name], default=""),
    }


def print_shards(model: Model, outcome: ShardsOutcome) -> None:
    """Print the results, what held the shards back, and why parcels left when they did."""
    found = shards_document(model, outcome)
    emit(
        f"{counted(outcome.shards, 'shard')} on {model.means.cores:g} cores,"
        f" {counted(model.web.hosts, 'host')}, {human_duration(outcome.seconds)} after a warm-up"
    )
    emit(
        f"sample: {counted(outcome.hosts, 'host')}; simulated in {human_duration(outcome.wall_s)}\n"
    )
    emit_pairs(_pairs(found))
    emit("")
    shares = sorted(outcome.limits.items(), key=lambda each: -each[1])
    emit_table(
        ("limit", "of the time", "meaning"),
        [
            (name, f"{100 * share:.1f} %", LIMITS[name])
            for name, share in shares
            if share >= _MIN_SHOWN
        ],
    )
    emit("")
    emit_table(
        ("parcels leave by", "of the posts", "meaning"),
        [
            (name, f"{100 * share:.1f} %", REASONS[name])
            for name, share in found["posts_by_reason"].items()
            if share >= _MIN_SHOWN
        ],
    )


def _pairs(found: dict[str, Any]) -> list[tuple[str, str]]:
    rate, delays = found["pages_per_s"], found["handover_s"]
    pages = (
        f"{human_count(rate)}, {human_count(rate * _DAY_S)} a day; of a shard"
        f" {found['pages_per_s_least']:,.0f} to {found['pages_per_s_most']:,.0f}"
    )
    messages = (
        f"{found['rows_per_page']:.1f} rows of a page for other shards,"
        f" {found['urls_per_page']:.1f} of them URLs, in {found['parcels_per_page']:.3f} parcels"
        f" and {found['records_per_page']:.3f} records of {human_bytes(found['record_bytes'])};"
        f" {found['questions_per_page']:.2f} questions"
    )
    handover = (
        "; ".join(f"{name} within {seconds:.1f} s" for name, seconds in delays.items())
        + f"; the last after {found['handover_most_s']:.1f} s"
    )
    brokers = (
        f"{human_count(found['records_per_s'])} records and {found['commits_per_s']:,.0f} commits a"
        f" second, {human_bytes(found['inbox_bytes_per_s'])}/s of parcels,"
        f" {found['broker_cores']:.2f} of {found['broker_cores_available']:g} cores"
    )
    return [
        ("pages a second", pages),
        ("messages", messages),
        ("hand-over", handover),
        ("brokers", brokers),
        ("exchange", f"{100 * found['exchange_cpu_share']:.1f} % of the shards' processor time"),
        ("binds", found["binds"] or "nothing"),
    ]


def _delay(outcome: ShardsOutcome, share: float) -> float:
    """The seconds within which a share of the rows arrives."""
    delays, reached = outcome.post.delays, 0.0
    wanted = share * sum(delays) * (1 - 1e-9)
    for step, rows in enumerate(delays):
        reached += rows
        if rows and reached >= wanted:
            return (step + 1) * STEP_S
    return 0.0
