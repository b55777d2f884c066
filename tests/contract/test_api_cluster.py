"""The HTTP interface of a cluster: the coordinator's process starts it, shards on a node answer."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from test_site_notices_served import KEY, Site

from clusters import LONGEST_S, SETTINGS, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

pytestmark = [pytest.mark.service, pytest.mark.long]


def _awaited(client: httpx.Client, path: str, is_so: Callable[[httpx.Response], bool]) -> None:
    deadline, answer, pause = time.monotonic() + LONGEST_S, None, threading.Event()
    while time.monotonic() < deadline:
        try:
            answer = client.get(path)
            if is_so(answer):
                return
        except httpx.TransportError:
            pass
        pause.wait(0.3)
    raise AssertionError(f"{path}: {answer and answer.text[:1000]}")


def test_shards_are_called_and_a_shard_without_owner_is_503(kafka: Broker, tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(hosts=12, pages=200, cross_links=0.5))
    with served(web) as port, real_cluster(tmp_path, kafka, SETTINGS, shards=2) as cluster:
        serve = cluster.run("serve", "--cluster", "cluster.toml", "--api", "127.0.0.1:0")
        url = serve.await_line(r"page are at (http://\S+)/")[1]
        serve.await_line("coordinator [0-9]+ of the crawl")
        node = cluster.node("n1")
        with httpx.Client(base_url=f"{url}/api/v1", timeout=300) as client:
            _awaited(
                client,
                "/stats",
                lambda answer: (
                    answer.is_success
                    and all(each["state"] == "running" for each in answer.json()["workers"])
                ),
            )
            seeds = [seed_at(port), web.seed_url(1, port)]
            given = client.post("/frontier/seed", json={"urls": seeds}).json()
            assert given["accepted"] == 2, given
            _awaited(client, "/stats", lambda answer: answer.json()["captures"] >= 20)
            _awaited(
                client,
                "/hosts",
                lambda answer: len({row["partition"] for row in answer.json()["rows"]}) == 2,
            )
            page = client.get("/hosts").json()
            assert not page["silent"]
            host = page["rows"][0]["host"]
            rows = client.get(f"/hosts/{host}/urls", params={"state": "fetched"}).json()["rows"]
            known = min(rows, key=lambda row: row["fetched_at"])["url"]
            changed = [{"url": each, "changed": True} for each in (known, f"http://{host}/never")]
            told = client.post("/frontier/urls", json={"urls": changed}).json()["results"]
            assert [each["verdict"] for each in told] == ["sooner", "not_known"]
            paused = client.post(f"/hosts/{host}/pause").json()
            assert paused == {"changed": 1, "hosts": [host]}
            assert client.get("/actions").json()["rows"][0]["by"] == "local"
            assert client.post("/crawl/pause").json() == {"state": "paused"}
            _awaited(client, "/stats", lambda answer: answer.json()["state"] == "paused")
            assert client.post("/crawl/resume").status_code == 200

            for program in (*node.children(), node.process.pid):
                os.kill(program, signal.SIGKILL)
            answer = client.get(f"/hosts/{host}")
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            new = {"urls": [{"url": f"http://{host}/new"}]}
            assert client.post("/frontier/urls", json=new).json()["unknown"] == 1
            cluster.node("n2")
            _awaited(client, f"/hosts/{host}", lambda answer: answer.is_success)
            assert client.post("/frontier/urls", json=new).json()["accepted"] == 1
        resumed = cluster.run("host", "resume", host, "--cluster", "cluster.toml")
        assert resumed.wait() == 0, str(resumed)


def test_a_notice_of_a_site_reaches_the_owner_of_its_host(kafka: Broker, tmp_path: Path) -> None:
    site = Site(others=200)
    settings = {**SETTINGS, "indexnow.accept": "true", "refetch.min_s": "1"}
    settings["indexnow.notices_per_hour"] = "100000"
    with served(site) as port, real_cluster(tmp_path, kafka, settings, shards=2) as cluster:
        serve = cluster.run("serve", "--cluster", "cluster.toml", "--api", "127.0.0.1:0")
        url = serve.await_line(r"page are at (http://\S+)/")[1]
        serve.await_line("coordinator [0-9]+ of the crawl")
        cluster.node("n1")
        host = f"site.example:{port}"
        with httpx.Client(base_url=f"{url}/api/v1", timeout=300) as client:
            seeds = {"urls": [f"http://{host}/"]}
            _awaited(client, "/stats", lambda answer: answer.is_success)
            client.post("/frontier/seed", json=seeds).raise_for_status()
            _awaited(client, "/stats", lambda answer: answer.json()["captures"] >= 2)
            urls = [f"http://{host}/page", f"http://{host}/unknown"]
            notice = {"host": host, "key": KEY, "urlList": urls}

            def is_fetched_again(answer: httpx.Response) -> bool:
                assert httpx.post(f"{url}/indexnow", json=notice).status_code == 202
                return site.asked["/page"] >= 2

            _awaited(client, "/stats", is_fetched_again)
    assert (site.asked[f"/{KEY}.txt"], site.asked["/unknown"]) == (1, 0)


def test_a_crawl_that_ended_is_read_from_storage_until_it_is_resumed(
    kafka: Broker, tmp_path: Path
) -> None:
    web = SyntheticWeb(WebPlan(hosts=12, pages=200, cross_links=0.5))
    with served(web) as port, real_cluster(tmp_path, kafka, SETTINGS, shards=2) as cluster:
        serve = cluster.run(
            *("serve", "--cluster", "cluster.toml", "--api", "127.0.0.1:0"),
            environment={"XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        url = serve.await_line(r"page are at (http://\S+)/")[1]
        serve.await_line("coordinator [0-9]+ of the crawl")
        cluster.node("n1")
        with httpx.Client(base_url=f"{url}/api/v1", timeout=300) as client:
            _awaited(client, "/stats", lambda answer: answer.is_success)
            seeds = {"urls": [seed_at(port)]}
            client.post("/frontier/seed", json=seeds).raise_for_status()
            _awaited(
                client,
                "/hosts",
                lambda answer: (
                    answer.is_success
                    and len({row["partition"] for row in answer.json()["rows"]}) == 2
                ),
            )
            _awaited(client, "/stats", lambda answer: answer.json()["captures"] >= 20)
            told, cursor = _changes(client, "")
            stop = {"why": "new disk"}
            assert client.post("/crawl/stop", json=stop).json() == {"state": "stopping"}
            _awaited(client, "/stats", lambda answer: answer.json()["state"] == "stopped")
            answer = client.get("/hosts")
            assert answer.status_code in (200, 503) and "no owner" not in answer.text
            _awaited(client, "/hosts", lambda answer: answer.is_success)
            rows = client.get("/hosts").json()["rows"]
            assert {row["partition"] for row in rows} == {0, 1}
            assert client.get(f"/urls/{seed_at(port)}").json()["record"]["state"] == "fetched"
            body = client.get(f"/crawl/{_id_of(client, seed_at(port))}/content")
            assert body.is_success and body.content
            later, cursor = _changes(client, cursor)
            told += later
            assert len(told) == len(set(told)) >= 20  # each once, by owners and from storage
            actions = client.get("/actions").json()["rows"]
            assert [(each["action"], each["why"]) for each in actions] == [
                ("stop_crawl", "new disk"),
                ("seed", ""),
            ]
            host = rows[0]["host"]
            assert "resume it" in client.post(f"/hosts/{host}/pause").json()["detail"]
            resuming = cluster.run(
                *("cluster", "resume", "cluster.toml", "--why", "it runs", "--by", "ada")
            )
            assert resuming.wait() == 0, str(resuming)
            _awaited(
                client,
                "/actions",
                lambda answer: (
                    answer.is_success
                    and answer.json()["rows"][0]["action"] == "resume_crawl"
                    and answer.json()["rows"][0]["by"] == "ada"
                ),
            )
            assert not list((tmp_path / "cache").rglob("open-*"))


def _changes(client: httpx.Client, cursor: str) -> tuple[list[str], str]:
    """The URLs that are new since a cursor, and the cursor behind them."""
    told: list[str] = []
    while True:
        found = client.get("/changes", params={"since": cursor, "limit": 7}).json()
        told += [row["url"] for row in found["rows"] if row["change"] == "new"]
        cursor = found["cursor"]
        if not found["has_more"]:
            return told, cursor


def _id_of(client: httpx.Client, url: str) -> str:
    found: str = client.get(f"/captures/{url}").json()["rows"][0]["id"]
    return found
