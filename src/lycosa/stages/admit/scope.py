"""Which URLs belong to the crawl, relative to its seeds.

The rules host, site and prefix ignore the scheme: ``http`` and ``https`` of one host are one place,
because sites redirect between them. Another port is another host. If requisites are enabled, those
of a page in scope are admitted from any host, because pages keep them on other hosts, unless
``requisites_from`` says that only those of the page's site or host are; and one link deeper than
pages, because a page at the maximum depth would be incomplete without them. The document in a frame
is a part of its page then, wherever it is. Sitemaps
are admitted from any host too, because only a host in scope, or a sitemap that it named, can bring
them. So are licences, if they are fetched at all: publishers share them on hosts of collectives.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.config.patterns import Patterns
from lycosa.base.config.sections import RequisiteScope, ScopeRule, ScopeSection
from lycosa.base.media_rules import accepts
from lycosa.base.model.discovered import LinkKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.admit.refusal import Refusal

_NEVER = frozenset({LinkKind.FORM, LinkKind.OTHER})
_ANYWHERE = frozenset({LinkKind.SITEMAP_FILE, LinkKind.LICENSE})
_FRAMES = frozenset({LinkKind.FRAME, LinkKind.IFRAME})
_NO_DOCUMENTS = frozenset({LinkKind.IMG, LinkKind.SCRIPT, LinkKind.STYLE})
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_SOURCES = {
    RequisiteScope.ANY: "from any host",
    RequisiteScope.SITE: "from the site of their page",
    RequisiteScope.HOST: "from the host of their page",
}
_WORDS = {
    ScopeRule.HOST: "pages on the hosts of the seeds, http or https",
    ScopeRule.SITE: "pages on the sites (registrable domains) of the seeds, any subdomain",
    ScopeRule.PREFIX: "pages in the folders of the seeds, http or https",
    ScopeRule.ANY: "pages anywhere on the web",
}


class Scope:
    """Judges URLs by the settings and the seeds so far. ``site_of`` returns the site of a host.

    Raises ``ValueError`` with the setting and the pattern when a pattern is not supported.
    """

    def __init__(self, section: ScopeSection, site_of: Callable[[str], str]) -> None:
        self._section = section
        self._rule = f"scope.rule = {section.rule.value}"
        self._site_of = site_of
        self._frames = _FRAMES if section.requisites else frozenset[LinkKind]()
        self._include = Patterns("scope.include", section.include)
        self._exclude = Patterns("scope.exclude", section.exclude)
        self._fetched_requisites = _fetched_requisites(section)
        self._places: set[str] = set()
        self._hosts: set[str] = set()  # hosts of the places, or their sites

    def add_seed(self, url: str) -> bool:
        """Add the host, site or folder of a seed (canonical URL) to the scope.

        Returns whether it was not yet in scope.
        """
        if self._section.rule is ScopeRule.ANY:
            return False
        known = len(self._places)
        place = self._place_of(url)
        self._places.add(place)
        self._hosts.add(place.partition("/")[0])
        return len(self._places) > known

    def joins(self, url: str) -> bool:
        """Add the target of a seed's redirect to the scope: the operator meant that place."""
        return self.add_seed(url)

    def judge_url(
        self, url: str, kind: LinkKind, depth: int, nofollow: bool = False, via: str = ""
    ) -> Refusal | None:
        """Why a canonical URL is not in scope, or ``None``.

        ``depth`` counts links from a seed; ``nofollow`` is the link's rel; ``via`` is the document
        with the link, if it is known. A seed is judged by the
        exclude patterns only, because the crawl starts there even when no include pattern matches
        it.
        """
        excluded = self._exclude.find(url)
        if excluded is not None:
            rule = f"scope.exclude[{excluded}]"
            return Refusal(Reason.EXCLUDED, rule, self._exclude.texts[excluded])
        if kind is LinkKind.SEED:
            return None
        refusal = self._judge_link(kind, depth, nofollow)
        if refusal is not None or kind in _ANYWHERE:
            return refusal
        if kind.is_requisite:
            return self._judge_source(url, via)
        refusal = self._judge_place(url)
        if refusal is not None and kind in self._frames:
            return self._judge_source(url, via)
        return refusal

    @property
    def requisites_depth(self) -> int:
        """Maximum number of links from a page to a requisite."""
        return self._section.requisites_depth

    @property
    def takes_requisites(self) -> bool:
        """Whether requisites are fetched at all."""
        return self._section.requisites

    def is_part(self, kind: LinkKind) -> bool:
        """Whether what was found so is fetched as a part of the page with the link."""
        return kind.is_requisite or kind in self._frames

    def holds(self, host: str) -> bool:
        """Whether some page of a host could be in scope."""
        rule = self._section.rule
        return (
            rule is ScopeRule.ANY
            or (self._site_of(host) if rule is ScopeRule.SITE else host) in self._hosts
        )

    def _judge_link(self, kind: LinkKind, depth: int, nofollow: bool) -> Refusal | None:
        section = self._section
        if kind in _NEVER:
            return Refusal(
                Reason.OUT_OF_SCOPE, "this kind of link is never followed", kind.name.lower()
            )
        if kind.is_requisite and kind not in self._fetched_requisites:
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
        allowed = self._section.requisites_from
        if allowed is RequisiteScope.ANY or not via:
            return None
        own, other = host_of(via), host_of(url)
        if allowed is RequisiteScope.SITE:
            own, other = self._site_of(own), self._site_of(other)
        if own == other:
            return None
        return Refusal(Reason.REQUISITE_ELSEWHERE, "scope.requisites_from", allowed.value)

    def _judge_place(self, url: str) -> Refusal | None:
        rule = self._section.rule
        if rule is ScopeRule.PREFIX:
            if not self._in_folder(url):
                return Refusal(Reason.OUT_OF_SCOPE, self._rule, _schemeless(url))
        elif rule is not ScopeRule.ANY and (place := self._place_of(url)) not in self._places:
            return Refusal(Reason.OUT_OF_SCOPE, self._rule, place)
        if self._include and self._include.find(url) is None:
            return Refusal(Reason.NOT_INCLUDED, "scope.include", " | ".join(self._section.include))
        return None

    def _place_of(self, url: str) -> str:
        """The part of a URL that defines the scope: its host, its site, or its host and folder."""
        host = host_of(url)
        if self._section.rule is ScopeRule.SITE:
            return self._site_of(host)
        if self._section.rule is ScopeRule.PREFIX:
            path = target_of(url).partition("?")[0]
            return host + path[: path.rindex("/") + 1]
        return host

    def _in_folder(self, url: str) -> bool:
        """Whether one of the URL's folders belongs to a seed.

        One set lookup for each folder, so a million seeds cost no more than one.
        """
        folder = self._place_of(url)
        while folder not in self._places:
            slash = folder.rfind("/", 0, -1)
            if slash < 0:
                return False
            folder = folder[: slash + 1]
        return True

    def rules(self) -> list[str]:
        """A description of the scope, one line per rule."""
        section = self._section
        lines = [f"in scope: {_WORDS[section.rule]}"]
        if self._places:
            shown = sorted(self._places)
            more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
            lines.append(f"{section.rule.value}: {', '.join(shown[:20])}{more}")
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

    def __repr__(self) -> str:
        return f"<Scope {self._section.rule.value} places={len(self._places)}>"


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
