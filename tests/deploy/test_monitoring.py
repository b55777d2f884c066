"""Metrics, alert rules and dashboard: by promtool, against each other, and by a real Prometheus
that scrapes a real crawl.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import runpy
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from api_crawl import LOOPBACK, ApiCrawl
from lycosa.base.system.meter import Meter
from lycosa.base.system.metric_catalogue import METRICS, MetricKind
from lycosa.base.system.metrics_text import metrics_text
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_server import SyntheticServer
from lycosa.synthetic.synthetic_web import SyntheticWeb
from prometheus_server import promtool, scraping

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = runpy.run_path(str(DEPLOY / "grafana" / "dashboard.py"))
QUERIES: list[str] = DASHBOARD["queries"]()
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
_SUFFIX = re.compile(r"_(bucket|sum|count)$")


def metrics_in(query: str) -> set[str]:
    """The metrics of ours that a query names."""
    found = set()
    for name in re.findall(r"\blycosa_\w+", query):
        base = _SUFFIX.sub("", name)
        is_part = base in METRICS and METRICS[base].kind is MetricKind.HISTOGRAM
        found.add(base if is_part else name)
    return found


def test_the_dashboard_is_the_one_that_its_script_writes() -> None:
    written = (DEPLOY / "grafana" / "lycosa.json").read_text("utf-8")
    assert json.loads(written) == DASHBOARD["dashboard"](), (
        "write it again: python deploy/grafana/dashboard.py"
    )


def test_dashboard_and_rules_name_metrics_that_exist() -> None:
    named = {
        name for text in (*QUERIES, *(each["expr"] for each in ALERTS)) for name in metrics_in(text)
    }
    assert named - METRICS.keys() == set()


def test_the_dashboard_shows_every_metric_of_a_crawl() -> None:
    shown = {name for text in QUERIES for name in metrics_in(text)}
    elsewhere = {
        "lycosa_pages_total",
        "lycosa_requests_total",  # responses by class
        "lycosa_received_bytes_per_second",  # the rate of the counter
        "lycosa_captures_limit",
        "lycosa_urls_discovered_total",  # its rate
        "lycosa_next_ready_seconds",
        "lycosa_url_seen_lookups_total",
        "lycosa_url_seen_false_positives_total",  # the ratio
        "lycosa_parcels_waiting",
        "lycosa_upload_files_total",
        "lycosa_upload_waiting_files",
        "lycosa_log_records_suppressed_total",
        "lycosa_open_requests",
        "lycosa_coordinator_number",
    }
    assert METRICS.keys() - shown == elsewhere


def test_every_alert_says_what_to_do() -> None:
    for alert in ALERTS:
        assert alert["labels"]["severity"] in ("critical", "warning")
        assert alert["annotations"].keys() == {"summary", "description"}
    manual = (DEPLOY.parent / "docs" / "operations.md").read_text("utf-8")
    assert [each["alert"] for each in ALERTS if each["alert"] not in manual] == []


@pytest.mark.service
def test_promtool_accepts_rules_and_configuration_and_the_alerts_fire_when_they_should() -> None:
    for arguments in (
        ("check", "rules", "rules.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "rules_test.yml"),
    ):
        run = subprocess.run(
            [promtool(), *arguments], cwd=RULES.parent, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout + run.stderr


def checked(text: str) -> None:
    run = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.service
def test_promtool_has_no_complaint_about_any_metric() -> None:
    meter = Meter()
    for metric in METRICS.values():
        for value in metric.values or (("worker 0",) if metric.label else ("",)):
            if metric.kind is MetricKind.HISTOGRAM:
                meter.histogram(metric.name, value).observe(0.3)
            else:
                meter.set(metric.name, 3.5, value)
    checked(metrics_text(meter.snapshot()))


@contextmanager
def synthetic_web() -> Iterator[str]:
    """A web on loopback, large enough to be crawled for a while; gives the first URL."""
    server = SyntheticServer(SyntheticWeb(WebPlan(hosts=20, pages=500, seed=3)))
    loop, started = asyncio.new_event_loop(), threading.Event()
    ending = asyncio.Event()

    async def serve() -> None:
        async with server:
            started.set()
            await ending.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(30)
    try:
        yield f"http://h000000.site000000.example:{server.port}/"
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(30)
        loop.close()


@pytest.mark.long
@pytest.mark.service
def test_a_real_prometheus_answers_every_query_about_a_real_crawl(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with synthetic_web() as seed:
        crawl = ApiCrawl(
            tmp_path / "crawl",
            [
                *("crawl", seed, "--dir", str(tmp_path / "crawl"), "--workers", "2"),
                *LOOPBACK,
                *("--upload", (tmp_path / "store").as_uri(), "--api", "127.0.0.1:0"),
                *("--delay", "0.2s", "--set", "politeness.address_delay_s=0"),
            ],
        )
        try:
            crawl.await_ready()
            checked(crawl.await_answer("/metrics", lambda a: "lycosa_commits" in a.text).text)
            with scraping(crawl.url.removeprefix("http://"), RULES) as server:
                server.await_series("lycosa_remaining_seconds")
                server.await_series("rate(lycosa_captures_total[5s]) > 0")
                server.await_series("lycosa_upload_failing_seconds")
                for query in QUERIES:
                    asked = query.replace("$__rate_interval", "10s").replace("$instance", ".*")
                    series = server.query(asked)
                    assert series, query
                    assert all(each["value"][1] for each in series), query
                present = {
                    _SUFFIX.sub("", name) if _SUFFIX.sub("", name) in METRICS else name
                    for name in server.get("label/__name__/values")
                }
                assert METRICS.keys() - present == set()
                alerts = server.get("rules")["groups"][0]["rules"]
                assert {each["health"] for each in alerts} == {"ok"}, alerts
                assert len(alerts) == len(ALERTS)
                named = {name for each in ALERTS for name in metrics_in(each["expr"])}
                assert named <= present
                rate = float(server.query("sum(rate(lycosa_captures_total[10s]))")[0]["value"][1])
                assert 0 < rate < 1000 and math.isfinite(rate)
        finally:
            crawl.stop()
            assert crawl.process.stderr is not None
            crawl.process.stderr.close()
