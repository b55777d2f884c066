"""``lycosa policy``: rules are shown, tried and changed, in a folder that may be stopped."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.config.sections import RefetchSection
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.folder.folder_notes import PauseNote, save_pause, saved_pause, settings_of
from lycosa.state.folder.live_changes import saved_changes

NEWS, SHOP = "http://www.news.test", "http://shop.test"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policies") / "c"
    refetch = RefetchSection(intervals=("late.test 2h",))
    pages = Pages({f"{NEWS}/": page("/a", "/b"), f"{NEWS}/a": page(), f"{SHOP}/": page()})
    crawl_folder(
        folder, pages, [f"{NEWS}/", f"{SHOP}/"], msgspec.structs.replace(QUICK, refetch=refetch)
    )
    return folder


@pytest.fixture
def folder(crawled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(crawled, tmp_path / "c")


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def values(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_rules_of_a_file_and_of_words_replace_those_before(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text("# of May\nnews.test /a every 10m\n\nnews.test never\n")
    found = values(capsys, "policy", "set", folder, rules, "--by", "ada", "--why", "mail")
    assert found["rules"] == ["news.test /a every 10m", "news.test never"]
    assert (found["records_left"], found["records_moved"]) == (0, 2)
    assert settings_of(folder).refetch.policies == tuple(found["rules"])
    change = saved_changes(folder)["refetch.policies"]
    assert (change.by, change.why) == ("ada", "mail")
    code, told = said(capsys, "policy", "set", folder, "* every 3h", "news.test daily")
    assert code == 0 and "2 rules set" in told and re.search(r"applied: [23] records", told)
    assert settings_of(folder).refetch.policies == ("* every 3h", "news.test daily")
    code, told = said(capsys, "policy", "set", folder, "--none")
    assert code == 0 and "all rules removed" in told
    assert settings_of(folder).refetch.policies == ()
    assert audit(folder).is_clean


def test_rules_are_shown_in_their_order_with_the_fixed_intervals(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "policy", "set", folder, "news.test hourly")
    found = values(capsys, "policy", "show", folder)
    assert [(each["setting"], each["line"], each["policy"]) for each in found["rules"]] == [
        ("refetch.policies", 1, "every 1h min=30m max=2h"),
        ("refetch.intervals", 1, "every 2h"),
    ]
    code, told = said(capsys, "policy", "show", folder)
    assert code == 0 and "news.test hourly" in told and "refetch.rule is value" in told


def test_the_rule_of_a_url_is_named_with_its_line_and_the_next_fetch(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "policy", "set", folder, "re:/a$ every 3d", "news.test never")
    found = values(capsys, "policy", "test", folder, f"{NEWS}/a")
    assert (found["line"], found["rule"], found["state"]) == (1, "re:/a$ every 3d", "fetched")
    assert found["next_due"] > 0
    assert values(capsys, "policy", "test", folder, f"{NEWS}/")["next_due"] == 0
    code, told = said(capsys, "policy", "test", folder, "http://unknown.test/x#y")
    assert code == 0
    assert "http://unknown.test/x: value (no rule is for it: refetch.rule is value)" in told
    assert "does not know" in told
    assert said(capsys, "policy", "test", folder, "mailto:x")[0] == 2


def test_explain_names_the_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "policy", "set", folder, "news.test never")
    code, told = said(capsys, "explain", folder, f"{NEWS}/a")
    assert code == 0
    assert "never (refetch.policies, line 1: news.test never)" in told
    facts = values(capsys, "explain", folder, f"{SHOP}/")["facts"]
    assert facts["policy"]["setting"] == "refetch.rule"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (["news.test evry 1h"], "line 1"),
        (["news.test daily", "sitemap:a.test/s daily"], "no address of a sitemap"),
        (["no-such-file"], "neither a rule"),
        ([], "--none"),
        (["news.test daily", "--none"], "--none"),
    ],
)
def test_rules_that_are_not_understood_change_nothing(
    folder: Path, rules: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings_of(folder)
    code, told = said(capsys, "policy", "set", folder, *rules)
    assert (code, why in " ".join(told.split())) == (2, True), told
    assert settings_of(folder) == before


def test_a_pause_of_the_crawl_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = PauseNote("ada", 5, "mail")
    save_pause(folder, note)
    said(capsys, "policy", "set", folder, "news.test never")
    assert saved_pause(folder) == note


def test_what_is_not_applied_yet_and_promises_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = said(capsys, "policy", "set", folder, "news.test every 1s", "--wait", "0")
    assert code == 0 and "not applied yet to 4 records" in told and "next run" in told
    code, told = said(capsys, "policy", "set", folder, "news.test every 1s")
    assert "www.news.test cannot keep its promises" in told
    code, told = said(capsys, "status", folder)
    assert "www.news.test cannot keep its promises" in told
