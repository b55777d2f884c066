"""An own host on a real socket, whose pages take half a second each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from crawling import page
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.politeness.own_proofs import OWN_PATH, token_of
from lycosa.synthetic import LoggedRequest, Response

SECRET, MOST = "s" * 40, 4
TEXT = [("Content-Type", "text/plain")]
PAGES = [f"/p{number}" for number in range(40)]


class OwnHost:
    """Pages that take half a second each, and the file that proves the host."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        target = target_of(url)
        if target == OWN_PATH:
            return Response(200, TEXT, token_of(SECRET.encode(), host_of(url)).encode())
        if target == "/robots.txt":
            return Response(200, TEXT, b"User-agent: *\n")
        found = page(*PAGES) if target == "/" else page(text=f"page {target} ")
        return Response(200, found.headers, found.body, latency_s=0.5)


def open_at(log: Sequence[LoggedRequest], at: float) -> int:
    """How many requests the server had open when one began."""
    return sum(each.start <= at and (not each.end or at < each.end) for each in log)


def own_settings(folder: Path, host: str) -> dict[str, str]:
    """The settings that name the host, with its secret in a file of the folder."""
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    return {
        "requests.own_hosts": f'["{host}"]',
        "requests.own_secret": f"file:{secret}",
        "requests.own_concurrency": str(MOST),
    }
