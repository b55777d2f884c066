"""Pages are given to user code while machines die: in the end every page that was parsed has its rows,
of its own content, in the commit of its capture.
"""

from __future__ import annotations

import asyncio

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.extract.code_source import load_code
from lycosa.stages.extract.inline_code import InlineCode
from nodes.history import NodesHistory
from nodes.machine import Process
from nodes.plugin import Plugin

_ASKED_S = 0.3  # a page, so that processes die meanwhile
_CODE = """
import lycosa

class Row(lycosa.Item, frozen=True):
    url: str
    title: str
    at: str

@lycosa.extract(Row)
def rows(page):
    yield Row(page.url, page.title, page.fetched.isoformat())

@lycosa.score
def by_length(page, link):
    return len(link.url) % 7 / 7

both = [rows, by_length]
"""


class NodeCode(InlineCode):
    """Calls the code of one process, which takes a while."""

    process: Process

    async def answer(self, page: GivenDocument, codes: tuple[int, ...] = ()) -> ExtensionAnswer:
        await asyncio.sleep(_ASKED_S)
        await self.process.gate()
        return await super().answer(page, codes)


class Extracting(Plugin):
    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self.folder = history.folder
        self.extracted = 0

    def code(self, process: Process) -> NodeCode:
        file = self.folder / "shop.py"
        if not file.exists():
            file.write_text(_CODE)
        caller = NodeCode([load_code(f"{file}:both")], self.world.config.canonical)
        caller.process = process
        return caller

    def judge(self) -> None:
        for row in self.history.rows:
            is_own = row.original is not None and row.original.url == row.url
            if row.kind is not FetchKind.PAGE or row.status != 200 or is_own:
                assert not row.items, row
                continue
            ((url, title, _),) = row.items["rows"]
            assert (url, title) == (row.url, row.title), row
            assert Reason.EXTENSION_FAILED not in {each.reason for each in row.remarks}
            self.extracted += 1
