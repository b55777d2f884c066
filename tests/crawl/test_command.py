"""``lycosa crawl`` as a process: its end, its output when nobody reads it, signals, dead seeds
among living ones.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lycosa.base.model.url_state import UrlState
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.inspect.committed_state import read_folder
from lycosa.state.folder.run_cost import read_costs
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

QUICK = [
    "--delay",
    "0s",
    "--set",
    "politeness.adaptive_factor=0",
    "--set",
    "politeness.address_delay_s=0",
]
LOOPBACK = [
    "--resolve",
    "*=127.0.0.1",
    "--allow-address",
    "127.0.0.0/8",
    "--contact",
    "test@example.org",
]
WEB = SyntheticWeb(WebPlan(hosts=1, pages=6, distribution="fixed"))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(WEB) as found:
        yield found


def command(folder: Path, port: int, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "lycosa",
        "crawl",
        WEB.seed_url(port=port),
        "--dir",
        str(folder),
        *QUICK,
        *LOOPBACK,
        *arguments,
    ]


class Finished(NamedTuple):
    folder: Path
    report: dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, port: int) -> Finished:
    folder = tmp_path_factory.mktemp("finished") / "c"
    done = subprocess.run(command(folder, port, "--json"), capture_output=True, text=True)
    assert done.returncode == ExitCode.FINISHED, done.stderr
    return Finished(folder, json.loads(done.stdout))


def test_a_limit_at_the_last_page_is_a_finish(
    tmp_path: Path, port: int, finished: Finished
) -> None:
    found = finished.report
    assert (found["end"], "none" in found["reasons"]) == ("finished", False)
    (cost,) = read_costs(finished.folder)
    assert (cost.captured, cost.captures, cost.requests, cost.hosts) == (found["captures"],) * 2 + (
        found["requests"],
        1,
    )
    assert 0 < cost.worker_cpu_s < cost.cpu_s and 0 < cost.start_cpu_s <= cost.cpu_s
    limit = ["--max-pages", str(found["captures"]), "--json"]
    done = subprocess.run(command(tmp_path / "b", port, *limit), capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)["end"]) == (ExitCode.FINISHED, "finished")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_crawl_whose_standard_files_are_closed_does_its_work(
    tmp_path: Path, port: int, closed: str
) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    done = subprocess.run(
        [*shell, *command(tmp_path / "c", port, "--max-time", "300s")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == ExitCode.FINISHED, done.stderr
    (cost,) = read_costs(tmp_path / "c")
    assert cost.captures > 5
    assert ("lycosa status" in done.stdout) is (">&-" not in closed.replace("2>&-", ""))


def test_a_crawl_that_nobody_reads_ends_with_its_own_code(tmp_path: Path, port: int) -> None:
    with subprocess.Popen(
        command(tmp_path / "c", port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"crawling into")
        running.stdout.close()
    assert running.returncode == ExitCode.FINISHED
    states = {entry.record.state for entry in read_folder(tmp_path / "c").urls()}
    assert UrlState.FETCHED in states and UrlState.QUEUED not in states


def test_a_refused_seed_among_good_ones_is_told_and_the_crawl_goes_on(
    tmp_path: Path, port: int
) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("mailto:a@example.org # not a page\n")
    done = subprocess.run(
        command(tmp_path / "d", port, "--seeds", str(seeds)), capture_output=True, text=True
    )
    assert done.returncode == ExitCode.FINISHED
    assert (
        f"lycosa: {seeds}:1: seed refused: mailto:a@example.org: not a URL that can be crawled"
        in done.stderr
    )


def test_a_crawl_is_not_resumed_for_seeds_that_are_all_refused(
    port: int, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = command(finished.folder, port, "--json")[3:]
    wrong[1] = wrong[1].replace("http:", "htp:")
    code = main(wrong)
    out, err = capsys.readouterr()
    assert (code, out) == (ExitCode.USAGE, "")
    assert "the scheme 'htp' is not crawled" in err
    assert "nothing to crawl: 1 seed refused" in err and "resuming" not in err


def test_https_to_a_server_without_tls_is_answered_with_the_other_scheme(tmp_path: Path) -> None:
    plain = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=plain.serve_forever).start()
    wrong = command(tmp_path / "c", plain.server_port)
    wrong[4] = wrong[4].replace("http:", "https:")
    try:
        done = subprocess.run(wrong, capture_output=True, text=True)
    finally:
        plain.shutdown()
        plain.server_close()
    assert done.returncode == ExitCode.NOTHING_FETCHED
    assert "the server there answers without TLS: give the URL with http://" in done.stderr
    assert "certificate; --set" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_crawl_that_is_asked_to_end_does_so_in_order(
    tmp_path: Path, port: int, number: signal.Signals
) -> None:
    slow = command(tmp_path / "e", port, "--delay", "1h")
    with subprocess.Popen(
        slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("crawling into")
        running.send_signal(number)
        out, err = running.communicate()
    assert running.returncode == ExitCode.INTERRUPTED
    assert "finishing requests in flight" in err and "to resume: lycosa crawl --dir" in out


def test_a_crawl_under_nohup_stays(tmp_path: Path, port: int) -> None:
    ignored = ["nohup", *command(tmp_path / "f", port)]
    with subprocess.Popen(
        ignored, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("crawling into")
        running.send_signal(signal.SIGHUP)
        running.communicate()
    assert running.returncode == ExitCode.FINISHED


def test_a_seed_of_a_dead_port_is_told_with_what_to_do(tmp_path: Path, port: int) -> None:
    dead = "http://dead.example:9/"
    once = ["--set", "retry.host_failures=1", "--set", "retry.away_s=0s"]
    done = subprocess.run(
        command(tmp_path / "g", port, dead, *once), capture_output=True, text=True
    )
    assert done.returncode == ExitCode.INCOMPLETE
    assert "retired: 1 URL at dead.example:9: robots.txt: the connection was refused" in done.stdout
    assert f"lycosa: {dead}: " in done.stderr and "check the port" in done.stderr
