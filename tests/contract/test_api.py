"""The HTTP interface over a real crawl: what it answers, and what it refuses and how."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest
import trustme

from api_crawl import PATIENCE_S, ApiCrawl, served_folder
from lycosa.base.logs.log_writer import EventLog
from lycosa.base.reasons import Reason
from lycosa.service.api.api_job import ApiJob, ApiLimits, ApiSettings
from lycosa.service.api.api_process import serve_api
from lycosa.service.api.examples import ACTION_EXAMPLE, CAPTURE_EXAMPLE, HOST_EXAMPLE, STATS_EXAMPLE
from lycosa.service.api.places import FolderCrawl
from lycosa.service.api.process_log import ProcessLog
from lycosa.service.api.tokens import Tokens, read_tokens
from lycosa.state.folder.folder_notes import saved_pause, settings_of
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

READ, OPERATE = "r" * 32, "o" * 32
HOSTS = 12


class Crawled:
    """A crawl that runs, its interface, and the web that it crawls."""

    def __init__(self, crawl: ApiCrawl, web: SyntheticWeb, port: int, folder: Path) -> None:
        self.crawl, self.web, self.port, self.folder = crawl, web, port, folder
        self.client = httpx.Client(base_url=f"{crawl.url}/api/v1", timeout=30)

    def host(self, number: int) -> str:
        return self.web.seed_url(number, self.port).split("/")[2]

    def job(self, tokens: str = "", **limits: float) -> ApiJob:
        """The job of a second interface to the same crawl."""
        status = json.loads((self.folder / "status.json").read_text())
        settings = ApiSettings("127.0.0.1:0", tokens, limits=ApiLimits(**limits))  # type: ignore[arg-type]
        return ApiJob(settings, -1, str(self.folder), status["sockets"])


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    folder = tmp_path_factory.mktemp("api") / "c"
    web = SyntheticWeb(WebPlan(hosts=HOSTS, pages=300, cross_links=0.5))
    with (
        served(web) as port,
        served_folder(
            folder,
            [web.seed_url(0, port)],
            "--set",
            "politeness.delay_s=100ms",
            "--set",
            "indexnow.accept=true",
            "--api-rate",
            "9999",
        ) as crawl,
    ):
        crawl.await_answer("/api/v1/stats", lambda answer: answer.json()["captures"] >= 5)
        crawled = Crawled(crawl, web, port, folder)
        with crawled.client:
            yield crawled


@asynccontextmanager
async def second_interface(
    job: ApiJob, tokens: Tokens, certificate: str = "", key: str = ""
) -> AsyncIterator[str]:
    """An interface in this process, with its own limits, to the crawl of a job."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        number = os.dup(listener.fileno())
    place = FolderCrawl(Path(job.folder), Path(job.sockets))
    settings = ApiSettings(
        f"127.0.0.1:{port}", job.settings.token_file, certificate, key, limits=job.settings.limits
    )
    serving = asyncio.create_task(
        serve_api(
            ApiJob(settings, number),
            place,
            tokens,
            lambda app: None,
            ProcessLog(EventLog(None, "api")),
        )
    )
    url = f"http{'s' if certificate else ''}://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(verify=False) as client, asyncio.timeout(PATIENCE_S):
            while (await client.get(f"{url}/health/ready")).status_code != 200:
                pass
        yield url
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def _problem(answer: httpx.Response, status: int, name: str) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (answer.status_code, body["status"]) == (status, status), body
    assert body["type"] == f"urn:lycosa:problem:{name}"
    assert body["title"] and body["detail"]
    return body["detail"]


# -- what it answers


def test_urls_are_accepted_once_and_rejected_with_a_reason(crawled: Crawled) -> None:
    new = f"http://{crawled.host(1)}/never-linked-{time.monotonic_ns()}"
    wrong = ("nonsense", "ftp://x.example/", "", f"{new}/{'x' * 10_000}")
    urls = [{"url": new, "priority": 0.9}, *({"url": each} for each in wrong)]
    first = crawled.client.post("/frontier/urls", json={"urls": urls}).json()
    assert [each["verdict"] for each in first["results"]] == ["accepted", *["rejected"] * 4]
    assert all(each["reason"] for each in first["results"][1:])
    again = crawled.client.post("/frontier/urls", json={"urls": urls}).json()
    assert (again["accepted"], again["duplicates"], again["rejected"]) == (0, 1, 4)
    assert crawled.client.get(f"/urls/{new}").json()["url"] == new


