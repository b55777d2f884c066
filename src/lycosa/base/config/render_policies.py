"""Rules that say which pages of a site, of a host or of a pattern are rendered.

A text of the setting ``render.policies`` is a matcher (``url_matchers``) and a mode::

    app.example auto                  pages of the domain that seem to need their scripts
    host:www.example.org /docs/* never
    re:[?&]view=map always

The first rule that is for a URL counts; others go by ``render.mode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lycosa.base.config.near_names import near_name
from lycosa.base.config.render_section import RenderMode, RenderSection
from lycosa.base.config.url_matchers import (
    MAX_RULE_CHARACTERS,
    MatcherBook,
    UrlMatcher,
    read_matcher,
)

MAX_RENDER_POLICIES = 1000

_MODES = {each.value: each for each in RenderMode}


def read_render_policy(text: str) -> tuple[UrlMatcher, RenderMode]:
    """One rule. Raises ``ValueError``, which says what to write."""
    words = text.split()
    if len(words) < 2 or len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(f"{text[:100]!r} is no policy; write MATCHER MODE, as app.example auto")
    matcher = read_matcher(words)
    if matcher.sitemap:
        raise ValueError(f"{text!r}: a sitemap cannot choose pages to render; write a pattern")
    if len(words) != 1 or (mode := _MODES.get(words[0].lower())) is None:
        near = near_name(words[0], _MODES) if len(words) == 1 else None
        meant = f"did you mean {near}?" if near else "write never, auto or always after the matcher"
        raise ValueError(f"{text!r} has no mode; {meant}")
    return matcher, mode


def check_render_policies(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` for a text that ``read_render_policy`` does not read, with its line."""
    if len(texts) > MAX_RENDER_POLICIES:
        raise ValueError(f"{len(texts)} policies; there may be {MAX_RENDER_POLICIES}")
    for number, text in enumerate(texts, 1):
        try:
            read_render_policy(text)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


class RenderBook:
    """The rules of a section, arranged for lookups."""

    def __init__(self, section: RenderSection) -> None:
        rules = [read_render_policy(text) for text in section.policies]
        self._modes = [*(mode for _, mode in rules), section.mode]
        self._matchers = MatcherBook([matcher for matcher, _ in rules])

    def mode_of(self, url: str) -> RenderMode:
        """The mode of the first rule that is for a canonical URL, or that of the section."""
        last = len(self._modes) - 1
        return self._modes[self._matchers.find(url, last) if last else 0]

    def rule_of(self, url: str) -> int:
        """The number of that rule, from 1; 0 when ``render.mode`` decides."""
        last = len(self._modes) - 1
        found = self._matchers.find(url, last) if last else last
        return found + 1 if found < last else 0


@lru_cache(4)
def render_book(section: RenderSection) -> RenderBook:
    """The rules of a section. Raises ``ValueError`` for texts that were not checked."""
    return RenderBook(section)
