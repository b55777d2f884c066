"""A real crawl with a log, traces, and its progress watched from outside."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lycosa.cli.output import ExitCode
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.worker.visit.traces import is_traced
from otlp_receiver import attributes, receiving
from serving import served

ROOT = Path(__file__).parents[2]
WEB = SyntheticWeb(WebPlan(hosts=3, pages=8, distribution="fixed"))
QUICK = ["--delay", "0s", "--set", "politeness.adaptive_factor=0"]
QUICK += ["--set", "politeness.address_delay_s=0", "--contact", "test@example.org"]
QUICK += ["--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8", "--scope", "any"]
check = runpy.run_path(str(ROOT / "tests" / "unit" / "test_feed_schemas.py"))["check"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(WEB) as found:
        yield found


def command(folder: Path, port: int, *arguments: str) -> list[str]:
    seed = WEB.seed_url(port=port)
    return [
        *(sys.executable, "-m", "lycosa", "crawl", seed, "--dir", str(folder)),
        *QUICK,
        *arguments,
    ]


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_attempt_has_a_record_and_a_span_and_every_process_logs(
    tmp_path: Path, port: int
) -> None:
    log = tmp_path / "log.json"
    with receiving() as collector:
        done = subprocess.run(
            command(
                *(tmp_path / "c", port, "--workers", "2", "--log-file", str(log)),
                *("--log-format", "json", "--log-level", "debug", "--traces", "1", "--json"),
            ),
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
                "OTEL_EXPORTER_OTLP_HEADERS": "x-team=crawl",
            },
            timeout=300,
        )
    assert done.returncode == ExitCode.FINISHED, done.stderr
    found = records(log.read_text("ascii"))
    for each in found:
        kind = "fetch" if each["event"] == "fetch" else "event"
        schema = json.loads((ROOT / "docs" / "schemas" / f"log-{kind}.json").read_text())
        check(each, schema, schema)
    fetches = [each for each in found if each["event"] == "fetch"]
    summary = json.loads(done.stdout)
    pages = [each for each in fetches if each["kind"] == "page"]
    assert len(pages) == summary["requests"] and {each["kind"] for each in fetches} == {
        "page",
        "robots",
    }
    events = Counter((each["event"], each["process"].split()[0]) for each in found)
    assert events["worker_started", "worker"] == events["worker_ended", "worker"] == 2
    assert events["parser_started", "parser"] >= 2 and events["crawl_started", "supervisor"] == 1
    spans = Counter(
        (values["url.full"], values["lycosa.kind"])
        for values in (attributes(span.attributes) for span in collector.spans)
    )
    assert spans == Counter((each["url"], each["kind"]) for each in fetches)
    assert collector.services == {"lycosa"}
    assert all(headers["x-team"] == "crawl" for headers in collector.headers)
    by_url = {(each["url"], each["kind"]): each for each in fetches}
    for span in collector.spans:
        values = attributes(span.attributes)
        record = by_url[values["url.full"], values["lycosa.kind"]]
        assert values["http.response.status_code"] == record["status"]
        seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
        assert seconds == pytest.approx(record["duration_s"], abs=1e-4)
        assert span.name == "fetch" and next(iter(span.events)).name == "sent"


def test_json_on_standard_error_has_nothing_else(tmp_path: Path, port: int) -> None:
    done = subprocess.run(
        command(tmp_path / "c", port, "--log-format", "json"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == ExitCode.FINISHED
    events = {each["event"] for each in records(done.stderr)}
    assert events >= {"fetch", "progress", "worker_started", "worker_ended"}
    assert "captures" in done.stdout


def test_bad_options_of_the_log_are_refused_before_anything_is_written(
    tmp_path: Path, port: int
) -> None:
    for arguments, said in (
        (("--log-file", str(tmp_path / "none" / "log")), "give a file in a folder that exists"),
        (("--log-rotate", "many"), "for example 50MBx3"),
        (("--log-rotate", "1kB"), "at least 10kB"),
        (("--traces", "0.5"), "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (("--traces", "2"), "0<=x<=1"),
    ):
        environment = {name: value for name, value in os.environ.items() if "OTEL" not in name}
        done = subprocess.run(
            command(tmp_path / "c", port, *arguments),
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
        )
        assert done.returncode == ExitCode.USAGE and said in done.stderr, done.stderr
        assert not (tmp_path / "c").exists()


def test_a_host_is_traced_completely_or_not_at_all() -> None:
    hosts = [f"h{number}.example" for number in range(2000)]
    traced = sum(is_traced(host, 0.1) for host in hosts)
    assert 140 < traced < 260
    assert all(is_traced(host, 1.0) for host in hosts)
    assert not any(is_traced(host, 0.0) for host in hosts)
    assert all(is_traced(host, 0.3) for host in hosts if is_traced(host, 0.1))


def test_a_running_crawl_is_watched_until_it_ends_or_ctrl_c(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "c"
    slow = ["--delay", "30s", "--max-time", "600s"]  # it runs on until it is stopped
    with subprocess.Popen(
        command(folder, port, *slow), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("crawling into")
        while not (folder / "status.json").exists():
            assert running.poll() is None
        watch = [sys.executable, "-m", "lycosa", "status", str(folder), "--watch", "0.2"]
        with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stderr is not None
            assert "Ctrl-C ends this" in watching.stderr.readline()
            assert "  captured " in watching.stderr.readline()
            watching.send_signal(signal.SIGINT)
            rest = watching.stderr.read()
        assert watching.returncode == ExitCode.FINISHED and "Traceback" not in rest
        metrics = subprocess.run(
            [sys.executable, "-m", "lycosa", "status", str(folder), "--metrics"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "\nlycosa_captures_total " in metrics.stdout
        with subprocess.Popen([*watch, "--json"], stdout=subprocess.PIPE, text=True) as to_the_end:
            assert to_the_end.stdout is not None
            first = to_the_end.stdout.readline()
            running.send_signal(signal.SIGINT)
            looks = records(first + to_the_end.stdout.read())
        assert to_the_end.returncode == ExitCode.FINISHED
        assert looks and looks[-1]["progress"]["meter"]["numbers"]["lycosa_captures_total"]
        running.stderr.read()
    again = subprocess.run(watch, capture_output=True, text=True, timeout=300)
    assert (again.returncode, again.stdout) == (ExitCode.USAGE, "")
    assert "the crawl does not run" in again.stderr
    none = subprocess.run([*watch[:-2], "--metrics"], capture_output=True, text=True, timeout=300)
    assert none.returncode == ExitCode.USAGE and "does not run, so it has no metrics" in none.stderr
