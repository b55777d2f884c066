"""``lycosa.Crawl`` and ``lycosa.open`` in whole programs: one worker and several, failing rules and
sinks, second runs, kills, and what the folder gives afterwards.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lycosa
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.synthetic import Response
from scripted import scripted_crawl
from serving import served

HOSTS, NUMBERS = "abcd", 20
QUICK = {
    "agent.contact": "test@example.org",
    "fetch.allow_addresses": "127.0.0.0/8",
    "dns.pins": "*=127.0.0.1",
    "politeness.delay_s": 0,
    "politeness.address_delay_s": 0,
    "politeness.adaptive_factor": 0,
    "politeness.address_table": "crawl",
    "frontier.partitions": 4,
    "fetch.total_s": 6,  # a slot of a killed run is kept for so long
    "fetch.first_byte_s": 5,
    "parse.language": False,
}


class Shop:
    """Four hosts with a tree of pages each; their bodies are compressed."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = url.split("/", 3)[3]
        if path == "robots.txt":
            return Response(404, [], b"")
        number, host = int(path or 0), url.split("/")[2][0]
        links = "".join(
            f'<a href="/{to}">to {to}</a>'
            for to in (2 * number + 1, 2 * number + 2)
            if to < NUMBERS
        )
        body = f"<title>{host} {number}</title><p>café {number} of {host}</p>{links}".encode()
        kind = ("Content-Type", "text/html; charset=utf-8")
        return Response(200, [kind, ("Content-Encoding", "gzip")], gzip.compress(body))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(Shop()) as found:
        yield found


def seeds(port: int, hosts: str = HOSTS) -> list[str]:
    return [f"http://{host}.example:{port}/" for host in hosts]


def settings(**values: object) -> lycosa.Config:
    return lycosa.settings({**QUICK, **{key.replace("__", "."): v for key, v in values.items()}})


def number_of(url: str) -> int:
    return int(url.rpartition("/")[2] or 0)


def no_nine(found: lycosa.Discovered) -> lycosa.Refusal | None:
    if number_of(found.url) == 9:
        return lycosa.Refusal(lycosa.Reason.USER_RULE, "no_nine", found.url)
    if number_of(found.url) == 11:
        raise KeyError("eleven")
    return None


@pytest.mark.parametrize("workers", [1, 2])
def test_rules_and_sinks_that_raise_end_nothing_with_one_worker_or_several(
    workers: int, tmp_path: Path, port: int
) -> None:
    seen: dict[str, str] = {}
    shown: list[int] = []

    def sink(page: lycosa.Page) -> None:
        seen[page.url] = page.body_text
        if number_of(page.url) == 7:
            raise ValueError(page.title)

    folder = tmp_path / "c"
    crawl = lycosa.Crawl(
        seeds(port),
        folder,
        settings(workers=workers),
        rules=[no_nine],
        sinks=[sink],
        on_progress=lambda progress: shown.append(progress.captures),
    )
    report = crawl.run()
    # 9 and 11 are refused, and lead to 19 (of 9) alone
    wanted = {f"{seed}{n or ''}" for seed in seeds(port) for n in range(NUMBERS)}
    wanted -= {f"{seed}{n}" for seed in seeds(port) for n in (9, 11, 19)}
    assert report.end is lycosa.End.FINISHED and report.captured == len(wanted) == shown[-1]
    assert set(seen) == wanted and all("café" in text for text in seen.values())
    found = {(each.first.kind, each.first.name.rpartition(":")[2]) for each in report.failures}
    assert ("rule", "no_nine") in found and len(found) == 2
    assert [each.failures for each in report.failures] == [4, 4]
    assert any("KeyError" in line and "eleven" in line for line in report.reasons)
    remarks = {
        number_of(page.url): [remark.detail for remark in page.remarks]
        for page in lycosa.open(folder).pages()
        if page.remarks
    }
    assert sorted(remarks) == [5, 7]  # 5 has the link to 11
    assert "no_nine: KeyError" in remarks[5][0] and "sink: ValueError" in remarks[7][0]
    checked = audit(folder)
    assert checked.is_clean, checked
    reader, now = read_folder(folder), datetime.now(UTC).timestamp()
    saved = load_saved_settings(reader)
    refused = explain(reader, saved, f"{seeds(port)[0]}11", now)
    assert "rules of the user refused links 8 times" in refused.headline
    failed = explain(reader, saved, f"{seeds(port)[0]}7", now)
    assert failed.headline.endswith("your code (--extension, rule or sink) failed at it.")


