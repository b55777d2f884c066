"""The renderers of a simulated crawl."""

from __future__ import annotations

import pytest

from lycosa.simulate.drive import Point
from lycosa.simulate.render_tier import render_answers
from lycosa.simulate.resources import Prices, Resources

POINTS = [
    Point(at=0.0),
    Point(at=10_000.0, captures=1000, revisits=0),
    Point(at=20_000.0, captures=2000, revisits=1000),
    Point(at=30_000.0, captures=2100, revisits=1000),
]


def means(cores: float) -> Resources:
    return Resources(render_share=0.5, render_rounds=2.0, render_round_s=50.0, render_cores=cores)


def test_with_enough_cores_nothing_waits() -> None:
    found = render_answers(means(0.0), Prices(core_hour=3.6), POINTS, room=100)
    assert found.cores == found.cores_needed == 5.0
    assert (found.rendered, found.queue_most, found.crowded_out) == (550.0, 0.0, 0.0)
    assert found.busy_cores == pytest.approx(55_000 / 30_000)
    assert found.cost == pytest.approx(150.0)


def test_a_queue_is_worked_off_when_fewer_bodies_are_new() -> None:
    found = render_answers(means(2.0), Prices(), POINTS, room=1000)
    assert (found.queue_most, found.queue_end, found.crowded_out) == (300.0, 0.0, 0.0)
    assert found.rendered == 550.0


def test_beyond_the_queue_pages_stay_as_they_are() -> None:
    found = render_answers(means(2.0), Prices(), POINTS, room=50)
    assert found.queue_most == 100.0 and found.crowded_out == 200.0
    assert found.rendered + found.crowded_out + found.queue_end == 550.0