def test_a_change_of_a_known_url_is_announced_with_a_verdict(crawled: Crawled) -> None:
    fetched = crawled.client.get(f"/hosts/{crawled.host(0)}/urls", params={"state": "fetched"})
    known = min(fetched.json()["rows"], key=lambda row: row["fetched_at"])
    unknown = f"http://{crawled.host(0)}/unknown-{time.monotonic_ns()}"
    urls = [{"url": url, "changed": True} for url in (known["url"], unknown)]
    answer = crawled.client.post("/frontier/urls", json={"urls": urls}).json()
    assert [each["verdict"] for each in answer["results"]] == ["sooner", "not_known"]
    assert (answer["sooner"], answer["accepted"], answer["unknown"]) == (1, 0, 0)
    row = crawled.client.get(f"/urls/{known['url']}").json()["record"]
    # The minimum of its policy: a day after its last fetch.
    assert 0 < row["due_at"] - known["fetched_at"] - 86_400 < 5
    again = {"urls": urls, "add_unknown": True}
    verdicts = crawled.client.post("/frontier/urls", json=again).json()["results"]
    assert [each["verdict"] for each in verdicts] == ["kept", "accepted"]


def test_a_notice_of_a_site_is_answered_alike_whatever_the_crawl_knows(crawled: Crawled) -> None:
    key = "0123456789abcdef"
    answers = []
    for host in (crawled.host(0), "never-heard-of.example"):
        notice = {"host": host, "key": key, "urlList": [f"http://{host}/", f"http://{host}/x"]}
        answers.append(httpx.post(f"{crawled.crawl.url}/indexnow", json=notice))
        given = {"url": f"http://{host}/", "key": key}
        answers.append(httpx.get(f"{crawled.crawl.url}/indexnow", params=given))
    assert {(each.status_code, each.content) for each in answers} == {(202, b"")}
    wrong = httpx.get(f"{crawled.crawl.url}/indexnow", params={"url": "http://a.example/"})
    _problem(wrong, 400, "bad-request")
    assert (
        crawled.client.get("/urls/http://never-heard-of.example/").json()["verdict"] == "never_seen"
    )


def test_sitemaps_and_feeds_are_listed(crawled: Crawled) -> None:
    found = crawled.client.get("/sitemaps", params={"most": 1}).json()
    assert {"rows", "cursor", "silent"} <= found.keys() and not found["silent"]
    of_host = crawled.client.get("/sitemaps", params={"host": crawled.host(0)}).json()
    assert all(row["host"] == crawled.host(0) for row in of_host["rows"])


def test_a_seed_is_taken_again_without_effect(crawled: Crawled) -> None:
    seed = {"urls": [crawled.web.seed_url(2, crawled.port)], "priority": 0.5}
    for _ in range(2):
        answer = crawled.client.post("/frontier/seed", json=seed).json()
        assert answer["accepted"] + answer["duplicates"] == 1
    assert [each["verdict"] for each in answer["results"]] == ["duplicate"]
    action = crawled.client.get("/actions", params={"most": 1}).json()["rows"][0]
    assert (action["action"], action["by"], action["subject"]) == ("seed", "local", seed["urls"][0])


def test_a_list_is_read_to_its_end_by_its_cursors(crawled: Crawled) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = crawled.client.get("/hosts", params={"most": 3, "cursor": cursor}).json()
        seen += [row["host"] for row in page["rows"]]
        assert len(page["rows"]) <= 3
        cursor = page["cursor"]
        if not cursor:
            break
    assert len(seen) == len(set(seen))
    assert set(seen) <= {crawled.host(number) for number in range(HOSTS)}
    assert crawled.host(0) in seen


def test_a_cursor_of_another_list_is_refused(crawled: Crawled) -> None:
    """It would continue somewhere, or say that the list is complete."""
    get = crawled.client.get
    cursor = get("/hosts", params={"most": 1}).json()["cursor"]
    assert cursor
    for path, values in (
        ("/hosts", {"cursor": "zz"}),
        ("/hosts", {"cursor": cursor[:-1]}),
        ("/hosts", {"cursor": cursor, "sort": "queue"}),
        (f"/hosts/{crawled.host(0)}/urls", {"cursor": cursor}),
        ("/dlq", {"cursor": cursor}),
        ("/actions", {"cursor": "0"}),
    ):
        assert "cursor" in _problem(get(path, params=values), 422, "invalid"), path
    for path in ("/hosts", f"/hosts/{crawled.host(0)}/urls"):
        _problem(get(path, params={"state": "asleep"}), 422, "invalid")
    _problem(get("/dlq", params={"reason": "http_404"}), 422, "invalid")


def test_failures_refusals_and_remarks_are_counted_apart(crawled: Crawled) -> None:
    counts = crawled.client.get("/stats").json()
    assert counts["captures"] and "none" not in counts["failures"]
    for name, is_meant in (
        ("failures", lambda reason: reason.is_failure),
        ("refusals", lambda reason: reason.is_refusal),
        ("remarks", lambda reason: reason.is_remark),
    ):
        assert all(is_meant(Reason[label.upper()]) for label in counts[name]), name


