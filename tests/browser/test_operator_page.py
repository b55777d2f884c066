"""The operator's page in a real browser, over a real crawl of a server that notes its requests."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from api_crawl import ApiCrawl, served_folder
from browser_pages import go_to, obstacles, opened_browser, save_picture
from watched_site import HOST, WatchedSite, watched_site

pytestmark = pytest.mark.browser

_SETTINGS = (
    "politeness.delay_s=0.3s",
    "politeness.jitter=0",
    "politeness.adaptive_factor=0",
    "politeness.address_delay_s=0",
    "retry.tries=1",
)
PATHS = ["/", "/hosts", "/urls", "/dead-letters", "/policies", "/settings", "/actions", "/cluster"]


class Watched:
    """A crawl, the server that it crawls, and a browser at its page."""

    def __init__(self, crawl: ApiCrawl, site: WatchedSite, port: int, page: Page) -> None:
        self.crawl, self.site, self.page = crawl, site, page
        self.host = f"{HOST}:{port}"
        self.outside: list[str] = []
        self.troubles: list[str] = []

    def show(self, path: str) -> Page:
        go_to(self.page, self.crawl.url + path)
        return self.page

    def address(self, path: str) -> str:
        """A URL of the crawled site."""
        return f"http://{self.host}{path}"

    def watch(self, context: BrowserContext) -> None:
        """Note requests to elsewhere, and what the browser complains about."""
        context.on(
            "request",
            lambda request: (
                None if request.url.startswith(self.crawl.url) else self.outside.append(request.url)
            ),
        )
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on(
            "console",
            lambda message: (
                self.troubles.append(message.text) if "Content Security" in message.text else None
            ),
        )
        self.page.on("dialog", self._answer)

    def _answer(self, dialog) -> None:  # type: ignore[no-untyped-def]
        if dialog.message in ("1", "2"):
            self.troubles.append(f"a stored script was run: {dialog.message}")
        dialog.accept()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched") / "crawl"
    settings = [each for value in _SETTINGS for each in ("--set", value)]
    with opened_browser() as browser, watched_site() as (site, port):
        seeds = [f"http://{HOST}:{port}/", f"http://other.example:{port}/"]
        with (
            served_folder(folder, seeds, *settings) as crawl,
            browser.new_context(viewport={"width": 1280, "height": 800}) as context,
        ):
            page = context.new_page()
            page.set_default_timeout(20_000)
            found = Watched(crawl, site, port, page)
            found.watch(context)
            yield found
    assert found.outside == []
    assert found.troubles == []


def test_a_host_is_found_by_a_part_of_its_name(watched: Watched) -> None:
    watched.site.await_request("/missing")
    watched.crawl.await_answer("/api/v1/hosts", lambda answer: watched.host in answer.text)
    page = watched.show("/hosts")
    expect(page.get_by_role("link", name=watched.host)).to_be_visible()
    page.get_by_label("Part of the name").fill("nothing-like-it")
    expect(page.get_by_text("No host.")).to_be_visible()
    page.get_by_label("Part of the name").fill("op.exam")
    expect(page.get_by_role("link", name=watched.host)).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.get_by_role("link", name=watched.host).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(watched.host)
    expect(page.get_by_text("robots.txt").first).to_be_visible()
    save_picture(page, "operator-host")


def test_the_page_says_why_a_url_waits_and_what_robots_txt_says(watched: Watched) -> None:
    queued = f"/hosts/{watched.host}/urls?state=queued"
    watched.crawl.await_answer(f"/api/v1{queued}", lambda answer: len(answer.json()["rows"]) > 5)
    page = watched.show(f"/hosts/{watched.host}?state=queued")
    page.locator("#urls-title ~ .scroll a").last.click()
    expect(page.locator(".answer")).to_contain_text("It waits")
    expect(page.locator(".answer")).to_contain_text("URLs of its host are before it")
    save_picture(page, "operator-url")
    watched.crawl.await_answer(
        f"/api/v1/urls/{watched.address('/private/x')}".replace("//p", "%2F%2Fp"),
        lambda answer: "disallow" in answer.text,
    )
    page.get_by_label("URL, or the id").fill(watched.address("/private/x"))
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".answer")).to_contain_text("robots.txt disallows it")
    page.get_by_label("URL, or the id").fill(watched.address("/never-linked"))
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".answer")).to_contain_text("if it were found, it would be crawled")


def test_a_pause_and_a_resumption_reach_the_server(watched: Watched) -> None:
    watched.site.await_request(since=time.monotonic())
    page = watched.show("/")
    page.get_by_label("Remark for the log").fill("new disk")
    page.get_by_role("button", name="Pause the crawl").click()
    expect(page.get_by_role("status").first).to_contain_text("paused")
    watched.site.await_silence(1.5)
    expect(page.locator(".limits")).to_contain_text("An operator has paused the crawl")
    said = json.loads((watched.crawl.folder / "crawl" / "status.json").read_text())
    assert (said["state"], said["waiting_for"].partition(":")[0]) == ("paused", "an operator")
    resumed = time.monotonic()
    page.get_by_role("button", name="Resume the crawl").click()
    watched.site.await_request(since=resumed)
    expect(page.locator("canvas").first).to_be_visible()
    expect(page.locator(".chart").first).to_have_attribute("aria-label", re.compile("now [0-9]"))
    expect(page.locator(".limits")).not_to_contain_text("paused")
    save_picture(page, "operator-overview", is_whole=True)
    page = watched.show("/actions")
    expect(page.get_by_role("region", name="Actions")).to_contain_text("new disk")


def test_a_host_is_paused_and_resumed(watched: Watched) -> None:
    page = watched.show(f"/hosts/{watched.host}")
    page.get_by_label("Remark for the log").fill("its owner asked")
    page.get_by_role("button", name="Pause this host").click()
    expect(page.get_by_role("status")).to_contain_text("committed")
    expect(page.get_by_role("main")).to_contain_text("its owner asked")
    watched.site.await_silence(1.5)
    resumed = time.monotonic()
    page.get_by_role("button", name="Resume this host").click()
    watched.site.await_request(since=resumed)
    watched.show("/actions")
    expect(page.get_by_role("region", name="Actions")).to_contain_text("its owner asked")


def test_a_host_gets_a_pause_of_its_own(watched: Watched) -> None:
    page = watched.show(f"/hosts/{watched.host}")
    page.get_by_label("Minimum pause between").fill("2s")
    page.get_by_role("button", name="Change the pause").click()
    expect(page.get_by_role("cell", name="operator")).to_be_visible()
    page.get_by_label("Minimum pause between").fill("")
    page.get_by_role("button", name="Change the pause").click()
    expect(page.get_by_role("cell", name="floor")).to_be_visible()


def test_a_changed_delay_shows_in_the_servers_log(watched: Watched) -> None:
    page = watched.show("/settings")
    page.get_by_label("politeness.delay_s").fill("none of that")
    page.get_by_role("button", name="Change what differs").click()
    expect(page.get_by_role("alert")).to_contain_text("politeness.delay_s")
    page = watched.show("/settings")
    page.get_by_label("politeness.delay_s").fill("1.5s")
    page.get_by_role("button", name="Change what differs").click()
    expect(page.get_by_role("status")).to_contain_text("changed")
    # The request under way when the change arrives may still be followed by the old delay.
    first = watched.site.await_request(since=time.monotonic() + 0.5)
    second = watched.site.await_request(since=first + 0.01)
    third = watched.site.await_request(since=second + 0.01)
    assert third - second >= 1.5
    expect(page.get_by_label("politeness.delay_s")).to_have_value("1.5s")
    page.get_by_label("politeness.delay_s").fill("0.02s")
    page.get_by_role("button", name="Change what differs").click()


def test_a_dead_letter_is_retried(watched: Watched) -> None:
    watched.crawl.await_answer("/api/v1/dlq", lambda answer: "/missing" in answer.text)
    page = watched.show("/dead-letters")
    save_picture(page, "operator-dead-letters")
    page.get_by_label(f"Choose {watched.address('/missing')}").check()
    watched.site.is_repaired, began = True, time.monotonic()
    page.get_by_role("button", name="Retry the chosen ones").click()
    expect(page.get_by_role("status")).to_contain_text("committed")
    watched.site.await_request("/missing", since=began, patience_s=150)
    watched.crawl.await_answer(
        f"/api/v1/urls/{watched.address('/missing')}".replace("//s", "%2F%2Fs"),
        lambda answer: answer.json().get("verdict") == "fetched",
    )
    watched.show("/dead-letters")
    expect(page.get_by_role("link", name=watched.address("/missing"))).to_have_count(0)


def test_a_stored_script_is_never_executed(watched: Watched) -> None:
    url = watched.address("/hostile")
    watched.crawl.await_answer(
        f"/api/v1/urls/{url}".replace("//s", "%2F%2Fs"),
        lambda answer: answer.json().get("verdict") == "fetched",
    )
    for path in (f"/content?url={url}", f"/captures?url={url}", f"/urls?url={url}"):
        page = watched.show(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("() => window.wasRun === undefined")
        assert "taken over" not in page.title()
    page = watched.show(f"/content?url={url}")
    expect(page.get_by_text("<script>window.wasRun = true</script> as text")).to_be_visible()
    expect(page.get_by_role("cell", name="<img src=x")).to_be_visible()
    save_picture(page, "operator-capture")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the stored body").click()
    assert "<script>" in Path(waiting.value.path()).read_text()
    link = str(page.get_by_role("link", name="Download").get_attribute("href"))
    answer = httpx.get(watched.crawl.url + link)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_form_of_another_site_changes_nothing(watched: Watched) -> None:
    answer = httpx.post(
        f"{watched.crawl.url}/do/crawl",
        data={"action": "pause"},
        headers={"origin": "http://elsewhere.example", "sec-fetch-site": "cross-site"},
    )
    assert answer.status_code == 403


def test_the_policy_of_every_page_forbids_scripts_inside_it(watched: Watched) -> None:
    for path in [*PATHS, "/hosts/unknown.example", "/content?url=http://x.example/"]:
        answer = httpx.get(watched.crawl.url + path, headers={"accept": "text/html"})
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy, path
        assert not re.search(r"<script(?![^>]* src=)|<[^>]+ (on[a-z]+|style)=", answer.text), path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_obstacle(watched: Watched, scheme: str) -> None:
    watched.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    url = watched.address("/hostile")
    for path in [*PATHS, f"/hosts/{watched.host}", f"/urls?url={url}", f"/content?url={url}"]:
        page = watched.show(path)
        assert obstacles(page) == [], path
        if scheme == "dark" and path == "/hosts":
            save_picture(page, "operator-hosts-dark")


def test_the_keyboard_reaches_the_content_and_the_search(watched: Watched) -> None:
    page = watched.show("/hosts")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Part of the name")).to_be_focused()
    page.keyboard.type("shop.example")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=watched.host)).to_be_visible()


def test_focus_and_selection_survive_the_updates_of_the_overview(watched: Watched) -> None:
    page = watched.show("/")
    link = page.locator("#numbers dd a").first
    link.focus()
    page.evaluate("""() => {
        const range = document.createRange();
        range.selectNodeContents(document.querySelector('#limits-title'));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
    }""")
    for _ in range(3):
        with page.expect_response(lambda answer: "/overview/numbers" in answer.url):
            pass
    expect(link).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "What limits the crawl"


@pytest.mark.parametrize("path", ["/", "/hosts", "/cluster", "/actions"])
def test_no_id_stands_twice_and_every_field_has_a_name(watched: Watched, path: str) -> None:
    page = watched.show(path)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids)), sorted({each for each in ids if ids.count(each) > 1})
    nameless = page.evaluate(
        "[...document.querySelectorAll('select, input:not([type=hidden]), textarea')]"
        ".filter((each) => !each.labels.length && !each.ariaLabel).map((each) => each.outerHTML)"
    )
    assert nameless == []


def test_on_a_phone_a_name_is_read_in_one_line_and_the_page_does_not_scroll_sideways(
    watched: Watched,
) -> None:
    page = watched.show("/hosts")
    page.set_viewport_size({"width": 390, "height": 844})
    try:
        name = page.get_by_role("link", name=watched.host)
        expect(name).to_be_visible()
        box = name.bounding_box()
        assert box is not None and box["height"] < 40, box
        for path in PATHS:
            watched.show(path)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, (path, wide)
            save_picture(page, f"phone{path.replace('/', '-')}")
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})
