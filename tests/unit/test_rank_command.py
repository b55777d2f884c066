"""``lycosa rank``: which links count, equality with another program, kills, and its messages."""

from __future__ import annotations

import ast
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import numpy as np
import pytest

from crawling import QUICK, Pages, crawl_folder, html, moved, page
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.ranks.counted_links import LEADING_KINDS
from lycosa.inspect.ranks.rank_run import RankProgress, RankRun
from lycosa.inspect.ranks.work_files import WorkInUse, delete_work, work_folder
from lycosa.state.objects.folder import FolderStore
from lycosa.state.ranks.rank_results import RankOptions, RankResults
from lycosa.state.ranks.rank_text import LEVELS

A, B, C = "https://a.example", "https://www.b.example", "https://c.test"
LATER = 1e6  # virtual seconds after the first run
WEB = {
    f"{A}/": page("/b", "/c", f"{B}/", "/old", "/", "/b"),
    f"{A}/b": page("/", "/c", "/missing"),
    f"{A}/c": page("/b", f"{C}/", head='<link rel="stylesheet" href="/style.css">'),
    f"{A}/old": moved("/c"),
    f"{B}/": page(f"{A}/", "/x", "/quiet"),
    f"{B}/x": html(f'<p><a href="{A}/c">c</a> <a rel="nofollow" href="{C}/ad">ad</a>'),
    f"{B}/quiet": html(f'<meta name="robots" content="nofollow"><a href="{C}/q">q</a>'),
}
EDGES = {
    (f"{A}/", f"{A}/b"),
    (f"{A}/", f"{A}/c"),
    (f"{A}/", f"{B}/"),
    (f"{A}/", f"{A}/old"),
    (f"{A}/b", f"{A}/"),
    (f"{A}/b", f"{A}/c"),
    (f"{A}/b", f"{A}/missing"),
    (f"{A}/c", f"{A}/b"),
    (f"{A}/c", f"{C}/"),
    (f"{A}/old", f"{A}/c"),
    (f"{B}/", f"{A}/"),
    (f"{B}/", f"{B}/x"),
    (f"{B}/", f"{B}/quiet"),
    (f"{B}/x", f"{A}/c"),
}
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rank") / "crawl"
    crawl_folder(folder, Pages(WEB), [f"{A}/", f"{B}/"])
    return folder


@pytest.fixture
def crawl(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "crawl"))


def run(capsys: Captured, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["rank", *words, "--json"]) == ExitCode.FINISHED
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def lines(folder: Path, number: int, level: str, part: str) -> list[list[str]]:
    path = folder / "ranks" / str(number) / level / f"{part}.txt.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    return [line.split("\t") for line in text.splitlines()]


def graph(folder: Path, number: int, level: str) -> nx.DiGraph:
    """The graph of a result, read as Common Crawl's tools do."""
    names = {row[0]: row[1] for row in lines(folder, number, level, "vertices")}
    found = nx.DiGraph()
    found.add_nodes_from(names.values())
    found.add_edges_from((names[a], names[b]) for a, b in lines(folder, number, level, "edges"))
    return found


def expected_page_rank(found: nx.DiGraph) -> dict[str, float]:
    """The stationary distribution of networkx's Google matrix."""
    matrix = np.asarray(nx.google_matrix(found, alpha=0.85))
    ranks = np.full(len(found), 1 / len(found))
    for _ in range(300):
        ranks = ranks @ matrix
    return dict(zip(found, ranks.tolist(), strict=True))


def test_links_to_pages_and_redirects_count_each_once(crawl: Path, capsys: Captured) -> None:
    run(capsys, str(crawl))
    assert set(graph(crawl, 1, "page").edges) == EDGES


def test_the_other_levels_are_the_same_links_by_host_and_domain(
    crawl: Path, capsys: Captured
) -> None:
    run(capsys, str(crawl))
    hosts, domains = graph(crawl, 1, "host"), graph(crawl, 1, "domain")
    a, b, c = "example.a", "example.b.www", "test.c"
    assert set(hosts.edges) == {(a, b), (b, a), (a, c)}
    assert set(domains.edges) == {(a, "example.b"), ("example.b", a), (a, c)}
    rows = lines(crawl, 1, "domain", "vertices")
    assert rows == [["0", a, "1"], ["1", "example.b", "1"], ["2", c, "1"]]


def test_nofollow_counts_if_asked(crawl: Path, capsys: Captured) -> None:
    run(capsys, str(crawl), "--nofollow", "--levels", "pages")
    more = {(f"{B}/x", f"{C}/ad"), (f"{B}/quiet", f"{C}/q")}
    assert set(graph(crawl, 1, "page").edges) == EDGES | more


