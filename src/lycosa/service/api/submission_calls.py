"""URLs that other programs give to a crawl, or announce as changed, as calls to their owners."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from lycosa.base import calls
from lycosa.base.urls.identity import InvalidUrl
from lycosa.service.api.answers import OwnerSilent, ServiceBusy, ServiceRefusal
from lycosa.service.api.owner_calls import OwnerCalls
from lycosa.service.api.places import PartitionFinder


class SubmissionCalls:
    """Gives URLs to the owners of their partitions."""

    def __init__(self, addressing: PartitionFinder, owners: OwnerCalls) -> None:
        self._addressing, self._calls = addressing, owners

    def __repr__(self) -> str:
        return f"<SubmissionCalls {self._addressing!r} {self._calls!r}>"

    async def give_urls(
        self,
        urls: list[calls.GivenUrl],
        by: str,
        changed: Collection[int] = (),
        adds: bool = False,
        are_awaited: bool = False,
    ) -> list[calls.GivenVerdict]:
        """Give URLs; those at the places ``changed`` are announced as changed.

        Returns a verdict for each, ``UNKNOWN`` for those of silent owners.
        """
        verdicts: list[calls.GivenVerdict | None] = [None] * len(urls)
        grouped: dict[tuple[int, bool], list[int]] = {}
        for number, given in enumerate(urls):
            try:
                owner = self._addressing.of_url(given.url)
                grouped.setdefault((owner, number in changed), []).append(number)
            except InvalidUrl as error:
                verdicts[number] = calls.GivenVerdict(
                    given.url, calls.UrlVerdict.REJECTED, error.detail
                )

        async def give(group: tuple[int, bool]) -> None:
            numbers = grouped[group]
            part = [urls[number] for number in numbers]
            try:
                call: calls.GiveUrls | calls.AnnounceChanges = (
                    calls.AnnounceChanges(by, part, adds, are_awaited)
                    if group[1]
                    else calls.GiveUrls(by, part)
                )
                reply = await self._calls.call_for(group[0], call, calls.GivenVerdicts)
            except (OwnerSilent, ServiceRefusal) as error:
                # Other owners have taken theirs. Unknown, because the URLs may be in a commit whose
                # answer was lost.
                verdict, why = calls.UrlVerdict.UNKNOWN, f"call again: {error}"
                for number in numbers:
                    verdicts[number] = calls.GivenVerdict(urls[number].url, verdict, why)
                return
            for number, each in zip(numbers, reply.verdicts, strict=True):
                verdicts[number] = each

        await asyncio.gather(*map(give, grouped))
        return [each for each in verdicts if each is not None]

    async def notify(self, partition: int, notice: calls.SiteNotice) -> None:
        """Give a notice of a site to the owner of its host; one that is away does not get it."""
        with suppress(OwnerSilent, ServiceRefusal, ServiceBusy):
            await self._calls.call_for(partition, notice, calls.GivenVerdicts)
