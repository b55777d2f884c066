"""What pages need to be rendered: posted to the owners of the hosts, and told to the pages.

    a page misses URLs -> pure rules -> the owner's partition, or its outbox -> answered at once, or
    a demand -> fetched like any URL of its host -> settled: told to all pages that wait

The pure rules judge where the page is, as for links: those of every URL (scope, traps, the user's),
and those of wants (``admit.want_rules``). What depends on state is decided by the owner alone
(``frontier.wanted_urls``): robots.txt, budgets, and how much one site gets of another one's host.

A want and its answer are in the commits of what caused them, and travel in parcels like errands. So
a crash loses none, and each want has one answer. Within a worker they take the same way without
parcels. Nothing here waits: how long a page waits for its wants is decided where it is rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from lycosa.base.model.capture import Want
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parcel_items import PostedWant, SettledWant, WantingPage
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.sitemap_scope import judge_want
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.wanted_urls import WantTime, take_want
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels

TellPage = Callable[[Partition, WantingPage, SettledWant], None]
"""Takes what became of a want of a page of a partition.

It is called in the step that settles the URL, so both are in one commit. A page that does not wait
for this URL any more must ignore it. It may post further wants.
"""


class Wants:
    """One per worker. A host gets at most ``site_wants`` requests a day for pages of another site.

    ``receive`` is set by what renders pages.
    """

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        intake: Intake,
        outgoing: OutgoingParcels,
        clock: CrawlClock,
        site_wants: int,
    ) -> None:
        self._partitions, self._intake, self._outgoing = partitions, intake, outgoing
        self._clock, self._site_wants = clock, site_wants
        self.receive: TellPage = lambda partition, page, settled: None
        for partition in partitions.values():
            partition.demands.tell = partial(self._tell_pages, partition)

    def __repr__(self) -> str:
        return f"<Wants open={self.open_demands}>"

    @property
    def open_demands(self) -> int:
        """Number of URLs of this worker that pages wait for."""
        return sum(len(partition.demands.rows) for partition in self._partitions.values())

    def post(
        self,
        page: WantingPage,
        page_url: str,
        depth: int,
        wants: Sequence[Want],
        is_nofollow: bool = False,
    ) -> list[SettledWant]:
        """Ask for what a page misses; returns what is settled already.

        That are the wants that a rule refuses, and those whose answer an owner in this worker
        knows. ``receive`` is called later, once, for each of the others. URLs must be canonical.
        ``depth`` is that of the page. ``is_nofollow``: its author asks not to follow it anywhere.
        """
        settled = []
        for want in wants:
            posted = PostedWant(want.url, want.destination, page, page_url, depth)
            refusal = self._judge(posted, is_nofollow)
            if refusal is not None:
                detail = f"{refusal.rule}: {refusal.value}"
                settled.append(SettledWant(want.url, (page,), refusal.reason, detail))
                continue
            owner = self._intake.partition_of_host(host_of(want.url))
            if owner not in self._partitions:
                self._outgoing.post_errand(page.partition, owner, posted)
            elif (answer := self._take(self._partitions[owner], posted)) is not None:
                settled.append(answer)
        return settled

    def deliver_item(self, destination: int, item: PostedWant | SettledWant) -> None:
        """Deliver a want to the owner of its host, or an answer to the pages of a partition."""
        partition = self._partitions[destination]
        if isinstance(item, SettledWant):
            for page in item.pages:
                self.receive(partition, page, item)
        elif (answer := self._take(partition, item)) is not None:
            self._tell_pages(partition, answer)

    def _judge(self, want: PostedWant, is_nofollow: bool) -> Refusal | None:
        if is_nofollow:
            return Refusal(Reason.NOFOLLOW, "nofollow", "the page")
        refusal = judge_want(want.url, want.destination, bool(self._foreign_site(want)))
        if refusal is not None:
            return refusal
        found = Discovered(
            want.url,
            hash8(host_of(want.url)),
            hash8(want.url),
            LinkKind.WANTED,
            want.depth + 1,
            want.page_url,
        )
        return self._intake.admission.judge_url(found)

    def _foreign_site(self, want: PostedWant) -> str:
        """The site of the page, if the URL is on another one; else empty."""
        site = self._intake.site_of(host_of(want.page_url))
        return site if site != self._intake.site_of(host_of(want.url)) else ""

    def _take(self, partition: Partition, want: PostedWant) -> SettledWant | None:
        at = WantTime(self._clock.time(), self._clock.wall())
        return take_want(partition, want, self._foreign_site(want), self._site_wants, at)

    def _tell_pages(self, source: Partition, settled: SettledWant) -> None:
        """Tell the pages of each partition, here or by a parcel."""
        for number in sorted({page.partition for page in settled.pages}):
            pages = tuple(page for page in settled.pages if page.partition == number)
            item = msgspec.structs.replace(settled, pages=pages)
            if number in self._partitions:
                self.deliver_item(number, item)
            else:
                self._outgoing.post_errand(source.number, number, item)
