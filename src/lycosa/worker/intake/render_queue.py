"""Lets pages be rendered, and posts what they miss to the owners of the hosts.

A page that the rule chooses becomes a row of its partition in the commit of its capture. What its
markup loads is wanted at once, so that the first round finds it; so is what a script or style sheet
imports, when *that* is parsed. Without this, a graph of modules would cost a round for each level.

Everything here is synchronous and called in a step that no commit divides: a want is posted in the
commit that stores it, and settled in the one that settles its URL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from lycosa.base.config.render_policies import render_book
from lycosa.base.config.sections import RenderMode, RenderSection
from lycosa.base.model.capture import Want
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Privacy
from lycosa.base.model.parcel_items import SettledWant, WantingPage
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.model.render_row import CapturedPage
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.preferences.preference_model import Preferences
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED
from lycosa.stages.schedule.render_choice import RenderChoice, choose_render
from lycosa.state.kv.table_records import UrlRecord

PostWants = Callable[[WantingPage, str, int, Sequence[Want], bool], list[SettledWant]]
"""Posts wants of a page (its place, URL, depth, and whether its links are not to be followed).

Returns those that are settled at once; each other one is settled once, later.
"""

_DESTINATIONS = {LinkKind.SCRIPT: "script", LinkKind.STYLE: "style"}
_ICON = "favicon"  # other icons are not asked for by a browser with windows


class RenderQueue:
    """One per worker, unless its crawl stores formats 1, which have no renders.

    ``judge`` tells the parser whether it has to judge which pages need their scripts.
    """

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        post: PostWants,
        site_of: Callable[[str], str],
        clock: CrawlClock,
        section: RenderSection,
        judge: Callable[[bool], None] = lambda is_wanted: None,
    ) -> None:
        self._partitions, self._post = partitions, post
        self.site_of, self._clock, self.section = site_of, clock, section
        self.is_on = section.is_on
        """Whether any page is rendered; nothing is judged and nothing waited for otherwise."""
        self._judge = judge
        self._active_at = clock.monotonic()
        self.crowded_out = 0
        """Pages of this run that stayed as they are because too many waited."""

    def __repr__(self) -> str:
        return f"<RenderQueue {self.waiting}>"

    @property
    def waiting(self) -> int:
        """Number of pages that are to be rendered."""
        return sum(len(partition.renders) for partition in self._partitions.values())

    @property
    def is_busy(self) -> bool:
        """Whether the crawl has to wait for renders.

        It waits as long as something happens to them: pages stay for the next run when no renderer
        took one and no want was settled for ``render.wait_s``.
        """
        is_active = self._clock.monotonic() - self._active_at < self.section.wait_s
        return self.is_on and is_active and self.waiting > 0

    def follow(self, section: RenderSection) -> None:
        """Go by these settings from now on. What waits stays when nothing is rendered any more."""
        if section.is_on and not self.is_on:
            self.note_activity()  # of pages that wait since an earlier time
        self.section, self.is_on = section, section.is_on
        self._judge(self.is_on)

    def is_rendered(self, url: str) -> bool:
        """Whether the present settings let pages of this URL be rendered."""
        return render_book(self.section).mode_of(url) is not RenderMode.NEVER

    def note_activity(self) -> None:
        """Note that a render came further."""
        self._active_at = self._clock.monotonic()

    def note_page(
        self,
        lease: Lease,
        parsed: Parsed,
        done: Completed,
        stated: Preferences,
        privacy: Privacy = Privacy.PUBLIC,
    ) -> RenderChoice:
        """Let a page be rendered if it needs that; in the step that stores its capture.

        A page whose body was rendered before is not rendered again.
        """
        plain = RenderChoice.PLAIN
        history, record = done.history, lease.record
        if history is None or history.status != 200 or done.state is not UrlState.FETCHED:
            return plain
        if record.kind.is_requisite or parsed.reason in NOT_PARSED:
            return plain
        choice = choose_render(
            self.section,
            lease.url,
            done.url8,
            parsed,
            lease.host.record.renders,
            self.waiting,
            record.priority,
        )
        if choice is not RenderChoice.RENDER:
            self.crowded_out += choice is RenderChoice.CROWDED_OUT
            return choice
        partition, page = self._partitions[lease.host.partition], done.host8 + done.url8
        if not partition.renders.is_needed(page, history.digest):
            return plain
        facts = self.facts_of(lease.url, record, history, lease.number, parsed, stated, privacy)
        self.begin(partition, page, facts, parsed.links)
        return choice

    def facts_of(
        self,
        url: str,
        record: UrlRecord,
        history: History,
        fetch_number: int,
        parsed: Parsed,
        stated: Preferences,
        privacy: Privacy,
    ) -> CapturedPage:
        """What is remembered of a capture; ``history`` is that after it."""
        return CapturedPage(
            url,
            history.date_us,
            history.record_id,
            history.digest,
            *history.body_place,
            fetch_number,
            parsed.directives,
            stated,
            len(parsed.text),
            len(parsed.links),
            record.priority,
            record.depth,
            privacy,
        )

    def begin(
        self,
        partition: Partition,
        page: bytes,
        facts: CapturedPage,
        links: Sequence[Link] = (),
        is_ordered: bool = False,
    ) -> None:
        """Let a page with these links be rendered, after what it loads was fetched."""
        now, loads = self._clock.time(), loads_of(links)
        wants = partition.renders.begin(page, facts, loads, self.site_of, now, is_ordered)
        self.note_activity()
        self.post(partition, page, wants)

    def note_end(self, partition: Partition) -> None:
        """Post what the next pages will want, after a render ended that tells more about it."""
        ahead = partition.renders.guess_ahead(self.site_of, self._clock.time())
        for page, wants in ahead:
            self.post(partition, page, wants)

    def post(self, partition: Partition, page: bytes, wants: Sequence[Want]) -> None:
        """Post wants of a page, and what is wanted because of those that are settled at once."""
        renders = partition.renders
        settled: deque[SettledWant] = deque()
        while True:
            row = renders.get(page)
            if wants and row is not None:
                place = WantingPage(partition.number, page[:8], page[8:])
                facts = row.page
                is_nofollow = facts.directives.nofollow
                settled += self._post(place, facts.url, facts.depth, wants, is_nofollow)
            if not settled:
                return
            wants = self._settle(partition, page, settled.popleft())

    def receive(self, partition: Partition, place: WantingPage, want: SettledWant) -> None:
        """Take in what became of a want; in the step that settles it."""
        page = place.host8 + place.url8
        self.post(partition, page, self._settle(partition, page, want))
        self.note_activity()

    def _settle(self, partition: Partition, page: bytes, want: SettledWant) -> list[Want]:
        settle = partition.renders.take_settled
        return settle(page, want.url, want.location, want.loads, self.site_of)


def loads_of(links: Sequence[Link]) -> list[Want]:
    """The scripts, style sheets and the icon among links; a round asks for other requisites."""
    found = []
    for link in links:
        destination = _DESTINATIONS.get(link.kind, "")
        # Icons, fonts and manifests have the same kind as style sheets.
        path = link.url.partition("?")[0]
        if destination == "script" or (destination and path.endswith(".css")):
            found.append(Want(link.url, destination))
        elif destination and _ICON in path:
            # Renders do not show it; browsers that replay the page ask for it.
            found.append(Want(link.url, "image"))
    return found
