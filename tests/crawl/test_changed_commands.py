"""``lycosa changes`` and ``lycosa diff`` over crawls in several rounds, as an operator runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from test_changed_pages import DAY, A, config, run, site

from crawling import Pages, crawl_folder, page
from lycosa.base.config.sections import StoreSection
from lycosa.cli.changes import command as changes
from lycosa.cli.diff import command as diff
from lycosa.inspect.capture_diff import captures_of_url, compared
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.text_diff import MAX_LINES

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, web = tmp_path_factory.mktemp("rounds") / "c", site()
    for number in range(4):
        run(folder, web, number)
    return folder


def called(command: object, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])  # type: ignore[arg-type]


def rows_in(output: str) -> tuple[list[tuple[str, str]], str]:
    rows = [json.loads(line) for line in output.splitlines()]
    cursor = next((each["cursor"] for each in reversed(rows) if "cursor" in each), "")
    found = [(each["url"].removeprefix(A), each["change"]) for each in rows if "url" in each]
    return found, cursor


def test_changes_are_printed_in_order_with_a_cursor_for_the_next_call(crawled: Path) -> None:
    whole, _ = rows_in(called(changes, crawled, "--json").stdout)
    assert set(whole[-4:-2]) == {("flees", "gone"), ("changes", "changed")}
    assert whole[-2:] == [("changes", "changed"), ("flees", "back")]
    first, cursor = rows_in(called(changes, crawled, "--json", "--limit", 3).stdout)
    rest, end = rows_in(called(changes, crawled, "--json", "--since", cursor).stdout)
    assert first + rest == whole and len(first) == 3
    nothing, same = rows_in(called(changes, crawled, "--json", "--since", end).stdout)
    assert (nothing, same) == ([], end)
    plain = called(changes, crawled, "--kind", "gone")
    assert plain.stdout.split()[1:] == ["gone", "404", f"{A}flees"]
    assert "continue with --since changes/" in plain.stderr


def test_a_time_or_host_or_text_that_is_none_is_refused(crawled: Path) -> None:
    wrong = called(changes, crawled, "--since", "yesterday")
    assert wrong.exit_code == 2 and "neither a cursor of changes nor a time" in wrong.output
    other = called(changes, crawled, "--since", "changes/00000000/0:0.1")
    assert other.exit_code == 2 and "cursor of the crawl 00000000" in other.output
    assert called(changes, crawled, "--host", "b.example").stdout == ""


def test_follow_gives_what_is_committed_later_and_a_restart_continues(tmp_path: Path) -> None:
    """Also when the follower is killed: the cursor of what it has printed is enough."""
    folder, web = tmp_path / "c", site()
    run(folder, web, 0)
    told: list[tuple[str, str]] = []
    cursor = ""
    for number in range(1, 4):
        arguments = ["changes", str(folder), "--follow", "--json", "--since", cursor]
        with subprocess.Popen(
            [sys.executable, "-m", "lycosa", *arguments], stdout=subprocess.PIPE, text=True
        ) as follower:
            watchdog = threading.Timer(PATIENCE_S, follower.kill)
            watchdog.start()
            assert follower.stdout is not None
            is_due = number == 1  # the first follower begins with what there is
            if is_due:
                for line in follower.stdout:
                    if "cursor" in line:
                        break
                    told += rows_in(line)[0]
                cursor = json.loads(line)["cursor"]
            run(folder, web, number)
            for line in follower.stdout:
                if "cursor" in line:
                    cursor = json.loads(line)["cursor"]
                    break
                told += rows_in(line)[0]
            watchdog.cancel()
            os.kill(follower.pid, 9)
    # a follower was killed as soon as it had printed a cursor, perhaps in the middle of a round
    told += rows_in(called(changes, folder, "--json", "--since", cursor).stdout)[0]
    whole, _ = rows_in(called(changes, folder, "--json").stdout)
    assert sorted(told) == sorted(whole) and len(told) == 9


def test_diff_shows_the_last_change_line_by_line(crawled: Path) -> None:
    shown = called(diff, crawled, f"{A}changes").output
    assert shown.splitlines()[0].startswith("fetch 2, ")
    assert "-word0 word1" in shown and "+other" in shown
    price = called(diff, crawled, f"{A}changes", "--from", 1, "--to", 2).output
    assert "+++ fetch 2" in price and price.count("\n-word") == price.count("\n+word") == 1
    assert "19.90" in price and "21.90" in price
    assert "digest: sha1:" in price


def test_diff_of_a_page_that_is_gone_has_its_statuses(crawled: Path) -> None:
    shown = called(diff, crawled, f"{A}flees", "--from", 1, "--to", 2).output
    assert "status: 200 -> 404" in shown and "-here" in shown


def test_diff_reads_the_bodies_where_texts_are_not_stored(tmp_path: Path) -> None:
    folder, web = tmp_path / "c", site()
    given = msgspec.structs.replace(config(), store=StoreSection(text=False))
    for number in range(2):
        run(folder, web, number, given)
    assert "+word" in called(diff, folder, f"{A}changes").output


def test_diff_as_html_escapes_what_the_page_says(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    evil = "&lt;script&gt;alert(1)&lt;/script&gt;"
    web = Pages({A: [page(text="fine"), page(text=evil)]})
    for number in range(2):
        crawl_folder(folder, web, [] if number else [A], config(), start=number * 6 * DAY)
    shown = called(diff, folder, A, "--html").output
    assert "<ins>+&lt;script&gt;alert(1)" in shown and "<script>" not in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((f"{A}never",), "is the first capture"),
        ((f"{A}unknown",), "no capture of this URL"),
        ((f"{A}changes", "--to", 9), "no content of fetch 9"),
        ((f"{A}changes", "--from", "long ago"), "neither the number of a fetch nor a time"),
        ((f"{A}changes", "--from", "1970-01-01"), "no capture of this URL up to that time"),
    ],
)
def test_diff_says_what_there_is_not(
    crawled: Path, arguments: tuple[object, ...], told: str
) -> None:
    result = called(diff, crawled, *arguments)
    assert result.exit_code == 2 and told in result.output, result.output


def test_a_comparison_is_bounded_and_says_so(crawled: Path) -> None:
    long = "\n".join(f"line {number}" for number in range(MAX_LINES + 10))
    one, other = captures_of_url(read_folder(crawled), f"{A}stays")[:2]
    assert compared(one, other, (long, "short")).is_cut
    assert len(compared(one, other, (long, "short")).lines) < MAX_LINES + 10
    assert not compared(one, other, ("a", "short")).is_cut
    assert compared(one, other, (None, "short")).is_cut
