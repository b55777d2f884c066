"""A crawl whose hosts are the operator's own, with several requests at once, while machines die and
shards change their owners.

The web's log shows that such a host never has more than the setting allows, whoever owned it, and
that some had several. All other hosts are judged as ever.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.config.sections import RequestsSection
from lycosa.base.urls.identity import host_of
from lycosa.stages.politeness.own_proofs import OWN_PATH, token_of
from lycosa.synthetic import Obstacle
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.synthetic_web import Responder
from nodes.history import NodesHistory
from nodes.plugin import Plugin

MOST = 3
_SECRET = "s" * 40


class ProvedWeb:
    """A web in which each host has the file that proves it."""

    def __init__(self, web: Responder) -> None:
        self._web = web

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if url.endswith(OWN_PATH):
            token = token_of(_SECRET.encode(), host_of(url))
            return Response(200, [("Content-Type", "text/plain")], token.encode(), 0.05)
        answer = self._web.respond(url, at, headers)
        # long enough for others to begin meanwhile
        return msgspec.structs.replace(answer, latency_s=answer.latency_s + 1.0)


class Own(Plugin):
    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        web, secret = history.web, history.folder / "own-secret"
        secret.write_text(_SECRET)
        secret.chmod(0o600)
        origins = [web.seed_url(number) for number in range(web.plan.hosts)]
        allowed = [
            host_of(url)
            for url in origins
            if web.verdict(f"{url.rstrip('/')}{OWN_PATH}") is Obstacle.ALLOWED
        ]
        self.hosts = frozenset(allowed[::2])
        history.own_hosts = self.hosts
        history.answers = ProvedWeb(web)
        requests = RequestsSection(
            own_hosts=tuple(sorted(self.hosts)), own_secret=f"file:{secret}", own_concurrency=MOST
        )
        history.config = msgspec.structs.replace(history.config, requests=requests)

    def judge(self) -> None:
        """No own host had more requests at once than the setting allows; some had several."""
        most = {host: self._most(host) for host in self.hosts}
        assert max(most.values()) <= MOST, most
        assert max(most.values()) > 1, "no host was proved for long enough"

    def _most(self, host: str) -> int:
        """How many requests of a host the web had open at the same time."""
        times = sorted(
            (time, change)
            for each in self.world.log.exchanges
            if each.host == host
            for time, change in ((each.start, 1), (each.end, -1))
        )
        most = number = 0
        for _, change in times:
            number += change
            most = max(most, number)
        return most
