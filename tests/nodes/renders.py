"""Pages are rendered while machines die: in the end each has the document that its scripts make of
what the crawl has stored, whoever owned it, and whichever renderer was lost on the way.

Pages of some sections name a script, which imports another one, asks for data of its host, for a
script of another host, and has a link that only rendering finds. The renderers are programs that
outlive the workers; now and then one is killed with what it was lent.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from urllib.parse import urljoin

import msgspec

from lycosa.base.calls import (
    Call,
    CallReply,
    GiveRender,
    LentRender,
    RendersLent,
    RenderTaken,
    RenderVerdict,
    TakeRenders,
    decode_reply,
    encode_call,
)
from lycosa.base.config.sections import RenderSection
from lycosa.base.model.packed_render import pack_rendered
from lycosa.base.model.render_row import RenderOutcome
from lycosa.base.urls.identity import hash8, host_of, partition_of
from lycosa.state.cold.whole_table import whole_table
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.kv.table_records import outcome_key, prefix_end
from lycosa.synthetic import Obstacle, SyntheticWeb
from lycosa.synthetic.oracle import Truth
from lycosa.synthetic.scripted_renderer import ScriptedRenderer
from lycosa.synthetic.sent_response import Response
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from memory_objects import MemoryStore
from memory_segments import MemorySegments
from nodes.history import NodesHistory
from nodes.plugin import Plugin
from rendering import CalledArchive

_RENDERED = re.compile(r"/(?:blog|docs)/")
_APP, _LATE, _DATA, _MORE, _SHARED, _FOUND = (
    f"_r/{name}"
    for name in ("app.js", "late.js", "data.json", "late.json", "shared.js", "found.html")
)
_TEXT = {_DATA: "the data", _MORE: "more data"}
_TAG = b'<script src="/_r/app.js"></script>'
_STATIC = re.compile(r"(?:src|href)=\"(/static/[^\"]+)\"")
_NOFOLLOW = re.compile(rb"<meta name=\"robots\"[^>]*nofollow")
_LATER_S = 3000.0  # no host is ill any more
_LEAST_RENDERED = 20
_KILLED = 0.1  # of pages that are lent, with their renderer


class ScriptedWeb:
    """A web some of whose pages need their scripts."""

    def __init__(self, web: SyntheticWeb, hub: str) -> None:
        self._web = web
        self._files = {
            _APP: f"import './late.js';\nload /{_DATA}\nload {hub}{_SHARED} script\ntext app",
            _LATE: f"load /{_MORE}\nlink /{_FOUND}",
            _SHARED: "text shared",
            **_TEXT,
        }

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = url[url.index("/", 8) + 1 :]
        if path in self._files:
            kind = "text/javascript" if path.endswith(".js") else "application/json"
            text = self._files[path].encode()
            return Response(200, [("Content-Type", kind)], text, 0.05)
        if path == _FOUND:
            page = f"<!DOCTYPE html><title>Found</title><p>Found by scripts of {host_of(url)}.</p>"
            return Response(200, [("Content-Type", "text/html")], page.encode(), 0.05)
        plain = {name: value for name, value in headers.items() if name != "accept-encoding"}
        answer = self._web.respond(url, at, plain)
        if answer.status == 200 and _RENDERED.search(url) and b"<!DOCTYPE html" in answer.body:
            return msgspec.structs.replace(answer, body=answer.body + _TAG)
        return answer


class Renders(Plugin):
    """A renderer for each shard, which asks its owner at that time."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        web = history.web
        origins = [web.seed_url(number) for number in range(web.plan.hosts)]
        self._hub = next(each for each in origins if self._may(each + _SHARED))
        history.answers = ScriptedWeb(web, self._hub)
        section = RenderSection(policies=(f"re:{_RENDERED.pattern} always",))
        history.config = msgspec.structs.replace(history.config, render=section)
        self._chance = random.Random(f"renders {history.seed}")
        self._renderer = ScriptedRenderer(asyncio.sleep, 0.3)
        self._pages: set[str] = set()
        self._scripted: set[str] = set()
        self._nofollow: set[str] = set()
        self.verdicts = dict.fromkeys(RenderVerdict, 0)
        self.killed = 0

    def _may(self, url: str) -> bool:
        return self.history.web.verdict(url) is Obstacle.ALLOWED

    # -- the renderers

    async def attend(self) -> None:
        for shard in range(self.world.shards):
            self.world.spawn(self._work(shard))

    async def _work(self, shard: int) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, 1.0))
            try:
                taken = await self._ask(shard, TakeRenders(f"renderer {shard}", 2))
            except ExchangeError:
                continue
            for lent in taken.renders if isinstance(taken, RendersLent) else ():
                if self.world.is_troubled and self._chance.random() < _KILLED:
                    self.killed += 1
                    continue
                await self._render(lent)

    async def _render(self, lent: LentRender) -> None:
        archive = CalledArchive(self._ask_again, self._owner_of, lent)
        try:
            result = pack_rendered(await self._renderer.render(lent.task, archive))
        except ExchangeError:
            result = b""  # given back: an owner did not answer
        call = GiveRender("renderer", lent.row, lent.lending, result, places=archive.places)
        for _ in range(self._chance.choice((1, 1, 2))):
            try:
                taken = await self._ask_again(lent.partition, call)
            except ExchangeError:
                return
            if isinstance(taken, RenderTaken):
                self.verdicts[taken.verdict] += 1

    def _owner_of(self, host: str) -> int:
        return partition_of(self.world.sites.site_of(host), self.world.shards)

    async def _ask(self, shard: int, call: Call) -> CallReply:
        return decode_reply(await self.world.call_owner(shard, encode_call(call)))

    async def _ask_again(self, shard: int, call: Call) -> CallReply:
        for _ in range(3):
            try:
                return await self._ask(shard, call)
            except ExchangeError:
                await asyncio.sleep(4.0)
        return await self._ask(shard, call)

    # -- judging

    def expect(self, truth: Truth) -> None:
        answers = self.history.answers
        self._pages = {each for each in truth.pages if _RENDERED.search(each)}
        for page in self._pages:
            # Some pages are there only at a later request.
            tries = (answers.respond(page, VIRTUAL_EPOCH + _LATER_S, {}) for _ in range(9))
            body = next(answer.body for answer in tries if answer.status == 200)
            if _NOFOLLOW.search(body):
                # Nothing is fetched for it; it may have what other pages wanted.
                self._nofollow.add(page)
                continue
            if _TAG in body:
                self._scripted.add(page)
            for path in _STATIC.findall(body.decode("utf-8", "replace")):
                url = urljoin(page, path)
                (truth.others if self._may(url) else truth.disallowed).add(url)
        origins = {each[: each.index("/", 8) + 1] for each in self._scripted}
        for origin in origins:
            if not self._may(origin + _APP):
                truth.disallowed.add(origin + _APP)
                continue
            asked = [_APP, _LATE, _DATA]
            asked += [_MORE, _FOUND] if self._may(origin + _LATE) else []
            for path in asked:
                kind = truth.others if self._may(origin + path) else truth.disallowed
                kind.add(origin + path)
            truth.others.add(self._hub + _SHARED)

    def judge(self) -> None:
        """Each page has its document, with all that its scripts found, and nothing waits."""
        world = self.world
        store = MemoryStore(world.objects)
        found = 0
        for shard, table in self.history.final_tables().items():
            whole, segments = whole_table(table, store), MemorySegments(world.objects, shard)
            for letter in (b"v", b"d"):
                left = [key for key, _ in whole.scan(letter, prefix_end(letter)) if len(key) > 9]
                assert not left, ("rows that are left", letter, left)
            for url in sorted(self._pages):
                if self._owner_of(host_of(url)) != shard:
                    continue
                value = whole.get(outcome_key(hash8(host_of(url)) + hash8(url)))
                assert value is not None, ("not rendered", url)
                outcome = msgspec.msgpack.decode(value, type=RenderOutcome)
                assert outcome.end == "quiet", (url, outcome)
                document = segments.read_record(outcome.segment, outcome.offset).body.decode()
                if url not in self._nofollow:
                    self._judge_document(url, document)
                found += 1
        assert found >= _LEAST_RENDERED, f"only {found} pages were rendered"

    def _judge_document(self, url: str, document: str) -> None:
        origin = url[: url.index("/", 8) + 1]
        has_app = url in self._scripted and self._may(origin + _APP)
        has_late = has_app and self._may(origin + _LATE)
        wanted = {"<p>app</p>": has_app, "<p>shared</p>": has_app, f"/{_FOUND}": has_late}
        wanted[f"<p>{_TEXT[_DATA]}</p>"] = has_app and self._may(origin + _DATA)
        wanted[f"<p>{_TEXT[_MORE]}</p>"] = has_late and self._may(origin + _MORE)
        for part, is_wanted in wanted.items():
            assert (part in document) == is_wanted, (url, part, document[-400:])
