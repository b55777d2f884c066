"""In which band of its host a page waits whose time has come, or when it is due instead.

A page that was fetched before waits in a band of due pages, also for a retry, and a new page in one
of its priority. A page that is judged to be due later gets that time and costs no request. A probe
waits for its turn (``probe_line``) before it enters the queue of its host.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.model.due_band import DueBand, DueJudgement
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.url_parts import join_url
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.probe_line import ProbeLine
from lycosa.stages.frontier.sitemap_news import SitemapNews
from lycosa.state.kv.table_records import UrlRecord

JudgePage = Callable[[bytes, str, UrlRecord, float], DueJudgement]
"""The judgement of a page that was fetched before.

Of the hash of its host, its URL and its record, at a wall time in seconds since 1970.
"""


def judge_as_due(host8: bytes, url: str, record: UrlRecord, now_wall: float) -> DueJudgement:
    """The simplest judgement."""
    return DueJudgement(DueBand.DUE, 1.0)


class EntryBands:
    """The decision for one partition. Without a ``judge`` there are no bands of due pages."""

    def __init__(
        self, judge: JudgePage | None, forward: SitemapNews, due: DueQueue, probes: ProbeLine
    ) -> None:
        """``forward`` knows the difference of the clocks."""
        self._judge, self._forward, self._due, self._probes = judge, forward, due, probes

    def find_band(
        self, host: str, url: bytes, record: UrlRecord, now: float, is_probe: bool
    ) -> int | None:
        """The band of due pages in which it waits; -1: the one of its priority.

        ``None`` when its record has another due time now, which is in the schedule. ``url`` is
        host8 and url8. ``is_probe`` says that it has waited as a probe.
        """
        history = record.history
        if self._judge is None or history is None or not history.fetches:
            return -1
        ahead_s = self._forward.ahead_s()
        name = join_url("https" if record.secure else "http", host, record.target)
        judged = self._judge(url[:8], name, record, now - ahead_s)
        if record.state is UrlState.QUEUED:  # its fetch failed, and is only repeated
            return DueBand.DUE if judged.band is None else judged.band
        if judged.band is None:
            record.due_at = max(int(judged.later_at + ahead_s), int(now)) + 1
            self._due.add_due(record.due_at, url)
        elif judged.band is DueBand.PROBE and not is_probe:
            record.due_at = self._probes.add(history.fetched_at, url)
            return None
        return judged.band
