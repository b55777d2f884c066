"""The archive of one page that is rendered: its requests, answered from what the crawl has stored.

Within a render each URL has one answer. In later rounds it is the same record as before
(``LentRender.records``), also when the crawl has fetched the URL again meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lycosa.base.calls import AskedCapture
from lycosa.base.model.rendered_page import ArchiveQuery, MissingAnswer, StoredAnswer
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, host_of
from lycosa.processes.rendering.capture_caller import CaptureCaller, OwnerLost
from lycosa.service.api.places import PartitionFinder


class CalledArchive:
    """``Archive`` of one render of a page of ``site``.

    ``records`` has the record ids of earlier rounds by URL, ``places`` where these are.
    """

    def __init__(
        self,
        finder: CaptureCaller,
        addressing: PartitionFinder,
        records: Mapping[str, str],
        site: str,
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._finder, self._addressing, self._site = finder, addressing, site
        self._records, self._known = dict(records), places
        self.places: dict[str, str] = {}
        """Where the records that answered are, by canonical URL."""
        self.found_here = self.found_there = self.missing = 0
        self.lost = ""
        """Why the answers are not those of the crawl; such a render is given back."""

    async def find(self, requests: Sequence[ArchiveQuery]) -> list[StoredAnswer | MissingAnswer]:
        """See ``Archive``."""
        return list(await asyncio.gather(*map(self._find, requests)))

    async def _find(self, request: ArchiveQuery) -> StoredAnswer | MissingAnswer:
        try:
            url = self._addressing.canonical(request.url)
            also = self._addressing.canonical(request.also) if request.also else ""
            partition = self._addressing.of_host(host_of(url))
        except InvalidUrl as error:
            return MissingAnswer(error.reason)
        if not self._addressing.may_show(url, self._site):
            return MissingAnswer(Reason.WANT_ELSEWHERE)
        record, is_other = self._records.get(url, ""), False
        if not record and also and also in self._records:
            url, also, record, is_other = also, "", self._records[also], True
        try:
            asked = AskedCapture(url, record, also, place=self._known.get(url, "") * bool(record))
            found, was_here = await self._finder.find(partition, asked)
        except OwnerLost as error:
            # The page may take this for a failure of the network and show something else. Its
            # result is thrown away.
            self.lost = str(error)
            return MissingAnswer(Reason.REQUEST_UNANSWERED)
        # Also when its rule is gone since: the rules above say only what is fetched now.
        if found.is_private and self._addressing.site_of(host_of(url)) != self._site:
            return MissingAnswer(Reason.WANT_ELSEWHERE)
        if not found.record:
            self.missing += 1
            return MissingAnswer(found.reason)
        self.found_here += was_here
        self.found_there += not was_here
        is_other = is_other or found.is_other
        answered = also if found.is_other else url
        if self._records.setdefault(answered, found.record) == found.record and found.place:
            self.places[answered] = found.place
        return StoredAnswer(found.record, found.status, found.headers, found.body, is_other)