def test_the_examples_of_the_openapi_have_the_fields_of_real_answers(crawled: Crawled) -> None:
    get = crawled.client.get
    url = crawled.web.seed_url(0, crawled.port)
    crawled.client.post(f"/hosts/{crawled.host(0)}/resume")
    missing = {"unreported_shards", "others"}  # of a cluster
    for path, example in (
        (f"/captures/{url}", CAPTURE_EXAMPLE),
        ("/hosts", HOST_EXAMPLE),
        ("/actions", ACTION_EXAMPLE),
    ):
        row = get(path).json()["rows"][0]
        assert row.keys() - missing == example.keys(), path
    counts = get("/stats").json()
    assert counts.keys() - missing == STATS_EXAMPLE.keys()
    assert STATS_EXAMPLE["hosts"].keys() <= counts["hosts"].keys()
    documented = get("/openapi.json").json()["paths"]["/api/v1/stats"]["get"]["responses"]["200"]
    assert documented["content"]["application/json"]["example"] == STATS_EXAMPLE


def test_a_host_is_paused_and_resumed_and_the_log_of_actions_says_so(crawled: Crawled) -> None:
    host = crawled.host(0)
    paused = crawled.client.post(f"/hosts/{host}/pause", json={"why": "their mail of today"})
    assert paused.json() == {"changed": 1, "hosts": [host]}
    assert crawled.client.get(f"/hosts/{host}").json()["pause"]
    resumed = crawled.client.post(f"/hosts/{host}/resume").json()
    assert resumed == {"changed": 1, "hosts": [host]}
    actions = crawled.client.get("/actions", params={"most": 2}).json()["rows"]
    assert [each["by"] for each in actions] == ["local", "local"]
    assert actions[1]["why"] == "their mail of today"


def test_a_host_has_a_pause_of_its_own(crawled: Crawled) -> None:
    host = crawled.host(0)
    answer = crawled.client.post(f"/hosts/{host}/delay", json={"delay": "7s", "why": "mail"})
    assert answer.json() == {"changed": 1, "hosts": [host]}
    row = crawled.client.get(f"/hosts/{host}").json()
    assert row["operator_delay_s"] == 7.0
    assert {"source": "operator", "seconds": 7.0} in row["delay"]["sources"]
    for wrong in ("2d", "soon"):
        refused = crawled.client.post(f"/hosts/{host}/delay", json={"delay": wrong})
        _problem(refused, 422, "invalid")
    assert crawled.client.post(f"/hosts/{host}/delay", json={"delay": "default"}).json()["changed"]
    assert crawled.client.get(f"/hosts/{host}").json()["operator_delay_s"] is None


def test_a_host_that_the_crawl_never_met_is_not_found_and_similar_names_are_told(
    crawled: Crawled,
) -> None:
    host = crawled.host(0)
    for wrong in (host.partition(":")[0], host.replace("site", "stie")):
        for action in ("pause", "resume", "retire"):
            refused = _problem(crawled.client.post(f"/hosts/{wrong}/{action}"), 404, "not-found")
            assert "did you mean" in refused and host in refused
        letters = crawled.client.post("/dlq", json={"action": "drop", "host": wrong})
        assert host in _problem(letters, 404, "not-found")
    new = crawled.client.post("/hosts/new.example/pause", json={"new": True, "why": "ahead"})
    assert new.json() == {"changed": 1, "hosts": ["new.example"]}
    whole = crawled.client.post(f"/hosts/{host}/pause", json={"whole_site": True}).json()
    assert whole["changed"] == len(whole["hosts"]) and host in whole["hosts"]
    back = crawled.client.post(f"/hosts/{host}/resume", json={"whole_site": True}).json()
    assert back == whole


def test_a_decision_about_dead_letters_says_whether_it_is_complete(crawled: Crawled) -> None:
    asked = {"action": "retry", "reason": "internal"}
    first = crawled.client.post("/dlq", json=asked).json()
    assert (first["changed"], first["is_complete"]) == (0, True)
    assert crawled.client.post("/dlq", json=asked | {"call": first["call"]}).json() == first
    other = crawled.client.post("/dlq", json=asked | {"call": "another"})
    assert "call" in _problem(other, 422, "invalid")
    rows = crawled.client.get("/actions").json()["rows"]
    about = [each for each in rows if each["call"] == first["call"]]
    assert [each["partitions"] for each in about] == [16], "one row, whoever logged a part"


