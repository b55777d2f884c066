"""Requests the file of an own host once, as a crawl would, and says whether it proves the host."""

from __future__ import annotations

import asyncio
import time

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.host_memory import OwnFinding
from lycosa.base.ports import ResolveError
from lycosa.base.system.content_encoding import decode_content
from lycosa.inspect.robots_source import NoRobots, fetch_once, of_server
from lycosa.inspect.url_check import check_robots
from lycosa.stages.politeness.own_proofs import MOST_OWN_BYTES, OWN_PATH, finding_of


class OwnFileCheck(msgspec.Struct, frozen=True):
    """What the file at ``url`` is. ``finding`` is a fixed word, ``detail`` says more."""

    host: str
    url: str
    token: str
    is_right: bool
    finding: str
    meaning: str
    detail: str = ""


def check_own_file(host: str, token: str, config: Config, *, is_secure: bool) -> OwnFileCheck:
    """Request robots.txt and, if it allows that, the file. Blocks.

    Between the two is the pause of the settings, or that of a Crawl-delay.
    """
    url = f"{'https' if is_secure else 'http'}://{host}{OWN_PATH}"
    try:
        finding, detail = _find(url, token, config)
    except (ResolveError, NoRobots) as error:
        finding, detail = OwnFinding.UNANSWERED, str(error)
    is_right = finding is OwnFinding.RIGHT
    return OwnFileCheck(host, url, token, is_right, finding.value, finding.meaning, detail)


def _find(url: str, token: str, config: Config) -> tuple[OwnFinding, str]:
    agent, section = config.agent.product, config.politeness
    record, source = of_server(url, agent, config)
    robots = check_robots(url, agent, record, source, time.time())
    if robots.verdict == "waits":
        return OwnFinding.UNANSWERED, f"robots.txt: {robots.why}"
    if robots.verdict != "allowed":
        return OwnFinding.DISALLOWED, f"line {robots.line}: {robots.rule}"
    asked_s = min(max(robots.crawl_delay_s, 0.0), section.max_crawl_delay_s)
    time.sleep(max(section.delay_s, asked_s))
    fetched = asyncio.run(fetch_once(url, agent, config, hops=0))
    if not fetched.status:
        detail = f"{fetched.reason.meaning}{f' ({fetched.detail})' if fetched.detail else ''}"
        return OwnFinding.UNANSWERED, detail
    coding = fetched.header("content-encoding")
    body = decode_content(fetched.body, coding, MOST_OWN_BYTES + 1, 1000).body
    detail = f"status {fetched.status}" if fetched.status != 200 else ""
    return finding_of(fetched.status, body, token), detail
