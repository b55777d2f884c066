"""Which pages are rendered: signs in the markup, what is learned, and the queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelled_pages import LABELLED_PAGES
from lycosa.base.config.render_section import RenderMode, RenderSection
from lycosa.base.model.host_memory import RenderTally
from lycosa.base.model.parsed import Parsed, ScriptNeed
from lycosa.base.urls.identity import hash8
from lycosa.base.urls.path_shape import path_shape
from lycosa.stages.parse.html import read_html
from lycosa.stages.schedule.render_choice import (
    MAX_SHAPES,
    OTHER_SHAPES,
    RenderChoice,
    choose_render,
    tally_of,
    with_render,
)

AUTO = RenderSection(mode=RenderMode.AUTO, queue=100)


def choose(
    url: str,
    need: ScriptNeed = ScriptNeed.LIKELY,
    tallies: dict[int, RenderTally] | None = None,
    section: RenderSection = AUTO,
    waiting: int = 0,
    priority: int = 128,
) -> RenderChoice:
    parsed = Parsed(media_type="text/html", script_need=need)
    return choose_render(section, url, hash8(url), parsed, tallies or {}, waiting, priority)


def need_of(markup: str) -> ScriptNeed:
    return read_html(markup.encode(), judges_scripts=True).script_need


def learned(url: str, tried: int, useful: int) -> dict[int, RenderTally]:
    tallies: dict[int, RenderTally] = {}
    for number in range(tried):
        tallies = with_render(tallies, url, 0, 5000 if number < useful else 0)
    return tallies


def test_signs_find_the_pages_that_were_labelled_before() -> None:
    """Precision and recall of both levels, which docs/rendering.md has."""
    found = {page.name: need_of(page.markup) for page in LABELLED_PAGES}
    needing = {page.name for page in LABELLED_PAGES if page.needs}
    likely = {name for name, need in found.items() if need is ScriptNeed.LIKELY}
    perhaps = {name for name, need in found.items() if need is not ScriptNeed.NONE}
    assert len(likely & needing) / len(likely) >= 0.95  # precision
    assert len(likely & needing) / len(needing) >= 0.80  # recall
    assert len(perhaps & needing) / len(perhaps) >= 0.90
    assert len(perhaps & needing) / len(needing) >= 0.98


def test_nothing_is_judged_when_no_page_is_rendered() -> None:
    page = next(each for each in LABELLED_PAGES if each.needs)
    assert read_html(page.markup.encode()).script_need is ScriptNeed.NONE


@given(st.binary(max_size=3000))
def test_any_bytes_are_judged(body: bytes) -> None:
    page = read_html(b"<script src=a.js></script><div id=root><main>" + body, judges_scripts=True)
    assert page.script_need in ScriptNeed


@pytest.mark.parametrize(
    "part",
    ["<div id=root ", "<noscript>", "<a b='", "<div v-for", "{{", "location =", "<main>" * 400],
)
def test_hostile_markup_is_judged_in_bounded_time(part: str) -> None:
    read_html(f"<script src=a></script>{part * 20_000}"[:400_000].encode(), judges_scripts=True)


# -- modes and kinds of answers


def test_the_mode_of_the_page_counts() -> None:
    section = RenderSection(policies=("a.example always", "b.example never"), mode=RenderMode.AUTO)
    none, likely = ScriptNeed.NONE, ScriptNeed.LIKELY
    assert choose("http://a.example/", none, section=section) is RenderChoice.RENDER
    assert choose("http://b.example/", likely, section=section) is RenderChoice.PLAIN
    assert choose("http://c.example/", none, section=section) is RenderChoice.PLAIN
    assert choose("http://c.example/", likely, section=section) is RenderChoice.RENDER


@pytest.mark.parametrize(
    "parsed", [Parsed(media_type="application/pdf"), Parsed(media_type="text/html", is_cut=True)]
)
def test_only_whole_pages_are_rendered(parsed: Parsed) -> None:
    url, section = "http://a.example/", RenderSection(mode=RenderMode.ALWAYS)
    assert choose_render(section, url, hash8(url), parsed, {}, 0, 255) is RenderChoice.PLAIN


# -- what is learned


def urls(number: int) -> list[str]:
    return [f"http://a.example/goods/{each}" for each in range(number)]


def rendered_of(need: ScriptNeed, tallies: dict[int, RenderTally]) -> int:
    return sum(choose(url, need, tallies) is RenderChoice.RENDER for url in urls(2000))


def test_where_rendering_adds_nothing_one_page_in_50_is_rendered() -> None:
    tallies = learned(urls(1)[0], tried=20, useful=0)
    assert 20 <= rendered_of(ScriptNeed.LIKELY, tallies) <= 60
    assert 20 <= rendered_of(ScriptNeed.PERHAPS, tallies) <= 60
    assert choose("http://a.example/news/1", ScriptNeed.LIKELY, tallies) is RenderChoice.RENDER


def test_where_rendering_adds_something_all_are_rendered() -> None:
    tallies = learned(urls(1)[0], tried=20, useful=10)
    assert rendered_of(ScriptNeed.LIKELY, tallies) == rendered_of(ScriptNeed.PERHAPS, tallies)
    assert rendered_of(ScriptNeed.PERHAPS, tallies) == 2000


def test_a_page_without_signs_is_not_rendered_whatever_others_gave() -> None:
    assert rendered_of(ScriptNeed.NONE, learned(urls(1)[0], 20, 20)) == 0


def test_a_site_that_is_rebuilt_is_noticed() -> None:
    tallies = learned(urls(1)[0], tried=60, useful=0)
    for _ in range(40):
        tallies = with_render(tallies, urls(1)[0], links=30, characters=0)
    assert rendered_of(ScriptNeed.LIKELY, tallies) == 2000


@given(st.lists(st.tuples(st.text("abc/0-?", max_size=12), st.integers(0, 9)), max_size=80))
def test_what_is_learned_of_a_host_is_bounded(renders: list[tuple[str, int]]) -> None:
    tallies: dict[int, RenderTally] = {}
    for path, links in renders:
        tallies = with_render(tallies, f"http://a.example/{path}", links, 0)
        assert tally_of(tallies, f"http://a.example/{path}").tried >= 1
    assert len(tallies) <= MAX_SHAPES + 1
    assert all(0 <= each.useful <= each.tried <= 64 for each in tallies.values())


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("/shop/rope-12", "/shop/sail-7", True),
        ("/shop/rope-12", "/news/rope-12", False),
        ("/shop/rope-12", "/shop/", True),
        ("/shop/a/b", "/shop/a", False),
        ("/about", "/contact", True),
        ("/", "/about", False),
        ("/list?page=1", "/list?page=2", True),
        ("/list?page=1", "/list", False),
        ("/20260101/a", "/20251231/b", True),
    ],
)
def test_paths_of_one_template_have_one_shape(one: str, other: str, are_alike: bool) -> None:
    shapes = {path_shape(f"https://a.example{path}") for path in (one, other)}
    assert (len(shapes) == 1) == are_alike and OTHER_SHAPES not in shapes


# -- the queue


def test_beyond_the_queue_pages_of_low_priority_stay_as_they_are() -> None:
    def least(waiting: int) -> int:
        """The lowest priority that is rendered; 256 when none is."""
        taken = [
            priority
            for priority in range(256)
            if choose("http://a.example/", waiting=waiting, priority=priority)
            is RenderChoice.RENDER
        ]
        assert taken == list(range(256 - len(taken), 256))
        return 256 - len(taken)

    assert least(99) == 0
    assert 0 < least(110) < least(150) < least(190) < 256
    assert least(200) == 256
    assert choose("http://a.example/", waiting=200) is RenderChoice.CROWDED_OUT
    assert choose("http://a.example/", ScriptNeed.NONE, waiting=200) is RenderChoice.PLAIN


@pytest.mark.parametrize(
    ("markup", "need"),
    [
        # a list that its island fills when it runs, as Astro writes it
        (
            "<h1>Things</h1>{words}<astro-island uid=a client=load ssr><ul></ul><!--end-->"
            "</astro-island>",
            ScriptNeed.PERHAPS,
        ),
        ("<h1>T</h1>{words}<astro-island client=load><p>text</p></astro-island>", ScriptNeed.NONE),
        # the page of a documentation on which one can search
        (
            "<h1>Search</h1><noscript>Please activate JavaScript to enable the search"
            " functionality.</noscript><p>{words}<form action=/search.html><input name=q></form>",
            ScriptNeed.NONE,
        ),
    ],
)
def test_signs_that_pages_of_other_generators_have(markup: str, need: ScriptNeed) -> None:
    words = "<p>The harbour opened in spring and the first boats came with salt.</p>" * 3
    assert need_of(f"<body>{markup.format(words=words)}<script src=/a.js></script>") is need