def test_content_is_a_download_or_plain_text_and_never_shown(crawled: Crawled) -> None:
    url = crawled.web.seed_url(0, crawled.port)
    row = crawled.client.get(f"/captures/{url}").json()["rows"][0]
    for form, kind in (("raw", "application/octet-stream"), ("text", "text/plain")):
        answer = crawled.client.get(f"/crawl/{row['id']}/content", params={"as": form})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["link"] == f'<{url}>; rel="original"'
        assert parsedate_to_datetime(answer.headers["memento-datetime"]).timestamp() == row["date"]
        assert answer.headers["x-lycosa-status"] == "200"
        assert answer.headers["x-lycosa-digest"] == row["digest"] != ""
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith("inline" if form == "text" else "attachment")
        assert answer.content
    _problem(crawled.client.get(f"/crawl/{'0' * 32}/content"), 404, "not-found")


def test_a_live_setting_is_changed_and_a_bad_one_is_refused(crawled: Crawled) -> None:
    values = {"politeness.delay_s": "150ms"}
    answer = crawled.client.patch("/settings", json={"values": values}).json()
    assert answer["values"]["politeness.delay_s"] == "150ms"
    assert crawled.client.get("/settings").json() == answer, "the change is seen at once"
    for wrong in (
        {"politeness.delay_s": "soon"},
        {"scope.rule": "any"},
        {"no.such": "1"},
        {"refetch.min_s": "100d"},  # more than refetch.max_s
    ):
        bad = crawled.client.patch("/settings", json={"values": wrong})
        assert next(iter(wrong)) in _problem(bad, 422, "invalid")
        assert bad.json()["errors"][0]["where"] == f"body.values.{next(iter(wrong))}"


def test_a_change_that_is_based_on_other_settings_is_refused(crawled: Crawled) -> None:
    get, patch = crawled.client.get, crawled.client.patch
    seen = get("/settings")
    based = {"if-match": seen.headers["etag"]}
    slower = {"values": {"fetch.slots": "10"}, "why": "their mail"}
    assert patch("/settings", json=slower, headers=based).status_code == 200
    jitter = {"values": {"politeness.jitter": "0.2", "fetch.slots": "256"}}
    late = patch("/settings", json=jitter, headers=based)
    detail = _problem(late, 412, "changed")
    assert "fetch.slots=10" in detail and "fetch.slots=256" in detail
    now = get("/settings")
    assert now.json()["values"]["fetch.slots"] == "10"
    assert now.json()["values"]["politeness.jitter"] == seen.json()["values"]["politeness.jitter"]
    policy = get("/frontier/recrawl-policy")
    assert policy.headers["etag"] == now.headers["etag"]
    first = {"values": {"refetch.first_s": "8d"}}
    old = crawled.client.put("/frontier/recrawl-policy", json=first, headers=based)
    _problem(old, 412, "changed")
    again = {"if-match": f'"other", {now.headers["etag"]}'}
    put = crawled.client.put("/frontier/recrawl-policy", json=first, headers=again)
    assert put.status_code == 200 and put.headers["etag"] != now.headers["etag"]
    back = {"values": {"fetch.slots": "256", "refetch.first_s": "7d"}}
    assert patch("/settings", json=back, headers={"if-match": "*"}).status_code == 200


def test_refetch_policies_are_set_as_a_list_and_from_the_page(crawled: Crawled) -> None:
    get, put = crawled.client.get, crawled.client.put
    path = "/frontier/recrawl-policy"
    based = {"if-match": get(path).headers["etag"]}
    rules = ["news.example /a,b* hourly", "re:x{1,3} never", "* adaptive"]
    answer = put(path, json={"policies": rules, "why": "their mail"}, headers=based)
    assert answer.status_code == 200, answer.text
    assert [(each["line"], each["rule"]) for each in answer.json()["policies"]] == [
        (number, rule) for number, rule in enumerate(rules, 1)
    ]
    assert answer.json()["policies"][0]["policy"] == "every 1h min=30m max=2h"
    assert answer.json()["records_left"] >= 0 and answer.json()["promises"] == []
    _problem(put(path, json={"policies": []}, headers=based), 412, "changed")
    bad = put(path, json={"policies": ["* adaptive", "news.example evry 1h"]})
    assert "line 2" in _problem(bad, 422, "invalid")
    assert "did you mean every" in bad.text
    with httpx.Client(base_url=str(crawled.crawl.url), timeout=30) as browser:
        assert "re:x{1,3} never" in browser.get("/policies").text
        name, shown = "refetch.policies", "\r\n".join(rules)
        form = {"back": "/policies", name: f"{shown}\r\n\r\n", f"shown.{name}": shown}
        same = browser.post("/do/settings", data=form)
        assert same.headers["location"] == "/policies?notice=same"
        form[name] = "* daily"
        changed = browser.post("/do/settings", data=form)
        assert changed.headers["location"] == "/policies?notice=settings"
        late = browser.post("/do/settings", data=form)
        assert late.status_code == 409
    assert [each["rule"] for each in get(path).json()["policies"]] == ["* daily"]
    assert put(path, json={"policies": []}).json()["policies"] == []


