"""What each link leads to: findings from the survey of links and the answers of servers.

Pure: answers are given. A URL is judged once for all its links. 429 and 503 are no verdict about a
page, and neither is robots.txt; what they keep from being checked is reported as not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import scheme_of
from lycosa.inspect.linked.link_findings import RULES, LinkFinding, Severity
from lycosa.inspect.linked.link_survey import BadLink, LinkSurvey, PageLink, has_place

MAX_REDIRECTS = 10
_PERMANENT = frozenset({301, 308})
_DENIED = frozenset({401, 402, 403, 407, 451})
_LATER = frozenset({429, 503})
_RULE_OF_REASON = {
    Reason.CONNECT_TIMEOUT: "timeout",
    Reason.FIRST_BYTE_TIMEOUT: "timeout",
    Reason.TOTAL_TIMEOUT: "timeout",
    Reason.TOO_SLOW: "timeout",
    Reason.DNS_TIMEOUT: "timeout",
    Reason.TOO_MANY_REDIRECTS: "redirect-loop",
    Reason.BAD_REDIRECT: "redirect-broken",
    Reason.MALFORMED_RESPONSE: "http-error",
    Reason.HEADERS_TOO_LARGE: "http-error",
    Reason.EMPTY_RESPONSE: "http-error",
}
"""Of failures without a status that says more; all others are ``unreachable``."""
_ROBOTS = frozenset({Reason.ROBOTS_DISALLOWED, Reason.ROBOTS_UNREACHABLE, Reason.ROBOTS_ELSEWHERE})
# refused or failed on this side, which says nothing about the page
_OURS = frozenset({Reason.ADDRESS_FORBIDDEN, Reason.LEASE_EXPIRED, Reason.INTERNAL})


class UrlAnswer(NamedTuple):
    """What is known of a URL: the fields of its record, with the reason of its host if it has none.

    ``is_page``: HTML whose anchors can be read; ``is_cut``: only its beginning was. ``unread`` says
    why the document could not be read for its links, or not completely.
    """

    state: UrlState
    status: int = 0
    reason: Reason = Reason.NONE
    detail: str = ""
    redirect_to: str = ""
    fetched_at: float = 0.0
    is_page: bool = False
    is_cut: bool = False
    unread: str = ""


class LinkVerdict(NamedTuple):
    """The verdict on a URL: ``rule`` is empty if all is well, ``end`` is the last URL of a chain.

    ``statuses`` are those of the redirects before it.
    """

    rule: str
    status: int = 0
    why: str = ""
    chain: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    end: str = ""


class LinkJudge:
    """Judges by the answers. ``is_own`` tells own URLs from those of other sites.

    ``allowed`` are statuses that count as fine, ``severities`` replaces those of rules.
    ``unwanted`` says in words why a URL without an answer was not requested, if that is known.
    """

    def __init__(
        self,
        answers: Mapping[str, UrlAnswer],
        is_own: Callable[[str], bool],
        allowed: Collection[int] = (),
        severities: Mapping[str, Severity] | None = None,
        unwanted: Mapping[str, str] | None = None,
    ) -> None:
        self._answers, self._is_own = answers, is_own
        self._allowed = frozenset(allowed)
        self._severities = severities or {}
        self._unwanted = unwanted or {}
        self._verdicts: dict[str, LinkVerdict] = {}

    def findings(
        self, survey: LinkSurvey, anchors: Mapping[str, frozenset[str]]
    ) -> list[LinkFinding]:
        """All findings. ``anchors`` are those of pages of other sites."""
        found = [self._bad(each) for each in survey.bad]
        for link in survey.links:
            found += self._of_link(link, survey.anchors, anchors)
        found += self._of_sitemaps(survey)
        found += [
            self._about(url, url, "not-checked", f"not all of its links were read: {one.unread}")
            for url, one in self._answers.items()
            if one.unread and self._is_own(url) and not survey.is_ignored(url)
        ]
        return [each for each in found if each.severity is not Severity.OFF]

    def verdict(self, url: str) -> LinkVerdict:
        """The verdict on a canonical URL, after its redirects."""
        known = self._verdicts.get(url)
        if known is None:
            known = self._verdicts[url] = self._judge(url)
        return known

    def _judge(self, url: str) -> LinkVerdict:
        chain: list[str] = []
        statuses: list[int] = []
        at = url
        while True:
            answer = self._answers.get(at)
            if answer is None or answer.state is not UrlState.REDIRECTED or not answer.redirect_to:
                break
            statuses.append(answer.status)
            following = answer.redirect_to
            is_loop = following == url or following in chain
            chain.append(following)
            if is_loop or len(chain) > MAX_REDIRECTS:
                why = "redirects in a circle" if is_loop else f"more than {MAX_REDIRECTS} redirects"
                return LinkVerdict(
                    "redirect-loop", answer.status, why, tuple(chain), tuple(statuses)
                )
            at = following
        rule, status, why = self._end(at, answer)
        if chain and rule not in ("", "redirect-loop") and not _is_unchecked(rule):
            rule, why = "redirect-broken", f"redirects to {at}: {why}"
        return LinkVerdict(rule, status, why, tuple(chain), tuple(statuses), at)

    def _end(self, url: str, answer: UrlAnswer | None) -> tuple[str, int, str]:
        """Rule, status and reason of the last URL of a chain."""
        if answer is None:
            return "not-checked", 0, self._unwanted.get(url, "not requested")
        status, reason = answer.status, answer.reason
        if answer.state is UrlState.FETCHED or status in self._allowed:
            return "", status, ""
        if status in _LATER or reason is Reason.HTTP_TOO_MANY_REQUESTS:
            return "later", status, "the server asks to come back later"
        if status in (404, 410):
            return "not-found", status, "not found" if status == 404 else "gone"
        if status in _DENIED:
            return "access-denied", status, "the server wants a login, or refuses programs"
        if status >= 400:
            return "http-error", status, "the server answers with an error"
        if reason in _ROBOTS:
            detail = f" ({answer.detail.partition(' (robots.txt')[0]})" if answer.detail else ""
            return "robots", 0, f"{reason.meaning}{detail}"
        rule = _RULE_OF_REASON.get(reason, "")
        if rule or (reason.is_failure and reason not in _OURS):
            return rule or "unreachable", status, _words(answer)
        return "not-checked", status, _words(answer) or "not requested before the check ended"

    def _of_link(
        self,
        link: PageLink,
        own: Mapping[str, frozenset[str]],
        other: Mapping[str, frozenset[str]],
    ) -> Iterator[LinkFinding]:
        verdict = self.verdict(link.url)
        is_listed = link.kind is LinkKind.SITEMAP
        if verdict.rule:
            yield self._finding(link, verdict.rule, verdict.why, verdict)
        elif verdict.statuses and (is_listed or verdict.statuses[0] in _PERMANENT):
            yield self._finding(link, "redirect-permanent", _moved(link, verdict), verdict)
        is_file = link.kind is LinkKind.SITEMAP_FILE
        if is_file and not verdict.rule and self._answers[verdict.end].is_page:
            yield self._finding(link, "no-sitemap", "it is a web page, and no sitemap", verdict)
        if link.kind.is_requisite and scheme_of(link.page) == "https" != scheme_of(link.url):
            yield self._finding(link, "mixed-content", "browsers block or warn of it", verdict)
        if link.fragment and not verdict.rule:
            yield from self._of_fragment(link, verdict, own, other)

    def _of_fragment(
        self,
        link: PageLink,
        verdict: LinkVerdict,
        own: Mapping[str, frozenset[str]],
        other: Mapping[str, frozenset[str]],
    ) -> Iterator[LinkFinding]:
        end = verdict.end or link.url
        answer = self._answers.get(end)
        anchors = own.get(end, other.get(end))
        if answer is None:
            return
        if anchors is None and answer.unread:
            why = f"#{link.fragment} was not looked for: {answer.unread}"
            yield self._finding(link, "not-checked", why, verdict)
        elif anchors is None or not answer.is_page:
            return  # no HTML: a place in a PDF file, a time in a film
        elif has_place(anchors, link.fragment):
            return
        elif answer.is_cut:
            why = f"#{link.fragment} is not in the part of the page that was read"
            yield self._finding(link, "not-checked", why, verdict)
        else:
            why = f"the page has no place #{link.fragment}"
            yield self._finding(link, "fragment-missing", why, verdict)

    def _of_sitemaps(self, survey: LinkSurvey) -> Iterator[LinkFinding]:
        if not survey.listed:
            return
        linked = {link.url for link in survey.links if link.kind is not LinkKind.SITEMAP}
        linked |= {url for each in list(linked) for url in self.verdict(each).chain}
        for url, sitemap in survey.listed.items():
            if url not in linked and url in survey.indexable:
                yield self._about(sitemap, url, "sitemap-orphan", "no page links to it")
        for url in sorted(survey.indexable - set(survey.listed)):
            yield self._about(url, url, "not-in-sitemap", "no sitemap lists it")

    def _about(self, page: str, url: str, rule: str, why: str) -> LinkFinding:
        return LinkFinding(rule, self._severity(rule, url), page, url, why)

    def _bad(self, bad: BadLink) -> LinkFinding:
        place = bad.place
        return LinkFinding(
            "invalid-url",
            self._severity("invalid-url", bad.page),
            bad.page,
            place.raw,
            place.why,
            place.line,
            place.kind.name.lower(),
            place.text,
            place.raw,
        )

    def _finding(self, link: PageLink, rule: str, why: str, verdict: LinkVerdict) -> LinkFinding:
        target = f"{link.url}#{link.fragment}" if link.fragment else link.url
        return LinkFinding(
            rule,
            self._severity(rule, verdict.end or link.url),
            link.page,
            target,
            why,
            link.line,
            link.kind.name.lower(),
            link.text,
            link.raw,
            verdict.status,
            list(verdict.chain),
        )

    def _severity(self, rule: str, url: str) -> Severity:
        given = self._severities.get(rule)
        return given or (RULES[rule].own if self._is_own(url) else RULES[rule].other)


def _is_unchecked(rule: str) -> bool:
    return RULES[rule].own is Severity.UNCHECKED


def _words(answer: UrlAnswer) -> str:
    if not answer.reason:
        return ""
    detail = answer.detail
    return f"{answer.reason.meaning} ({detail})" if detail else answer.reason.meaning


def _moved(link: PageLink, verdict: LinkVerdict) -> str:
    end = verdict.chain[-1]
    if link.kind is LinkKind.SITEMAP and verdict.statuses[0] not in _PERMANENT:
        return f"redirects to {end}; a sitemap should list the page itself"
    is_secure = link.url.removeprefix("http:") == end.removeprefix("https:")
    how = "the same page by https" if is_secure else end
    return f"moved permanently to {how}"
