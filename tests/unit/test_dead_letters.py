"""Dead letters of a crawl folder: listed, retried and dropped by an operator, as commits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crawling import Pages, crawl_folder, html, page
from lycosa.base.model.url_state import UrlState
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.feeds.dead_letter_feed import DeadLetterFeed
from lycosa.inspect.committed_state import read_folder
from lycosa.stages.frontier.decision_log import ACTIONS, decode_action
from lycosa.state.folder.lock import CrawlLock

LATER = 1e6  # virtual seconds after the first run
A, B = "http://a.test", "http://b.test"
BROKEN = [f"{A}/gone", f"{A}/lost", f"{B}/gone"]


def web(**repaired: str) -> Pages:
    pages: dict[str, Any] = {
        f"{A}/": page("/gone", "/lost", "/fine"),
        f"{A}/fine": page(),
        f"{B}/": page("/gone"),
        f"{A}/lost": html("", 410),
    }
    return Pages(pages | {url: page(text="it is back") for url in repaired.values()})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dlq") / "crawl"
    crawl_folder(folder, web(), [f"{A}/", f"{B}/"])
    return folder


@pytest.fixture
def crawl(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "crawl"))


Captured = pytest.CaptureFixture[str]


def listed(folder: Path, capsys: Captured, *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["dlq", "list", str(folder), "--json", *options]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["dead_letters"]
    return found


def urls(folder: Path, capsys: Captured, *options: str) -> list[str]:
    return sorted(row["url"] for row in listed(folder, capsys, *options))


def state_of(folder: Path, url: str) -> UrlState:
    entry = read_folder(folder).find_url(url)
    assert entry is not None
    return entry.state


def audit(folder: Path, capsys: Captured) -> None:
    assert main(["audit", str(folder)]) == 0, capsys.readouterr().out


def test_the_list_has_each_failed_url_with_reason_tries_and_time(
    finished: Path, capsys: Captured
) -> None:
    rows = listed(finished, capsys)
    assert sorted(row["url"] for row in rows) == BROKEN
    for row in rows:
        assert (row["reason"], row["tries"]) == ("http_client_error", 1)
        assert row["failed"].startswith("2025-06-15T")
    assert main(["dlq", "list", str(finished), "--urls"]) == 0
    assert sorted(capsys.readouterr().out.split()) == BROKEN
    assert main(["dlq", "list", str(finished)]) == 0
    assert f"{A}/gone" in capsys.readouterr().out


def test_the_list_is_filtered_by_host_reason_time_and_length(
    finished: Path, capsys: Captured
) -> None:
    assert urls(finished, capsys, "--host", "b.test") == [f"{B}/gone"]
    assert urls(finished, capsys, "--host", "a.test", "--host", "b.test") == BROKEN
    assert main(["dlq", "list", str(finished), "--host", "c.test"]) == 2  # it is not known
    assert "does not know the host c.test" in capsys.readouterr().err
    assert urls(finished, capsys, "--reason", "http_client_error") == BROKEN
    assert urls(finished, capsys, "--reason", "connect_timeout") == []
    assert urls(finished, capsys, "--since", "2025-06-15") == BROKEN
    assert urls(finished, capsys, "--since", "2h") == []
    assert urls(finished, capsys, "--until", "2025-06-15T00:00:00+00:00") == []
    assert len(urls(finished, capsys, "--limit", "2")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "DIR", "--reason", "connect_timout"], "did you mean connect_timeout?"),
        (["list", "DIR", "--since", "yesterday"], "write 2026-01-31T12:00:00 (UTC) or 2h"),
        (["retry", "DIR"], "give URLs, --host, --reason, --since or --until, or --all"),
        (["retry", "DIR", "--all", f"{A}/gone"], "leave out URLs and filters"),
        (["retry", "DIR", f"{A}/fine"], f"{A}/fine is no dead letter"),
        (["drop", "DIR", f"{A}/gone", f"{A}/fine", f"{A}/x"], "and 1 more are none"),
        (["retry", "--cluster", "c.toml", "--all"], "c.toml cannot be read: No such file"),
        (["drop", "DIR", "no url", "--dry-run"], "give an absolute http or https URL"),
    ],
)
def test_bad_input_changes_nothing_and_says_what_to_do(
    finished: Path, capsys: Captured, arguments: list[str], message: str
) -> None:
    given = [str(finished) if each == "DIR" else each for each in arguments]
    assert main(["dlq", *given]) == 2
    assert message in capsys.readouterr().err
    assert urls(finished, capsys) == BROKEN


def test_a_dry_run_tells_what_would_be_done_and_changes_nothing(
    finished: Path, capsys: Captured
) -> None:
    assert main(["dlq", "retry", str(finished), "--host", "a.test", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"{A}/lost" in out
    assert "2 URLs would be queued again; nothing was changed" in out
    assert urls(finished, capsys) == BROKEN


def test_a_retried_url_is_queued_with_new_tries_and_fetched_by_the_next_run(
    crawl: Path, capsys: Captured
) -> None:
    assert main(["dlq", "retry", str(crawl), f"{A}/gone", "--by", "ann"]) == 0
    assert "1 URL queued again" in capsys.readouterr().out
    assert urls(crawl, capsys) == [f"{A}/lost", f"{B}/gone"]
    entry = read_folder(crawl).find_url(f"{A}/gone")
    assert entry is not None
    assert (entry.state, entry.record.tries, entry.record.detail) == (UrlState.QUEUED, 0, "")
    audit(crawl, capsys)
    capsys.readouterr()
    assert main(["explain", str(crawl), f"{A}/gone"]) == 0
    assert "queued again by ann at 20" in capsys.readouterr().out
    again = web(url=f"{A}/gone")
    crawl_folder(crawl, again, [], start=LATER)
    assert f"{A}/gone" in again.asked
    assert f"{A}/lost" not in again.asked
    assert state_of(crawl, f"{A}/gone") is UrlState.FETCHED
    audit(crawl, capsys)


def test_a_decision_is_in_the_log_of_actions_with_its_remark(crawl: Path, capsys: Captured) -> None:
    decided = ["dlq", "drop", str(crawl), f"{A}/gone", "--by", "ann", "--why", "they closed"]
    assert main(decided) == 0
    views = read_folder(crawl).partition_views()
    rows = [decode_action(row) for view in views for _, row in view.scan(ACTIONS, b"L")]
    assert [(row.action, row.by, row.why, row.changed) for row in rows] == [
        ("drop", "ann", "they closed", 1)
    ]
    assert main([*decided[:-1], "x" * 501]) == ExitCode.USAGE
    assert "at most 500 characters" in capsys.readouterr().err


def test_a_retried_url_that_fails_again_is_a_dead_letter_again(
    crawl: Path, capsys: Captured
) -> None:
    feed = DeadLetterFeed(crawl)
    assert len(list(feed.new_rows())) == 3
    assert main(["dlq", "retry", str(crawl), "--all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["action"], told["urls"], told["dry_run"]) == ("retry", 3, False)
    assert urls(crawl, capsys) == []
    crawl_folder(crawl, web(), [], start=LATER)
    assert urls(crawl, capsys) == BROKEN
    later = DeadLetterFeed(crawl, feed.position)
    assert sorted(json.loads(row)["url"] for row in later.new_rows()) == BROKEN
    audit(crawl, capsys)


def test_a_dropped_url_leaves_the_list_and_stays_known(crawl: Path, capsys: Captured) -> None:
    assert main(["dlq", "drop", str(crawl), "--host", "a.test"]) == 0
    assert "2 URLs dropped from the dead letters" in capsys.readouterr().out
    assert urls(crawl, capsys) == [f"{B}/gone"]
    assert state_of(crawl, f"{A}/gone") is UrlState.FAILED
    audit(crawl, capsys)
    capsys.readouterr()
    assert main(["explain", str(crawl), f"{A}/gone", "--json"]) == 0
    facts = capsys.readouterr().out
    assert '"drop"' in facts
    again = web()
    crawl_folder(crawl, again, [], start=LATER)
    assert f"{A}/gone" not in again.asked
    assert main(["dlq", "drop", str(crawl), f"{A}/gone"]) == 2  # it is none any more


def test_a_dropped_url_that_fails_anew_is_listed_again(crawl: Path, capsys: Captured) -> None:
    assert main(["dlq", "drop", str(crawl), f"{A}/gone"]) == 0
    crawl_folder(crawl, web(), [f"{A}/gone"], start=LATER)  # a seed is queued again
    assert urls(crawl, capsys) == BROKEN


def test_a_running_crawl_is_not_changed(crawl: Path, capsys: Captured) -> None:
    with CrawlLock(crawl).acquire(1.0):
        assert main(["dlq", "retry", str(crawl), "--all"]) == 2
    assert "lycosa:" in capsys.readouterr().err
    assert urls(crawl, capsys) == BROKEN