def test_what_a_scope_would_drop_is_told_before_it_is_saved(crawled: Crawled) -> None:
    post, values = crawled.client.post, crawled.client.get("/settings").json()["values"]
    all_of_it = {"values": {"scope.exclude": "."}}
    tried = post("/settings/trial", json=all_of_it).raise_for_status().json()
    assert tried["dropped"] == tried["waiting"] == tried["reasons"].get("excluded", 0)
    assert tried["share"] == 1.0
    for bad, why in (({"scope.surts": "a b"}, "no SURT prefix"), ({"fetch.slots": "3"}, "scope")):
        assert why in _problem(post("/settings/trial", json={"values": bad}), 422, "invalid")
    shown = {f"shown.{key}": value for key, value in values.items()}
    with httpx.Client(base_url=str(crawled.crawl.url), timeout=30) as browser:
        form = {**values, **shown, "scope.exclude": ".", "why": "a trial"}
        asked = browser.post("/do/settings", data=form)
        if tried["dropped"]:
            assert "Nothing is changed yet" in asked.text and 'name="tried"' in asked.text
            asked = browser.post("/do/settings", data={**form, "tried": "1"})
        assert asked.headers["location"] == "/settings?notice=settings"
    now = crawled.client.get("/settings").json()["values"]
    assert now["scope.exclude"] == "."
    crawled.client.patch("/settings", json={"values": {"scope.exclude": ""}}).raise_for_status()


def test_a_form_changes_only_what_its_operator_changed(crawled: Crawled) -> None:
    url = str(crawled.crawl.url)
    settings = crawled.client.get("/settings").json()["values"]
    shown = {f"shown.{key}": value for key, value in settings.items()}
    crawled.client.patch("/settings", json={"values": {"fetch.slots": "10"}}).raise_for_status()
    form = {**settings, **shown, "politeness.jitter": "0.3"}
    with httpx.Client(base_url=url, timeout=30) as browser:
        page = browser.get("/settings").text
        assert 'name="shown.fetch.slots" value="10"' in page
        assert browser.post("/do/settings", data=form).status_code == 303
        values = crawled.client.get("/settings").json()["values"]
        assert (values["fetch.slots"], values["politeness.jitter"]) == ("10", "0.3")
        both = browser.post("/do/settings", data={**form, "fetch.slots": "300"})
        assert both.status_code == 409
        for value in ("it is 10 now", "was 256", "gives 300"):
            assert value in both.text, value
        old_page = browser.post("/do/settings", data={"fetch.slots": "300"})
        assert old_page.status_code == 409
        same = browser.post("/do/settings", data={**settings, **shown})
        assert same.headers["location"] == "/settings?notice=same"
    assert crawled.client.get("/settings").json()["values"]["fetch.slots"] == "10"
    back = {"values": {"fetch.slots": "256", "politeness.jitter": "0.1"}}
    crawled.client.patch("/settings", json=back).raise_for_status()


def test_events_tell_the_state(crawled: Crawled) -> None:
    with crawled.client.stream("GET", "/events", params={"most": 2}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line for line in answer.iter_lines() if line.startswith("event:")]
    assert events == ["event: state", "event: stats"]


def test_a_head_is_that_of_the_answer_without_its_body(crawled: Crawled) -> None:
    for path in ("/stats", f"/urls/{crawled.web.seed_url(0, crawled.port)}"):
        answer = crawled.client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 0
    leasing = crawled.client.head("/frontier/next", params={"worker_id": "w"})
    assert leasing.status_code == 405
    assert crawled.client.head("/nothing").status_code == 404


def test_probes_and_metrics(crawled: Crawled) -> None:
    assert httpx.get(f"{crawled.crawl.url}/health/live").text == "alive\n"
    assert httpx.get(f"{crawled.crawl.url}/health/ready").text == "ready\n"
    metrics = httpx.get(f"{crawled.crawl.url}/metrics").text
    assert "\nlycosa_captures_total " in metrics
    for process in ("supervisor", "api"):
        assert f'\nlycosa_process_memory_bytes{{process="{process}"}} ' in metrics


# -- what it refuses


def test_a_name_that_is_not_this_machine_is_refused(crawled: Crawled) -> None:
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        answer = crawled.client.get("/stats", headers={"host": name})
        assert answer.status_code in (400, 421), name
    assert crawled.client.get("/stats", headers={"host": "localhost:1"}).status_code == 200


