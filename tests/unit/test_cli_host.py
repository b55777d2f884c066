"""``lycosa host`` and ``dlq --host``: which host a text means, and what is said of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawling import Pages, crawl_folder, html, page
from lycosa.base.calls import HostAction, HostDecision, encode_call
from lycosa.base.urls.near_hosts import near_names, near_searches
from lycosa.cli.main import main
from lycosa.inspect.committed_state import read_folder
from lycosa.worker.assemble import Assembled

BLOG, SHOP, NEWS = "http://blog.test:8081", "http://www.shop.test", "http://news.shop.test"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped crawl of three hosts on two sites; one URL of a host failed."""
    pages = Pages(
        {f"{BLOG}/": page("/gone"), f"{SHOP}/": page(), f"{NEWS}/": page()}
        | {f"{BLOG}/gone": html("", 410)}
    )
    folder = tmp_path_factory.mktemp("hosts") / "c"
    crawl_folder(folder, pages, [f"{BLOG}/", f"{SHOP}/", f"{NEWS}/"])
    return folder


@pytest.fixture
def folder(crawled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(crawled, tmp_path / "c")


def states(folder: Path) -> dict[str, str]:
    return {each.record.host: each.record.shown_state.label for each in read_folder(folder).hosts()}


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize(
    "text", ["blog.test:8081", "BLOG.test:8081", f"{BLOG}/a/page?x=1", f"{BLOG}", "blog.test.:8081"]
)
def test_a_host_is_named_by_its_name_or_a_url(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = set(states(folder))
    code, told = said(capsys, "host", "pause", folder, text)
    assert (code, "blog.test:8081 is paused" in told) == (0, True), told
    assert "0 URLs in its queue, last fetch" in told
    found = states(folder)
    assert set(found) == known
    assert [host for host, state in found.items() if state == "paused"] == ["blog.test:8081"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("blog.test", "blog.test:8081"),
        ("blog.tset:8081", "blog.test:8081"),
        ("http://shop.test/", "www.shop.test"),
        ("wwww.shop.test", "www.shop.test"),
    ],
)
@pytest.mark.parametrize("action", ["pause", "retire", "resume"])
def test_a_host_that_the_crawl_does_not_know_is_refused_with_similar_names(
    folder: Path, text: str, meant: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = states(folder)
    code, told = said(capsys, "host", action, folder, text)
    assert code == 2 and "does not know the host" in told
    assert f"did you mean {meant}" in told
    assert ("--new" in told) == (action != "resume")
    assert states(folder) == before


@pytest.mark.parametrize("text", ["a b", "http://", "", "http://a b/"])
def test_a_text_that_is_no_host_is_named(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = said(capsys, "host", "pause", folder, text)
    assert code == 2 and "neither a host nor a URL of one" in told, told


def test_a_host_may_be_paused_before_the_crawl_meets_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = said(capsys, "host", "pause", folder, "new.test", "--new", "--json")
    assert code == 0 and json.loads(told)["hosts"] == ["new.test"]
    assert states(folder)["new.test"] == "paused"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_user_without_a_name_decides_under_a_number() -> None:
    """As in a container with ``--user``."""
    program = "import os; from lycosa.cli import callable_crawl as module; os.setuid(54321)"
    said = subprocess.run(
        [sys.executable, "-c", f"{program}; print(module.acting_user())"],
        capture_output=True, text=True, check=True, env={},
    )  # fmt: skip
    assert said.stdout == "54321\n"


def test_a_decision_may_be_about_all_known_hosts_of_a_site(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = said(capsys, "host", "pause", folder, f"{NEWS}/x", "--site")
    assert code == 0 and "2 hosts are paused" in told and "www.shop.test: 0 URLs" in told
    found = states(folder)
    assert [found[h] for h in ("news.shop.test", "www.shop.test")] == ["paused", "paused"]
    assert found["blog.test:8081"] != "paused"
    code, told = said(capsys, "host", "resume", folder, "shop.test", "--site", "--json")
    assert (code, json.loads(told)["changed"]) == (0, 2)


def test_dead_letters_are_filtered_by_hosts_that_the_crawl_knows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = said(capsys, "dlq", "list", folder, "--host", f"{BLOG}/any", "--urls")
    assert (code, told.split()) == (0, [f"{BLOG}/gone"])
    code, told = said(capsys, "dlq", "retry", folder, "--host", "blog.test")
    assert code == 2 and "did you mean blog.test:8081" in told


def test_a_host_has_a_minimum_pause_of_its_own_until_it_has_that_of_all_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = said(capsys, "host", "delay", folder, SHOP, "90s", "--why", "mail of 3 May")
    assert code == 0 and "www.shop.test is requested at most once in 1m 30s" in told

    def paces() -> dict[str, float]:
        hosts = read_folder(folder).hosts()
        return {each.record.host: each.record.pace.operator_delay_s for each in hosts}

    assert paces() == {"www.shop.test": 90.0, "news.shop.test": -1.0, "blog.test:8081": -1.0}
    code, told = said(capsys, "host", "delay", folder, SHOP, "default")
    assert code == 0 and set(paces().values()) == {-1.0}
    for wrong in ("soon", "2d"):
        code, told = said(capsys, "host", "delay", folder, SHOP, wrong)
        assert code == 2 and "TIME" in told


def test_the_pause_that_an_operator_decided_is_kept_between_requests(tmp_path: Path) -> None:
    links = [f"/{number}" for number in range(12)]
    pages = Pages({f"{SHOP}/": page(*links)} | {f"{SHOP}{link}": page() for link in links})
    times: list[float] = []

    async def slow(assembled: Assembled) -> None:
        while len(pages.asked) < 3:
            await assembled.clock.sleep(0.1)
        partition = assembled.intake.partition_of_host("www.shop.test")
        decision = HostDecision(
            "d", "ada", "www.shop.test", HostAction.DELAY, "too fast", delay_s=20.0
        )
        await assembled.calls.answer_call(partition, encode_call(decision))
        known = len(pages.asked)
        while known < 12:
            if len(pages.asked) > known:
                known = len(pages.asked)
                times.append(assembled.clock.monotonic())
            await assembled.clock.sleep(0.1)

    crawl_folder(tmp_path / "c", pages, [f"{SHOP}/"], meanwhile=slow)
    gaps = [after - before for before, after in pairwise(times)]
    assert len(gaps) > 5 and min(gaps[1:]) > 19.8, gaps


@given(st.integers(0, 12), st.sampled_from("abcxyz"), st.sampled_from(["drop", "add", "change"]))
def test_one_slip_in_a_name_is_found(place: int, letter: str, slip: str) -> None:
    host = "www.example-news.org"
    at = 4 + place
    wrong = {
        "drop": host[:at] + host[at + 1 :],
        "add": host[:at] + letter + host[at:],
        "change": host[:at] + letter + host[at + 1 :],
    }[slip]
    if wrong == host or "." not in wrong[4:]:
        return
    site = wrong.removeprefix("www.")
    parts = [search.lstrip("*.") for search in near_searches(site)]
    assert any(part in host for part in parts), (wrong, parts)
    assert near_names(wrong, [host, "other.test", "www.another.org"])[:1] == [host]
