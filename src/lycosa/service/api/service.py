"""What callers can ask of a crawl and tell it: the endpoints and the operator's page use this.

The service is a caller of the coordinator and of the owners of partitions, as any other program
could be. It decides which partition a host belongs to, asks all owners at the same time where a
question is about all of them, and merges their lists. Every question has a deadline: an owner that
does not answer is reported, and nothing waits for it longer.

All methods raise ``OwnerSilent`` when the one owner that can answer does not, ``ServiceBusy``,
``ServiceRefusal``, and ``InvalidUrl`` for a URL or host that is none; those about the whole crawl
raise ``CoordinatorSilent``. ``by`` names the operator or program for the log of actions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from lycosa.base import calls
from lycosa.base.config.fields import fields, value_of
from lycosa.base.config.live_settings import LIVE, changed_meanwhile, check_live, with_live
from lycosa.base.config.sources import SettingsError
from lycosa.base.messages.coordinator_messages import (
    ChangeSettings,
    ClusterStatus,
    MoreAsks,
    PauseCrawl,
    StopCrawl,
)
from lycosa.base.model.capture import Change
from lycosa.base.model.end import End
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of
from lycosa.inspect.queries.changed_list import (
    ChangesPage,
    cursor_since,
    cursor_text,
    merged_changes,
)
from lycosa.inspect.queries.scope_trial import ScopeTrial, continued, together
from lycosa.service.api.actions_list import listed_actions
from lycosa.service.api.answers import (
    MergedList,
    OwnerSilent,
    Rates,
    ServiceRefusal,
    SettingsChanged,
)
from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.decision_calls import OperatorDecisions
from lycosa.service.api.lease_calls import LeaseCalls
from lycosa.service.api.merging import decoded_rows, merged
from lycosa.service.api.overview_answer import counted_status
from lycosa.service.api.owner_calls import WRITE_S, OwnerCalls, gathered
from lycosa.service.api.places import CoordinatedCrawl
from lycosa.service.api.referred_content import with_referred_body
from lycosa.service.api.submission_calls import SubmissionCalls
from lycosa.service.api.watching import CoordinatorCaller

_HASH = re.compile(r"(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{64})", re.IGNORECASE)
_SEED_CHANGES_NOTHING = {
    state.label
    for state in (UrlState.QUEUED, UrlState.PARKED, UrlState.FETCHED, UrlState.REDIRECTED)
}
"""A seed that failed, or was refused or retired, is queued again."""

_ID_DIGITS = 32  # the hashes of host and URL, which are the key of its record
_TRIAL_S = 10.0  # for the judgement of waiting URLs
_SEARCH_S = 15.0  # for a hash, which takes a search of all keys
_Listed = (
    calls.HostsQuery
    | calls.DeadLettersQuery
    | calls.ActionsQuery
    | calls.CapturesQuery
    | calls.ListingsQuery
)


class CrawlService:
    """The crawl of ``place``, as its callers see it; ``note_wait`` as in ``CoordinatorCaller``.

    ``note_decision`` gets what an operator decided, the operator and the remark, after each
    decision that the crawl has taken.
    """

    def __init__(
        self,
        place: CoordinatedCrawl,
        limits: ApiLimits,
        note_wait: Callable[[str], None] = lambda why: None,
        note_decision: Callable[[str, str, str], None] = lambda what, by, why: None,
    ) -> None:
        self.addressing = place.addressing
        self.watch = CoordinatorCaller(place, place.follow, note_wait)
        self._calls = OwnerCalls(place, limits)
        self.decisions = OperatorDecisions(place.addressing, self._calls, note_decision)
        """Decisions about hosts and dead letters."""
        self._note = note_decision
        self.submissions = SubmissionCalls(place.addressing, self._calls)
        """URLs of other programs."""
        self.leases = LeaseCalls(self._calls, self.addressing.partitions)
        """Leases of outside fetchers."""

    # -- the whole crawl, by its coordinator

    async def status(self) -> ClusterStatus:
        """The last state that the coordinator gave, at most a second old while it answers."""
        return self.watch.status()

    async def counts(self) -> dict[str, Any]:
        """Counters of the whole crawl, rates, hosts and workers, as ``GET /stats`` shows them."""
        return counted_status(self.watch.status(), self.rates())

    def rates(self) -> Rates:
        """Captures a second."""
        return self.watch.rates()

    async def settings(self) -> dict[str, str]:
        """The live settings by name, with their present values as text."""
        config, changed = self.addressing.config, self.watch.status().settings
        known = fields()
        return {
            key: changed.get(key, known[key].show(value_of(config, key))) for key in sorted(LIVE)
        }

    def renders_pages(self) -> bool:
        """Whether the crawl renders any page, by its present settings."""
        return with_live(self.addressing.config, self.watch.status().settings).render.is_on

    async def try_scope(self, values: dict[str, str]) -> ScopeTrial:
        """How many waiting URLs a change of settings of the scope would drop.

        It takes at most about ten seconds; then it is an estimate. Raises ``SettingsError`` for
        values that are not allowed, and ``OwnerSilent`` when no owner answers.
        """
        present = self.watch.status().settings
        check_live(values, with_live(self.addressing.config, present))
        if strange := [key for key in values if not key.startswith("scope.")]:
            raise SettingsError([f"{strange[0]}: it is no setting of the scope"])
        until = asyncio.get_running_loop().time() + _TRIAL_S

        async def ask(partition: int) -> ScopeTrial:
            trial: ScopeTrial | None = None
            while trial is None or (trial.after and asyncio.get_running_loop().time() < until):
                after = trial.after if trial is not None else ""
                found = await self._calls.ask(
                    partition, calls.ScopeQuery(present=present, values=values, after=after)
                )
                part = ScopeTrial(**decoded_rows(found)[0])
                part.after = found.cursor if isinstance(found, calls.Found) else ""
                trial = part if trial is None else continued(trial, part)
            return trial

        partitions = range(self.addressing.config.frontier.partitions)
        answers = await gathered(ask, partitions)
        trials = [each for each in answers if isinstance(each, ScopeTrial)]
        silent = len(partitions) - len(trials)
        return together([*trials, *(ScopeTrial(share=0.0) for _ in range(silent))])

    async def change_settings(
        self, values: dict[str, str], by: str, why: str = "", shown: dict[str, str] | None = None
    ) -> None:
        """Change live settings; all owners receive them.

        ``shown`` are values on which the change is based. Raises ``SettingsChanged`` when one of
        them is another one now, and ``SettingsError`` for values that are not allowed.
        """
        shown = shown or {}
        if changed := changed_meanwhile(shown, await self.settings()):
            raise SettingsChanged(values, shown, changed)
        check_live(values, with_live(self.addressing.config, self.watch.status().settings))
        try:
            await self.watch.request(ChangeSettings(values, by, why, shown))
        except ServiceRefusal:
            # The usual reason is that another operator was faster; then the caller learns of that
            # change.
            await self.watch.look()
            if changed := changed_meanwhile(shown, await self.settings()):
                raise SettingsChanged(values, shown, changed) from None
            raise
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(values.items()))
        self._note(f"set {pairs}", by, why)

    async def pause(self, is_paused: bool, by: str, why: str = "") -> None:
        """Start no request until the crawl is resumed (``is_paused`` false).

        A crawl that had ended is begun again by resuming it.
        """
        decision = PauseCrawl(is_paused, by, why)
        if not is_paused and self.watch.status().end:
            await self.watch.request(MoreAsks(), decision)
        else:
            await self.watch.request(decision)
        self._note("pause the crawl" if is_paused else "resume the crawl", by, why)

    async def stop(self, by: str, why: str = "", at_once: bool = False) -> None:
        """End the crawl; it can be resumed."""
        await self.watch.request(StopCrawl(End.STOPPED.value, at_once, by, why))
        self._note(f"stop the crawl{' at once' * at_once}", by, why)

    # -- what is stored, by the owners

    async def hosts(self, query: calls.HostsQuery) -> MergedList:
        """Hosts of all partitions; ``query.after`` is the cursor of the listing before."""
        return await self._listing(query)

    async def host(self, host: str) -> dict[str, Any] | None:
        """One host; ``None`` when the crawl does not know it."""
        return await self.decisions.find_host(host)

    async def host_urls(self, query: calls.HostUrlsQuery) -> MergedList:
        query = msgspec.structs.replace(query, host=self.addressing.host(query.host))
        partition = self.addressing.of_host(query.host)
        return merged({partition: await self._calls.ask(partition, query)}, query.most, [])

    async def listings(self, query: calls.ListingsQuery) -> MergedList:
        """Sitemaps and feeds, of one host if given."""
        if not query.host:
            return await self._listing(query)
        query = msgspec.structs.replace(query, host=self.addressing.host(query.host))
        partition = self.addressing.of_host(query.host)
        return merged({partition: await self._calls.ask(partition, query)}, query.most, [])

    async def url(self, url: str) -> dict[str, Any] | None:
        """One URL, as ``lycosa explain --json`` shows it; ``url`` may be a hash.

        ``None`` when no URL has that hash.
        """
        searches = [
            asyncio.ensure_future(self._search(partition, url))
            for partition in self._owners_of(url)
        ]
        silent: OwnerSilent | None = None
        try:
            for each in asyncio.as_completed(searches):
                try:
                    if (row := await each) is not None:
                        return row
                except OwnerSilent as error:
                    # Another owner may have the URL. That this one was silent matters only if none
                    # has it.
                    silent = error
        finally:
            for search in searches:
                search.cancel()
            await asyncio.gather(*searches, return_exceptions=True)
        if silent is not None:
            raise silent
        return None

    async def captures(self, query: calls.CapturesQuery) -> MergedList:
        """The captures of one URL, newest first."""
        url = await self._located(query.url)
        if url is None:
            return MergedList([])
        query = msgspec.structs.replace(query, url=url)
        answers, silent = await self._calls.answers(query, self._owners_of(url))
        return merged(answers, query.most, silent)

    async def content(self, query: calls.ContentQuery) -> calls.ContentFound:
        """A piece of a stored body."""
        url = await self._located(query.url)
        if url is None:
            return calls.ContentFound(b"{}")
        query = msgspec.structs.replace(query, url=url)
        partitions = self._owners_of(url)
        replies = await gathered(
            lambda partition: self._calls.content(partition, query), partitions
        )
        found = [each for each in replies if isinstance(each, calls.ContentFound)]
        for each in found:
            if each.total_bytes >= 0:
                return await with_referred_body(query, each, self._content_of_url)
        for reply in replies:
            if isinstance(reply, OwnerSilent):
                raise reply
        return found[0] if found else calls.ContentFound(b"{}")

    async def _content_of_url(self, query: calls.ContentQuery) -> calls.ContentFound:
        return await self._calls.content(self.addressing.of_url(query.url), query)

    async def dead_letters(self, query: calls.DeadLettersQuery) -> MergedList:
        """Dead letters of all partitions, or of those of one host."""
        if query.host:
            known = await self.decisions.known_host(query.host)
            query = msgspec.structs.replace(query, host=known)
            partition = self.addressing.of_host(query.host)
            return merged({partition: await self._calls.ask(partition, query)}, query.most, [])
        return await self._listing(query)

    async def changes(
        self, since: str, meant: Sequence[Change], host: str, most: int
    ) -> tuple[ChangesPage, str, list[int]]:
        """What changed since a cursor or a time (seconds since 1970; empty = all that is kept).

        Returns the page, the text of its cursor, and the partitions whose owners did not answer.
        Raises ``BadCursor``.
        """
        crawl = self.watch.status().crawl
        cursor = cursor_since(crawl, since)
        query = calls.ChangesQuery(
            read=cursor.read,
            since_s=cursor.since_s,
            changes=tuple(map(int, meant)),
            host=self.addressing.host(host) if host else "",
            most=most,
        )
        partitions = range(self.addressing.partitions)
        replies = await gathered(lambda each: self._calls.changes(each, query), partitions)
        answers = {
            partition: reply
            for partition, reply in zip(partitions, replies, strict=True)
            if isinstance(reply, calls.FoundChanges)
        }
        silent = [each for each in partitions if each not in answers]
        if silent and not answers:
            raise next(reply for reply in replies if isinstance(reply, OwnerSilent))
        page = merged_changes(answers, cursor, most, len(partitions))
        return page, cursor_text(crawl, page.cursor), silent

    async def actions(self, query: calls.ActionsQuery) -> MergedList:
        """The log of operators' decisions, newest first, each as one row."""
        return await listed_actions(self._listing, query)

    # -- other programs

    async def seed(
        self, urls: list[str], by: str, priority: float | None = None
    ) -> list[calls.GivenVerdict]:
        """Give seeds; returns a verdict for each, after the commits.

        A crawl that had ended begins again.
        """
        importance = 1.0 if priority is None else priority
        states = await self._states_of(urls)
        refused = dict(await self.watch.seed(urls, importance, by, WRITE_S))
        self._note(f"give {len(urls)} seeds", by, "")
        return [
            calls.GivenVerdict(url, calls.UrlVerdict.REJECTED, refused[url])
            if url in refused
            else calls.GivenVerdict(url, calls.UrlVerdict.DUPLICATE, f"it is known: {states[url]}")
            if states.get(url) in _SEED_CHANGES_NOTHING
            else calls.GivenVerdict(url, calls.UrlVerdict.ACCEPTED)
            for url in urls
        ]

    async def _states_of(self, urls: list[str]) -> dict[str, str]:
        """The states of those URLs that the crawl knows, as far as their owners answer now."""
        grouped: dict[int, list[str]] = {}
        for url in urls:
            with suppress(InvalidUrl):
                grouped.setdefault(self.addressing.of_url(url), []).append(url)

        async def ask(partition: int) -> list[dict[str, Any]]:
            return decoded_rows(
                await self._calls.ask(partition, calls.UrlStatesQuery(grouped[partition]))
            )

        try:
            found = await gathered(ask, grouped)
        except ServiceRefusal:  # an owner of an earlier version does not know the question
            return {}
        rows = [row for answer in found if isinstance(answer, list) for row in answer]
        return {row["url"]: row["state"] for row in rows}

    async def give_urls(
        self,
        urls: list[calls.GivenUrl],
        by: str,
        changed: frozenset[int] = frozenset(),
        *,
        adds: bool = False,
    ) -> list[calls.GivenVerdict]:
        """Give URLs; those at the places ``changed`` are known ones that have changed.

        Returns a verdict for each, ``UNKNOWN`` for those of silent owners. With ``adds`` changed
        URLs that the crawl does not know are given to it.
        """
        verdicts = await self.submissions.give_urls(urls, by, changed, adds)
        if changed:
            self._note(f"announce {len(changed)} changes", by, "")
        return verdicts

    async def want_page(self, url: str, by: str) -> calls.GivenVerdict:
        """Have one URL fetched in the next turn of its host, also if it is new."""
        given = [calls.GivenUrl(url=url, priority=1.0)]
        (verdict,) = await self.submissions.give_urls(given, by, (0,), True, True)
        self._note(f"scrape {url}", by, "")
        return verdict

    def lease_in_batch(self, batch: str, url: str) -> str:
        """The lease of a URL that was leased together with others. Raises ``InvalidUrl``."""
        url = self.addressing.canonical(url)
        host = host_of(url)
        keys = hash8(host) + hash8(url)
        return f"{self.addressing.of_host(host)}-{keys.hex()}-{batch}"

    def is_meant(self, crawl: str) -> bool:
        """Whether a client means this crawl by an id or a name; empty means any."""
        return crawl in ("", self.watch.status().crawl, *self.addressing.names)

    # -- asking

    def _owners_of(self, url: str) -> list[int]:
        """The partitions that may have a URL, which may be a hash."""
        if _HASH.fullmatch(url):
            return list(range(self.addressing.partitions))
        return [self.addressing.of_url(url)]

    async def _located(self, url: str) -> str | None:
        """The URL, or the id in place of a hash, which is no key: ``None`` when no URL has it."""
        if not _HASH.fullmatch(url) or len(url) == _ID_DIGITS:
            return url
        row = await self.url(url)
        return str(row["record"]["id"]) if row is not None else None

    async def _search(self, partition: int, url: str) -> dict[str, Any] | None:
        """The URL, if the partition has it. A hash is searched for in pieces, one after another."""
        query = calls.UrlQuery(url)
        try:
            async with asyncio.timeout(_SEARCH_S):
                while True:
                    found = await self._calls.ask(partition, query)
                    if rows := decoded_rows(found):
                        return rows[0]
                    if not found.cursor:
                        return None
                    query = msgspec.structs.replace(query, after=found.cursor)
        except TimeoutError:
            why = f"no URL with this hash was found in {_SEARCH_S:.0f} s; give the URL or its id"
            raise OwnerSilent(partition, why) from None

    async def _listing(self, query: _Listed) -> MergedList:
        answers, silent = await self._calls.answers(query, range(self.addressing.partitions))
        return merged(answers, query.most, silent)
