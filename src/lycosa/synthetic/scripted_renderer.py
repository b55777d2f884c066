"""A renderer without a browser, for crawls in virtual time.

Pages name scripts, and a script is lines of a small language, so that a test can write down what a
page asks for, in which order, and what it adds:

    import URL                   load another script
    load URL [DESTINATION]       request something; the text of data is shown
    link URL                     add a link to the document
    text WORDS                   add a paragraph
    frame URL MARKUP             add a frame with that document
    crash | hang                 what kills a browser, or keeps it busy

What was not found is wanted, and the lines of a script that is missing do not run: like a browser
that gets an error for it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from html import escape
from urllib.parse import urljoin

from lycosa.base.model.capture import Want
from lycosa.base.model.rendered_page import (
    ArchiveQuery,
    FrameDocument,
    MissingAnswer,
    PageRequest,
    Rendered,
    RenderEnd,
    RenderTask,
    StoredAnswer,
)
from lycosa.base.ports import Archive

_LOADS = re.compile(
    r"<script\b[^>]*\ssrc=\"(?P<script>[^\"]+)\"|<link\b[^>]*rel=\"?stylesheet\"?[^>]*"
    r"\shref=\"(?P<style>[^\"]+)\"|<img\b[^>]*\ssrc=\"(?P<image>[^\"]+)\""
)
_END = re.compile(r"</body>|\Z")
_REDIRECTS = range(300, 400)
_MOST_REQUESTS = 1000


class ScriptedRenderer:
    """Renders pages whose scripts are in the language above.

    A round takes ``seconds``. ``rounds`` has the URL and number of each round that it ended.
    """

    def __init__(
        self, sleep: Callable[[float], Awaitable[None]] | None = None, seconds: float = 0.5
    ) -> None:
        self._sleep, self._seconds = sleep, seconds
        self.rounds: list[tuple[str, int]] = []

    async def render(self, task: RenderTask, archive: Archive) -> Rendered:
        """Run the scripts of a page, as far as the archive has them."""
        if self._sleep is not None:
            await self._sleep(self._seconds)
        page = _Page(task)
        rendered = await page.load(archive)
        self.rounds.append((task.url, task.round))
        return rendered

    def describe(self) -> str:
        """The name of the browser."""
        return "scripted renderer"

    async def close(self) -> None:
        """Nothing is held."""


class _Page:
    def __init__(self, task: RenderTask) -> None:
        self._task = task
        self._added: list[str] = []
        self._frames: list[FrameDocument] = []
        self._requests: dict[str, PageRequest] = {}
        self._wants: list[Want] = []
        self._end = RenderEnd.QUIET

    async def load(self, archive: Archive) -> Rendered:
        url = self._task.url
        (found,) = await archive.find([ArchiveQuery(url, "document")])
        if isinstance(found, MissingAnswer):
            return Rendered(RenderEnd.NO_PAGE, found.reason.name.lower())
        self._requests[url] = PageRequest(url, "document", found.record, "", found.status)
        html = found.body.decode("utf-8", "replace")
        waiting = list(_loads(html, url))
        while waiting and self._end is RenderEnd.QUIET and len(self._requests) < _MOST_REQUESTS:
            fresh = {query.url: query for query in waiting if query.url not in self._requests}
            queries = list(fresh.values())
            answers = await archive.find(queries) if queries else []
            waiting = []
            for query, answer in zip(queries, answers, strict=True):
                waiting += self._take(query, answer)
        if not self._end.has_document:
            return Rendered(self._end, elapsed_s=1.0, processor_s=1.0)
        at = _END.search(html)
        place = at.start() if at is not None else len(html)
        return Rendered(
            self._end,
            url=url,
            html=html[:place] + "".join(self._added) + html[place:],
            frames=tuple(self._frames),
            wants=tuple(self._wants),
            requests=tuple(self._requests.values()),
            elapsed_s=0.3,
            processor_s=0.2,
            browser="scripted",
        )

    def _take(
        self, query: ArchiveQuery, answer: StoredAnswer | MissingAnswer
    ) -> Iterator[ArchiveQuery]:
        """Take in an answer; what it loads in its turn."""
        if isinstance(answer, MissingAnswer):
            refusal = answer.reason.name.lower() if answer.reason else "wanted"
            self._requests[query.url] = PageRequest(query.url, query.destination, "", refusal)
            if not answer.reason:
                self._wants.append(Want(query.url, query.destination))
            return
        self._requests[query.url] = PageRequest(
            query.url, query.destination, answer.record, "", answer.status
        )
        if answer.status in _REDIRECTS:
            location = dict(answer.headers).get("location")
            if location:
                yield ArchiveQuery(urljoin(query.url, location), query.destination)
        elif answer.status == 200:
            text = answer.body.decode("utf-8", "replace")
            if query.destination == "script":
                yield from self._run(text, query.url)
            elif query.destination == "":
                self._added.append(f"<p>{escape(text[:500])}</p>")

    def _run(self, script: str, base: str) -> Iterator[ArchiveQuery]:
        for line in script.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "import":
                yield ArchiveQuery(urljoin(base, rest.strip("\"';")), "script")
            elif word == "load":
                target, _, destination = rest.partition(" ")
                yield ArchiveQuery(urljoin(base, target), destination)
            elif word == "link":
                target = urljoin(self._task.url, rest)
                self._added.append(f'<a href="{escape(target)}">{escape(rest)}</a> ')
            elif word == "text":
                self._added.append(f"<p>{escape(rest)}</p>")
            elif word == "frame":
                target, _, markup = rest.partition(" ")
                where = target if target.startswith("about:") else urljoin(self._task.url, target)
                self._frames.append(FrameDocument(where, markup))
            elif word == "crash":
                self._end = RenderEnd.CRASHED
            elif word == "hang":
                self._end = RenderEnd.HUNG


def _loads(html: str, url: str) -> Iterator[ArchiveQuery]:
    for match in _LOADS.finditer(html):
        for destination, target in match.groupdict().items():
            if target is not None:
                yield ArchiveQuery(urljoin(url, target), destination)
