"""Rows of pages that are rendered: order, wants, rounds, bounds, and what a restart keeps."""

from __future__ import annotations

from lycosa.base.config.sections import RenderSection
from lycosa.base.model.capture import Want
from lycosa.base.model.finished_render import RoundNote
from lycosa.base.model.render_row import CapturedPage, RenderOutcome, RenderRow
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.render_rows import (
    LOST,
    MOST_FAILURES,
    MOST_LOSSES,
    TOO_OLD,
    RenderRows,
)
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.shard.counters import Counters

QUIET = RoundNote(1, "quiet", processor_s=1.0)


def site_of(host: str) -> str:
    return ".".join(host.split(".")[-2:])


def key_of(url: str) -> bytes:
    return hash8(host_of(url)) + hash8(url)


class World:
    """The rows of one partition, with a table that survives."""

    def __init__(self, **section: object) -> None:
        self.table, self.counters = Overlay(MemoryKeyValue()), Counters()
        self.section = RenderSection(**section)  # type: ignore[arg-type]
        self.restart()

    def restart(self) -> None:
        self.rows = RenderRows(self.table, self.counters, self.section)

    def begin(
        self, url: str, *loads: str, priority: int = 0, now: float = 0.0, body: bytes = b"1"
    ) -> tuple[bytes, list[Want]]:
        facts = CapturedPage(url, 1, "urn:uuid:1", body, priority=priority)
        wants = [Want(each, "script") for each in loads]
        page = key_of(url)
        return page, self.rows.begin(page, facts, wants, site_of, now)

    def settle(self, page: bytes, url: str, location: str = "", *loads: str) -> list[str]:
        more = [Want(each, "script") for each in loads]
        fresh = self.rows.take_settled(page, url, location, more, site_of)
        return [each.url for each in fresh]

    def next(self, now: float = 0.0) -> RenderRow | None:
        place = self.rows.next_due(now)
        return self.rows.get(place[2]) if place is not None else None

    def give(self, page: bytes, *wants: str, now: float = 0.0) -> list[str]:
        asked = [Want(each) for each in wants]
        fresh = self.rows.next_round(page, QUIET, {}, asked, site_of, now)
        return [each.url for each in fresh]


PAGE = "http://a.example/"


def test_a_page_without_wants_is_due_at_once_and_the_best_is_first() -> None:
    world = World()
    world.begin(PAGE, priority=10)
    best, _ = world.begin("http://a.example/best", priority=200)
    place = world.rows.next_due(0.0)
    assert place is not None and place[2] == best
    world.rows.lend(best, 60.0)
    row = world.next()
    assert row is not None and row.page.url == PAGE


def test_a_page_waits_for_all_that_it_loads() -> None:
    world = World()
    page, wants = world.begin(PAGE, "http://a.example/1.js", "http://a.example/2.js")
    assert [each.url for each in wants] == ["http://a.example/1.js", "http://a.example/2.js"]
    world.settle(page, "http://a.example/1.js")
    assert world.next() is None
    world.settle(page, "http://a.example/2.js")
    assert world.next() is not None


def test_a_want_is_settled_once() -> None:
    world = World()
    page, _ = world.begin(PAGE, "http://a.example/1.js")
    world.settle(page, "http://a.example/1.js")
    assert world.settle(page, "http://a.example/1.js", "", "http://a.example/more.js") == []
    assert world.next() is not None


def test_what_a_script_imports_is_wanted_when_that_is_settled() -> None:
    world = World()
    page, _ = world.begin(PAGE, "http://a.example/1.js")
    loads = world.settle(page, "http://a.example/1.js", "", "http://a.example/deep.js")
    assert loads == ["http://a.example/deep.js"]
    assert world.next() is None
    world.settle(page, "http://a.example/deep.js")
    row = world.next()
    assert row is not None and row.round == 1


def test_the_target_of_a_redirect_is_wanted_with_the_same_destination() -> None:
    world = World()
    page, _ = world.begin(PAGE, "http://a.example/old.js")
    fresh = world.rows.take_settled(
        page, "http://a.example/old.js", "http://a.example/new.js", (), site_of
    )
    assert fresh == [Want("http://a.example/new.js", "script")]


def test_a_page_is_rendered_without_what_it_waited_for_too_long() -> None:
    world = World(wait_s=600.0)
    page, _ = world.begin(PAGE, "http://a.example/slow.js", now=100.0)
    assert world.next(699.0) is None
    assert world.rows.next_time() == 700.0
    assert world.next(700.0) is not None
    assert world.settle(page, "http://a.example/slow.js") == []


def test_rounds_continue_while_one_wants_something_new() -> None:
    world = World()
    page, _ = world.begin(PAGE)
    world.rows.lend(page, 60.0)
    assert world.give(page, "http://a.example/data") == ["http://a.example/data"]
    world.settle(page, "http://a.example/data")
    row = world.next()
    assert row is not None and row.round == 2
    assert world.give(page, "http://a.example/data") == []


def test_a_round_has_another_lending() -> None:
    world = World()
    page, _ = world.begin(PAGE)
    row = world.rows.get(page)
    assert row is not None
    before = row.lending
    world.give(page, "http://a.example/data")
    assert row.lending == before + 1


def test_the_number_of_rounds_is_bounded() -> None:
    world = World(max_rounds=3)
    page, _ = world.begin(PAGE)
    rounds = 0
    while world.give(page, f"http://a.example/{rounds}"):
        world.settle(page, f"http://a.example/{rounds}")
        rounds += 1
    assert rounds == 2  # after the third round nothing is wanted


def test_the_wants_of_a_page_are_bounded_over_all_rounds() -> None:
    world = World(max_wants=5)
    page, _ = world.begin(PAGE, "http://a.example/1.js")
    world.settle(page, "http://a.example/1.js")
    wanted = world.give(page, *(f"http://a.example/{each}" for each in range(10)))
    assert len(wanted) == 4