def test_pages_of_other_sites_change_nothing(crawled: Crawled) -> None:
    post = crawled.client.post
    own = str(crawled.crawl.url)
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": own},
    ):
        _problem(post("/crawl/stop", headers=headers), 403, "forbidden")
    lease = {"worker_id": "w", "timeout_ms": 0}
    from_there = {"sec-fetch-site": "cross-site"}
    _problem(
        crawled.client.get("/frontier/next", params=lease, headers=from_there), 403, "forbidden"
    )
    form = {"content-type": "text/plain"}
    answer = post("/frontier/seed", content=b'{"urls":["http://x.example/"]}', headers=form)
    _problem(answer, 415, "bad-media-type")
    fine = {"origin": own, "sec-fetch-site": "same-origin"}
    assert post(f"/hosts/{crawled.host(0)}/resume", headers=fine).status_code == 200
    options = crawled.client.request("OPTIONS", "/stats", headers={"origin": "http://evil.example"})
    assert not [name for name in options.headers if name.startswith("access-control")]


def test_what_is_malformed_or_too_large_is_refused(crawled: Crawled) -> None:
    post, json_type = crawled.client.post, {"content-type": "application/json"}
    broken = post("/frontier/seed", content=b"{", headers=json_type)
    assert "not JSON" in _problem(broken, 400, "bad-request")
    _problem(post("/frontier/seed", json={"urls": [], "x": 1}), 422, "invalid")
    large = b'{"urls":["' + b"x" * 1_100_000 + b'"]}'
    _problem(post("/frontier/urls", content=large, headers=json_type), 413, "too-large")

    def pieces() -> Iterator[bytes]:  # without a length
        for _ in range(30):
            yield b" " * 50_000

    _problem(post("/frontier/urls", content=pieces(), headers=json_type), 413, "too-large")
    long = crawled.client.get("/stats", headers={"x-long": "x" * 20_000})
    _problem(long, 431, "head-too-large")
    _problem(crawled.client.get("/hosts", params={"most": 100_000}), 422, "invalid")
    unknown = crawled.client.get("/dlq", params={"resaon": "http_client_error"})
    assert "query.resaon: there is no such" in _problem(unknown, 422, "invalid")
    assert "reason" in unknown.json()["detail"]
    query = {"why": "of no effect"}
    assert "none" in _problem(post("/crawl/resume", params=query), 422, "invalid")
    assert "openapi.json" in _problem(crawled.client.get("/nothing"), 404, "not-found")
    assert "GET" in _problem(crawled.client.delete("/stats"), 405, "bad-method")


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    file = tmp_path / "tokens"
    file.write_text(f"# of the team\nwatcher read {READ}\nalice operate {OPERATE}\n")
    return str(file)


