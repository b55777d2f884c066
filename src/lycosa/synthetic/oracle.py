"""The truth about a crawl: the required result for each URL.

It says which URLs a correct crawler must fetch, and how each of the others must end. It walks
sketches, not bytes, in order of depth (a redirect keeps the depth of its source), so it shares
neither parser nor queue with the crawler under test. Outcomes in which correct crawlers may differ
(``ExpectedOutcome.CHOICE``), and endless ones, are collected in ``bad`` and not followed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from lycosa.synthetic.synthetic_pages import Sketch


class Obstacle(Enum):
    """Whether a crawler may fetch a URL, and if not, why."""

    ALLOWED = "robots.txt allows it"
    DISALLOWED = "robots.txt disallows it"
    UNREACHABLE = "the host or its robots.txt never answers"


class Atlas(Protocol):
    """What the oracle needs from a web."""

    def sketch(self, url: str) -> Sketch: ...
    def verdict(self, url: str) -> Obstacle: ...
    def feed_entries(self, url: str) -> list[str]: ...
    def sitemap_of(self, url: str) -> str: ...


@dataclass(frozen=True, slots=True)
class OracleRules:
    """The crawler's rules.

    ``scope`` says whether a URL belongs to the crawl (``None`` = all do); ``max_depth`` -1 is no
    limit.
    """

    scope: Callable[[str], bool] | None = None
    max_depth: int = -1
    max_hops: int = 5
    follow_nofollow: bool = True
    feeds: bool = True
    sitemaps: bool = True


@dataclass(slots=True)
class Truth:
    """The required result of every discovered URL; each is in exactly one of these.

    ``pages`` are fetched with status 200 and HTML, ``others`` with 200 and another type.
    ``redirected`` gives the target, ``failed`` the final error status, ``bad`` the name of a
    misbehaviour whose outcome is not a page. The rest is never requested: ``disallowed`` and
    ``unreachable`` (robots.txt, dead hosts), ``out_of_scope``, ``too_deep``, ``too_many_hops``,
    ``nofollow``. ``depth`` has the minimum depth of every URL that is requested.
    """

    pages: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    redirected: dict[str, str] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    disallowed: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)
    out_of_scope: set[str] = field(default_factory=set)
    too_deep: set[str] = field(default_factory=set)
    too_many_hops: set[str] = field(default_factory=set)
    nofollow: set[str] = field(default_factory=set)
    depth: dict[str, int] = field(default_factory=dict)

    @property
    def requested(self) -> set[str]:
        """Every URL that is requested, except robots.txt files."""
        return self.pages | self.others | set(self.redirected) | set(self.failed) | set(self.bad)


@dataclass(slots=True)
class _Walk:
    atlas: Atlas
    rules: OracleRules
    truth: Truth = field(default_factory=Truth)
    queue: deque[tuple[str, int, int]] = field(default_factory=deque)
    origins: set[str] = field(default_factory=set)

    def visit(self, url: str, depth: int, hops: int) -> None:
        truth = self.truth
        if url in truth.depth or url in truth.disallowed or url in truth.unreachable:
            return
        refused = self._refused(url, depth, hops)
        if refused is not None:
            refused.add(url)
            return
        truth.depth[url] = depth
        self._note_sitemap(url, depth)
        found = self.atlas.sketch(url)
        if found.location:
            truth.redirected[url] = found.location
            # same depth, so before everything deeper
            self.queue.appendleft((found.location, depth, hops + 1))
        elif found.html:
            truth.pages.add(url)
            self._follow(found, depth)
        elif found.bad:
            truth.bad[url] = found.bad
        elif found.status != 200:
            truth.failed[url] = found.status
        else:
            truth.others.add(url)
            if self.rules.feeds:
                self.queue.extend((entry, depth + 1, 0) for entry in self.atlas.feed_entries(url))

    def _refused(self, url: str, depth: int, hops: int) -> set[str] | None:
        rules, truth = self.rules, self.truth
        if rules.scope is not None and not rules.scope(url):
            return truth.out_of_scope
        if 0 <= rules.max_depth < depth:
            return truth.too_deep
        if hops > rules.max_hops:
            return truth.too_many_hops
        verdict = self.atlas.verdict(url)
        if verdict is Obstacle.ALLOWED:
            return None
        return truth.disallowed if verdict is Obstacle.DISALLOWED else truth.unreachable

    def _follow(self, found: Sketch, depth: int) -> None:
        for link in found.links:
            if link.kind.is_requisite:
                continue
            if found.nofollow or (link.nofollow and not self.rules.follow_nofollow):
                self.truth.nofollow.add(link.url)
            else:
                self.queue.append((link.url, depth + 1, 0))

    def _note_sitemap(self, url: str, depth: int) -> None:
        origin = "/".join(url.split("/", 3)[:3])
        if self.rules.sitemaps and origin not in self.origins:
            self.origins.add(origin)
            sitemap = self.atlas.sitemap_of(url)
            if sitemap:
                self.queue.extend(
                    (entry, depth + 1, 0) for entry in self.atlas.feed_entries(sitemap)
                )


def survey(atlas: Atlas, seeds: Iterable[str], rules: OracleRules) -> Truth:
    """Walk everything that the seeds lead to.

    The web must be finite under these rules (no endless entry in ``WebPlan.misbehaviours``).
    """
    walk = _Walk(atlas, rules)
    walk.queue.extend((url, 0, 0) for url in seeds)
    while walk.queue:
        walk.visit(*walk.queue.popleft())
    truth = walk.truth
    reached = truth.requested | truth.disallowed | truth.unreachable
    for refused in (truth.out_of_scope, truth.too_deep, truth.too_many_hops, truth.nofollow):
        refused -= reached
        reached |= refused
    return truth