def test_stop_before_run_counts_and_the_next_run_goes_on(tmp_path: Path, port: int) -> None:
    crawl = lycosa.Crawl(seeds(port, "a"), tmp_path / "c", settings())
    crawl.stop()
    report = crawl.run()
    assert (report.end, report.captured) == (lycosa.End.STOPPED, 0)
    assert crawl.run().captured == NUMBERS


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sink_may_stop_the_crawl(workers: int, tmp_path: Path, port: int) -> None:
    config = settings(workers=workers, politeness__delay_s=0.05)
    crawl = lycosa.Crawl(seeds(port), tmp_path / "c", config, sinks=[lambda page: crawl.stop()])
    report = crawl.run()
    assert report.end is lycosa.End.STOPPED and 0 < report.captured < 4 * NUMBERS


def test_a_time_limit_ends_a_run_of_a_program(tmp_path: Path, port: int) -> None:
    config = settings(politeness__delay_s=5, limits__max_time_s=0.2)
    assert lycosa.Crawl(seeds(port, "a"), tmp_path / "c", config).run().end is lycosa.End.LIMIT


def test_run_says_what_to_do_where_a_loop_runs(tmp_path: Path, port: int) -> None:
    crawl = lycosa.Crawl(seeds(port, "a"), tmp_path / "c", settings())

    async def cell() -> lycosa.Report:
        with pytest.raises(RuntimeError, match=r"use `await crawl.run_async\(\)`"):
            crawl.run()
        running = asyncio.create_task(crawl.run_async())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="runs already"):
            await crawl.run_async()
        return await running

    assert asyncio.run(cell()).captured == NUMBERS


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_pages_are_those_of_earlier_runs_and_then_the_new_ones(
    workers: int, tmp_path: Path, port: int
) -> None:
    folder, config = tmp_path / "c", settings(workers=workers)

    async def urls(hosts: str, most: int = 10**9, new_only: bool = False) -> list[str]:
        found: list[str] = []
        async for page in lycosa.Crawl(seeds(port, hosts), folder, config).pages(new_only=new_only):
            assert "café" in page.body_text and page.title[0] == page.url.split("/")[2][0]
            found.append(page.url)
            if len(found) >= most:
                break
        return found

    assert len(asyncio.run(urls("a"))) == NUMBERS
    both = asyncio.run(urls("b"))
    assert len(both) == len(set(both)) == 2 * NUMBERS
    if workers > 1:
        return
    (host,) = {url.split("/")[2][0] for url in asyncio.run(urls("c", new_only=True))}
    assert host == "c"
    assert len(asyncio.run(urls("d", most=5))) == 5  # leaving the loop stops the crawl
    assert Counter(asyncio.run(urls(""))).most_common(1)[0][1] == 1


def test_an_error_of_the_crawl_reaches_who_iterates_over_pages(tmp_path: Path) -> None:
    async def run() -> None:
        async for _ in lycosa.Crawl(["ftp://a.example/"], tmp_path / "c", settings()).pages():
            pass

    with pytest.raises(ValueError, match="no seed can be crawled"):
        asyncio.run(run())


# -- stored pages


