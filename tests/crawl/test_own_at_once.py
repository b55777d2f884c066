"""Several requests at once to a proved own host, judged by the log of the server."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from crawling import Pages, crawl_folder, page, robots
from lycosa.base.calls import DecisionAnswer, HostAction, HostDecision
from lycosa.base.config.sections import Config, StoreSection
from lycosa.cli.main import main
from lycosa.stages.politeness.own_proofs import token_of
from lycosa.state.attempts import Attempt, read_attempts
from lycosa.state.folder.names import attempts_folder
from lycosa.synthetic import Faults, Response
from lycosa.worker.assemble import Assembled
from own_settings import OWN_FILE, SECRET, A, own_config

TEXT = [("Content-Type", "text/plain")]
TOKEN = Response(200, TEXT, token_of(SECRET.encode(), "a.test").encode())
LOST = Response(404, TEXT, b"gone")
SLOW_S = 2.0
MOST = 3


class Server(Pages):
    """Answers each request after a while, and writes down when it had which."""

    def __init__(
        self, pages: Mapping[str, Response | tuple[Response, ...]], seconds: float = SLOW_S
    ) -> None:
        super().__init__(pages)
        self.seconds, self.log = seconds, list[tuple[str, float, float]]()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        found = super().respond(url, at, headers)
        # some answers take longer, so that requests do not end in the order of their starts
        latency_s = self.seconds * (1 + len(self.log) % 3)
        self.log.append((url, at, at + latency_s))
        return msgspec.structs.replace(found, latency_s=latency_s)

    def beside(self, url: str) -> set[str]:
        """What was open together with a request for a URL."""
        spans = [(at, end) for each, at, end in self.log if each == url]
        return {
            each
            for each, at, end in self.log
            for first, last in spans
            if at < last and first < end and (at, end) != (first, last)
        }

    def open_at(self, time: float) -> int:
        """How many requests were open at a time."""
        return sum(begun <= time < end for _, begun, end in self.log)

    def most(self, since: float = 0.0) -> int:
        """How many requests were open at once, of those that began at some time or later."""
        return max(self.open_at(at) for _, at, _ in self.log if at >= since)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return own_config(tmp_path, MOST)


def server(
    *files: Response,
    pages: int = 30,
    seconds: float = SLOW_S,
    more: Mapping[str, Response | tuple[Response, ...]] | None = None,
) -> Server:
    names = [f"p{number}" for number in range(pages)]
    web: dict[str, Response | tuple[Response, ...]] = {
        A: page(*(f"{A}{name}" for name in names)),
        **{f"{A}{name}": page(text=name) for name in names},
        OWN_FILE: files,
        f"{A}robots.txt": robots("User-agent: *"),
    }
    return Server({**web, **(more or {})}, seconds)


def attempts(folder: Path) -> list[Attempt]:
    return list(read_attempts(attempts_folder(folder)))


def test_a_proved_host_has_as_many_requests_as_the_setting(tmp_path: Path, config: Config) -> None:
    """A request with credentials, and each file about the host, is alone."""
    secret = f"host:a.test /p7 bearer {config.requests.own_secret} plain-http"
    requests = msgspec.structs.replace(config.requests, rules=(secret,))
    secure = "https://a.test/"  # another origin, with a robots.txt of its own
    files = {f"{secure}s": page(), f"{secure}robots.txt": robots("User-agent: *")}
    web = server(TOKEN, more={f"{A}p2": page(f"{secure}s", f"{A}q"), f"{A}q": page(), **files})
    crawl_folder(tmp_path / "c", web, [A], msgspec.structs.replace(config, requests=requests))
    assert web.most() == MOST
    assert len(web.asked) == len(set(web.asked)) == 36  # with robots.txt and the file
    for alone in (OWN_FILE, f"{A}robots.txt", f"{secure}robots.txt", f"{A}p7"):
        assert web.beside(alone) == set()
    marked = {each.url for each in attempts(tmp_path / "c") if each.at_once == MOST}
    assert len(marked) > 20 and not marked & {OWN_FILE, f"{A}p7", A}
    assert main(["audit", str(tmp_path / "c")]) == 0


def test_without_a_proof_it_has_one_at_a_time(tmp_path: Path, config: Config) -> None:
    web = server(LOST, pages=3)
    crawl_folder(tmp_path / "c", web, [A], config)
    assert web.most() == 1
    assert all(each.at_once == 1 for each in attempts(tmp_path / "c"))


def test_a_crawl_delay_is_kept_between_all_of_them(tmp_path: Path, config: Config) -> None:
    slow = {f"{A}robots.txt": robots("User-agent: *", "Crawl-delay: 7")}
    web = server(TOKEN, pages=6, more=slow)
    crawl_folder(tmp_path / "c", web, [A], config)
    assert all(at - end >= 7 - 1e-5 for (_, _, end), (_, at, _) in pairwise(web.log))


@pytest.mark.parametrize("refusal", [("Retry-After", "200"), ("X-None", "")])
def test_a_refusal_of_one_stops_the_others(
    tmp_path: Path, config: Config, refusal: tuple[str, str]
) -> None:
    refused = Response(503, [*TEXT, refusal], b"later")
    web = server(TOKEN, more={f"{A}p9": (refused, page(text="p9")), f"{A}p10": (refused, page())})
    crawl_folder(tmp_path / "c", web, [A], config)
    first = min(end for url, _, end in web.log if url in (f"{A}p9", f"{A}p10"))
    rest_s = 200 if refusal[1] else 30
    assert not [url for url, at, _ in web.log if first < at < first + rest_s - 1e-5]
    # Both were open together, so they are one refusal: the pause did not double.
    assert [url for url, at, _ in web.log if at < first + 2 * rest_s and at > first]
    assert web.most(first) == MOST
    assert main(["audit", str(tmp_path / "c")]) == 0


def test_a_paused_host_has_no_further_request(tmp_path: Path, config: Config) -> None:
    web, paused, pause_s = server(TOKEN), list[float](), 100.0

    async def operate(assembled: Assembled) -> None:
        while web.open_at(assembled.clock.wall()) < MOST:
            await assembled.clock.sleep(0.5)
        for action in (HostAction.PAUSE, HostAction.RESUME):
            decision = HostDecision(f"{action.value} of a.test", "ada", "a.test", action)
            paused.append(assembled.clock.wall())
            partition = assembled.intake.partition_of_host("a.test")
            reply = await assembled.calls.answer(partition, decision)
            assert isinstance(reply, DecisionAnswer) and reply.changed == 1
            await assembled.clock.sleep(pause_s)

    crawl_folder(tmp_path / "c", web, [A], config, meanwhile=operate)
    assert not [url for url, at, _ in web.log if paused[0] < at < paused[1]]
    assert len(web.asked) == len(set(web.asked)) == 33 and web.most(paused[1]) == MOST
    assert main(["audit", str(tmp_path / "c")]) == 0


def test_a_host_that_lost_its_proof_rests_after_the_last_end(
    tmp_path: Path, config: Config
) -> None:
    web = server(TOKEN, LOST, pages=640, seconds=9.5)
    crawl_folder(tmp_path / "c", web, [A], config, stop_after_s=8000)
    before, lost = (at for url, at, _ in web.log if url == OWN_FILE)
    assert lost - before >= 3600 and web.beside(OWN_FILE) == set()
    after = [(at, end) for _, at, end in web.log if at >= lost]
    assert len(after) > 5
    assert all(at - end >= 300 - 1e-5 for (_, end), (at, _) in pairwise(after))
    assert main(["audit", str(tmp_path / "c")]) == 0


@pytest.mark.parametrize("crash_at", [8, 11])
def test_a_kill_loses_nothing(tmp_path: Path, config: Config, crash_at: int) -> None:
    folder = tmp_path / "c"
    config = msgspec.structs.replace(config, store=StoreSection(commit_pages=3))
    faults = Faults(random.Random(1), crash_at=crash_at, crash_point="commit:settled")
    assert crawl_folder(folder, server(TOKEN), [A], config, faults=faults) is None
    open_at_crash = [each for each in attempts(folder) if not each.is_finished]
    assert len(open_at_crash) > 1 and all(each.at_once == MOST for each in open_at_crash)
    assert main(["audit", str(folder)]) == 0
    web = server(TOKEN)
    crawl_folder(folder, web, [A], config, start=1000.0)
    assert {each.url for each in open_at_crash} <= set(web.asked)
    # Each is suspected of the crash, and fetched alone.
    assert all(web.beside(each.url) == set() for each in open_at_crash)
    assert web.most() == MOST
    assert main(["audit", str(folder)]) == 0
