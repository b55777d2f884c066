"""A crawl that requests what sites state, while machines die and shards change their owners.

Every origin has a tdmrep.json, and every page names one licence. So every capture of an origin whose
robots.txt allows that file must have its statement, and the licence is requested once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

import msgspec

from lycosa.base.config.sections import AgentSection
from lycosa.base.model.fetched import FetchKind
from lycosa.base.preferences.preference_model import PreferenceSource
from lycosa.base.urls.identity import TDM_PATH, robots_url
from lycosa.synthetic import Obstacle
from lycosa.synthetic.oracle import Truth
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_web import Responder
from lycosa.worker.commit.committed_rows import PAGES
from nodes.history import NodesHistory
from nodes.plugin import Plugin

_RESERVED = json.dumps([{"location": "*", "tdm-reservation": 1}]).encode()


class StatingWeb:
    """A web whose origins reserve everything, and whose pages name a licence."""

    def __init__(self, web: Responder, license: str) -> None:
        self._web, self._license = web, license

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if url.endswith(TDM_PATH):
            return Response(200, [("Content-Type", "application/json")], _RESERVED, 0.05)
        if url == self._license:
            return Response(200, [("Content-Type", "application/rsl+xml")], b"<rsl/>", 0.05)
        answer = self._web.respond(url, at, headers)
        link = f'<{self._license}>; rel="license"; type="application/rsl+xml"'
        answer.headers.append(("Link", link))
        return answer


class Statements(Plugin):
    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        web = history.web
        origins = [web.seed_url(number) for number in range(web.plan.hosts)]
        self.license = next(
            f"{url}terms" for url in origins if web.verdict(f"{url}terms") is Obstacle.ALLOWED
        )
        history.answers = StatingWeb(web, self.license)
        history.config = msgspec.structs.replace(
            history.config, agent=AgentSection(purpose=("ai-train",), fetch_licenses=True)
        )
        self.captures = 0

    def expect(self, truth: Truth) -> None:
        truth.others.add(self.license)

    def judge(self) -> None:
        """Each capture has the statement of the file that was known before its request."""
        requests = Counter(self.world.log.urls())
        for url in requests:
            if url.endswith(TDM_PATH):
                assert self.history.web.verdict(url) is Obstacle.ALLOWED, ("disallowed", url)
        stored: set[str] = set()
        for row in self.world.logs.feed(PAGES):
            kind, url = row.get("kind", 0), row["url"]
            if kind == FetchKind.TDM_FILE:
                stored.add(url.removesuffix(TDM_PATH))
            if kind not in (FetchKind.PAGE, FetchKind.SITEMAP):
                continue
            self.captures += 1
            origin = url[: url.index("/", 8)]
            stated = {PreferenceSource(each[0]) for each in row.get("preferences", [{}, []])[1]} & {
                PreferenceSource.TDM_FILE
            }
            may = self.history.web.verdict(f"{origin}{TDM_PATH}") is Obstacle.ALLOWED
            assert bool(stated) is may, ("statement", url, row.get("preferences"))
            assert not may or requests[f"{origin}{TDM_PATH}"], ("never requested", origin)
            assert requests[robots_url(origin.partition("//")[2], origin[4] == "s")]
        assert self.captures > 50
        assert 1 <= requests[self.license] <= 1 + sum(self.world.faults.values())
        # most requests are sent once; a fault repeats at most those that were in flight
        repeated = sum(n - 1 for url, n in requests.items() if url.endswith(TDM_PATH))
        assert repeated <= len(stored) // 2 + sum(self.world.faults.values()), repeated
