"""Explains a URL that has no record.

Either a rule refused its links, or the answer is what would happen if it were found now.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of, join_url, scheme_of, target_of
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.explain.budget_facts import site_facts
from lycosa.inspect.explain.facts import (
    Explanation,
    host_facts,
    own_facts,
    reason_facts,
    robots_facts,
    robots_now,
    why_host,
)
from lycosa.inspect.explain.lookup import FoundOn, LinkSearch, Search, stored_capture
from lycosa.inspect.saved_settings import PureRules, SavedSettings
from lycosa.inspect.site_budget import site_budget
from lycosa.inspect.wall_time import visit_in_wall_time
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.scope import is_shown
from lycosa.stages.admit.sitemap_scope import may_list, may_name
from lycosa.stages.frontier.visit_state import HostState
from lycosa.stages.parse.identify import identify
from lycosa.stages.schedule.soft_gone import MISSING_PATH
from lycosa.state.kv.table_records import UrlRecord, sitemap_key

_CRAWLED = "; if it were found, it would be crawled"
_IF_ALLOWED = ", if its host's robots.txt allows it"
_PROBED = (
    "It is no page of the crawl: such a path is requested to see how a host answers one that does"
    " not exist, and only the log of attempts has that request"
)


class UnknownUrl:
    """Explains a URL that has no record."""

    def __init__(
        self,
        reader: CrawlReader,
        saved: SavedSettings,
        view: TableView,
        answer: Explanation,
        now: float,
    ) -> None:
        self._reader, self._saved, self._view, self._answer, self._now = (
            reader,
            saved,
            view,
            answer,
            now,
        )
        self._url = answer.url
        self._host8 = hash8(host_of(answer.url))
        self._never = ""
        self._limit: Refusal | None = None  # of requisites, by the page with the link

    def run(self, search: LinkSearch) -> Explanation:
        found = search(self._reader, self._url)
        link, self._never = found.link, _never(found, self._saved.config.store.links)
        if target_of(self._url).startswith(MISSING_PATH):
            self._never = _PROBED
        rules = PureRules(self._reader, self._saved, self._view.number)
        depth, kind = self._as_found(link, rules)
        refusal = (
            rules.judge_url(
                self._url,
                kind,
                depth,
                self._now,
                bool(link and link.nofollow),
                link.page if link else "",
            )
            or self._by_sitemap(link, kind)
            or self._limit
        )
        if link is not None:
            self._answer.add_fact("found_on", link.page)
            self._answer.add_fact("found_as", link.kind)
        met = "Its links were" if link else f"{self._never}; if it were found, it would be"
        if refusal is not None:
            self._answer.set_verdict(
                f"refused_by_{stage_of(refusal)}",
                f"{met} refused: {refusal.reason.meaning} ({refusal.rule}: {refusal.value}).",
            )
            reason_facts(self._answer, refusal.reason, "")
            self._answer.add_fact("rule", refusal.rule)
            self._answer.add_fact("value", refusal.value)
            return self._answer
        return self._state_rules(link)

    def _as_found(self, link: FoundOn | None, rules: PureRules) -> tuple[int, LinkKind]:
        """Depth and kind of the URL when it was found; one link from a seed when it never was."""
        if link is None:
            return 1, LinkKind.A
        source = self._reader.find_url(link.page)
        if source is None:
            return 1, LinkKind[link.kind.upper()]
        kind, record = LinkKind[link.kind.upper()], source.record
        is_inner = rules.is_part(record.kind) and rules.is_part(kind)
        self._limit = self._limit_of(link.page, record, kind, rules)
        return record.depth + (not is_inner), kind

    def _limit_of(
        self, page: str, record: UrlRecord, kind: LinkKind, rules: PureRules
    ) -> Refusal | None:
        """Explain links of parts of pages, and requisites beyond a limit."""
        config = self._saved.config
        if rules.is_part(record.kind):
            refusal = rules.judge_url(page, LinkKind.A, record.depth, self._now)
            if refusal is not None and not is_shown(record.kind, self._media_type(record)):
                return refusal
            if rules.is_part(kind) and record.hops + 1 >= config.scope.requisites_depth:
                return Refusal(
                    Reason.REQUISITE_LIMIT,
                    "scope.requisites_depth",
                    f"{record.hops + 2} of {config.scope.requisites_depth}",
                )
        budget = config.budgets.host_requisites
        if not kind.is_requisite or not budget or host_of(page) == host_of(self._url):
            return None
        with self._reader.partition_view(self._reader.partition_of(page)) as view:
            source = view.host_record(hash8(host_of(page)))
        brought = source.usage.requisites if source is not None else 0
        if brought < budget:
            return None
        return Refusal(Reason.REQUISITE_LIMIT, "budgets.host_requisites", f"{brought} of {budget}")

    def _media_type(self, record: UrlRecord) -> str:
        """That of the last capture of a page, or the empty string."""
        history = record.history
        stored = history and stored_capture(self._reader.source, history.segment, history.offset)
        if not stored:
            return ""
        fetched = Fetched(
            "", Reason.NONE, body=stored.record.body, header_block=stored.record.header_block
        )
        return identify(fetched)

    def _by_sitemap(self, link: FoundOn | None, kind: LinkKind) -> Refusal | None:
        """Explain a URL that a sitemap lists and that no other rule refuses."""
        if link is None or kind not in (LinkKind.SITEMAP, LinkKind.SITEMAP_FILE):
            return None
        with self._reader.partition_view(self._reader.partition_of(link.page)) as view:
            value = view.get(sitemap_key(hash8(link.page)))
        vouching: list[str] = msgspec.msgpack.decode(value) if value is not None else []
        if (may_name if kind is LinkKind.SITEMAP_FILE else may_list)(
            link.page, self._url, vouching
        ):
            return Refusal(
                Reason.SITEMAP_LIMIT, "sitemaps.max_nesting, max_files or max_urls", link.page
            )
        named = (
            f", named in the robots.txt of {', '.join(vouching)}"
            if vouching
            else ", named in no robots.txt"
        )
        return Refusal(Reason.SITEMAP_FOREIGN, "sitemaps.org, cross submits", f"{link.page}{named}")

    def _state_rules(self, link: FoundOn | None) -> Explanation:
        # In the order of the crawler's checks: robots.txt, the host, budgets. The first refusal is
        # the answer.
        answer, host = self._answer, self._view.host_record(self._host8)
        verdict = robots_now(self._view, self._host8, self._url)
        if verdict is not None:
            robots_facts(answer, verdict)
            by = verdict.bound or _line(verdict)
            if not verdict.allowed:
                return answer.set_verdict(
                    "refused_by_robots",
                    f"{self._never}; if it were found, robots.txt would disallow it ({by}).",
                )
        if host is None:
            answer.add_fact("host_known", False, "no URL of this host is known")
            return answer.set_verdict(
                "never_seen",
                f"{self._never}{_CRAWLED}{_IF_ALLOWED}.",
            )
        host = visit_in_wall_time(host, self._reader.ahead_s(self._now))
        host_facts(answer, host, self._saved.config, self._now)
        own_facts(answer, host, self._saved.config, self._now)
        if host.state is HostState.RETIRED:
            return answer.set_verdict(
                "never_seen", f"{self._never}, and its host was retired: {why_host(host)}."
            )
        section = self._saved.config.budgets
        site = site_budget(self._view, self._reader.sites.site_of(host.host))
        site_facts(answer, site, section)
        budget = site.refusal(section, host)
        if budget is not None:
            answer.add_fact("rule", budget.rule)
            answer.add_fact("value", budget.value)
            return answer.set_verdict(
                "never_seen",
                f"{self._never}; if it were found, it would be parked: {budget.reason.meaning}"
                f" ({budget.value}).",
            )
        self._variant()
        # A link without a record and without a reason is a contradiction, which the audit checks.
        if link is not None and (refused := self._refused_by_code()):
            return answer.set_verdict(
                "never_seen",
                f"{link.page} links to it, and it has no record: rules of the user refused links"
                f" {refused} times, and which ones is not stored.",
            )
        if link is not None:
            return answer.set_verdict(
                "never_seen",
                f"{link.page} links to it, but it has no record although no rule refuses it; run"
                " lycosa audit.",
            )
        when = " when its host is resumed" if host.pause is not None else ""
        known = f"{when}{'' if verdict else _IF_ALLOWED}"
        return answer.set_verdict("never_seen", f"{self._never}{_CRAWLED}{known}.")

    def _refused_by_code(self) -> int:
        """How often rules of the user refused a link; they cannot be asked again here."""
        counted = [each.counters().rule_refusals for each in self._reader.partition_views()]
        return sum(
            each.get(reason, 0)
            for each in counted
            for reason in (Reason.USER_RULE, Reason.RULE_FAILED)
        )

    def _variant(self) -> None:
        """The same URL with the other scheme."""
        other = join_url(
            "http" if scheme_of(self._url) == "https" else "https",
            host_of(self._url),
            target_of(self._url),
        )
        entry = self._reader.find_url(other)
        if entry is not None:
            self._answer.add_fact("other_scheme", other, f"{other} is known: {entry.state.label}")


def _never(search: Search, keeps_links: bool) -> str:
    """That no page links to it, as far as the search could look."""
    gap = search.gap or ("" if keeps_links else "links are not stored, see store.links")
    return (
        f"It has no record, and links to it were not all searched ({gap})"
        if gap
        else "It was never found"
    )


def stage_of(refusal: Refusal) -> str:
    """The set of rules that refused it.

    It is found by the rule, because the numbers of reasons do not show their origin.
    """
    return "trap" if refusal.rule.startswith("traps.") else "scope"


def _line(found: RobotsDecision) -> str:
    return f"line {found.line}, {found.rule}"
