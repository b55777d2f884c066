"""The operator's page of a real cluster in a real browser: what it says while parts of the cluster
are missing, and that no decision is lost with them.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from browser_pages import go_to, obstacles, opened_browser, save_picture
from clusters import SETTINGS, Program, RealCluster, await_death, real_cluster, seed_at
from kafka_broker import Broker
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

pytestmark = [pytest.mark.browser, pytest.mark.service, pytest.mark.long]

_PATIENCE_MS = 120_000
_WEB = SyntheticWeb(WebPlan(hosts=20, pages=300, cross_links=0.5))


class OperatedCluster:
    """A cluster with two nodes, and a browser at its page."""

    def __init__(self, cluster: RealCluster, page: Page) -> None:
        self.cluster, self.page = cluster, page
        self.serve, self.url = self._serve("127.0.0.1:0")
        self.nodes = [cluster.node("n1"), cluster.node("n2")]

    def _serve(self, address: str) -> tuple[Program, str]:
        serve = self.cluster.run("serve", "--cluster", "cluster.toml", "--api", address)
        url = serve.await_line(r"page are at (http://\S+)/")[1]
        serve.await_line("coordinator [0-9]+ of the crawl")
        return serve, url

    def restart_coordinator(self) -> None:
        """Kill it and its interface, and start another one at the same address."""
        self.serve.process.kill()
        self.serve.wait()
        self.serve, _ = self._serve(self.url.removeprefix("http://"))

    def kill_node(self, node: Program) -> None:
        workers = node.children()
        for program in (node.process.pid, *workers):
            os.kill(program, signal.SIGKILL)
        await_death(workers)

    def show(self, path: str) -> Page:
        go_to(self.page, self.url + path)
        return self.page

    def limits(self, *texts: str) -> None:
        """Wait until the overview, which is open, names these limits."""
        for text in texts:
            expect(self.page.locator(".limits")).to_contain_text(text, timeout=_PATIENCE_MS)

    def await_all_actions(self) -> None:
        """Wait until the owners of all shards tell theirs."""
        pause, deadline = threading.Event(), time.monotonic() + _PATIENCE_MS / 1000
        with self.client() as client:
            while not (found := client.get("/actions")).is_success or found.json()["silent"]:
                assert time.monotonic() < deadline, found.text
                pause.wait(0.3)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.url}/api/v1", timeout=300)


@pytest.fixture
def operated(kafka: Broker, tmp_path: Path) -> Iterator[OperatedCluster]:
    settings = {**SETTINGS, "politeness.delay_s": "0.5"}
    with (
        real_cluster(tmp_path, kafka, settings, shards=2) as cluster,
        opened_browser() as browser,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        yield OperatedCluster(cluster, context.new_page())


def test_the_page_says_what_is_missing_and_keeps_every_decision(operated: OperatedCluster) -> None:
    page = operated.show("/")
    operated.limits("It waits for seeds.")
    with served(_WEB) as port, operated.client() as client:
        page.get_by_label("URLs, one on each line").fill(
            f"{seed_at(port)}\n{_WEB.seed_url(1, port)}"
        )
        page.get_by_role("button", name="Give them to the crawl").click()
        expect(page.get_by_role("status").first).to_contain_text("The seeds are given")
        operated.limits("may be requested")
        expect(page.locator(".numbers dd").first).to_have_text(re.compile("^[1-9][0-9]"))
        host = client.get("/hosts").json()["rows"][0]["host"]
        assert client.post(f"/hosts/{host}/pause", json={"why": "its owner"}).status_code == 200
        assert client.patch("/settings", json={"values": {"politeness.delay_s": "0.7s"}}).is_success

        # A pause of another operator shows in the page that is open, with its button.
        assert client.post("/crawl/pause").is_success
        expect(page.locator("#crawl-state")).to_contain_text("paused")
        expect(page.get_by_role("button", name="Resume the crawl")).to_be_visible()
        said = operated.cluster.run("cluster", "status", "cluster.toml")
        said.await_line("paused by an operator")

        operated.restart_coordinator()
        operated.show("/")  # the page that was open still has its last numbers
        operated.limits("An operator has paused the crawl.")
        expect(page.locator(".numbers")).to_be_visible(timeout=_PATIENCE_MS)
        assert client.get("/settings").json()["values"]["politeness.delay_s"] == "0.7s"
        operated.show(f"/hosts/{host}")
        expect(page.get_by_role("main")).to_contain_text("its owner")
        resumed = operated.cluster.run("cluster", "resume", "cluster.toml")
        assert resumed.wait() == 0, str(resumed)
        operated.show("/")
        expect(page.locator("#crawl-state")).to_contain_text("running")
        # Paused for most of that time, the crawl was at no moment as fast as all captures at once.
        stats = client.get("/stats").json()
        assert stats["rates"]["peak"] < 50, stats["rates"]

        operated.kill_node(operated.nodes[1])
        operated.limits("Node n2 has not reported for", "move to other nodes")
        operated.show("/cluster")
        expect(page.get_by_role("row", name=re.compile("^n2"))).to_contain_text("silent")
        assert obstacles(page) == []
        save_picture(page, "operator-workers")
        expect(page.get_by_role("row", name=re.compile("^n2"))).to_contain_text(
            "lostnone", timeout=_PATIENCE_MS
        )
        expect(page.get_by_role("region", name="Workers")).to_contain_text(
            "waits for the end of the previous owner's last requests", timeout=_PATIENCE_MS
        )

        operated.show("/")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Stop the crawl").click()
        expect(page.locator("#crawl-state")).to_contain_text("stopped", timeout=_PATIENCE_MS)
        page.get_by_role("button", name="Resume the crawl").click()
        expect(page.locator("#crawl-state")).to_contain_text("running", timeout=_PATIENCE_MS)
        operated.await_all_actions()
        operated.show("/actions")
        actions = page.get_by_role("region", name="Actions")
        for action in ("pause crawl", "resume crawl", "stop crawl", "politeness.delay_s=0.7s"):
            expect(actions).to_contain_text(action)
