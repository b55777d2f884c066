"""Which URLs belong to the crawl, relative to its seeds.

The rules host, site and prefix ignore the scheme: ``http`` and ``https`` of one host are one place,
because sites redirect between them. Another port is another host. If requisites are enabled, those
of a page in scope are admitted from any host, because pages keep them on other hosts, unless
``requisites_from`` says that only those of the page's site or host are; and one link deeper than
pages, because a page at the maximum depth would be incomplete without them. The document in a frame
is a part of its page then, wherever it is. Sitemaps
are admitted from any host too, because only a host in scope, or a sitemap that it named, can bring
them. So are licences, if they are fetched at all: publishers share them on hosts of collectives.
What a page misses while it is rendered has other rules (``admit.want_rules``).

SURT prefixes name parts of the web next to the seeds, or exclude them. A seed may have a separate
rule. With ``scope.one_hop_out`` a page in scope also brings the pages elsewhere that it links
to.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.config.patterns import Patterns
from lycosa.base.config.sections import RequisiteScope, ScopeRule, ScopeSection
from lycosa.base.config.surt_prefixes import SurtRules, read_surts
from lycosa.base.media_rules import accepts
from lycosa.base.model.discovered import LinkKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.admit.refusal import Refusal

_NEVER = frozenset({LinkKind.FORM, LinkKind.OTHER})
_ANYWHERE = frozenset({LinkKind.SITEMAP_FILE, LinkKind.LICENSE, LinkKind.WANTED})
_FRAMES = frozenset({LinkKind.FRAME, LinkKind.IFRAME})
_NO_DOCUMENTS = frozenset({LinkKind.IMG, LinkKind.SCRIPT, LinkKind.STYLE})
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_SOURCES = {
    RequisiteScope.ANY: "from any host",
    RequisiteScope.SITE: "from the site of their page",
    RequisiteScope.HOST: "from the host of their page",
}
_SITE, _PAGE = "site:", "page:"  # no host begins with either
_WORDS = {
    ScopeRule.HOST: "pages on the hosts of the seeds, http or https",
    ScopeRule.SITE: "pages on the sites (registrable domains) of the seeds, any subdomain",
    ScopeRule.PREFIX: "pages in the folders of the seeds, http or https",
    ScopeRule.ANY: "pages anywhere on the web",
    ScopeRule.PAGE: "the pages of the seeds alone",
    ScopeRule.SURT: "pages whose SURT prefix scope.surts names",
}


class Scope:
    """Judges URLs by the settings and the seeds so far. ``site_of`` returns the site of a host.

    Raises ``ValueError`` with the setting and the pattern when a pattern is not supported.
    """

    def __init__(self, section: ScopeSection, site_of: Callable[[str], str]) -> None:
        self._site_of = site_of
        self._places: set[str] = set()
        self._hosts: set[str] = set()  # hosts of the places, or their sites
        self._own_rules = dict(map(_own_rule, section.per_seed))
        self._kinds = {section.rule, *self._own_rules.values()} - {ScopeRule.ANY, ScopeRule.SURT}
        is_one = self._kinds == {section.rule} <= {ScopeRule.HOST, ScopeRule.SITE}
        self._only = section.rule if is_one else None  # of most crawls: one lookup for each URL
        self._inside = "", False  # the page that was judged last, and whether it is in scope
        self.use_section(section)

    def use_section(self, section: ScopeSection) -> None:
        """Judge by these settings from now on; ``rule`` and ``per_seed`` stay as they are.

        Raises ``ValueError`` as the constructor does, and changes nothing then.
        """
        include = Patterns("scope.include", section.include)
        exclude = Patterns("scope.exclude", section.exclude)
        try:
            self._surts = SurtRules(section.surts) if section.surts else None
        except ValueError as error:
            raise ValueError(f"scope.surts: {error}") from None
        self.section, self._include, self._exclude = section, include, exclude
        self._rule = f"scope.rule = {section.rule.value}"
        self._frames = _FRAMES if section.requisites else frozenset[LinkKind]()
        self._fetched_requisites = _fetched_requisites(section)
        self._inside = "", False
        self.judges_waiting = bool(include or exclude or self._surts or section.max_depth >= 0)
        """Whether some URL that waits may be refused by ``judge_waiting``."""

    def add_seed(self, url: str) -> bool:
        """Add the host, site or folder of a seed (canonical URL) to the scope.

        Returns whether it was not yet in scope.
        """
        rule = (
            self._own_rules.get(_seed_key(url), self.section.rule)
            if self._own_rules
            else self.section.rule
        )
        if rule in (ScopeRule.ANY, ScopeRule.SURT):
            return False
        known = len(self._places)
        place = self._place_of(url, rule)
        self._places.add(place)
        self._hosts.add(place.removeprefix(_SITE).removeprefix(_PAGE).partition("/")[0])
        self._inside = "", False
        return len(self._places) > known

    def joins(self, url: str, of: str = "") -> bool:
        """Add the target of a seed's redirect to the scope: the operator meant that place.

        ``of`` is the URL that redirects. If that has a separate rule, only what differs from it
        by https, ``www.`` and a slash at the end has that rule too; other targets do not join.
        """
        own = self._own_rules
        if own and _seed_key(of) in own and _seed_key(url) not in own:
            return False
        return self.add_seed(url)

    def judge_url(
        self, url: str, kind: LinkKind, depth: int, nofollow: bool = False, via: str = ""
    ) -> Refusal | None:
        """Why a canonical URL is not in scope, or ``None``.

        ``depth`` counts links from a seed; ``nofollow`` is the link's rel; ``via`` is the document
        with the link, if it is known. A seed is judged by what excludes URLs only, because the
        crawl starts there even when no include pattern matches it.
        """
        excluded = self._exclude.find(url)
        if excluded is not None:
            rule = f"scope.exclude[{excluded}]"
            return Refusal(Reason.EXCLUDED, rule, self._exclude.texts[excluded])
        surt = self._surts.find(url) if self._surts else None
        if surt is not None and not surt[0]:
            return Refusal(Reason.EXCLUDED, "scope.surts", surt[1])
        if kind is LinkKind.SEED:
            return None
        refusal = self._judge_link(kind, depth, nofollow)
        if refusal is not None or kind in _ANYWHERE:
            return refusal
        if kind.is_requisite:
            return self._judge_source(url, via)
        refusal = None if surt is not None else self._judge_place(url)
        if refusal is None or (self.section.one_hop_out and self._is_hop_out(kind, via)):
            refusal = self._judge_include(url) if self._include else None
        if refusal is not None and kind in self._frames:
            return self._judge_source(url, via)
        return refusal

    @property
    def requisites_depth(self) -> int:
        """Maximum number of links from a page to a requisite."""
        return self.section.requisites_depth

    @property
    def takes_requisites(self) -> bool:
        """Whether requisites are fetched at all."""
        return self.section.requisites

    @property
    def limits_sources(self) -> bool:
        """Whether a requisite may be taken from one page and not from another."""
        return self.section.requisites_from is not RequisiteScope.ANY

    def is_part(self, kind: LinkKind) -> bool:
        """Whether what was found so is fetched as a part of the page with the link."""
        return kind.is_requisite or kind in self._frames

    def is_source(self, via: str) -> bool:
        """Whether links of a page may lead out of the scope."""
        return self.section.one_hop_out and self._is_hop_out(LinkKind.A, via)

    def judge_waiting(self, url: str, kind: LinkKind, depth: int) -> Refusal | None:
        """Why a URL that was admitted earlier is not wanted any more, or ``None``.

        It is not judged by its place: which page linked to it is no longer known, and another
        worker may know a place that this one does not know yet.
        """
        refusal = self.judge_url(url, kind, depth)
        if refusal is not None and refusal.reason is Reason.OUT_OF_SCOPE:
            return self._judge_include(url)
        return refusal

    def holds(self, host: str) -> bool:
        """Whether some page of a host could be in scope."""
        return (
            self.section.rule is ScopeRule.ANY
            or host in self._hosts
            or (ScopeRule.SITE in self._kinds and self._site_of(host) in self._hosts)
            or (self._surts is not None and self._surts.holds(host))
        )

    def _judge_link(self, kind: LinkKind, depth: int, nofollow: bool) -> Refusal | None:
        section = self.section
        if kind in _NEVER:
            return Refusal(
                Reason.OUT_OF_SCOPE, "this kind of link is never followed", kind.name.lower()
            )
        is_unwanted = kind.is_requisite and kind is not LinkKind.WANTED
        if is_unwanted and kind not in self._fetched_requisites:
            return Refusal(Reason.REQUISITE, "scope.requisites", kind.name.lower())
        if nofollow and not section.follow_nofollow:
            return Refusal(Reason.NOFOLLOW, "scope.follow_nofollow", "false")
        if 0 <= section.max_depth < depth - kind.is_requisite and (
            kind not in self._frames or depth > section.max_depth + 1
        ):
            return Refusal(Reason.TOO_DEEP, "scope.max_depth", f"{depth} of {section.max_depth}")
        return None

    def _judge_source(self, url: str, via: str) -> Refusal | None:
        """Why a requisite is not taken from its host."""
        allowed = self.section.requisites_from
        if allowed is RequisiteScope.ANY or not via:
            return None
        own, other = host_of(via), host_of(url)
        if allowed is RequisiteScope.SITE:
            own, other = self._site_of(own), self._site_of(other)
        if own == other:
            return None
        return Refusal(Reason.REQUISITE_ELSEWHERE, "scope.requisites_from", allowed.value)

    def _judge_place(self, url: str) -> Refusal | None:
        rule = self.section.rule
        if self._only is not None:
            place = self._place_of(url, rule)
            if place in self._places:
                return None
            return Refusal(Reason.OUT_OF_SCOPE, self._rule, place.removeprefix(_SITE))
        if rule is ScopeRule.ANY or self._is_in_place(url):
            return None
        return Refusal(Reason.OUT_OF_SCOPE, self._rule, _schemeless(url))

    def _judge_include(self, url: str) -> Refusal | None:
        if self._include and self._include.find(url) is None:
            return Refusal(Reason.NOT_INCLUDED, "scope.include", " | ".join(self.section.include))
        return None

    def _is_hop_out(self, kind: LinkKind, via: str) -> bool:
        """Whether a URL outside of the scope is one link away from a page in scope.

        A redirect of a page that was admitted belongs to the same hop; the number of redirects in
        a row is limited anyway.
        """
        if kind is LinkKind.REDIRECT:
            return True
        if not via:
            return False
        if via != self._inside[0]:  # the links of a page are judged one after the other
            surt = self._surts.find(via) if self._surts else None
            inside = surt[0] if surt is not None else self._is_in_place(via)
            self._inside = via, inside
        return self._inside[1]

    def _place_of(self, url: str, rule: ScopeRule) -> str:
        """The part of a URL that defines the scope: its host, its site, its host and folder, or
        itself.
        """
        host = host_of(url)
        if rule is ScopeRule.SITE:
            return _SITE + self._site_of(host)
        if rule is ScopeRule.PREFIX:
            path = target_of(url).partition("?")[0]
            return host + path[: path.rindex("/") + 1]
        return _PAGE + _schemeless(url) if rule is ScopeRule.PAGE else host

    def _is_in_place(self, url: str) -> bool:
        for kind in self._kinds:
            if kind is ScopeRule.PREFIX:
                if self._is_in_folder(url):
                    return True
            elif self._place_of(url, kind) in self._places:
                return True
        return False

    def _is_in_folder(self, url: str) -> bool:
        """Whether one of the URL's folders belongs to a seed.

        One set lookup for each folder, so a million seeds cost no more than one.
        """
        folder = self._place_of(url, ScopeRule.PREFIX)
        while folder not in self._places:
            slash = folder.rfind("/", 0, -1)
            if slash < 0:
                return False
            folder = folder[: slash + 1]
        return True

    def rules(self) -> list[str]:
        """A description of the scope, one line per rule."""
        section = self.section
        lines = [f"in scope: {_WORDS[section.rule]}"]
        if self._places:
            shown = sorted(each.removeprefix(_SITE).removeprefix(_PAGE) for each in self._places)
            more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
            lines.append(f"{section.rule.value}: {', '.join(shown[:20])}{more}")
        lines += [f"also in scope: {text}" for text in self._surt_lines(admits=True)]
        lines += [f"refused below: {text}" for text in self._surt_lines(admits=False)]
        if section.one_hop_out:
            lines.append("pages elsewhere that a page in scope links to, but not their links")
        lines += [f"must match one of: {pattern}" for pattern in section.include]
        lines += [f"refused when it matches: {pattern}" for pattern in section.exclude]
        if section.max_depth >= 0:
            lines.append(f"at most {section.max_depth} links away from a seed")
        if section.accept:
            lines.append(f"media types besides pages: {', '.join(section.accept)}")
        lines.append(
            "images, scripts and style sheets: "
            + (
                f"fetched, {_SOURCES[section.requisites_from]}"
                if section.requisites
                else "recorded, not fetched"
            )
        )
        lines.append(
            "links marked nofollow: " + ("followed" if section.follow_nofollow else "not followed")
        )
        return lines

    def _surt_lines(self, admits: bool) -> list[str]:
        # A URL stands for its folder, as in Heritrix, so its prefix is shown next to it.
        texts = [
            text if "(" in text or text.endswith(prefix[-1]) else f"{text}, that is ({prefix}"
            for sign, prefix, text in read_surts(self.section.surts)
            if sign is admits
        ]
        more = [f"{len(texts) - 20} more SURT prefixes"] if len(texts) > 20 else []
        return texts[:20] + more

    def __repr__(self) -> str:
        return f"<Scope {self.section.rule.value} places={len(self._places)}>"


def _own_rule(text: str) -> tuple[str, ScopeRule]:
    """The seed and the rule of one text of ``scope.per_seed``, which was checked."""
    url, _, rule = text.strip().rpartition(" ")
    return _seed_key(url.strip()), ScopeRule(rule)


def _seed_key(url: str) -> str:
    """A URL without what servers redirect from: the scheme, ``www.``, a slash at the end."""
    return url.partition("://")[2].removeprefix("www.").rstrip("/")


def _fetched_requisites(section: ScopeSection) -> frozenset[LinkKind]:
    """The kinds of requisites that are fetched: all, or those with media that are accepted."""
    if section.requisites:
        return frozenset(kind for kind in LinkKind if kind.is_requisite)
    examples = {
        LinkKind.IMG: ("image/png", "image/jpeg", "image/svg+xml", "image/webp", "image/gif"),
        LinkKind.MEDIA: ("video/mp4", "video/webm", "audio/mpeg", "audio/ogg"),
    }
    return frozenset(
        kind
        for kind, types in examples.items()
        if any(accepts(section.accept, each) for each in types)
    )


def is_shown(kind: LinkKind, media_type: str) -> bool:
    """Whether a browser shows a part of a page of that type.

    It shows no document where it expects an image, a script or a style sheet: most such documents
    are pages of errors, and what they load is part of no page.
    """
    return kind not in _NO_DOCUMENTS or media_type not in _HTML


def _schemeless(url: str) -> str:
    return host_of(url) + target_of(url)
