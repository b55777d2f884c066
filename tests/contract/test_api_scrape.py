"""One page at once over HTTP: fetched by a running crawl in its turn, or from what it has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from api_crawl import served_folder
from crawling import Pages, moved, page, robots
from lycosa.cli.main import main
from serving import served

FORBIDDEN = "http://10.0.0.1"  # an address that this crawl may not request


class Served:
    def __init__(self, client: httpx.Client, site: str, pages: Pages) -> None:
        self.client, self.site, self.pages = client, site, pages

    def scrape(self, path: str, **more: object) -> httpx.Response:
        return self.client.post("/scrape", json={"url": self.site + path, **more})


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("scrape") / "c"
    pages: dict[str, object] = {}
    web = Pages(pages)  # type: ignore[arg-type]
    with served(web) as port:
        site = f"http://a.test:{port}"
        web._pages.update(
            {
                f"{site}/robots.txt": robots("User-agent: *", "Disallow: /closed"),
                f"{site}/": page(text="Welcome to the site."),
                f"{site}/one": page(f"{site}/two", text="The first of the pages.", title="One"),
                f"{site}/old": moved(f"{site}/new"),
                f"{site}/new": page(text="It lives here now."),
                f"{site}/away": moved("http://elsewhere.test/x"),
                **{f"{site}/quick{number}": page(text="Quick.") for number in range(4)},
                **{f"{site}/n{number}": page(text=f"Page {number}.") for number in range(40)},
            }
        )
        settings = (
            "politeness.delay_s=100ms",
            "politeness.address_delay_s=0s",
            "scope.rule=host",
            "dns.pins=*.test=127.0.0.1",
        )
        arguments = [part for each in settings for part in ("--set", each)]
        arguments += ["--set", "parse.language=false", "--api-rate", "9999"]
        with (
            served_folder(folder, [f"{site}/", f"{FORBIDDEN}/"], *arguments) as served_crawl,
            httpx.Client(base_url=f"{served_crawl.url}/api/v1", timeout=90) as client,
        ):
            yield Served(client, site, web)


def test_a_page_is_fetched_once_and_then_given_from_what_is_stored(crawl: Served) -> None:
    answer = crawl.scrape("/one", has_links=True)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["state"], found["status"], found["title"]) == ("fetched", 200, "One")
    assert found["text"].startswith("The first of the pages.") and not found["is_cut"]
    assert found["links"] and found["redirects"] == []
    again = crawl.scrape("/one").json()
    assert again["record_id"] == found["record_id"] and "links" not in again
    assert crawl.pages.asked.count(f"{crawl.site}/one") == 1
    by_id = crawl.client.get(f"/scrape/{found['id']}")
    assert by_id.json()["text"] == found["text"]


def test_a_page_that_is_fetched_within_the_second_of_the_question_is_new(crawl: Served) -> None:
    """Times of fetches are whole seconds, so most quick fetches seem to be before the question."""
    begun = time.monotonic()
    answers = [crawl.scrape(f"/quick{number}", max_age_s=0, wait_s=20) for number in range(4)]
    assert [each.status_code for each in answers] == [200] * 4
    assert time.monotonic() - begun < 20


def test_a_redirect_is_followed_and_named(crawl: Served) -> None:
    found = crawl.scrape("/old").json()
    assert found["asked"] == f"{crawl.site}/old" and found["url"] == f"{crawl.site}/new"
    assert found["redirects"] == [f"{crawl.site}/old"]
    assert found["text"].startswith("It lives here now.")


def test_a_redirect_that_leaves_the_scope_is_an_answer(crawl: Served) -> None:
    found = crawl.scrape("/away").json()
    assert (found["state"], found["reason"]) == ("refused", "out_of_scope")
    assert found["url"] == "http://elsewhere.test/x" and found["redirects"]


def test_a_page_is_fetched_again_before_its_policy_lets_it_be_due(crawl: Served) -> None:
    asked, first = f"{crawl.site}/one", crawl.scrape("/one", max_age_s=0).json()["date"]
    requests, until = crawl.pages.asked.count(asked), time.monotonic() + 30
    while (again := crawl.scrape("/one", max_age_s=0)).json()["date"] <= first:
        assert time.monotonic() < until  # a fetch within the second of the question is new
    assert again.status_code == 200 and crawl.pages.asked.count(asked) == requests + 1


def test_a_page_of_a_host_that_was_retired_has_the_reason_of_the_host(crawl: Served) -> None:
    answer = crawl.client.post("/scrape", json={"url": f"{FORBIDDEN}/x", "wait_s": 30})
    found = answer.json()
    assert (answer.status_code, found["state"]) == (200, "retired"), found
    assert found["reason"] == "address_forbidden" and found["meaning"] and found["detail"]


def test_what_robots_txt_forbids_is_refused_with_the_reason_and_never_requested(
    crawl: Served,
) -> None:
    found = crawl.scrape("/closed").json()
    assert (found["state"], found["reason"]) == ("refused", "robots_disallowed")
    assert f"{crawl.site}/closed" not in crawl.pages.asked


def test_a_missing_page_is_an_answer_not_an_error(crawl: Served) -> None:
    found = crawl.scrape("/nothing").json()
    assert (found["state"], found["reason"]) == ("failed", "http_client_error")


def test_a_url_out_of_scope_is_refused_before_anything_is_requested(crawl: Served) -> None:
    answer = crawl.client.post("/scrape", json={"url": "http://elsewhere.test/"})
    assert answer.status_code == 409 and "scope" in answer.json()["detail"]
    assert crawl.client.post("/scrape", json={"url": "no url"}).status_code == 422


def test_without_patience_the_answer_is_an_id_with_which_to_ask_again(crawl: Served) -> None:
    assert crawl.client.post("/crawl/pause", json={}).status_code == 200
    answer = crawl.scrape("/n0", wait_s=0.5)
    assert crawl.client.post("/crawl/resume", json={}).status_code == 200
    assert answer.status_code == 202 and answer.headers["retry-after"]
    name = answer.json()["id"]
    until = time.monotonic() + 30
    while (later := crawl.client.get(f"/scrape/{name}")).status_code == 202:
        assert time.monotonic() < until
    assert later.json()["text"].startswith("Page 0.")


def test_twenty_requests_of_a_client_wait_at_most(crawl: Served) -> None:
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda number: crawl.scrape(f"/n{number}"), range(1, 31)))
    codes = sorted(each.status_code for each in answers)
    assert set(codes) <= {200, 503} and codes.count(200) >= 20
    late = next((each for each in answers if each.status_code == 503), None)
    assert late is None or "too many pages that it waits for" in late.json()["detail"]
    asked = [each for each in crawl.pages.asked if "/n" in each]
    assert len(asked) == len(set(asked))


def test_an_address_that_is_no_id_is_not_found(crawl: Served) -> None:
    assert crawl.client.get(f"/scrape/{'0' * 32}").status_code == 404


def test_a_page_that_waits_is_given_by_its_id_after_a_kill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands are given as soon as an address is printed, after the kill beside an old status
    file."""
    folder, pages = tmp_path / "c", {}
    web = Pages(pages)
    with served(web) as port:
        site = f"http://a.test:{port}"
        web._pages.update({f"{site}/": page(), f"{site}/x": page(text="It waited.")})
        quick = ("--set", "politeness.delay_s=0.1s", "--set", "parse.language=false")
        with served_folder(folder, [f"{site}/"], *quick, is_ready=False) as first:
            assert main(["host", "pause", str(folder), f"a.test:{port}", "--new"]) == 0
            first.await_ready()
            with httpx.Client(base_url=f"{first.url}/api/v1", timeout=90) as client:
                asked = {"url": f"{site}/x", "wait_s": 0.2}
                waits = client.post("/scrape", json=asked)
            assert waits.status_code == 202, waits.text
        with served_folder(folder, [], *quick, is_ready=False) as second:
            assert main(["host", "resume", str(folder), f"a.test:{port}"]) == 0
            path = f"/api/v1/scrape/{waits.json()['id']}"
            found = second.await_answer(path, lambda answer: answer.status_code == 200)
            assert found.json()["text"].startswith("It waited.")
    assert web.asked.count(f"{site}/x") == 1
    assert "cannot be called" not in capsys.readouterr().err
