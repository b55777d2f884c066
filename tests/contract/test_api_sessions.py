"""Sessions of the page, tokens and certificates of a service that runs for months."""

from __future__ import annotations

import json
import logging
import os
import signal
import ssl
from pathlib import Path

import httpx
import trustme

from api_crawl import ApiCrawl, served_folder
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.slow_clients import http_server

READ, OPERATE, OTHER = "r" * 32, "o" * 32, "n" * 32
STATS = "/api/v1/stats"


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def issue(authority: trustme.CA, folder: Path) -> tuple[str, str]:
    """The files of a new certificate."""
    made = authority.issue_cert("127.0.0.1")
    files = folder / "cert.pem", folder / "key.pem"
    made.cert_chain_pems[0].write_to_path(files[0])
    made.private_key_pem.write_to_path(files[1])
    return str(files[0]), str(files[1])


def shown_certificate(crawl: ApiCrawl) -> str:
    host, port = crawl.url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


def hang_up(crawl: ApiCrawl) -> None:
    crawl.process.send_signal(signal.SIGHUP)


def log_in(crawl: ApiCrawl, secret: str) -> httpx.Client:
    """A browser that has logged in."""
    form = {"token": secret}
    answer = httpx.post(f"{crawl.url}/login", data=form, verify=False, timeout=30)
    assert answer.status_code == 303, answer.text
    cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    return httpx.Client(base_url=crawl.url, verify=False, timeout=30, headers=cookie)


def test_tokens_and_certificate_are_read_again_and_a_session_ends_for_good(tmp_path: Path) -> None:
    tokens, log = tmp_path / "tokens", tmp_path / "log"
    tokens.write_text(f"watcher read {READ}\nalice operate {OPERATE}\n")
    authority = trustme.CA()
    files = issue(authority, tmp_path)
    options = ("--api-tokens", str(tokens), "--api-tls", *files)
    logging = ("--log-file", str(log), "--log-format", "json")
    seeds = ["http://127.0.0.1:9/"]
    with served_folder(tmp_path / "c", seeds, *options, *logging) as crawl:
        first = shown_certificate(crawl)
        with log_in(crawl, OPERATE) as alice, log_in(crawl, OPERATE) as elsewhere:
            name = alice.headers["cookie"].partition("=")[0]
            assert name.startswith("__Host-lycosa_session_")
            assert alice.get(STATS).status_code == 200
            assert alice.post("/logout").status_code == 303
            assert alice.get(STATS).status_code == 401, "the cookie of a session that was ended"
            assert elsewhere.get(STATS).status_code == 200

            issue(authority, tmp_path)
            tokens.write_text(f"alice operate {OPERATE}\nbob operate {OTHER}\n")
            hang_up(crawl)
            crawl.await_answer(STATS, lambda answer: answer.status_code == 200, bearer(OTHER))
            gone = httpx.get(crawl.url + STATS, headers=bearer(READ), verify=False)
            assert gone.status_code == 401 and elsewhere.get(STATS).status_code == 200
            crawl.await_answer("/health/live", lambda _: shown_certificate(crawl) != first)

            tokens.write_text("nonsense\n")
            Path(files[1]).write_text("no key")
            hang_up(crawl)
            crawl.await_answer("/health/live", lambda _: "stays the one before" in log.read_text())
            assert "the tokens stay" in log.read_text()
            kept = httpx.get(crawl.url + STATS, headers=bearer(OTHER), verify=False)
            assert kept.status_code == 200

            tokens.write_text(f"alice operate {OPERATE}\n")
            issue(authority, tmp_path)
            os.kill(crawl.api_pid(), signal.SIGKILL)
            crawl.await_answer(STATS, lambda answer: answer.status_code == 200, bearer(OPERATE))
            assert alice.get(STATS).status_code == 401, "also for the process after that one"
            assert elsewhere.get(STATS).status_code == 200
        assert crawl.process.poll() is None and crawl.stop() == 0
        judge_log(log)