@pytest.mark.parametrize("level", LEVELS)
def test_both_ranks_are_those_of_networkx(crawl: Path, capsys: Captured, level: str) -> None:
    run(capsys, str(crawl))
    found = graph(crawl, 1, level)
    rows = lines(crawl, 1, level, "ranks")[1:]
    pagerank, harmonic = expected_page_rank(found), nx.harmonic_centrality(found)
    assert {row[4]: float(row[3]) for row in rows} == pytest.approx(pagerank, rel=1e-9)
    assert {row[4]: float(row[1]) for row in rows} == pytest.approx(harmonic, rel=1e-9)
    assert [int(row[0]) for row in rows] == list(range(1, len(found) + 1))
    by_position = sorted(rows, key=lambda row: int(row[2]))
    assert [float(row[3]) for row in by_position] == sorted(
        (float(row[3]) for row in rows), reverse=True
    )


def test_the_files_have_common_crawls_form(crawl: Path, capsys: Captured) -> None:
    run(capsys, str(crawl))
    assert lines(crawl, 1, "host", "ranks")[0] == [
        "#harmonicc_pos", "#harmonicc_val", "#pr_pos", "#pr_val", "#host_rev",
    ]  # fmt: skip
    assert lines(crawl, 1, "domain", "ranks")[0][-1] == "#n_hosts"
    for level in LEVELS:
        numbers, names = zip(*(row[:2] for row in lines(crawl, 1, level, "vertices")), strict=True)
        assert list(numbers) == [str(each) for each in range(len(names))]
        assert list(names) == sorted(names, key=str.encode)
        edges = [(int(a), int(b)) for a, b in lines(crawl, 1, level, "edges")]
        assert edges == sorted(edges)


def test_what_is_written_is_read_back(crawl: Path, capsys: Captured) -> None:
    found = run(capsys, str(crawl))
    results = RankResults(FolderStore(str(crawl), crawl))
    assert results.numbers() == [1]
    assert found["levels"]["host"]["vertices"] == 3
    hosts = {each.name: each for each in results.rows(1, "host")}
    assert set(hosts) == {"a.example", "www.b.example", "c.test"}
    assert sum(each.pagerank for each in hosts.values()) == pytest.approx(1)
    assert {each.name for each in results.rows(1, "page")} >= {f"{A}/c", f"{A}/missing"}
    assert not (crawl / "ranks" / "work").exists()


def test_the_newest_content_of_a_page_counts(tmp_path: Path, capsys: Captured) -> None:
    """One page changes its links, one stays as it is, one disappears, one moves."""
    often = RefetchSection(rule=RefetchRule.ADAPTIVE, first_s=10, min_s=10, max_s=10)
    config = msgspec.structs.replace(QUICK, refetch=often)
    crawl = tmp_path / "crawl"
    before = {f"{A}/": page("/b"), f"{A}/b": page("/c"), f"{A}/c": page("/b"), f"{A}/d": page("/")}
    after = before | {f"{A}/": page("/c"), f"{A}/c": html("", 404), f"{A}/d": moved("/e")}
    seeds = [f"{A}/", f"{A}/c", f"{A}/d"]
    crawl_folder(crawl, Pages(before), seeds, config, stop_after_s=30)
    crawl_folder(crawl, Pages(after), seeds, config, start=LATER, stop_after_s=60)
    run(capsys, str(crawl), "--levels", "page")
    assert set(graph(crawl, 1, "page").edges) == {
        (f"{A}/", f"{A}/c"), (f"{A}/b", f"{A}/c"), (f"{A}/d", f"{A}/e"),
    }  # fmt: skip


def test_the_example_for_spark_counts_the_same_kinds() -> None:
    tree = ast.parse((Path(__file__).parents[2] / "examples/spark_ranks.py").read_text("utf-8"))
    (kinds,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KINDS"
    ]
    assert kinds == LEADING_KINDS


def test_a_second_call_has_nothing_to_do(crawl: Path, capsys: Captured) -> None:
    first = run(capsys, str(crawl), "--levels", "host")
    assert run(capsys, str(crawl), "--levels", "host") == first
    assert run(capsys, str(crawl), "--levels", "host", "--again")["number"] == 2
    assert run(capsys, str(crawl), "--levels", "host", "--damping", "0.5")["number"] == 3
    first_files = {each.name: each.read_bytes() for each in (crawl / "ranks/1/host").iterdir()}
    for name, data in first_files.items():
        assert (crawl / "ranks/2/host" / name).read_bytes() == data


class _Killed(BaseException):
    """The end of a process, at a step."""


