"""Seeds that a run did not read to their end: it says so, and the command that it names reads
the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import pytest

import lycosa
from crawling import page
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.inspect.committed_state import read_folder
from lycosa.state.folder.seed_sources import (
    SeedSource,
    SourceKind,
    load_sources,
    sources_path,
    unread,
)
from lycosa.synthetic import Response, SyntheticWeb, WebPlan
from serving import served

SEEDS, MORE = 4000, 12_000
WEB = SyntheticWeb(WebPlan(hosts=1, pages=3, distribution="fixed"))
OPTIONS = [
    *(
        "--delay",
        "10s",
        "--resolve",
        "*=127.0.0.1",
        "--allow-address",
        "127.0.0.0/8",
        "--contact",
        "test@example.org",
    ),
    *(
        "--set",
        "frontier.partitions=2",
        "--set",
        "limits.max_pages=0",
        "--set",
        "parse.language=false",
    ),
]


@pytest.fixture(scope="module")
def seed() -> Iterator[str]:
    with served(WEB) as port:
        yield WEB.seed_url(port=port)


@pytest.fixture
def seeds(tmp_path: Path, seed: str) -> Path:
    path = tmp_path / "many seeds.txt"
    path.write_text("# many\n\n" + "".join(f"{seed}{number}\n" for number in range(SEEDS)))
    return path


def crawl(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lycosa", "crawl", "--dir", str(folder), *arguments]


def known(folder: Path) -> int:
    return sum(1 for _ in read_folder(folder).urls())


def until(running: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    """Looks again and again while the crawl runs, for two minutes at most."""
    for _ in range(12_000):
        if is_so():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(0.01)
            return
    raise AssertionError("it takes too long")


def break_off(
    command: list[str], folder: Path, number: signal.Signals, stdin: IO[str] | None = None
) -> str:
    """Ends a crawl while it reads its seeds; gives what it printed."""
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        until(running, lambda: any(0 < each.lines < SEEDS for each in sources(folder)))
        running.send_signal(number)
        return running.communicate(timeout=300)[0]


def sources(folder: Path) -> list[SeedSource]:
    return load_sources(folder) if sources_path(folder).exists() else []


def read_the_rest(folder: Path, *arguments: str, stdin: IO[str] | None = None) -> tuple[str, str]:
    """Goes on until all seeds are taken, and is stopped then; gives what it printed."""
    command = crawl(folder, *arguments)
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        until(running, lambda: not unread(sources(folder)))
        running.send_signal(signal.SIGINT)
        return running.communicate(timeout=300)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_rest_of_a_file_is_read_by_the_next_run(
    number: signal.Signals, tmp_path: Path, seeds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my crawl"
    out = break_off(crawl(folder, "--seeds", str(seeds), *OPTIONS), folder, number)
    (source,) = unread(sources(folder))
    assert (source.kind, source.name) == (SourceKind.FILE, str(seeds))
    assert source.seeds <= known(folder) < SEEDS, "a place is recorded when its seeds are committed"
    assert main(["status", str(folder)]) == 0
    assert (
        f"{seeds}: read up to line {source.lines:,}, {source.seeds:,} seeds taken; the rest is"
        " unread" in capsys.readouterr().out
    )
    if number is signal.SIGINT:
        assert "the rest is unread" in out
        line = next(line for line in out.splitlines() if line.startswith("to resume: "))
        assert shlex.split(line.removeprefix("to resume: ").partition("   ")[0]) == [
            "lycosa",
            "crawl",
            "--dir",
            str(folder),
        ]
    out, err = read_the_rest(folder)
    assert f"resuming {seeds} at line {source.lines + 1:,}" in err
    assert known(folder) == SEEDS
    assert "the rest is unread" not in out
    (source,) = sources(folder)
    assert (source.is_complete, source.lines, source.seeds) == (True, SEEDS + 2, SEEDS)


def test_a_limit_and_a_changed_file(tmp_path: Path, seeds: Path, seed: str) -> None:
    folder = tmp_path / "c"
    with seeds.open("a") as file:
        file.writelines(f"{seed}more{number}\n" for number in range(MORE))
    limit = ["--delay", "0s", "--max-pages", "1", "--json"]
    done = subprocess.run(
        crawl(folder, "--seeds", str(seeds), *OPTIONS, *limit), capture_output=True, text=True
    )
    assert done.returncode == ExitCode.LIMIT
    (told,) = json.loads(done.stdout)["seed_sources"]
    assert (told["source"], told["is_complete"]) == (str(seeds), False) and told[
        "lines"
    ] < SEEDS + MORE
    with seeds.open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(f"{seed}new\n{text}")
    _, err = read_the_rest(folder)
    assert f"{seeds} was changed since line {told['lines']:,} of it was read" in err
    assert known(folder) == SEEDS + MORE + 1


def test_a_file_that_is_gone_is_told_each_time(tmp_path: Path, seeds: Path) -> None:
    folder = tmp_path / "c"
    break_off(crawl(folder, "--seeds", str(seeds), *OPTIONS), folder, signal.SIGINT)
    before = known(folder)
    seeds.unlink()
    for _ in range(2):
        done = subprocess.run(crawl(folder, "--max-time", "1s"), capture_output=True, text=True)
        assert done.returncode == ExitCode.LIMIT
        assert (
            "cannot be reopened (No such file or directory); give the rest with --seeds FILE"
            in done.stderr
        )
        assert f"seeds of {seeds}: read up to line " in done.stdout
    assert known(folder) == before


def test_standard_input_cannot_be_read_again(tmp_path: Path, seeds: Path) -> None:
    folder = tmp_path / "c"
    with seeds.open() as file:
        out = break_off(crawl(folder, "--seeds", "-", *OPTIONS), folder, signal.SIGINT, file)
    assert "seeds of standard input: read up to line " in out
    assert f"to resume: lycosa crawl --dir {folder} --seeds -   with the same input again" in out
    with seeds.open() as file:
        read_the_rest(folder, "--seeds", "-", stdin=file)
    assert known(folder) == SEEDS


def test_seeds_of_the_command_line_are_kept_with_the_crawl(tmp_path: Path, seed: str) -> None:
    folder, given = tmp_path / "c", [f"{seed}{number}" for number in range(5000)]
    break_off(crawl(folder, *given, *OPTIONS), folder, signal.SIGKILL)
    (source,) = unread(sources(folder))
    assert source.kind is SourceKind.ARGUMENTS and source.rest == tuple(given[source.lines :])
    read_the_rest(folder)
    assert known(folder) == len(given)


def test_seeds_of_a_program_are_committed_before_the_first_request(
    tmp_path: Path, seed: str
) -> None:
    folder = tmp_path / "c"
    config = lycosa.settings({
        "fetch.allow_addresses": ["127.0.0.0/8"], "dns.pins": ["*=127.0.0.1"], "frontier.partitions": 2, "parse.language": False,
    })  # fmt: skip
    started_with: list[int] = []

    def stop(_: object) -> None:
        started_with.append(known(folder))
        started.stop()

    started = lycosa.Crawl(
        [f"{seed}{number}" for number in range(2000)], folder, config, sinks=(stop,)
    )
    report = started.run()
    assert started_with[0] >= 2000 and report.unread_seeds == []
    (source,) = sources(folder)
    assert (source.kind, source.lines, source.is_complete) == (SourceKind.PROGRAM, 2000, True)


# -- a seed that was fetched, and that the parser could not read


class Linked:
    """Every page links to one other."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        return page("/next", text=f"the page {url}")


def lycosa_done(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lycosa", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_seed_that_the_parser_could_not_read_is_named_until_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with served(Linked()) as port:
        seed = f"http://a.example:{port}/hook-segfault"
        done = lycosa_done("crawl", "--dir", str(folder), *OPTIONS[2:], seed, LYCOSA_TEST_HOOKS="1")
        assert done.returncode == ExitCode.INTERRUPTED
        told = f"  {seed}: parse_killed, the parser crashed or was killed at the document"
        assert "NOT READ" in done.stdout and told in done.stdout
        again = f"lycosa reparse {shlex.quote(str(folder))} --killed"
        assert again in done.stdout
        known = json.loads(lycosa_done("crawl", "--dir", str(folder), "--json").stdout)
        assert known["unread_seeds"] == [{"url": seed, "reason": "parse_killed"}]
        assert known["exit_code"] == ExitCode.INTERRUPTED
        assert main(["reparse", str(folder), "--killed"]) == 0
        read = lycosa_done("crawl", "--dir", str(folder))
        assert (read.returncode, "NOT READ" in read.stdout) == (ExitCode.FINISHED, False)
    assert known["discovered"] == 1
    assert "2 URLs discovered: 2 fetched" in read.stdout