async def test_a_token_allows_what_its_scope_says(crawled: Crawled, token_file: str) -> None:
    tokens = read_tokens(token_file)
    host = f"/api/v1/hosts/{crawled.host(0)}/resume"
    async with (
        second_interface(crawled.job(token_file), tokens) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        none = await client.get("/api/v1/stats")
        _problem(none, 401, "no-token")
        assert none.json()["detail"].startswith("give a token")
        assert none.headers["www-authenticate"].startswith("Bearer")
        for wrong in ("Bearer x", "Bearer " + READ[:-1], f"Basic {READ}", "Bearer"):
            bad = await client.get("/api/v1/stats", headers={"authorization": wrong})
            assert bad.status_code == 401
            assert "has no token of this interface" in bad.json()["detail"]  # there was one
        reading = {"authorization": f"Bearer {READ}"}
        assert (await client.get("/api/v1/stats", headers=reading)).status_code == 200
        _problem(await client.post(host, headers=reading), 403, "forbidden")
        operating = {"authorization": f"Bearer {OPERATE}"}
        assert (await client.post(host, headers=operating)).status_code == 200
        rows = (await client.get("/api/v1/actions", headers=reading)).json()["rows"]
        assert rows[0]["by"] == "alice"
        assert (await client.get("/health/live")).status_code == 200


async def test_a_session_of_the_page_follows_from_a_token(
    crawled: Crawled, token_file: str
) -> None:
    tokens = read_tokens(token_file)
    async with (
        second_interface(crawled.job(token_file), tokens) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        page = await client.get("/x", headers={"accept": "text/html"})
        assert (page.status_code, page.headers["location"]) == (303, "/login")
        assert (await client.post("/login", data={"token": "wrong" * 8})).status_code == 403
        answer = await client.post("/login", data={"token": OPERATE})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and OPERATE not in cookie
        assert (await client.get("/api/v1/stats")).status_code == 200
        client.cookies.clear()
        name, _, session = answer.headers["set-cookie"].partition(";")[0].partition("=")
        facts, _, proof = session.rpartition(".")
        for forged in (f"9{facts}.{proof}", f"{facts}.{'0' * 64}", f"{facts}", "", "x.y.z"):
            client.cookies.set(name, forged)
            assert (await client.get("/api/v1/stats")).status_code == 401, forged
        client.cookies.set(name, session)
        assert (await client.get("/api/v1/stats")).status_code == 200


async def test_tls_is_spoken_and_nothing_else(crawled: Crawled, tmp_path: Path) -> None:
    authority = trustme.CA()
    made, files = authority.issue_cert("127.0.0.1"), (tmp_path / "cert.pem", tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(files[0])
    made.private_key_pem.write_to_path(files[1])
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with second_interface(crawled.job(), Tokens([]), *map(str, files)) as url:
        async with httpx.AsyncClient(verify=trusting) as client:
            assert (await client.get(f"{url}/api/v1/stats")).status_code == 200
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.TransportError):
                await client.get(url.replace("https", "http"))


async def test_slow_and_many_requests_are_refused(crawled: Crawled) -> None:
    job = crawled.job(request_s=1.0, rate=0.5, burst_s=30.0, connections=10)
    async with second_interface(job, Tokens([])) as url:
        port = int(url.rpartition(":")[2])

        async def ends(*pieces: bytes) -> bytes:
            """What is answered to the pieces, until the end of the connection."""
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.writelines(pieces)
                async with asyncio.timeout(PATIENCE_S):
                    return await reader.read()
            finally:
                writer.close()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)

        assert await ends() == b""
        assert await ends(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: ") == b""
        assert b" 400 " in await ends(b"\x16\x03\x01 nonsense\r\n\r\n")
        idle = [asyncio.create_task(ends()) for _ in range(30)]
        async with httpx.AsyncClient() as client:
            answers = [await client.get(f"{url}/health/live") for _ in range(30)]
        await asyncio.gather(*idle)
        assert answers[0].status_code == 200, "an idle connection was closed for it"
        refused = [each for each in answers if each.status_code == 429]
        assert refused and int(refused[0].headers["retry-after"]) >= 1
        _problem(refused[0], 429, "too-many")


async def test_one_client_takes_half_of_the_places_of_listeners(crawled: Crawled) -> None:
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with (
        second_interface(crawled.job(listeners=2), Tokens([])) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v1") as one,
        httpx.AsyncClient(base_url=f"{url}/api/v1", transport=transport) as other,
        one.stream("GET", "/events") as listening,
    ):
        assert listening.status_code == 200
        more = await one.get("/events")
        assert "this client has too many listeners" in _problem(more, 503, "not-now")
        assert int(more.headers["retry-after"]) >= 1
        async with other.stream("GET", "/events") as also:
            assert also.status_code == 200


# -- its process


def _last_action(crawl: ApiCrawl) -> tuple[str, str, str]:
    rows = httpx.get(f"{crawl.url}/api/v1/actions", timeout=30).json()["rows"]
    return rows[0]["action"], rows[0]["by"], rows[0]["why"]


def _stop_and_resume(crawl: ApiCrawl, url: str) -> None:
    """A stopped crawl answers questions from its folder, and is begun again."""
    post = f"{crawl.url}/api/v1/crawl"
    slower = {"values": {"politeness.delay_s": "1.5s"}}
    assert httpx.patch(f"{crawl.url}/api/v1/settings", json=slower, timeout=30).status_code == 200
    why = {"why": "new disk"}
    assert httpx.post(f"{post}/stop", json=why, timeout=30).json() == {"state": "stopping"}
    crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("state") == "stopped")
    known = crawl.await_answer(f"/api/v1/urls/{url}", lambda answer: answer.status_code == 200)
    assert known.json()["url"] == url
    rows = httpx.get(f"{crawl.url}/api/v1/hosts", timeout=30).json()["rows"]
    assert rows[0]["host"] in url
    given = {"urls": [{"url": f"{url}x"}]}
    verdicts = httpx.post(f"{crawl.url}/api/v1/frontier/urls", json=given, timeout=30).json()
    assert verdicts["unknown"] == 1
    assert _last_action(crawl) == ("stop_crawl", "local", "new disk")
    assert httpx.post(f"{post}/resume", json={"why": "it runs"}, timeout=300).status_code == 200
    crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("state") == "running")
    values = httpx.get(f"{crawl.url}/api/v1/settings").json()["values"]
    assert values["politeness.delay_s"] == "1.5s"
    assert settings_of(Path(crawl.folder) / "c").politeness.delay_s == 1.5
    crawl.await_answer("/api/v1/actions", lambda answer: len(answer.json().get("rows", [])) == 3)
    assert _last_action(crawl) == ("resume_crawl", "local", "it runs")


def test_the_interface_may_die_and_ends_with_the_crawl(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(hosts=3, pages=100))
    with served(web) as port, served_folder(tmp_path / "c", [web.seed_url(0, port)]) as crawl:
        first = crawl.api_pid()
        assert first
        os.kill(first, signal.SIGKILL)
        crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("captures", 0) > 0)
        second = crawl.api_pid()
        assert second not in (0, first)
        assert any("died by signal 9" in line for line in crawl.lines)
        _stop_and_resume(crawl, web.seed_url(0, port))
        crawl.process.kill()
        crawl.process.wait(PATIENCE_S)
        pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
        while Path(f"/proc/{second}").exists() and time.monotonic() < deadline:
            pause.wait(0.05)
        assert not Path(f"/proc/{second}").exists()


