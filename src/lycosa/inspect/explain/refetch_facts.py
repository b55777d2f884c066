"""Why a fetched page is due when it is: how often it changes, and what a fetch is worth."""

from __future__ import annotations

from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.refetch_cell import rate_in, weight_in
from lycosa.base.model.url_state import History
from lycosa.inspect.explain.facts import Explanation
from lycosa.stages.schedule.change_rate import changes_seen
from lycosa.stages.schedule.refetch_value import (
    PROBED_FROM,
    bounds_of_class,
    fetch_value,
    floor_of,
    has_price,
    wanted_days,
)
from lycosa.state.kv.table_records import UrlRecord

PROBE_TEXT = (
    "no fetch is worth the price within refetch.max_s; it waits for its turn among such pages, of"
    " which the one that was not fetched for longest is first (refetch.probes)"
)
_DAY_S = 86_400.0
_UNITS = ((365.25 * _DAY_S, "year"), (_DAY_S, "day"), (3600.0, "hour"), (60.0, "minute"))


def refetch_facts(
    answer: Explanation,
    section: RefetchSection,
    price: float,
    mean: float,
    record: UrlRecord,
    now: float,
) -> None:
    """Add what the record knows of the page's changes, and its value by now.

    ``price`` is that of a fetch at the page's host, ``mean`` the mean weight of pages, by
    which what is shown is divided.

    Nothing for a record without a cell, as of an older program. Times are wall time.
    """
    history = record.history
    if history is None or not history.cell:
        return
    rate, weight = rate_in(history.cell), weight_in(history.cell)
    changes, days = changes_seen(history.observations)
    age = max(now - history.fetched_at, 0.0) / _DAY_S
    due_s = round(max(record.due_at - now, 0.0)) if record.due_at else None
    if due_s is not None and section.budget and has_price(section, history.policy):
        # Its time is that of the next look, which comes at half of the price.
        bounds = bounds_of_class(section, history.policy)
        most_s = PROBED_FROM * bounds[1]
        wanted_s = min(
            wanted_days(history.cell, price, floor_of(section, bounds[1])) * _DAY_S, most_s
        )
        due_s = max(due_s, round(wanted_s - age * _DAY_S))
    value = fetch_value(rate, weight, age)
    facts = {
        "due_in_s": due_s,
        "changes_every_s": round(_DAY_S / rate),
        "changes_seen": changes,
        "seen_s": round(days * _DAY_S),
        "weight": round(weight / mean, 3),
        "value": round(value / mean, 4),
    }
    worth = ""
    if has_price(section, history.policy):
        facts["price"] = round(price / mean, 6)
        worth = f"; a fetch now is worth {_percent(value / price)} of the price at which it is due"
        if weight / rate <= price:
            worth += (
                f", and never more than {_percent(weight / rate / price)}: it changes too often"
                " for a copy to stay current"
            )
    answer.add_fact("refetch", facts, f"{_due(due_s)}{_rate(history, rate)}{worth}")


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if 0.0005 < share < 1 else f"{share:.0%}".replace("%", " %")


def _due(due_s: int | None) -> str:
    if due_s is None:
        return ""
    return f"due in {_about(due_s)}: " if due_s else "due now: "


def _rate(history: History, rate: float) -> str:
    every = f"changes about every {_about(_DAY_S / rate)}"
    if not history.observations:
        return f"{every} (assumed: it was not fetched again yet)"
    changes, days = changes_seen(history.observations)
    number = "1 change" if changes == 1 else f"{changes} changes"
    return f"{every} ({number} in {_about(days * _DAY_S)} seen)"


def _about(seconds: float) -> str:
    """A time in one unit, as exact as an estimate is: ``5 days``, ``90 minutes``."""
    for size, name in _UNITS:
        if seconds >= 2 * size or name == "minute":
            break
    number = max(round(seconds / size), 1)
    return f"{number} {name}{'s' if number != 1 else ''}"
