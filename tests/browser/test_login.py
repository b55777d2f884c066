"""The operator's page with tokens: who logs in sees what the token allows, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from api_crawl import served_folder
from browser_pages import go_to, opened_browser

pytestmark = pytest.mark.browser

TOKENS = "looker read 0123456789abcdef-reads\nowner operate 0123456789abcdef-operates"


def test_a_token_opens_the_page_and_only_an_operating_one_its_forms(tmp_path: Path) -> None:
    environment = {"LYCOSA_API_TOKENS": TOKENS}
    with (
        opened_browser() as browser,
        served_folder(
            tmp_path / "crawl", ["http://127.0.0.1:9/"], environment=environment
        ) as crawl,
        browser.new_context() as context,
    ):
        page = context.new_page()
        page.goto(crawl.url + "/hosts")
        expect(page.get_by_label("Token")).to_be_visible()
        page.get_by_label("Token").fill("a wrong token, long enough")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("There is no such token.")).to_be_visible()
        page.get_by_label("Token").fill("0123456789abcdef-reads")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        expect(page.get_by_role("button", name="Pause the crawl")).to_have_count(0)
        answer = page.request.post(
            f"{crawl.url}/do/crawl", form={"action": "pause"}, headers={"origin": crawl.url}
        )
        assert answer.status == 403
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").fill("0123456789abcdef-operates")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="Pause the crawl")).to_be_visible()
        go_to(page, crawl.url + "/actions")
        expect(page.get_by_role("heading", level=1)).to_have_text("Actions of operators")
