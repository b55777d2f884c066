"""The requests that the frontier's published contract has, as it writes them, against a crawl."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from api_crawl import ApiCrawl, served_folder
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_web import SyntheticWeb
from serving import served

SETTINGS = (
    "politeness.delay_s=0.05s",
    "politeness.address_delay_s=0",
    "politeness.adaptive_factor=0",
    "fetch.own_pages=false",
    "retry.first_s=1h",
)


@pytest.fixture(scope="module")
def lent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiCrawl, SyntheticWeb, int]]:
    """A crawl whose pages outside fetchers request."""
    folder = tmp_path_factory.mktemp("contract") / "crawl-2026-04-21"
    web = SyntheticWeb(WebPlan(hosts=8, pages=6))
    options = [each for value in SETTINGS for each in ("--set", value)]
    with served(web) as port:
        seeds = [web.seed_url(number, port) for number in range(4)]
        with served_folder(folder, seeds, *options) as crawl:
            yield crawl, web, port


def call(crawl: ApiCrawl, method: str, path: str, **given: Any) -> httpx.Response:
    return httpx.request(method, f"{crawl.url}/api/v1{path}", timeout=30, **given)


def test_urls_may_name_their_crawl_and_have_iso_times(lent: Any) -> None:
    crawl, web, port = lent
    body = {
        "crawl_id": "crawl-2026-04-21",
        "urls": [
            {
                "url": f"{web.seed_url(0, port)}new-page.html",
                "priority": 0.85,
                "source_url": "https://example.com/",
                "depth": 1,
                "discovered_at": "2026-04-21T10:30:00Z",
            }
        ],
    }
    first = call(crawl, "POST", "/frontier/urls", json=body)
    assert first.status_code == 200, first.text
    assert first.json()["accepted"] == 1
    again = call(crawl, "POST", "/frontier/urls", json=body)
    assert again.json()["duplicates"] == 1
    other = call(crawl, "POST", "/frontier/urls", json=body | {"crawl_id": "another"})
    assert other.status_code == 409 and "crawl-2026-04-21" in other.json()["detail"]


def test_known_seeds_are_duplicates(lent: Any) -> None:
    crawl, web, port = lent
    body = {"urls": [web.seed_url(0, port), web.seed_url(5, port)], "priority": 0.9}
    first = call(crawl, "POST", "/frontier/seed", json=body).json()
    assert (first["accepted"], first["duplicates"]) == (1, 1), first
    second = call(crawl, "POST", "/frontier/seed", json=body).json()
    assert (second["accepted"], second["duplicates"]) == (0, 2), second


def leases(crawl: ApiCrawl, most: int = 100) -> dict[str, Any]:
    """A batch with URLs in it."""
    asked = {"worker_id": "w1", "batch_size": most, "timeout_ms": 5000}
    for _ in range(20):
        batch = call(crawl, "GET", "/frontier/next", params=asked).json()
        if batch["urls"]:
            return dict(batch)
    raise AssertionError("nothing was leased")


def results(crawl: ApiCrawl, batch: str, *given: dict[str, Any]) -> list[dict[str, Any]]:
    answer = call(
        crawl, "POST", "/frontier/results", json={"lease_id": batch, "results": list(given)}
    )
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def test_a_batch_has_a_lease_and_each_url_what_a_fetcher_needs(lent: Any) -> None:
    crawl, *_ = lent
    batch = leases(crawl)
    end = datetime.fromisoformat(batch["lease_expires_at"])
    assert end.tzinfo == UTC and end > datetime.now(UTC)
    for row in batch["urls"]:
        assert 0 < row["priority"] <= 1 and row["host"] in row["url"]
        assert row["ip"] == row["address"] == "127.0.0.1"
        assert row["robots_rules"] == {"allowed": True, "crawl_delay": row["crawl_delay_s"]}
    first = batch["urls"][0]["url"]
    whole = {
        "url": first,
        "status": "success",
        "http_status": 200,
        "content_type": "text/html",
        "content_length": 45230,
        "content_hash": "a1b2c3d4",
        "simhash": "0x1234567890abcdef",
        "fetch_time_ms": 234,
        "links_found": 47,
        "is_duplicate": False,
    }
    busy = {"status": "error", "http_status": 503, "error": "Service Unavailable"}
    forms: list[dict[str, Any]] = [
        busy | {"retry_after": 300},
        {"status": "error", "error": "connect_timeout"},
        {
            "status": "success",
            "http_status": 200,
            "body": base64.b64encode(b"<p>by parts</p>").decode(),
        },
    ]
    others = [row["url"] for row in batch["urls"][1:]]
    given = [whole, *({"url": url} | form for url, form in zip(others, forms, strict=False))]
    taken = results(crawl, batch["lease_id"], *given)
    assert [each["verdict"] for each in taken] == ["taken"] * len(given), taken
    assert [each["url"] for each in taken] == [each["url"] for each in given]
    # a repetition is told so, and a URL or batch that was never leased is not taken
    assert results(crawl, batch["lease_id"], whole)[0]["reason"] == "it was taken before"
    unknown = results(crawl, batch["lease_id"], whole | {"url": f"{first}never"})[0]
    assert unknown["verdict"] == "unknown"
    assert results(crawl, "0" * 32, whole)[0]["verdict"] == "unknown"
    record = crawl.await_answer(
        f"/api/v1/urls/{first}", lambda answer: answer.json()["record"]["state"] == "fetched"
    ).json()
    assert record["record"]["status"] == 200
    assert "did not give the body, of 45230 bytes" in record["record"]["detail"]


def test_a_result_without_any_lease_is_refused(lent: Any) -> None:
    crawl, *_ = lent
    answer = call(crawl, "POST", "/frontier/results", json={"results": [{"status": 200}]})
    assert answer.status_code == 422 and "lease_id" in answer.json()["detail"]


def test_the_frontier_tells_depths_and_rate(lent: Any) -> None:
    crawl, *_ = lent
    stats = crawl.await_answer(
        "/api/v1/frontier/stats", lambda answer: bool(answer.json().get("domain_queue_depths"))
    ).json()
    assert stats["size"] == stats["queued"] and stats["crawl_rate"] >= 0
    assert all(depth > 0 for depth in stats["domain_queue_depths"].values())


def test_the_recrawl_policy_may_be_of_a_domain_or_a_pattern(lent: Any) -> None:
    crawl, *_ = lent

    def put(**body: str) -> list[tuple[str, str, str]]:
        answer = call(crawl, "PUT", "/frontier/recrawl-policy", json=body)
        assert answer.status_code == 200, answer.text
        return [(r["domain"], r["pattern"], r["interval"]) for r in answer.json()["rules"]]

    assert put(domain="news.example", interval="1h") == [("news.example", "", "1h")]
    two = put(pattern="https://news.example/live/*", interval="10m")
    assert two == [("news.example", "/live/*", "10m"), ("news.example", "", "1h")]
    assert put(domain="news.example", interval="2h") == [("news.example", "", "2h"), two[0]]
    assert put(pattern="/feed,*", interval="30m")[0] == ("*", "/feed,*", "30m")
    assert len(put(domain="news.example")) == 2  # without an interval the rule is removed
    shown = call(crawl, "GET", "/frontier/recrawl-policy").json()
    assert [rule["pattern"] for rule in shown["rules"]] == ["/feed,*", "/live/*"]
    for wrong in ({"domain": "a/b", "interval": "1h"}, {"interval": "1h"}, {}):
        assert call(crawl, "PUT", "/frontier/recrawl-policy", json=wrong).status_code == 422


def test_operations_have_short_ids_and_their_answers_types(lent: Any) -> None:
    crawl, *_ = lent
    document = call(crawl, "GET", "/openapi.json").json()
    operations = [
        operation
        for methods in document["paths"].values()
        for method, operation in methods.items()
        if method in ("get", "post", "put", "patch", "delete")
    ]
    ids = [each["operationId"] for each in operations]
    assert len(ids) == len(set(ids)) and not any("api_v1" in each for each in ids), ids
    untyped = []
    for each in operations:
        content = each["responses"].get("200", {}).get("content", {}).get("application/json")
        if content is not None:
            schema = content["schema"]
            if "$ref" not in schema and not schema.get("properties"):
                untyped.append(each["operationId"])
    assert untyped == []


def test_names_have_one_case_and_former_names_remain(lent: Any) -> None:
    crawl, web, port = lent
    url = web.seed_url(1, port)
    row = call(crawl, "GET", f"/urls/{url}").json()
    assert row["record"]["url_hash"] == row["url_hash"] == row["urlHash"]

    def names(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from value
            yield from itertools.chain.from_iterable(map(names, value.values()))
        elif isinstance(value, list):
            yield from itertools.chain.from_iterable(map(names, value))

    former = {"urlHash", "mediaType", "redirectTo", "recordId", "parseReason"}
    paths = ("/stats", "/frontier/stats", "/hosts", f"/captures/{url}", "/dlq", "/actions")
    for path in paths:
        found = set(names(call(crawl, "GET", path).json()))
        hosts = {each for each in found if "." in each}
        mixed = {each for each in found - hosts - former if each != each.lower()}
        assert mixed == set(), path