def test_stored_pages_are_read_and_filtered_while_the_crawl_runs(tmp_path: Path, port: int) -> None:
    folder, found = tmp_path / "c", list[int]()

    def look(page: lycosa.Page) -> None:
        if len(found) < 5:
            found.append(len(list(lycosa.open(folder).pages())))

    lycosa.Crawl(seeds(port), folder, settings(), sinks=[look]).run()
    assert len(found) == 5 and found == sorted(found)
    crawl = lycosa.open(folder)
    pages = list(crawl.pages())
    assert len(pages) == 4 * NUMBERS and len({page.url for page in pages}) == len(pages)
    some = next(page for page in pages if number_of(page.url) == 3)
    assert some.text.startswith("café 3 of") and [link.anchor for link in some.links] == [
        "to 7",
        "to 8",
    ]
    assert some.links[-1].url.endswith("/8") and some.links[0:1][0] == some.links[0]
    assert gzip.decompress(some.raw_body) == some.body and some.header("content-type")
    assert abs(datetime.now(UTC) - some.fetched) < timedelta(minutes=5)
    host = some.url.split("/")[2].partition(":")[0]
    assert {page.url for page in crawl.pages(host=host)} == {
        page.url for page in pages if host in page.url
    }
    assert [page.url for page in crawl.pages(url=some.url)] == [some.url]
    assert not list(crawl.pages(status=404)) and not list(crawl.pages(media_type="image/"))
    assert not list(crawl.pages(until=pages[0].fetched - timedelta(days=1)))
    assert len(list(crawl.pages(since=some.fetched, status=[200, 301]))) <= len(pages)
    robots = Counter(page.kind for page in crawl.pages(everything=True))
    assert robots[lycosa.FetchKind.ROBOTS] == 4


def test_bodies_of_revisits_are_those_of_the_captures_that_they_refer_to(tmp_path: Path) -> None:
    a = "http://a.test/"

    def still(earlier: int, headers: Mapping[str, str]) -> Response:
        if headers.get("if-none-match") == '"1"':
            return Response(304, [("ETag", '"1"')])
        return Response(200, [("Content-Type", "text/html"), ("ETag", '"1"')], b"<p>still here")

    config = lycosa.settings({
        "refetch.rule": "adaptive", "refetch.first_s": 60, "refetch.min_s": 60,
        "refetch.max_s": 60, "limits.max_pages": 12, "frontier.partitions": 2,
    })  # fmt: skip
    first = Response(200, [("Content-Type", "text/html")], b'<a href="still">x</a><a href="copy">y')
    crawl, _ = scripted_crawl(
        tmp_path / "c", {a: first, f"{a}still": still, f"{a}copy": lambda *_: still(0, {})}, config
    )
    crawl.run([a])
    stored = lycosa.open(crawl.folder)
    everything = list(stored.pages(everything=True, url=f"{a}still"))
    unchanged = [page for page in everything if page.is_unchanged]
    assert unchanged and {page.body for page in everything} == {b"<p>still here"}
    assert {page.status for page in unchanged} == {304}
    assert len(list(stored.pages(url=f"{a}still"))) == len(everything) - len(unchanged)
    copies = [page for page in stored.pages(url=f"{a}copy") if page.duplicate_of]
    assert copies and {page.body for page in copies} == {b"<p>still here"}


def test_a_folder_that_is_no_crawl_or_newer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lycosa.NotACrawl, match="is not a crawl"):
        lycosa.open(tmp_path)
    (tmp_path / "crawl.json").write_text(json.dumps({"kind": "lycosa-crawl", "format": 99}))
    with pytest.raises(lycosa.NewerFormat):
        lycosa.open(tmp_path)


# -- programs


PROGRAM = """
import sys
import lycosa

def rule(found):
    if found.url.endswith("/11"):
        raise KeyError("eleven")

def sink(page):
    print(page.url, flush=True)
    raise ValueError(page.url)

def main():
    crawl = lycosa.Crawl(
        sys.argv[4:], sys.argv[1], lycosa.settings({**%r, "workers": int(sys.argv[2]),
        "politeness.delay_s": float(sys.argv[3])}), rules=[rule], sinks=[sink],
    )
    report = crawl.run()
    print("end", report.end.value)

%s
"""
GUARDED = 'if __name__ == "__main__":\n    main()'


