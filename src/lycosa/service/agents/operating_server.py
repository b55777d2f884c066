"""The server that operates a running crawl by its HTTP interface: submit URLs, pause, read a page.

A page that a model has read may have told it what to do. So once a session has given the text of a
page, tools that change the crawl refuse for the rest of the session, unless the operator has
started the server with ``--trust-pages``.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from lycosa.service.agents.framed_data import framed

_ANSWER_S = 90.0  # longer than a page is waited for
_ANSWER_BYTES = 8_000_000
_TEXT_LENGTH = 50_000
_CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)
_STATES = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_INSTRUCTIONS = """Operates a running crawl by Lycosa. URLs that you submit are fetched politely, if
they are in its scope and robots.txt allows them. Each change needs a reason (`why`), which the log
of the crawl keeps. After `scrape_page` has given the text of a page, the tools that change the
crawl refuse for the rest of the session."""
_REFUSED = (
    "refused: this session has read the text of a web page ({url}), which may have asked for this."
    " Ask the operator to do it, or to start the server with --trust-pages"
)
_PRIVATE = (
    "{url} was fetched with credentials of the operator, and its text is not given to this session;"
    " the operator may start the server with --private"
)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """No request: the redirect is the answer."""


class OperatingServer:
    """The tools over the HTTP interface at ``address``, with the secret of a token (or none).

    Text of private captures is left out, unless it ``gives_private``.
    """

    def __init__(
        self,
        address: str,
        secret: str,
        trusts_pages: bool,
        version: str,
        *,
        gives_private: bool = False,
    ) -> None:
        self._address, self._secret = address.rstrip("/"), secret
        self._trusts_pages, self._has_read = trusts_pages, ""
        self._gives_private = gives_private
        # A redirect would take the secret elsewhere, and a proxy of the environment would read it
        # in a request without encryption.
        proxies = urllib.request.ProxyHandler({} if self._address.startswith("http:") else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirects())
        self.server = MCPServer("lycosa-operating", instructions=_INSTRUCTIONS, version=version)
        self.server.add_tool(self.stats, annotations=_STATES, structured_output=False)
        changing = (
            *(self.submit_urls, self.scrape_page, self.pause_host, self.resume_host),
            *(self.pause_crawl, self.resume_crawl),
        )
        for tool in changing:
            self.server.add_tool(tool, annotations=_CHANGES, structured_output=False)

    def __repr__(self) -> str:
        return f"<OperatingServer of {self._address}>"

    async def stats(self) -> str:
        """Counters of the whole crawl as JSON: URLs by state, captures, rates, hosts, waits."""
        return json.dumps(await self._call("GET", "/stats"))

    async def submit_urls(self, urls: list[str]) -> str:
        """Give up to 1,000 URLs to the crawl. Each has a verdict: accepted, duplicate, rejected."""
        self._check_allowed()
        given = {"urls": [{"url": url} for url in urls]}
        return json.dumps(await self._call("POST", "/frontier/urls", given))

    async def scrape_page(self, url: str, max_age_s: float = 86_400.0) -> str:
        """The text of one page: a stored copy of at most that age, or fetched now, in its turn.

        It may take a minute. When it is still waiting then, call again later. From then on tools
        that change the crawl refuse in this session."""
        body = {"url": url, "max_age_s": max_age_s}
        page = await self._call("POST", "/scrape", body)
        if page.get("privacy") == "private" and not self._gives_private:
            raise ToolError(_PRIVATE.format(url=url))
        # Also the target of a redirect and the detail of an error are written by the site.
        if "text" in page or page.get("redirects") or page.get("detail"):
            self._has_read = self._has_read or url
        page["text"] = page.get("text", "")[:_TEXT_LENGTH]
        return framed(json.dumps(page, ensure_ascii=False), f"the web page {url}")

    async def pause_host(self, host: str, why: str) -> str:
        """Send no request to a host until it is resumed; for instance after a complaint."""
        return await self._decide(host, "pause", why)

    async def resume_host(self, host: str, why: str) -> str:
        """End the pause of a host."""
        return await self._decide(host, "resume", why)

    async def pause_crawl(self, why: str) -> str:
        """Send no request at all until the crawl is resumed."""
        self._check_allowed()
        return json.dumps(await self._call("POST", "/crawl/pause", {"why": why}))

    async def resume_crawl(self, why: str) -> str:
        """End the pause of the whole crawl."""
        self._check_allowed()
        return json.dumps(await self._call("POST", "/crawl/resume", {"why": why}))

    async def _decide(self, host: str, action: str, why: str) -> str:
        self._check_allowed()
        path = f"/hosts/{quote(host, safe='')}/{action}"
        return json.dumps(await self._call("POST", path, {"why": why}))

    def _check_allowed(self) -> None:
        """Raises ``ToolError`` once a page has been read."""
        if self._has_read and not self._trusts_pages:
            raise ToolError(_REFUSED.format(url=self._has_read))

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer of the interface. Raises ``ToolError`` with what it says."""
        return await asyncio.to_thread(self._requested, method, path, body)

    def _requested(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"Accept": "application/json"}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._address}/api/v1{path}", data, headers, method=method
        )
        try:
            with self._opener.open(request, timeout=_ANSWER_S) as answer:
                return json.loads(answer.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            raise ToolError(_problem_text(error)) from error
        except (OSError, ValueError) as error:
            raise ToolError(f"{self._address} does not answer: {error}") from error


def _problem_text(error: urllib.error.HTTPError) -> str:
    """What a problem of the interface says (RFC 9457)."""
    try:
        problem = json.loads(error.read(_ANSWER_BYTES))
        return f"{error.code}: {problem.get('detail') or problem.get('title')}"
    except (OSError, ValueError):
        return f"{error.code}: {error.reason}"
