"""The results of a page's answer in a simulation: its record, its next time, the pages it links to.

The content comes from ``Copies``: a page has changed since its copy was made, or has not.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.factors import Factors
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.parsed import Link
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.simulate.host_answers import KnownHost
from lycosa.simulate.jump_clock import JumpClock
from lycosa.simulate.page_copies import Copies
from lycosa.simulate.sample import Host
from lycosa.simulate.web_model import Web
from lycosa.stages.frontier.discovery import LinkSource
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.ranking import factors_of_known
from lycosa.stages.schedule.fetch_outcome import FetchOutcome, Meaning
from lycosa.stages.schedule.priority import link_importance, weigher
from lycosa.stages.schedule.refetch_plan import FoundContent, plan_refetch
from lycosa.stages.schedule.steps import RejectAnswer


class Tally(msgspec.Struct):
    """Counts until now.

    Requests, and those for robots.txt among them; captures, and revisits among them; body bytes
    received; pages fetched for the first time, and the time of the last of these.
    """

    requests: int = 0
    robots: int = 0
    captures: int = 0
    revisits: int = 0
    body_bytes: float = 0.0
    stored_bytes: float = 0.0
    new_pages: int = 0
    last_new_s: float = 0.0


class Captures:
    """The captures of one part."""

    def __init__(
        self,
        partition: Partition,
        web: Web,
        config: Config,
        copies: Copies,
        clock: JumpClock,
        tally: Tally,
    ) -> None:
        self._partition, self._web, self._config = partition, web, config
        self._copies, self._clock, self._tally = copies, clock, tally
        weigh = weigher(config.priority)
        self.weigh: Callable[[int, Factors], float] = lambda _, factors: weigh(factors)
        """The weight of a page, by its number and what its priority is made of."""
        self.on_new_page: Callable[[Lease], None] = lambda lease: None
        """Called with the lease of each page that is fetched for the first time."""

    def seed(self, host: str) -> Discovered:
        """Discover a host's first page."""
        url = f"http://{host}/0"
        return Discovered(url, hash8(host), hash8(url), LinkKind.SEED, 0, importance=1.0)

    def count(self, lease: Lease, fetched: Fetched, is_capture: bool) -> None:
        """Count an answer against its host."""
        self._partition.note_capture(
            lease.host,
            body_bytes=fetched.body_bytes,
            duration_s=fetched.duration_s,
            is_page=fetched.status == 200,
            is_capture=is_capture,
        )
        self._tally.captures += is_capture

    def reject(self, lease: Lease, step: RejectAnswer) -> None:
        """End a lease without a capture."""
        self._complete(lease, step.state, step.reason, step.due, None)

    def store(
        self, known: KnownHost, lease: Lease, fetched: Fetched, outcome: FetchOutcome
    ) -> None:
        """End a lease with a capture."""
        if outcome.meaning is Meaning.FAILED:
            old = lease.record.history or History()
            kept = msgspec.structs.replace(old, cell=0)
            self._complete(lease, UrlState.FAILED, outcome.reason, 0, kept)
        else:
            self._store(known, lease, fetched, outcome)

    def _store(
        self, known: KnownHost, lease: Lease, fetched: Fetched, outcome: FetchOutcome
    ) -> None:
        old, page, now = lease.record.history or History(), known.page(lease), self._clock.now
        is_new = outcome.meaning is not Meaning.NOT_MODIFIED
        changed = is_new and not self._copies.is_current(page, now)
        self._tally.revisits += not changed
        self._tally.stored_bytes += fetched.body_bytes if changed else 0
        self._copies.store(page, now)
        # A change has a digest that none of the page's copies had.
        digest = (old.fetches + 1).to_bytes(8, "big") if changed else old.text_digest
        found = FoundContent(outcome.meaning, self._clock.wall(), digest, digest)
        factors = factors_of_known(lease.record, lease.host.authority, found.at)
        plan = plan_refetch(
            self._partition.rules.forward.section,
            lease.url,
            old,
            found,
            self.weigh(page, factors),
            PROTOCOL,
            look=self._partition.rules.look_at(lease.host.host8),
        )
        # Only the fields that a simulation reads.
        history = History(
            fetches=old.fetches + 1,
            fetched_at=int(found.at),
            status=200,
            etag='"1"' if known.host.has_validators else "",
        )
        history = plan.kept_in(history, old, digest)
        due = int(found.at + plan.interval_s) if plan.interval_s else 0
        self._complete(lease, UrlState.FETCHED, outcome.reason, due, history)
        if old.fetches == 0:
            self._tally.new_pages += 1
            self._tally.last_new_s = now
            self._name_pages(known.host, lease)
            self.on_new_page(lease)

    def _complete(
        self, lease: Lease, state: UrlState, reason: Reason, due: int, history: History | None
    ) -> None:
        host8, url8 = lease.host.host8, lease.entry.url8
        done = Completed(host8, url8, lease.number, state, reason, "", due, history)
        self._partition.complete_lease(lease, done)

    def _name_pages(self, host: Host, lease: Lease) -> None:
        """Discover the pages of its host that this page links to first.

        The pages of a host are a tree with a fixed number of branches at each.
        """
        most, branches = self._config.scope.max_depth, self._web.branches
        first = int(lease.record.target[1:]) * branches + 1
        last = min(first + branches, host.pages)
        depth = lease.record.depth + 1
        if first >= last or 0 <= most < depth:
            return
        importance = link_importance(lease.host.authority, last - first)
        origin = LinkSource(lease.url, depth, importance)
        urls = [f"http://{host.name}/{number}" for number in range(first, last)]
        links = [Link(url, lease.host.host8, hash8(url), LinkKind.A) for url in urls]
        self._partition.gather_links(origin, links, self._clock.wall())
