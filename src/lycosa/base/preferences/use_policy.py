"""The purpose of a crawl: for what its outputs are, and what it does where a site states nothing.

The row journal and the WARC files always have everything. What is made for users of the crawl
(derived files, feeds, answers with text, page sinks) asks ``UsePolicy.allows`` for each capture.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lycosa.base.config.scope_sections import AgentSection, UnstatedUse
from lycosa.base.preferences.preference_model import Preferences, Use, may_use


class UsePolicy(msgspec.Struct, frozen=True, gc=False):
    """The purpose, as uses, and what is done with pages that state nothing about one of them.

    No ``purpose`` means that preferences are recorded and everything may be used. ``unstated`` is
    ``use`` or ``skip``.
    """

    purpose: tuple[str, ...] = ()
    unstated: str = UnstatedUse.USE.value

    @property
    def records_only(self) -> bool:
        """Whether nothing is left out, whatever sites state."""
        return not self.purpose

    def allows(self, preferences: Preferences) -> bool:
        """Whether the purpose may use the content of a capture."""
        return may_use(preferences, self.purpose, self.unstated)

    def verdict(self, preferences: Preferences) -> bool | None:
        """``allows``, or ``None`` without a purpose: nothing was judged."""
        return self.allows(preferences) if self.purpose else None


RECORD_ONLY = UsePolicy()


def policy_of(purpose: Iterable[str], unstated: str) -> UsePolicy:
    """The policy of settings or options, in one form: each use once, in the order of ``Use``.

    So two spellings of one purpose are equal, and a segment that names it is continued. Raises
    ``ValueError`` for a use that does not exist.
    """
    wanted = set(purpose)
    known = [each.value for each in Use]
    unknown = sorted(wanted - set(known))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a use; there are {', '.join(known)}")
    uses = tuple(each for each in known if each in wanted)
    return UsePolicy(uses, unstated) if uses else RECORD_ONLY


def agent_policy(section: AgentSection) -> UsePolicy:
    """The policy of a crawl's settings, which are checked."""
    return policy_of(section.purpose, section.unstated.value)
