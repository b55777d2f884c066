"""The renderers of a simulated crawl: how much they do, what waits for them, what they cost.

A fluid model next to that of the crawl: a new body is rendered with the probability
``render_share``, for some rounds, each of which costs processor time on cores of its tier. What
does not fit waits; beyond ``render.queue`` for each worker pages of low priority stay as they are,
and at twice as many all do (``schedule.render_choice``). That pages are found by rendering, and
that requisites are fetched, is part of the web of the model, not of this tier.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from lycosa.simulate.drive import Point
from lycosa.simulate.resources import Prices, Resources

_HOUR_S = 3600.0


class RenderAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """What renderers do in the whole time.

    ``rendered`` pages, ``crowded_out`` ones that stay as they are. ``queue_most`` and ``queue_end``
    pages wait. ``cores`` are those of the tier, ``busy_cores`` the mean of what is used,
    ``cores_needed`` what renders everything that comes in the busiest hour.
    """

    rendered: float
    crowded_out: float
    queue_most: float
    queue_end: float
    cores: float
    busy_cores: float
    cores_needed: float
    cost: float


def render_answers(
    means: Resources, prices: Prices, points: Sequence[Point], room: float
) -> RenderAnswers:
    """The tier of a crawl at these points; ``room`` pages may wait (``render.queue``).

    Without ``render_cores`` the tier has as many cores as the busiest hour needs.
    """
    page_s = means.render_rounds * means.render_round_s
    arrivals = [
        (after.at - before.at, _bodies(before, after) * means.render_share)
        for before, after in pairwise(points)
    ]
    needed = page_s * _busiest(arrivals)
    cores = means.render_cores or needed
    queue = most = rendered = crowded_out = 0.0
    for seconds, pages in arrivals:
        done = min(queue + pages, cores * seconds / page_s)
        queue += pages - done
        # Between the queue and twice as many, fewer and fewer priorities are taken.
        over = max(queue - 2 * room, 0.0)
        queue, crowded_out, rendered = queue - over, crowded_out + over, rendered + done
        most = max(most, queue)
    total_s = points[-1].at - points[0].at
    return RenderAnswers(
        rendered=rendered,
        crowded_out=crowded_out,
        queue_most=most,
        queue_end=queue,
        cores=cores,
        busy_cores=rendered * page_s / total_s,
        cores_needed=needed,
        cost=cores * total_s / _HOUR_S * prices.core_hour,
    )


def _busiest(arrivals: Sequence[tuple[float, float]]) -> float:
    """Pages a second in the busiest hour. Shorter peaks are what the queue is for."""
    most = seconds = pages = 0.0
    for more_s, more in arrivals:
        seconds, pages = seconds + more_s, pages + more
        if seconds >= _HOUR_S:
            most, seconds, pages = max(most, pages / seconds), 0.0, 0.0
    # A rest of less than an hour counts only where there is nothing else.
    return most or (pages / seconds if seconds else 0.0)


def _bodies(before: Point, after: Point) -> float:
    """New bodies between two points: a page whose body is as before is not rendered again."""
    return (after.captures - after.revisits) - (before.captures - before.revisits)