def test_a_run_that_is_killed_at_any_step_continues_to_the_same_result(
    crawl: Path, capsys: Captured
) -> None:
    expected = run(capsys, str(crawl))
    options, results = RankOptions(LEADING_KINDS), RankResults(FolderStore("crawl", crawl))

    def compute(stops_at: Iterator[int]) -> str:
        calls, limit = 0, next(stops_at)

        def told(progress: RankProgress) -> None:
            nonlocal calls
            calls += 1
            if calls == limit:
                raise _Killed

        with work_folder(crawl / "ranks/work", options, LEVELS) as work:
            RankRun(read_folder(crawl), results, work, options, LEVELS, 512, told).run("now")
            return work.run

    kills = 0
    for limit in range(1, 1000):
        try:
            compute(iter([limit]))
        except _Killed:
            kills += 1
            if limit % 3:
                continue  # begin the next attempt from the files of this one
            delete_work(crawl / "ranks/work")
        else:
            break
    assert kills > 50
    found = results.read_manifest(results.numbers()[-1])
    assert {k: v.files["ranks"].sha256 for k, v in found.levels.items()} == {
        k: v["files"]["ranks"]["sha256"] for k, v in expected["levels"].items()
    }
    assert len(results.numbers()) == 2


def test_two_runs_at_once_are_refused(crawl: Path, capsys: Captured) -> None:
    with (
        work_folder(crawl / "ranks/work", RankOptions(LEADING_KINDS), LEVELS),
        pytest.raises(WorkInUse, match="another process computes ranks"),
        work_folder(crawl / "ranks/work", RankOptions(LEADING_KINDS), LEVELS),
    ):
        pass
    with work_folder(crawl / "ranks/work", RankOptions(LEADING_KINDS), LEVELS):
        assert main(["rank", str(crawl)]) == ExitCode.USAGE
    assert "another process computes ranks" in capsys.readouterr().err


def test_other_options_begin_a_new_run(tmp_path: Path) -> None:
    options = RankOptions(LEADING_KINDS)
    with work_folder(tmp_path / "w", options, LEVELS) as first:
        (tmp_path / "w" / "links.json").write_text("{}")
    with work_folder(tmp_path / "w", options, LEVELS) as second:
        assert (second.run, second.is_resumed) == (first.run, True)
    with work_folder(tmp_path / "w", options, ("host",)) as third:
        assert not third.is_resumed
        assert not (tmp_path / "w" / "links.json").exists()


def test_results_are_listed_and_forgotten(crawl: Path, capsys: Captured) -> None:
    assert run(capsys, str(crawl), "--list") == {"results": []}
    made = run(capsys, str(crawl), "--levels", "host")
    assert run(capsys, str(crawl), "--list") == {"results": [made]}
    assert main(["rank", str(crawl), "--list"]) == 0
    assert "result" in capsys.readouterr().out
    assert run(capsys, str(crawl), "--forget", "1") == {"forgotten": 1, "files": 4}
    assert run(capsys, str(crawl), "--list") == {"results": []}
    assert main(["rank", str(crawl), "--forget", "1"]) == ExitCode.USAGE
    assert "there is no result 1 of ranks; there are: none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--levels", "site"], "'site' is not a list of some of host, domain, page"),
        (["--levels", ","], "is not a list"),
        (["--memory", "much"], "--memory"),
        (["--damping", "1"], "--damping"),
        (["--registers", "3"], "--registers"),
    ],
)
def test_bad_options_are_refused(
    crawl: Path, capsys: Captured, words: list[str], said: str
) -> None:
    assert main(["rank", str(crawl), *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not (crawl / "ranks").exists()


def test_a_folder_without_a_crawl_is_refused(tmp_path: Path, capsys: Captured) -> None:
    assert main(["rank", str(tmp_path)]) == ExitCode.USAGE
    assert str(tmp_path) in capsys.readouterr().err


def test_a_crawl_without_a_page_has_nothing_to_rank(tmp_path: Path, capsys: Captured) -> None:
    crawl_folder(tmp_path / "crawl", Pages({f"{A}/": html("", 404)}), [f"{A}/"])
    assert main(["rank", str(tmp_path / "crawl")]) == ExitCode.NOTHING_FETCHED
    assert "nothing to rank" in capsys.readouterr().err


def test_the_report_is_a_table(crawl: Path, capsys: Captured) -> None:
    assert main(["rank", str(crawl)]) == 0
    told = capsys.readouterr().out
    assert "14 links of 6 pages" in told or "links of" in told
    assert "exact" in told and "domain" in told
    assert main(["rank", str(crawl)]) == 0
    assert "nothing new since result 1; --again computes it again" in capsys.readouterr().out