def test_a_paused_crawl_is_paused_when_the_service_is_started_again(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(hosts=3, pages=100))
    folder = tmp_path / "c"
    with served(web) as port:
        with served_folder(folder, [web.seed_url(0, port)]) as crawl:
            crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("captures", 0) > 0)
            why = {"why": "mail of 3 May"}
            httpx.post(f"{crawl.url}/api/v1/crawl/pause", json=why, timeout=30).raise_for_status()
            slower = {"values": {"politeness.delay_s": "1.5s"}}
            httpx.patch(f"{crawl.url}/api/v1/settings", json=slower, timeout=30)
            crawl.process.kill()
            crawl.process.wait(PATIENCE_S)
        assert saved_pause(folder) is not None
        with served_folder(folder, []) as crawl:
            assert httpx.get(f"{crawl.url}/api/v1/stats", timeout=30).json()["state"] == "paused"
            assert any(
                "paused, by local" in line and "mail of 3 May" in line for line in crawl.lines
            )
            post = f"{crawl.url}/api/v1/crawl"
            httpx.patch(f"{crawl.url}/api/v1/settings", json=slower, timeout=30).raise_for_status()
            assert saved_pause(folder) is not None
            httpx.post(f"{post}/resume", timeout=30).raise_for_status()
            crawl.await_answer("/api/v1/stats", lambda answer: answer.json()["state"] == "running")
        assert saved_pause(folder) is None


@pytest.mark.long
def test_an_interface_that_hangs_is_replaced_and_the_crawl_continues(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(hosts=10, pages=500))
    with served(web) as port, served_folder(tmp_path / "c", [web.seed_url(0, port)]) as crawl:
        first = crawl.api_pid()
        crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("captures", 0) > 5)
        os.kill(first, signal.SIGSTOP)
        before = json.loads((tmp_path / "c" / "status.json").read_text())
        answer = crawl.await_answer("/api/v1/stats", lambda answer: answer.status_code == 200)
        assert crawl.api_pid() not in (0, first)
        assert any("did not answer for 15 s" in line for line in crawl.lines)
        after = json.loads((tmp_path / "c" / "status.json").read_text())
        assert after["pid"] == before["pid"] and after["deaths"] == 0
        assert answer.json()["captures"] > 30
        assert crawl.stop() == 0


def test_what_the_process_of_the_interface_says_is_in_the_log_of_the_crawl(tmp_path: Path) -> None:
    tokens, log = tmp_path / "tokens", tmp_path / "log"
    tokens.write_text(f"alice operate {OPERATE}\n")
    web = SyntheticWeb(WebPlan(hosts=1, pages=3))
    options = ("--api-tokens", str(tokens), "--log-file", str(log), "--log-format", "json")
    with (
        served(web) as port,
        served_folder(tmp_path / "c", [web.seed_url(0, port)], *options) as crawl,
    ):
        tokens.rename(tmp_path / "away")
        os.kill(crawl.api_pid(), signal.SIGKILL)
        said, pause, deadline = [], threading.Event(), time.monotonic() + PATIENCE_S
        while not said and time.monotonic() < deadline:
            records = [json.loads(line) for line in log.read_text().splitlines()]
            said = [each for each in records if each["process"] == "api"]
            pause.wait(0.1)
        assert said[0]["level"] == "error" and said[0]["event"] == "api_failed"
        assert str(tokens) in said[0]["message"] and "Traceback" not in str(crawl.lines)
        (tmp_path / "away").rename(tokens)
        crawl.await_answer("/api/v1/stats", lambda answer: answer.status_code == 401)


def test_a_run_that_a_limit_would_end_at_once_is_not_begun(tmp_path: Path) -> None:
    """Seeds would be given to a run that ends before it has taken them."""
    web = SyntheticWeb(WebPlan(hosts=2, pages=3))
    with (
        served(web) as port,
        served_folder(
            tmp_path / "c", [web.seed_url(0, port)], "--set", "limits.max_disk_bytes=1"
        ) as crawl,
    ):
        crawl.await_answer("/api/v1/stats", lambda answer: answer.json().get("end") == "limit")
        for path, body in (("resume", {}), ("seed", {"urls": [web.seed_url(1, port)]})):
            where = f"/api/v1/{'frontier' if body else 'crawl'}/{path}"
            refused = httpx.post(crawl.url + where, json=body, timeout=PATIENCE_S)
            assert refused.status_code == 409, refused.text
            assert "limits.max_disk_bytes = 1 is reached" in refused.json()["detail"]
        assert crawl.stop() == 0
        assert sum("the run has ended" in line for line in crawl.lines) == 1
