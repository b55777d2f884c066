"""Hosts that cannot be asked for their robots.txt: what is told of them, when they are given up,
and how such a crawl ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from judging import are_balanced, asked, host_states, outcomes, quick_config, tables
from lycosa.base.config.sections import Config, FetchSection, RetrySection, RobotsSection
from lycosa.base.model.end import End
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.inspect.explain.facts import why_host
from lycosa.inspect.top_lists import host_line
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.state.kv.table_records import prefix_end
from lycosa.synthetic.fetcher import SyntheticFetcher
from scripted import Names, ScriptedWeb, error, page, scripted_crawl
from virtual_crawl import VirtualCrawl

A, B = "http://a.example/", "http://b.example/"
HERE = "127.0.0.1"


def unreachable_crawl(
    folder: Path, reasons: Mapping[str, Reason], config: Config | None = None
) -> tuple[VirtualCrawl, ScriptedWeb]:
    """``a.example`` is at ``HERE``; addresses fail with their reason."""
    known: dict[str, Sequence[str] | Reason] = {"a.example": [HERE]}
    crawl, web = scripted_crawl(
        folder, {A: page("/x"), f"{A}x": page(), B: page()}, config, Names(known)
    )
    crawl.wrap = lambda _: SyntheticFetcher(web, crawl.clock, crawl.log, unreachable=reasons)
    return crawl, web


def reach_again(crawl: VirtualCrawl) -> None:
    crawl.wrap = lambda fetcher: fetcher


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (Reason.CONNECT_REFUSED, "robots.txt: the connection was refused by 127.0.0.1:80 (once)"),
        (
            Reason.TLS_FAILED,
            "robots.txt: TLS failed or the certificate is not valid, synthetic (once)",
        ),
        (Reason.CONNECT_TIMEOUT, "robots.txt: no connection within the limit, 127.0.0.1:80 (once)"),
    ],
)
def test_a_crawl_that_reaches_nobody_ends_at_once_and_says_why(
    tmp_path: Path, reason: Reason, told: str
) -> None:
    crawl, _ = unreachable_crawl(tmp_path / "c", {HERE: reason})
    run = crawl.run([A])
    assert run.end is End.FINISHED and run.duration_s < 60
    host = host_states(crawl)["a.example"]
    assert (why_host(host), host.last_error) == (told, reason)
    line = host_line(host, crawl.config, crawl.now)
    assert (line.reason, line.last_error) == (told, reason.label)


class LosesOneAnswer(Names):
    """The third question about any name is never answered: after those ahead of the visit and
    for robots.txt.
    """

    async def resolve(self, name: str) -> Sequence[str]:
        addresses = await super().resolve(name)
        if self.asked[name] == 3:
            raise ResolveError(name, Reason.DNS_TIMEOUT, "lost")
        return addresses


def test_a_crawl_that_reached_somebody_waits_for_him(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(
        tmp_path / "c", {A: page("/x"), f"{A}x": page()}, names=LosesOneAnswer()
    )
    crawl.run([A])
    assert asked(crawl.log) == [A, f"{A}x"]


def test_an_answer_that_is_an_error_is_told_with_its_status(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", {A: page(), f"{A}robots.txt": error(502)})
    crawl.run([A])
    host = host_states(crawl)["a.example"]
    assert (
        host.detail.startswith("robots.txt: the server failed (5xx), status 502 (")
        and host.last_error is Reason.HTTP_SERVER_ERROR
    )


def test_a_run_that_begins_while_a_host_waits_asks_it_again(tmp_path: Path) -> None:
    crawl, web = unreachable_crawl(tmp_path / "c", {HERE: Reason.CONNECT_REFUSED})
    crawl.run([A])
    reach_again(crawl)
    crawl.run([A])
    assert asked(crawl.log) == [A, f"{A}x"] and web.asked[f"{A}robots.txt"] == 1


def test_a_host_whose_robots_txt_nobody_answers_is_given_up(tmp_path: Path) -> None:
    config = quick_config(
        retry=RetrySection(host_failures=4, away_s=0.0), robots=RobotsSection(retry_s=60)
    )
    crawl, _ = unreachable_crawl(tmp_path / "c", {HERE: Reason.CONNECT_REFUSED}, config)
    run = crawl.run([B, A])
    host = host_states(crawl)["a.example"]
    assert (host.state.label, host.reason) == ("retired", Reason.CONNECT_REFUSED)
    assert host.detail == "robots.txt: the connection was refused by 127.0.0.1:80 (4 times)"
    assert run.duration_s < 60 + 120 + 240 + 60
    assert outcomes(crawl)[A][0] is UrlState.RETIRED and run.counters.states[UrlState.RETIRED] == 1
    reach_again(crawl)
    crawl.run([A])  # given again, it is asked again, and at once
    assert {A, f"{A}x"} <= set(asked(crawl.log))
    are_balanced(crawl)


def test_an_address_that_is_forbidden_gives_its_host_up_until_a_run_allows_it(
    tmp_path: Path,
) -> None:
    crawl, web = unreachable_crawl(tmp_path / "c", {HERE: Reason.ADDRESS_FORBIDDEN})
    run = crawl.run([A])
    host = host_states(crawl)["a.example"]
    assert (run.end, host.state.label, host.reason) == (
        End.FINISHED,
        "retired",
        Reason.ADDRESS_FORBIDDEN,
    )
    assert f"--allow-address {HERE}" in why_host(host)
    reach_again(crawl)
    assert crawl.run().duration_s < 1 and not web.asked
    crawl.config = msgspec.structs.replace(
        crawl.config, fetch=FetchSection(allow_addresses=("10.0.0.0/8",))
    )
    crawl.run()
    assert not web.asked
    crawl.config = msgspec.structs.replace(
        crawl.config, fetch=FetchSection(allow_addresses=("127.0.0.0/8",))
    )
    crawl.run()
    assert asked(crawl.log) == [A, f"{A}x"]
    are_balanced(crawl)


def test_the_cause_is_kept_with_robots_txt_until_it_is_had(tmp_path: Path) -> None:
    crawl, _ = unreachable_crawl(tmp_path / "c", {HERE: Reason.CONNECT_REFUSED})
    crawl.run([A])
    assert (
        robots_records(crawl)[0].outage
        == "robots.txt: the connection was refused by 127.0.0.1:80 (once)"
    )
    reach_again(crawl)
    crawl.run([A])
    assert (robots_records(crawl)[0].outage, host_states(crawl)["a.example"].last_error) == (
        "",
        Reason.NONE,
    )


def robots_records(crawl: VirtualCrawl) -> list[RobotsRecord]:
    with tables(crawl) as opened:
        found = [value for table in opened for _, value in table.scan(b"R", prefix_end(b"R"))]
    return [msgspec.msgpack.decode(value, type=RobotsRecord) for value in found]
