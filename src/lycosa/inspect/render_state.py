"""Pages of a crawl that are to be rendered, and what they wait for."""

from __future__ import annotations

from collections import Counter

import msgspec

from lycosa.base.urls.identity import host_of
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.render_rows import waiting_rows

_HOSTS = 10  # that are listed


class WaitingRenders(msgspec.Struct, frozen=True):
    """Pages that are to be rendered, as of the last commit.

    ``due`` may be taken by a renderer or are with one, ``waiting`` wait for ``wants`` URLs that
    they load. ``hosts`` are the ten hosts with most of them, and their numbers.
    """

    due: int = 0
    waiting: int = 0
    wants: int = 0
    hosts: dict[str, int] = {}


class RenderTallies:
    """Adds up the partitions of a crawl."""

    def __init__(self) -> None:
        self._open: list[int] = []  # wants without an answer, of each page
        self._hosts: Counter[str] = Counter()

    def add_partition(self, view: TableView) -> None:
        for _, row in waiting_rows(view.scan):
            self._open.append(row.wants_left)
            self._hosts[host_of(row.page.url)] += 1

    def result(self) -> WaitingRenders:
        waiting = [number for number in self._open if number]
        hosts = dict(self._hosts.most_common(_HOSTS))
        return WaitingRenders(len(self._open) - len(waiting), len(waiting), sum(waiting), hosts)
