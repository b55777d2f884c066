"""What enters the frontier: seeds, outlinks, redirects, sitemaps, licences, parcels of others.

    found -> recent (seen a moment ago?) -> admit (scope, traps: pure rules) -> the owner's
    partition, or its outbox

The pure rules judge a URL where it is found, which keeps everything out of scope out of the
exchange. What depends on state (URL-seen, budgets, depth, priority) is decided by the owner alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lycosa.base.config.scope_sections import ScopeSection
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.discovered import NO_HINT, NO_SCORE, Discovered, LinkKind, redirect_kind
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.host_memory import Usage
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.ports import Clock
from lycosa.base.preferences.preference_model import Preferences
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of, is_own_path
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.frontier.discovery import LinkSource
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.priority import link_importance
from lycosa.state.kv.table_records import joined_key
from lycosa.state.seen.recent import RecentHashes
from lycosa.state.shard.counters import count
from lycosa.worker.intake.admission import Admission
from lycosa.worker.intake.licenses import found_license, license_base, take_in_licenses
from lycosa.worker.intake.linking_page import LinkingPage, why_unfollowed
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.intake.owners import Addressing, Owners
from lycosa.worker.intake.page_parts import PageParts, PageRequisites
from lycosa.worker.intake.site_records import SiteRecords
from lycosa.worker.intake.sitemaps import Sitemaps

MANY_LINKS = 1000
"""A page with more links is taken in by slices, between which other tasks run."""

LINKS_AT_ONCE = 250
"""Links of a slice. It takes 10 ms when all of them are new."""

NO_SCORES: Mapping[str, int] = {}
_LIMITED = frozenset({LinkKind.SITEMAP_FILE, LinkKind.LICENSE})
_NO_PAGES = frozenset({LinkKind.LICENSE, LinkKind.WANTED})
_NO_HINT = (0, NO_HINT)


class Intake:
    """One per worker.

    URLs that partitions of other workers own, and places that joined the scope here, leave by
    ``outgoing``.
    """

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        addressing: Addressing,
        admission: Admission,
        recent: RecentHashes,
        clock: Clock,
        outgoing: OutgoingParcels,
    ) -> None:
        self._partitions, self._first = partitions, next(iter(partitions.values()))
        self._addressing = addressing
        self.admission = admission
        self.recent = recent
        self._clock = clock
        self._outgoing = outgoing
        self._sitemaps = Sitemaps(admission.sitemaps)
        self._standing = SiteRecords(admission.budgets, addressing.sites.site_of)
        self.owners = Owners(addressing)
        self._requisites = PageRequisites(admission.scope, admission.budgets)

    def drop_caches(self) -> None:
        """Drop what is kept only to save lookups."""
        self.recent.clear()
        self.owners.drop_caches()

    # -- URLs that were found

    def take_seed(self, raw: str, importance: float = 1.0) -> Refusal | None:
        """Take a URL given by the operator; return why it is refused, or ``None``.

        A seed of another worker's partition only widens the scope here. All workers are given all
        seeds, so nothing is passed on. Raises ``InvalidUrl``.
        """
        url = self.canonical(raw)
        owner = self._partitions.get(self.partition_of_host(host_of(url)))
        # Before the URL is judged: the seed itself makes its place a part of the scope.
        self._join(url, owner or self._first)
        if owner is None:
            return None
        host8, url8 = hash8(host_of(url)), hash8(url)
        found = Discovered(url, host8, url8, LinkKind.SEED, 0, importance=importance)
        refusal = self.admission.judge_url(found)
        if refusal is None:
            self._discover(owner, [found])
        return refusal

    def add_places(self, urls: Iterable[str]) -> None:
        """Add places to the scope that tables remember."""
        for url in urls:
            self._widen(url)

    def receive_places(self, partition: Partition, urls: Iterable[str]) -> None:
        """Add places of a parcel to the scope, and store them in the commit that takes the parcel.

        So the next owner knows them before it judges a link.
        """
        for url in urls:
            self._join(url, partition)

    def _join(self, url: str, witness: Partition, of: str = "") -> bool:
        """Add a place to the scope and store it in ``witness``; return whether it is new.

        ``of`` is the seed that redirects there.
        """
        is_new = self._widen(url, of)
        if is_new:
            witness.table.put(joined_key(url), b"")
        return is_new

    def _widen(self, url: str, of: str = "") -> bool:
        """Add a place to the scope; return whether it is new."""
        is_new = self.admission.scope.joins(url, of)
        if is_new:
            # links that were refused a moment ago may be in scope now
            self.recent.clear()
            self._standing.forget_told()
        return is_new

    def use_scope(self, section: ScopeSection) -> None:
        """Judge by other rules from now on: links, and URLs that wait when their turn comes."""
        self.admission.scope.use_section(section)
        self.recent.clear()  # links that were refused a moment ago may be in scope now
        self._standing.forget_told()

    def take_seeds(self, raws: Iterable[str], importance: float = 1.0) -> list[tuple[str, str]]:
        """Take seeds; return those that were refused, with the reason in words."""
        refused: list[tuple[str, str]] = []
        for raw in raws:
            try:
                refusal = self.take_seed(raw, importance)
            except InvalidUrl as error:
                if 0 not in self._partitions:
                    continue  # of several workers, only the owner of the first partition reports it
                refused.append(
                    (raw, f"not a URL that can be crawled: {error.detail or error.reason.meaning}")
                )
            else:
                if refusal is not None:
                    refused.append((raw, str(refusal)))
        return refused

    def take_outlinks(self, lease: Lease, parsed: Parsed) -> None:
        """Take in the links of a page at once."""
        deque(self.outlink_steps(lease, parsed), maxlen=0)

    def outlink_steps(
        self, lease: Lease, parsed: Parsed, scores: Mapping[str, int] = NO_SCORES
    ) -> Iterator[None]:
        """Take in the links of a page by slices, all before the next commit is cut.

        ``scores`` are what user code says of some of the links, by URL.
        """
        source, record = lease.host, lease.record
        if reason := why_unfollowed(parsed, self.admission.scope.section.languages):
            self._refuse(source, reason, len(parsed.links))
            return
        if record.kind in _NO_PAGES and not self._is_page(lease):
            # It was fetched for what it has, from wherever it is, and does not widen the crawl.
            self._refuse(source, Reason.OUT_OF_SCOPE, len(parsed.links))
            return
        partition = self._partitions[source.partition]
        is_sitemap = parsed.is_sitemap or record.kind is LinkKind.SITEMAP_FILE
        listing = self._sitemaps.listing_of(partition, lease, parsed) if is_sitemap else None
        importance = link_importance(source.authority, len(parsed.links))
        vouching = (
            self._sitemaps.vouching_hosts(partition, lease) if parsed.is_sitemap_index else ()
        )
        page = LinkingPage(
            lease,
            parsed,
            self.link_source(lease.url, record.depth + 1, importance),
            Counter({Reason(reason): each for reason, each in parsed.refused_links.items()}),
            vouching,
            partition.listed.mark_of(lease.url) if parsed.listing else NOT_LISTED,
            scores,
            self._standing.news_of(source.host8, parsed.links),
        )
        found, parts = parsed.links, None
        if self._requisites.are_taken:
            found, parts = self._requisites.links_of(page, self._is_page)
        has_many = len(found) > MANY_LINKS
        size = LINKS_AT_ONCE if has_many else MANY_LINKS
        for start in range(0, len(found), size):
            links: Sequence[Link] = found[start : start + size]
            if listing is not None:
                links, unlisted = listing.take_links(links)
                page.refused.update(unlisted)
            self._take_links(page, links if parts is None else self._take_loaded(parts, links))
            if has_many:
                for own in self._partitions.values():
                    # Otherwise the cut of the next commit would have to take in the links of all
                    # slices at once.
                    own.take_gathered()
                yield
        if listing is not None:
            self._sitemaps.note_listed(partition, source.host8, listing)
        if parsed.listing:
            self._sitemaps.note_reading(partition, lease, parsed, page.refused.total(), page.mark)
        for reason, number in page.refused.items():
            self._refuse(source, reason, number)

    def _take_loaded(self, parts: PageParts, links: Sequence[Link]) -> Sequence[Link]:
        """Take what a part of a page loads; return its other links."""
        links, loaded = parts.divide(links)
        self._take_links(parts.inner, loaded)
        return links

    def _take_links(self, page: LinkingPage, links: Sequence[Link]) -> None:
        """Give links that pass the pure rules to their owners; count others in ``page.refused``."""
        origin, source = page.origin, page.lease.host
        hints, changes, scores = page.parsed.hints, page.parsed.changes, page.scores
        stamps = self.admission.stamps_of(origin.via, origin.depth)
        news = page.news
        one_by_one = bool(
            hints or page.mark or page.parsed.is_sitemap or self.admission.rules or scores
        )
        fresh: list[Discovered] = []
        passed: list[Link] = []
        for link in links:
            # A known URL passes again when it is found at a smaller depth, by a kind of link that
            # other rules apply to, or with another date. Hence these are in the hashed key.
            stamp = stamps[link.kind.rules + link.nofollow]
            lastmod, hint = hints.get(link.url, _NO_HINT) if hints else _NO_HINT
            if lastmod:
                stamp += lastmod.to_bytes(8, "big")
            mark = page.mark and page.mark_of(link)
            if mark:
                stamp += mark.to_bytes(4, "big")
            score = scores.get(link.url, NO_SCORE) if scores else NO_SCORE
            if score != NO_SCORE:
                stamp += b"s%d" % score
            is_news = link.host8 in news and link.kind.leads  # the first link to a host
            is_vouched = link.kind is LinkKind.SITEMAP_FILE and bool(page.vouching)
            # First of all rules: most links of a page were seen a moment ago, and this is one
            # lookup.
            if not self.recent.admit(link.url8 + stamp) and not is_news and not is_vouched:
                continue
            if one_by_one or is_news:
                vouching, change_s = page.vouching if is_vouched else (), changes.get(link.url, 0)
                found = origin.found(link, lastmod, hint, change_s, vouching, mark, score)
                refusal = self.admission.judge_url(found, link.nofollow)
            else:
                refusal = self.admission.judge_link(link, origin.depth, origin.via)
            # Gathered links are looked up in URL-seen all at once, without hints or dates.
            if is_news and (refusal is None or refusal.reason is Reason.OUT_OF_SCOPE):
                self._standing.note_told(source.host8, link.host8)
                news.discard(link.host8)
            if refusal is None and (one_by_one or is_news):
                fresh.append(found)
            elif refusal is None:
                passed.append(link)
            else:
                page.refused[refusal.reason] += 1
        if self._requisites.has_budget:
            fresh, passed = self._requisites.within_budget(page, fresh, passed)
        self._give(fresh, self._partitions[source.partition])
        if passed:
            self.gather_links(origin, passed, self._partitions[source.partition])

    def link_source(self, via: str, depth: int, importance: float) -> LinkSource:
        """What the links of a page have in common."""
        return LinkSource(via, depth, importance)

    def gather_links(self, origin: LinkSource, links: list[Link], source: Partition) -> None:
        """Give links that passed the pure rules to their owners."""
        now = self._clock.wall()
        for owner in self.owners.route_links(links):
            partition = self._partitions.get(owner.partition)
            if partition is not None:
                partition.gather_links(origin, owner.links, now)
            else:
                found = [origin.found(link) for link in owner.links]
                self._outgoing.post_urls(source, owner.partition, found)
            # The owners are kept from page to page, so only their lists are emptied.
            owner.links.clear()

    def take_redirect(self, lease: Lease, target: str) -> None:
        """Take in a redirect's target. That of a seed joins the scope: the operator meant it."""
        record = lease.record
        if record.kind is LinkKind.WANTED:
            return  # the page asks for the target, which the rules for its site then judge
        found = Discovered(
            target,
            hash8(host_of(target)),
            hash8(target),
            redirect_kind(record.kind, self.admission.scope.is_part(record.kind)),
            record.depth,
            lease.url,
            record.hops + 1,
            importance=1.0 if record.depth == 0 else lease.host.authority,
            chain=lease.chain,
            vouching=self._sitemaps.vouching_hosts(self._partitions[lease.host.partition], lease),
        )
        # Only for a chain that began at a seed: other redirects may leave the scope without
        # widening it.
        if (
            record.depth == 0
            and record.kind in (LinkKind.SEED, LinkKind.REDIRECT)
            and self._join(target, self._partitions[lease.host.partition], lease.url)
        ):
            self._outgoing.post_place(target)
        if found.kind is LinkKind.SPECULATIVE and not is_own_path(target, lease.url):
            self._refuse(lease.host, Reason.OUT_OF_SCOPE, 1)
            return
        refusal = self.admission.judge_url(found)
        if refusal is not None:
            self._refuse(lease.host, refusal.reason, 1)
        else:
            self._give([found], self._partitions[lease.host.partition])

    def sitemap_steps(
        self, source: VisitState, lines: Sequence[str], robots_url: str
    ) -> Iterator[None]:
        """Take in the Sitemap lines of a host's robots.txt, a slice with each step.

        Lines that are not a URL are ignored, like other invalid lines of such a file. A host out of
        scope, which was requested only because it has another host's sitemaps, contributes none.
        All steps must be taken before the next commit is cut.
        """
        if not self.admission.scope.holds(source.name):
            return
        named = self._sitemaps.sitemaps_named(lines)
        for start in range(0, len(named), LINKS_AT_ONCE):
            fresh = []
            for raw in named[start : start + LINKS_AT_ONCE]:
                try:
                    url = self.canonical(raw, robots_url)
                except InvalidUrl:
                    continue
                found = Discovered(
                    url,
                    hash8(host_of(url)),
                    hash8(url),
                    LinkKind.SITEMAP_FILE,
                    0,
                    robots_url,
                    importance=0.5,
                )
                refusal = self.admission.judge_url(found)
                if refusal is None:
                    fresh.append(found)
                else:
                    self._refuse(source, refusal.reason, 1)
            self._give(fresh, self._partitions[source.partition])
            if len(named) > LINKS_AT_ONCE:
                yield  # ordinary files name a handful

    def take_license(self, lease: Lease, preferences: Preferences) -> None:
        """Take in the licence that a capture names, if any and if the settings ask for it."""
        if not self.admission.fetches_licenses or not preferences.license:
            return
        if lease.record.kind is LinkKind.LICENSE:
            return  # a licence has none itself, and a chain of them would have no end
        try:
            url = self.canonical(preferences.license, license_base(preferences, lease))
        except InvalidUrl:
            return  # the capture has the address as it was sent
        # Most pages of a site name the same licence, so this is one lookup.
        if url == lease.url or not self.recent.admit(hash8(url) + b"license"):
            return
        found = found_license(url, lease)
        refusal = self.admission.judge_url(found)
        if refusal is None:
            self._give([found], self._partitions[lease.host.partition])
        else:
            self._refuse(lease.host, refusal.reason, 1)

    def _is_page(self, lease: Lease) -> bool:
        """Whether a licence is in scope as a page too: any site may call any page its licence."""
        return self.admission.scope.judge_url(lease.url, LinkKind.A, lease.record.depth) is None

    def listings(self, host: VisitState) -> int:
        """The number of sitemaps and feeds of a host."""
        return self._sitemaps.listings(self._partitions[host.partition], host.host8)

    def is_sitemap(self, lease: Lease) -> bool:
        return self._sitemaps.is_sitemap(self._partitions[lease.host.partition], lease)

    def note_links(self, partition: Partition, found: Sequence[Discovered]) -> None:
        """Count which sites link to the hosts and sites of these URLs."""
        self._standing.note_links(partition, found)

    def receive_urls(self, partition: Partition, found: Sequence[Discovered]) -> None:
        """Take the URLs of a parcel, which passed the pure rules where they were found."""
        self._discover(partition, found)

    # -- owners

    def partition_of_host(self, host: str) -> int:
        return self.owners.partition_of_host(host)

    def site_of(self, host: str) -> str:
        return self._addressing.sites.site_of(host)

    def canonical(self, raw: str, base: str | None = None) -> str:
        """Canonical form. Raises ``InvalidUrl``."""
        return self._addressing.canonicalizer.canonical(raw, base)

    def host_named(self, text: str) -> str:
        """The host that an operator means. Raises ``InvalidUrl``."""
        return self._addressing.canonicalizer.host_named(text)

    def site_usage(self, partition: Partition, host: str) -> Usage:
        return self._standing.usage(partition, host)

    def note_usage(
        self, partition: Partition, host: str, fetched: Fetched, is_capture: bool
    ) -> None:
        """Count a request and its answer in the usage of the host's site."""
        self._standing.note_usage(partition, host, fetched, is_capture)

    def over_budget(self, partition: Partition, host: VisitState) -> Refusal | None:
        """Why the host, whose turn has come, may not be fetched now, or ``None``."""
        return self._standing.over_budget(partition, host)

    def _give(self, found: list[Discovered], source: Partition) -> None:
        by_owner: dict[int, list[Discovered]] = {}
        for each in found:
            by_owner.setdefault(self.owners.find(each).partition, []).append(each)
        for owner, batch in by_owner.items():
            partition = self._partitions.get(owner)
            if partition is not None:
                self._discover(partition, batch)
            else:
                self._outgoing.post_urls(source, owner, batch)

    def _discover(self, partition: Partition, batch: Sequence[Discovered]) -> None:
        now = self._clock.wall()

        def discover(found: Sequence[Discovered]) -> list[bool]:
            return partition.discover_urls(found, now)

        self._sitemaps.note_sitemaps(partition, batch)
        self.note_links(partition, batch)
        limited: dict[tuple[LinkKind, bytes], list[Discovered]] = {}
        for each in batch:
            if each.kind in _LIMITED:
                limited.setdefault((each.kind, each.host8), []).append(each)
        if limited:
            batch = [each for each in batch if each.kind not in _LIMITED]
        discover(batch)
        for (kind, host8), group in limited.items():
            if kind is LinkKind.LICENSE:
                left_out = take_in_licenses(partition, group, discover, self._standing)
                reason = Reason.LICENSE_LIMIT
            else:
                left_out = self._sitemaps.take_in(partition, group, discover)
                reason = Reason.SITEMAP_LIMIT
            if left_out and (host := partition.visits.find_host(host8)) is not None:
                self._refuse(host, reason, left_out)
                partition.visits.mark_changed(host)

    def _refuse(self, source: VisitState, reason: Reason, number: int) -> None:
        """Count refusals by pure rules, by rule and host. ``explain`` judges single URLs again."""
        if number:
            source.record.refused = dict(source.record.refused)
            count(source.record.refused, int(reason), number)
            counters = self._partitions[source.partition].counters
            count(counters.rule_refusals, int(reason), number)
