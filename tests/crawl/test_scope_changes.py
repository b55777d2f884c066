"""The scope is changed while a crawl runs: waiting URLs are judged again when their turn comes."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.calls import Found, ScopeQuery
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.queries.answering import StateAnswers
from lycosa.inspect.queries.scope_trial import ScopeJudges, ScopeTrial, continued, together
from lycosa.inspect.queries.time_budget import TimeBudget
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.worker.assemble import Assembled

HOME, OUT = "https://site.example/", "https://out.example/"
NAMES = [f"/{kind}/{number}" for number in range(8) for kind in ("good", "bad")]
VALUES = {"scope.exclude": '["/bad/"]', "scope.surts": '["+http://(com,listed,"]'}


def site() -> Pages:
    pages = {f"{HOME}{name[1:]}": page("https://listed.com/", text=name) for name in NAMES}
    listed = {"https://listed.com/": page(text="named by a prefix")}
    return Pages({HOME: page(*NAMES, text="home"), **pages, **listed})


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that stopped while most of its URLs waited."""
    folder = tmp_path_factory.mktemp("stopped") / "crawl"
    crawl_folder(folder, site(), [HOME], stop_after_s=3.5)
    return folder


@pytest.fixture
def waiting(stopped: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(stopped, tmp_path / "crawl"))


def states(folder: Path) -> dict[str, tuple[str, Reason]]:
    return {e.url: (e.state.label, e.record.reason) for e in read_folder(folder).urls()}


def test_what_is_counted_is_what_is_dropped(waiting: Path) -> None:
    reader = read_folder(waiting)
    with closing(reader.source):
        judges = ScopeJudges(load_saved_settings(reader).config, VALUES)
        trial = together(judges.count(view) for view in reader.partition_views())
    assert 4 <= trial.dropped < trial.waiting and trial.share == 1.0
    assert trial.reasons == {"excluded": trial.dropped}

    async def change(assembled: Assembled) -> None:
        assembled.live.follow(1, VALUES)

    web = site()
    crawl_folder(waiting, web, [], start=100.0, meanwhile=change)
    found = states(waiting)
    dropped = [url for url, (state, _) in found.items() if state == "refused"]
    assert len(dropped) == trial.dropped and all("/bad/" in url for url in dropped)
    assert {found[url][1] for url in dropped} == {Reason.EXCLUDED}
    assert not set(dropped) & set(web.asked)
    assert found["https://listed.com/"][0] == "fetched", "links found since then may be in scope"
    assert main(["explain", str(waiting), dropped[0]]) == 0


def test_owners_count_in_pieces(waiting: Path) -> None:
    parts = []
    with closing(read_folder(waiting).source) as source:
        for number in range(QUICK.frontier.partitions):
            after, whole = "", None
            while whole is None or after:
                query = ScopeQuery(values=VALUES, after=after)
                # a budget that is spent from the beginning ends the search after sixteen rows
                answer = StateAnswers().answer(source, number, query, TimeBudget(0.0))
                assert isinstance(answer, Found)
                part, after = ScopeTrial(**json.loads(answer.rows)[0]), answer.cursor
                part.after = after
                whole = part if whole is None else continued(whole, part)
            parts.append(whole)
    assert together(parts).dropped >= 4


def test_the_command_tells_before_it_saves(
    waiting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--exclude", "/bad/", "--surt", "+http://(com,listed,"]
    assert main(["scope", "try", str(waiting), *given, "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)
    assert tried["dropped"] >= 4 and tried["is_set"] is False
    assert main(["scope", "show", str(waiting)]) == 0
    assert "/bad/" not in capsys.readouterr().out
    assert main(["scope", "set", str(waiting), *given, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == tried | {"is_set": True}
    assert main(["scope", "show", str(waiting)]) == 0
    assert "refused when it matches: /bad/" in capsys.readouterr().out
    for bad in (["--surt", "a b"], [], ["--exclude", "x", "--no-exclude"], ["--max-depth", "x"]):
        assert main(["scope", "set", str(waiting), *bad]) == 2
    capsys.readouterr()
    crawl_folder(waiting, site(), [], load_saved_settings(read_folder(waiting)).config, start=99.0)
    assert sum(state == "refused" for state, _ in states(waiting).values()) == tried["dropped"]
    report = audit(waiting)
    assert report.is_clean, report.first_breaches()


def test_one_hop_out_is_followed_once(tmp_path: Path) -> None:
    import msgspec

    scope = msgspec.structs.replace(QUICK.scope, one_hop_out=True)
    config = msgspec.structs.replace(QUICK, scope=scope)
    web = Pages(
        {
            HOME: page("/a", OUT, text="home"),
            f"{HOME}a": page(f"{OUT}far", text="in scope too"),
            OUT: page("/far", "/further", text="elsewhere"),
            f"{OUT}far": page(text="both pages link to it"),
        }
    )
    crawl_folder(tmp_path / "crawl", web, [HOME], config)
    assert set(states(tmp_path / "crawl")) == {HOME, f"{HOME}a", OUT, f"{OUT}far"}
    report = audit(tmp_path / "crawl")
    assert report.is_clean, report.first_breaches()
