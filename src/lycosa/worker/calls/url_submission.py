"""URLs that another program gives to the crawl, judged and taken in by the owner of their hosts.

Each gets its verdict: the pure rules (scope, traps, the user's own), then URL-seen, then the
budgets of its host, as for a link. A repeated call finds its URLs known, so it has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.base.calls import (
    CallRefusal,
    GivenUrl,
    GivenVerdict,
    GivenVerdicts,
    GiveUrls,
    UrlVerdict,
)
from lycosa.base.model.discovered import NO_HINT, Discovered, LinkKind
from lycosa.base.ports import Clock
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of
from lycosa.stages.frontier.partition import Partition
from lycosa.worker.intake.intake import Intake

MAX_GIVEN = 1000
"""URLs of one call."""

_URLS_AT_ONCE = 50  # in one step of the loop: 5 ms when all are new
_DEEPEST = 255  # a depth in a record


class UrlSubmission:
    """One per worker."""

    def __init__(self, intake: Intake, clock: Clock) -> None:
        self._intake, self._clock = intake, clock

    async def take_urls(self, partition: Partition, call: GiveUrls) -> GivenVerdicts | CallRefusal:
        """Take the URLs, some in each step of the loop; the verdicts are in their order."""
        if len(call.urls) > MAX_GIVEN:
            return CallRefusal(f"{len(call.urls)} URLs: a call may have {MAX_GIVEN}")
        return GivenVerdicts(await self.take_given(partition, call.urls))

    async def take_given(
        self, partition: Partition, urls: Sequence[GivenUrl]
    ) -> list[GivenVerdict]:
        """Take URLs, some in each step of the loop; returns the verdicts in their order."""
        verdicts: list[GivenVerdict] = []
        for start in range(0, len(urls), _URLS_AT_ONCE):
            verdicts += self._take(partition, urls[start : start + _URLS_AT_ONCE])
            await self._clock.sleep(0)
        return verdicts

    def _take(self, partition: Partition, given: Sequence[GivenUrl]) -> list[GivenVerdict]:
        judged = [self._judge(partition, each) for each in given]
        wall = self._clock.wall()
        by_time: dict[float, list[int]] = {}
        for at, each in enumerate(given):
            if isinstance(judged[at], Discovered):
                is_past = 0 < each.discovered_at < wall
                by_time.setdefault(each.discovered_at if is_past else wall, []).append(at)
        new: dict[int, bool] = {}
        for time, places in by_time.items():
            found = [url for at in places if isinstance(url := judged[at], Discovered)]
            self._intake.note_links(partition, found)
            new.update(zip(places, partition.discover_urls(found, time), strict=True))
        return [
            GivenVerdict(each.url, UrlVerdict.REJECTED, why)
            if isinstance(why := judged[at], str)
            else GivenVerdict(each.url, UrlVerdict.ACCEPTED if new[at] else UrlVerdict.DUPLICATE)
            for at, each in enumerate(given)
        ]

    def _judge(self, partition: Partition, given: GivenUrl) -> Discovered | str:
        """The URL as it was found, or why it is refused, in words."""
        try:
            url = self._intake.canonical(given.url)
            via = self._intake.canonical(given.source_url) if given.source_url else ""
        except InvalidUrl as error:
            return f"not a URL that can be crawled: {error.detail or error.reason.meaning}"
        host = host_of(url)
        owner = self._intake.partition_of_host(host)
        if owner != partition.number:
            return f"its host belongs to partition {owner}, not to {partition.number}"
        found = Discovered(
            url,
            hash8(host),
            hash8(url),
            LinkKind.GIVEN,
            min(max(given.depth, 0), _DEEPEST),
            via,
            hint=min(given.priority, 1.0) if given.priority >= 0 else NO_HINT,
        )
        refusal = self._intake.admission.judge_url(found)
        return found if refusal is None else str(refusal)