def test_another_certificate_brings_no_log_of_requests_of_the_servers_library(
    tmp_path: Path,
) -> None:
    files = issue(trustme.CA(), tmp_path)
    server = http_server(None, ApiLimits(), *files)
    server.use_certificate(*files)
    for name in ("uvicorn", "uvicorn.access"):
        assert not logging.getLogger(name).handlers, name


def judge_log(log: Path) -> None:
    """The log has who did what, with an address and without a secret."""
    text = log.read_text()
    assert not any(secret in text for secret in (READ, OPERATE, OTHER))
    records = [json.loads(line) for line in text.splitlines()]
    seen = {each["event"]: each for each in records if each["event"].startswith("api_")}
    assert seen["api_login"]["values"] == {"client": "127.0.0.1", "by": "alice"}
    assert seen["api_logout"]["values"] == {"client": "127.0.0.1", "by": "alice"}
    assert seen["api_refused"]["values"]["request"] == f"GET {STATS}"
    assert seen["api_refused"]["values"]["status"] == 401
    assert seen["api_reloaded"]["level"] == "info"


def test_refusals_and_decisions_are_in_the_log_and_bounded(tmp_path: Path) -> None:
    tokens, log = tmp_path / "tokens", tmp_path / "log"
    tokens.write_text(f"watcher read {READ}\nalice operate {OPERATE}\n")
    tokens.chmod(0o644)
    options = ("--api-tokens", str(tokens), "--log-file", str(log), "--log-format", "json")
    with served_folder(tmp_path / "c", ["http://127.0.0.1:9/"], *options) as crawl:
        post = f"{crawl.url}/api/v1"
        crawl.await_answer(
            "/api/v1/hosts", lambda each: not each.json().get("silent", 1), bearer(READ)
        )
        with httpx.Client(timeout=30) as client:
            for number in range(150):
                wrong = client.get(f"{post}/stats?{number}", headers=bearer(f"guess-{number}"))
                assert wrong.status_code in (401, 429)
            assert client.post(f"{crawl.url}/login", data={"token": "guess"}).status_code == 403
            reading = client.post(f"{post}/crawl/pause", headers=bearer(READ))
            assert reading.status_code == 403
            why = {"why": "mail of 3 May"}
            for path in ("crawl/pause", "hosts/a.example/pause", "crawl/resume"):
                about = why | ({"new": True} if "hosts" in path else {})
                answer = client.post(f"{post}/{path}", headers=bearer(OPERATE), json=about)
                assert answer.status_code == 200, answer.text
            values = {"values": {"fetch.slots": "9"}}
            client.patch(f"{post}/settings", headers=bearer(OPERATE), json=values)
            letters = {"action": "retry", "reason": "internal"}
            client.post(f"{post}/dlq", headers=bearer(OPERATE), json=letters)
            seeds = {"urls": ["http://127.0.0.1:9/x"]}
            client.post(f"{post}/frontier/seed", headers=bearer(OPERATE), json=seeds)
            icon = client.get(f"{crawl.url}/static/icon.svg")
            assert icon.headers["cache-control"] == "no-cache" and icon.headers["etag"]
        assert crawl.stop() == 0
    assert any("chmod 600" in line for line in crawl.lines)
    text = log.read_text()
    assert "guess" not in text and OPERATE not in text
    records = [json.loads(line) for line in text.splitlines()]
    refused = [each for each in records if each["event"] == "api_refused"]
    assert 20 <= sum(each["values"]["status"] == 401 for each in refused) <= 22
    assert any(each["event"] == "suppressed" and each["count"] >= 100 for each in records)
    assert [each["values"]["by"] for each in refused if each["values"]["status"] == 403] == [
        "watcher"
    ]
    assert any(each["event"] == "api_login_failed" for each in records)
    decided = [each for each in records if each["event"] == "api_decision"]
    assert [each["message"] for each in decided] == [
        "pause the crawl",
        "pause the host a.example",
        "resume the crawl",
        "set fetch.slots=9",
        "retry all dead letters of internal",
        "give 1 seeds",
    ]
    first = {"client": "127.0.0.1", "by": "alice", "why": "mail of 3 May"}
    assert decided[0]["values"] == first