def test_the_wants_of_other_sites_are_bounded() -> None:
    world = World(max_foreign=2)
    page, _ = world.begin(PAGE)
    wanted = world.give(
        page, "http://x.test/1", "http://x.test/2", "http://x.test/3", "http://b.a.example/own"
    )
    assert wanted == ["http://x.test/1", "http://x.test/2", "http://b.a.example/own"]


def test_processor_time_is_bounded_over_all_rounds() -> None:
    world = World(processor_s=2.0)
    page, _ = world.begin(PAGE)
    assert world.give(page, "http://a.example/1") == ["http://a.example/1"]
    world.settle(page, "http://a.example/1")
    assert world.give(page, "http://a.example/2") == []


def test_a_lending_without_a_result_is_a_failure_and_the_page_is_due_again() -> None:
    world = World()
    page, _ = world.begin(PAGE)
    for failures in range(1, MOST_FAILURES):
        world.rows.lend(page, 60.0 * failures)
        assert world.next(0.0) is None
        assert list(world.rows.expire(60.0 * failures)) == []
        row = world.next()
        assert row is not None and row.failures == failures
    world.rows.lend(page, 600.0)
    ended = [(found, end) for found, _, end in world.rows.expire(600.0)]
    assert ended == [(page, LOST)]


def test_a_page_that_failed_is_due_after_all_others() -> None:
    world = World()
    page, _ = world.begin(PAGE, priority=200)
    other, _ = world.begin("http://a.example/other")
    world.rows.lend(page, 60.0)
    assert not world.rows.fail(page, RoundNote(1, LOST), MOST_LOSSES)
    place = world.rows.next_due(0.0)
    assert place is not None and place[2] == other
    world.rows.lend(other, 60.0)
    place = world.rows.next_due(0.0)
    assert place is not None and place[2] == page


def test_what_is_given_back_is_no_failure() -> None:
    world = World()
    page, _ = world.begin(PAGE)
    world.rows.lend(page, 60.0)
    world.rows.take_back(page)
    row = world.next()
    assert row is not None and row.failures == 0


def test_a_page_without_a_capture_ends_at_once_and_one_that_crashes_after_three_rounds() -> None:
    world = World()
    gone, _ = world.begin(PAGE)
    assert world.rows.fail(gone, RoundNote(1, "no_page"))
    page, _ = world.begin("http://a.example/crash")
    ends = [world.rows.fail(page, RoundNote(1, "crashed")) for _ in range(MOST_FAILURES)]
    assert ends == [False, False, True]


def test_a_page_is_not_rendered_when_its_capture_is_too_old() -> None:
    world = World(max_age_s=3600.0)
    old, _ = world.begin(PAGE, now=0.0)
    world.begin("http://a.example/new", now=1000.0)
    ended = []
    for page, _, end in world.rows.expire(3600.0):
        world.rows.end(page, RenderOutcome(b"1", end, 1))
        ended.append((page, end))
    assert ended == [(old, TOO_OLD)]
    assert len(world.rows) == 1


def test_a_body_is_rendered_once() -> None:
    world = World()
    page, _ = world.begin(PAGE, body=b"1")
    assert not world.rows.is_needed(page, b"1")
    assert world.rows.is_needed(page, b"2")
    world.rows.end(page, RenderOutcome(b"1", "quiet", 5))
    assert not world.rows.is_needed(page, b"1")
    assert world.rows.is_needed(page, b"2")
    assert world.counters.rendered == {"quiet": 1}


def test_a_later_capture_replaces_the_render_of_an_earlier_one() -> None:
    world = World()
    page, _ = world.begin(PAGE, "http://a.example/1.js", body=b"1")
    first = world.rows.get(page)
    world.begin(PAGE, body=b"2")
    second = world.rows.get(page)
    assert first is not None and second is not None and second.number > first.number
    assert world.next() is second


def test_a_restart_forgets_only_what_is_lent() -> None:
    world = World()
    waiting, _ = world.begin(PAGE, "http://a.example/1.js")
    lent, _ = world.begin("http://a.example/lent")
    world.give(lent, "http://a.example/data")
    world.settle(lent, "http://a.example/data")
    world.rows.lend(lent, 60.0)
    world.restart()
    row = world.next()
    assert row is not None and row.page.url == "http://a.example/lent" and row.round == 2
    assert world.rows.story(lent).wanted == {"http://a.example/data": ""}
    world.settle(waiting, "http://a.example/1.js")
    assert len(world.rows) == world.rows.due == 2


def test_what_pages_of_a_template_want_is_wanted_before_the_first_round() -> None:
    world = World()
    early, _ = world.begin("http://a.example/item/9")
    for number in (4, 5, 6):
        page, wants = world.begin(f"http://a.example/item/{number}", priority=9)
        assert wants == []
        data = f"http://a.example/data/{number}"
        world.next()
        assert world.give(page, data) == [data]
        world.settle(page, data)
        world.rows.next_round(page, QUIET, {data: "urn:uuid:2"}, [], site_of, 0.0)
        world.rows.end(page, RenderOutcome(b"1", "quiet", 1, record="urn:uuid:3"))
    # a page that begins now, and one that waited already
    _, wants = world.begin("http://a.example/item/8")
    assert wants == [Want("http://a.example/data/8")]
    ahead = [(early, [Want("http://a.example/data/9")])]
    assert world.rows.guess_ahead(site_of, 0.0) == ahead
    assert world.rows.guess_ahead(site_of, 0.0) == []
    assert world.next() is None
    world.settle(early, "http://a.example/data/9")
    row = world.next()
    assert row is not None and row.page.url == "http://a.example/item/9"