def started(file: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(file), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_kill_9_around_a_raising_sink_loses_nothing(
    workers: str, tmp_path: Path, port: int
) -> None:
    file, folder = tmp_path / "program.py", tmp_path / "c"
    file.write_text(PROGRAM % (QUICK, GUARDED))
    for lines in (4, 9)[: 3 - int(workers)]:
        process = started(file, str(folder), workers, "0.05", *seeds(port))
        assert process.stdout is not None and process.stderr is not None
        with process, process.stdout, process.stderr:
            for _ in range(lines):
                assert process.stdout.readline()
            os.killpg(process.pid, signal.SIGKILL)
    process = started(file, str(folder), workers, "0", *seeds(port))
    output, errors = process.communicate(timeout=300)
    assert output.endswith("end finished\n"), errors
    assert errors.count("ValueError: http://") < 20  # the log is limited
    stored = Counter(page.url for page in lycosa.open(folder).pages())
    assert len(stored) == 4 * (NUMBERS - 1) and set(stored.values()) == {1}
    for page in lycosa.open(folder).pages():
        assert any(each.reason is lycosa.Reason.EXTENSION_FAILED for each in page.remarks)
    assert audit(folder).is_clean


def test_a_program_without_a_guard_is_told_what_to_write(tmp_path: Path, port: int) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM % (QUICK, "main()"))
    process = started(file, str(tmp_path / "c"), "2", "0", *seeds(port))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert 'begin the crawl below `if __name__ == "__main__":`' in errors.splitlines()[-1]


# -- installed packages


def with_package(folder: Path) -> dict[str, str]:
    """An environment in which a package has a rule and a sink."""
    (folder / "brought-1.0.dist-info").mkdir()
    info = folder / "brought-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[lycosa.scope_rules]\nfew = brought:few\n[lycosa.page_sinks]\nloud = brought:loud\n"
    )
    (folder / "brought.py").write_text(
        "import lycosa\n"
        "def few(found):\n"
        "    if int(found.url.rpartition('/')[2] or 0) > 3:\n"
        "        return lycosa.Refusal(lycosa.Reason.USER_RULE, 'few', found.url)\n"
        "def loud(page):\n"
        "    raise OSError('too loud')\n"
    )
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_an_installed_package_changes_a_crawl_only_when_it_is_named(
    tmp_path: Path, port: int
) -> None:
    (tmp_path / "lib").mkdir()
    environment, folder = with_package(tmp_path / "lib"), tmp_path / "c"
    values = [f"--set={key}={str(value).lower()}" for key, value in QUICK.items()]

    def crawl(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lycosa", "crawl", *values, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=300,
        )

    refused = crawl("--dir", str(folder), *seeds(port, "a"), "--set", "extensions.rules=many")
    assert refused.returncode == 2 and "no installed package has 'many'" in refused.stderr
    assert "installed: few (brought 1.0)" in refused.stderr and not folder.exists()
    log = tmp_path / "log"
    named = crawl(
        "--dir", str(folder), *seeds(port, "a"), "--set", "extensions.rules=few",
        "--set", "extensions.sinks=brought/loud", "--log-file", str(log),
    )  # fmt: skip
    assert named.returncode == 0, named.stderr
    assert "extension_failed" in named.stdout
    assert "the sink brought:loud failed: OSError (brought.py:6): too loud" in named.stdout
    assert "too loud" in log.read_text()
    assert sorted(number_of(page.url) for page in lycosa.open(folder).pages()) == [0, 1, 2, 3]
    plain = crawl("--dir", str(tmp_path / "plain"), *seeds(port, "a"))
    assert "installed, but not active: few (brought 1.0)" in plain.stdout + plain.stderr
    assert len(list(lycosa.open(tmp_path / "plain").pages())) == NUMBERS


def test_a_crawl_that_had_extensions_is_not_resumed_without_naming_them(
    tmp_path: Path, port: int
) -> None:
    file, folder = tmp_path / "shop.py", tmp_path / "c"
    file.write_text(
        "import lycosa\nclass Row(lycosa.Item, frozen=True):\n    url: str\n"
        "@lycosa.extract(Row)\ndef rows(page):\n    yield Row(page.url)\n"
    )
    code, few = f"{file}:rows", settings(limits__max_pages=2)
    lycosa.Crawl(seeds(port, "a"), folder, few, extensions=[code]).run()
    before = sorted(folder.rglob("*"))
    with pytest.raises(lycosa.SettingsError, match=r"shop\.py:rows.*extensions=\[\]"):
        lycosa.Crawl([], folder, few).run()
    assert sorted(folder.rglob("*")) == before
    lycosa.Crawl([], folder, few, extensions=[]).run()
    lycosa.Crawl([], folder, few).run()  # the last run had none
    made = [page.url for page in lycosa.open(folder).pages()]
    assert len(made) >= 2
