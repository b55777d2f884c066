"""Crawls of a site whose pages change, vanish and come back: what is said of each capture, the list
of changes and its cursors, and when a page that is gone is looked at again.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawling import HTML, Pages, crawl_folder, html, page
from judging import quick_config
from lycosa.base.calls import ChangesQuery, FoundChanges, ListedChange
from lycosa.base.config.sections import Config, FrontierSection, RefetchRule, RefetchSection
from lycosa.base.model.capture import Change
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import partition_of
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.inspect.committed_state import UrlEntry, read_folder
from lycosa.inspect.dead_letter_list import DeadLetterFilter, dead_letters
from lycosa.inspect.queries.answering import answer_question
from lycosa.inspect.queries.changed_list import (
    BadCursor,
    ChangesCursor,
    cursor_text,
    merged_changes,
    read_cursor,
)
from lycosa.stages.frontier.change_log import bounds_in
from lycosa.state.folder.names import table_folder
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import change_key
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Faults, Response
from lycosa.worker.job import ClusterJob
from scripted import Answer, scripted_crawl

DAY = 86_400.0
PARTITIONS = 3
A = "http://a.example/"
GONE = Response(404, [HTML], b"<p>There is nothing here any more.")
WORDS = " ".join(f"word{number}" for number in range(80))


def config(**refetch: float) -> Config:
    section = RefetchSection(
        rule=RefetchRule.ADAPTIVE,
        first_s=5 * DAY,
        min_s=5 * DAY,
        max_s=5 * DAY,
        soft_gone=False,
        **refetch,
    )
    return quick_config(frontier=FrontierSection(partitions=PARTITIONS), refetch=section)


def tagged(text: str) -> Response:
    return page(text=text)


def site() -> Pages:
    """By round: a page that changes, one that stays, one that vanishes and comes back, one that was
    never there, and one whose body changes though no reader sees it."""
    return Pages(
        {
            A: page(*(f"{A}{name}" for name in ("changes", "stays", "flees", "never", "token"))),
            f"{A}changes": [tagged(f"{WORDS} 19.90"), tagged(f"{WORDS} 21.90"), tagged("other")],
            f"{A}stays": tagged("it stays"),
            f"{A}flees": [tagged("here"), GONE, GONE, tagged("here")],
            f"{A}token": [
                html(f"<!DOCTYPE html><meta name=t content={number}><p>seen") for number in range(9)
            ],
        }
    )


def run(folder: Path, web: Pages, number: int, given: Config | None = None) -> None:
    crawl_folder(folder, web, [] if number else [A], given or config(), start=number * 6 * DAY)


def rows_of(folder: Path) -> dict[str, list[JournalRow]]:
    reader = read_folder(folder)
    found: dict[str, list[JournalRow]] = {}
    for segment in reader.source.list_segments():
        for row in reader.source.read_rows(segment):
            if not row.url.endswith("robots.txt"):
                found.setdefault(row.url.removeprefix(A), []).append(row)
    return {url: sorted(rows, key=lambda row: row.date_us) for url, rows in found.items()}


def changes_by_url(folder: Path) -> dict[str, list[str]]:
    return {url: [row.change.label for row in rows] for url, rows in rows_of(folder).items()}


def entry(folder: Path, url: str) -> UrlEntry:
    found = read_folder(folder).find_url(url)
    assert found is not None
    return found


class Listed:
    """A reader of the list of changes of a folder."""

    def __init__(self, folder: Path, cursor: str = "") -> None:
        self.folder, self.cursor = folder, cursor

    def page(self, most: int = 100, **wanted: object) -> list[ListedChange]:
        """The next page."""
        reader = read_folder(self.folder)
        crawl = reader.manifest.crawl
        cursor = read_cursor(crawl, self.cursor) if self.cursor else ChangesCursor()
        query = ChangesQuery(read=cursor.read, since_s=cursor.since_s, most=most, **wanted)  # type: ignore[arg-type]
        answers: dict[int, FoundChanges] = {}
        for number in range(PARTITIONS):
            reply = answer_question(reader.source, number, query, 9.0)
            assert isinstance(reply, FoundChanges), reply
            answers[number] = reply
        found = merged_changes(answers, cursor, most, PARTITIONS)
        self.cursor = cursor_text(crawl, found.cursor)
        return found.rows

    def all(self, most: int = 100) -> list[tuple[str, str]]:
        """What is new, in pages of at most ``most``."""
        found: list[tuple[str, str]] = []
        while rows := self.page(most):
            assert len(rows) <= most
            found += [(each.url.removeprefix(A), each.change) for each in rows]
        return found


def is_clean(folder: Path) -> None:
    report = audit_crawl(AuditedCrawl(read_folder(folder).source, is_running=False))
    assert report.is_clean, report.first_breaches()


FIRST = {("", "new"), ("changes", "new"), ("stays", "new"), ("flees", "new"), ("token", "new")}


def test_every_capture_says_how_its_page_changed(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", site()
    listed, told = Listed(folder), []
    for number in range(4):
        run(folder, web, number)
        told.append(set(listed.all(2)))
        is_clean(folder)
    assert changes_by_url(folder) == {
        "": ["new", "same", "same", "same"],
        "changes": ["new", "changed", "changed", "same"],
        "stays": ["new", "same", "same", "same"],
        "flees": ["new", "gone", "none", "back"],
        "never": ["none"],
        "token": ["new", "same", "same", "same"],
    }
    assert told == [FIRST, {("changes", "changed"), ("flees", "gone")},
                    {("changes", "changed")}, {("flees", "back")}]  # fmt: skip
    first, price, other, _ = rows_of(folder)["changes"]
    # one digit is a change that the fingerprint does not see
    assert (first.change_distance, price.change_distance) == (None, 0)
    assert other.change_distance is None or other.change_distance > 0


def test_a_page_that_is_gone_is_looked_at_at_growing_intervals_and_then_left(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "c"
    web = Pages({A: page(f"{A}flees"), f"{A}flees": [tagged("here"), GONE]})
    given = config(gone_first_s=DAY, gone_max_s=10 * DAY)
    waits = []
    for number in range(30):
        # each day, so that every look is on time
        crawl_folder(folder, web, [] if number else [A], given, start=number * DAY + 60)
        found = entry(folder, f"{A}flees").record
        assert found.history is not None
        if found.state is UrlState.GONE:
            waits.append((found.history.fetches, round(found.history.interval_s / DAY)))
            assert found.reason is Reason.GONE
    # fetched on day 5, then after 1, 3 and 9 days; 27 is more than the longest interval
    assert list(dict.fromkeys(waits)) == [(2, 1), (3, 3), (4, 9), (5, 0)]
    assert found.due_at == 0
    reader = read_folder(folder)
    assert list(dead_letters(reader, DeadLetterFilter())) == []
    is_clean(folder)
    # whoever gives it as a seed has a reason to think that it is back
    crawl_folder(folder, web, [f"{A}flees"], given, start=40 * DAY)
    history = entry(folder, f"{A}flees").record.history
    assert history is not None and history.fetches == 6


def test_a_page_that_was_never_there_is_a_dead_letter_and_no_change(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run(folder, site(), 0)
    letters = [each.url for each in dead_letters(read_folder(folder), DeadLetterFilter())]
    assert letters == [f"{A}never"]
    assert entry(folder, f"{A}never").state is UrlState.FAILED


def test_pages_that_are_gone_are_not_looked_at_again_when_the_setting_is_0(
    tmp_path: Path,
) -> None:
    folder, web = tmp_path / "c", site()
    for number in range(3):
        run(folder, web, number, config(gone_first_s=0.0))
    assert changes_by_url(folder)["flees"] == ["new", "gone"]
    assert entry(folder, f"{A}flees").record.due_at == 0


def test_another_error_where_a_page_was_gone_leaves_it_gone(tmp_path: Path) -> None:
    """Else the reader who was told that it is gone would never be told that it is back."""
    broken = Response(403, [HTML], b"<p>no")
    web = Pages({A: page(f"{A}x"), f"{A}x": [tagged("here"), GONE, broken, tagged("here")]})
    folder = tmp_path / "c"
    for number in range(4):
        run(folder, web, number)
    assert changes_by_url(folder)["x"] == ["new", "gone", "none", "back"]


def test_an_error_that_is_not_404_or_410_is_no_end_of_a_page(tmp_path: Path) -> None:
    folder, broken = tmp_path / "c", Response(403, [HTML], b"<p>no")
    web = Pages({A: page(f"{A}x"), f"{A}x": [tagged("here"), broken, tagged("here"), tagged("2")]})
    for number in range(3):
        crawl_folder(folder, web, [A, f"{A}x"], config(), start=number * 6 * DAY)
    assert changes_by_url(folder)["x"] == ["new", "none", "same"]


@pytest.mark.parametrize("point", range(3, 40, 6))
def test_each_change_is_told_once_whenever_the_crawl_is_killed(tmp_path: Path, point: int) -> None:
    folder, web = tmp_path / "c", site()
    listed = Listed(folder)
    told: list[tuple[str, str]] = []
    for number in range(4):
        seeds = [] if number else [A]
        faults = Faults(random.Random(1), crash_at=point) if number in (1, 2) else None
        crawl_folder(folder, web, seeds, config(), start=number * 6 * DAY, faults=faults)
        told += listed.all()
        if faults is not None:
            crawl_folder(folder, web, seeds, config(), start=number * 6 * DAY + 3600)
            told += listed.all(1)
    wanted = {**changes_by_url(folder), "never": []}
    for url, changes in wanted.items():
        kept = [each for each in changes if each not in ("same", "none")]
        assert [change for each, change in told if each == url] == kept, (url, told)


def test_a_list_can_begin_at_a_time_and_have_a_host_and_kinds_of_change(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    web = Pages({A: page("http://b.example/"), "http://b.example/": page(text="b")})
    crawl_folder(folder, web, [A, "http://b.example/"], config())
    crawl_folder(folder, web, ["http://c.example/"], config(), start=3 * DAY)
    web = Pages({"http://c.example/": page(text="c")})
    crawl_folder(folder, web, ["http://c.example/"], config(), start=4 * DAY)
    assert len(Listed(folder).all()) == 3
    crawl = read_folder(folder).manifest.crawl
    late = Listed(folder, cursor_text(crawl, ChangesCursor(since_s=1e9)))
    first = Listed(folder).page()
    since = first[-1].noted
    late.cursor = cursor_text(crawl, ChangesCursor(since_s=since))
    assert [each.url for each in late.page()] == ["http://c.example/"]
    assert late.page() == [] and "@" not in late.cursor
    assert {each.host for each in Listed(folder).page(host="b.example")} == {"b.example"}
    listed = Listed(folder)
    assert listed.page(changes=(int(Change.GONE),)) == []
    # what was left out is behind the cursor
    assert listed.page() == []


def test_changes_are_kept_for_some_days_and_who_missed_some_is_told(tmp_path: Path) -> None:
    folder, names = tmp_path / "c", [f"{A}{number}" for number in range(40)]
    pages: dict[str, Response | Sequence[Response]] = {A: page(*names)}
    pages |= {url: [tagged(f"{url} {n}") for n in range(9)] for url in names}
    given = msgspec.structs.replace(
        config(), frontier=FrontierSection(partitions=PARTITIONS, changes_days=7)
    )
    slow, web = Listed(folder), Pages(pages)
    for number in range(6):
        run(folder, web, number, given)
        if not number:
            assert len(slow.page(5)) == 5
    kept = Listed(folder).all(1000)
    assert len(kept) < 3 * 41
    with pytest.raises(BadCursor, match=r"no longer kept.*begin again with a time"):
        slow.page()
    is_clean(folder)


BAD = {
    "pages/00000000/0.1.2": "is no cursor of changes",
    "changes/": "is no cursor of changes",
    "changes/00000000/0:1.x": "is no cursor of changes",
    "changes/00000000/0:1.2,": "is no cursor of changes",
    "changes/ffffffff/0:1.2": "is a cursor of the crawl ffffffff",
}


@pytest.mark.parametrize(("text", "told"), BAD.items())
def test_what_is_no_cursor_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadCursor, match=told):
        read_cursor("00000000-1111-4222-8333-444444444444", text)


def test_a_cursor_of_a_copy_that_was_further_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run(folder, site(), 0)
    crawl = read_folder(folder).manifest.crawl[:8]
    for text in (f"changes/{crawl}/0:0.99,1.99,2.99", f"changes/{crawl}/3:0.1"):
        with pytest.raises(BadCursor, match="restored"):
            Listed(folder, text).page()


def test_a_crawl_of_formats_1_judges_no_change_and_its_records_are_compared_afterwards(
    tmp_path: Path,
) -> None:
    """A program of formats 1 could read neither the list nor the state."""
    turns: dict[str, list[Response]] = {
        A: [page(f"{A}changes", f"{A}flees")],
        f"{A}changes": [tagged("1"), tagged("2"), tagged("3")],
        f"{A}flees": [tagged("here"), GONE, tagged("here")],
    }

    def answer(url: str) -> Answer:
        return lambda earlier, headers: turns[url][min(earlier, len(turns[url]) - 1)]

    folder = tmp_path / "c"
    crawl, _ = scripted_crawl(folder, {url: answer(url) for url in turns}, config())
    older = ClusterJob(Path("cluster.toml"), 1, "", folder, formats=1)
    crawl.told = lambda job: msgspec.structs.replace(job, cluster=older)
    crawl.run([A])
    crawl.now += 6 * DAY
    crawl.run()
    assert {change for rows in changes_by_url(folder).values() for change in rows} == {"none"}
    assert entry(folder, f"{A}flees").state is UrlState.FAILED
    assert Listed(folder).all() == []
    crawl.told = lambda job: job
    crawl.now += 6 * DAY
    crawl.run([f"{A}flees"])
    found = {url: changes[-1] for url, changes in changes_by_url(folder).items()}
    # that it had been there is in no record
    assert found == {"": "same", "changes": "changed", "flees": "new"}


VECTORS = st.dictionaries(st.integers(0, 999), st.integers(0, 10**9), min_size=1, max_size=5)


@given(
    st.dictionaries(st.integers(0, 9), VECTORS, max_size=3),
    st.integers(0, 10**10).map(float),
)
def test_every_cursor_is_read_as_it_was_written(
    read: dict[int, dict[int, int]], since_s: float
) -> None:
    cursor, crawl = ChangesCursor(read, since_s), "0c1d2e3f-1111-4222-8333-444444444444"
    assert read_cursor(crawl, cursor_text(crawl, cursor)) == cursor


@given(st.text(alphabet="changes/0123:.,;@ae", max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        cursor = read_cursor("0c1d2e3f", f"changes/0c1d2e3f/{text}")
    except BadCursor as error:
        assert "is no cursor of changes" in str(error)
    else:
        assert read_cursor("0c1d2e3f", cursor_text("0c1d2e3f", cursor)) == cursor


def test_the_audit_finds_a_gap_in_the_list(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    run(folder, site(), 0)
    is_clean(folder)
    with read_folder(folder).partition_view(number_of_a()) as view:
        last = bounds_in(view.get).last
    assert last == 5
    table = rocks_opener(8 << 20, 4 << 20)(table_folder(folder, number_of_a()))
    table.write({change_key(3): None})
    table.close()
    report = audit_crawl(AuditedCrawl(read_folder(folder).source, is_running=False))
    found = {check.name: check.first for check in report.checks if check.breaches}
    assert list(found) == ["changes"] and "number 4 where 3 should be" in found["changes"][0]


def number_of_a() -> int:
    return partition_of("a.example", PARTITIONS)


def test_a_body_without_text_is_the_same_in_another_encoding(tmp_path: Path) -> None:
    """A server may compress or not, as it likes; what is stored are both forms."""
    data = json.dumps({"price": 19.90, "rows": list(range(500))}).encode()
    plain = [("Content-Type", "application/json")]
    packed = Response(200, [*plain, ("Content-Encoding", "gzip")], gzip.compress(data, mtime=0))
    other = Response(200, plain, data.replace(b"19.9", b"21.9"))
    answers = [Response(200, plain, data), packed, Response(200, plain, data), packed, other]
    folder, web = tmp_path / "c", Pages({A: page(f"{A}data"), f"{A}data": answers})
    for number in range(5):
        run(folder, web, number)
    rows = rows_of(folder)["data"]
    assert [row.change.label for row in rows] == ["new", "same", "same", "same", "changed"]
    assert [bool(row.revisit) for row in rows] == [False, False, True, True, False]
