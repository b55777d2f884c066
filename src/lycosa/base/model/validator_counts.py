"""What a host's answers showed about its validators (ETag and Last-Modified)."""

from __future__ import annotations

from enum import Enum

import msgspec

_MOST = 128
"""Counts that are compared are halved beyond this, so that a host can recover."""
_MOST_CONFIRMED = 10_000


class ValidatorFinding(Enum):
    """What one answer to a refetch showed. The value is the label of a metric."""

    NOTHING = "nothing"
    NOT_MODIFIED = "not_modified"  # a 304
    REVEALED = "revealed"  # a conditional request brought a changed text
    AGREED = "agreed"  # a check found what the 304 before it had said
    HIDDEN = "hidden"  # a change that the validators did not show
    OTHER_TAG = "other_tag"  # the ETag differs, text and Last-Modified do not
    UNASKED = "unasked"  # a 304 that answers no condition of the request


VALIDATOR_LABELS = tuple(
    each.value for each in ValidatorFinding if each is not ValidatorFinding.NOTHING
)
"""The findings that are counted."""


class ValidatorCounts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Findings of one host, by ``ValidatorFinding``.

    ``confirmed`` counts 304s, up to ten thousand. ``tags`` counts conditions with an ETag that were
    fulfilled, ``other_tags`` the opposite.
    ``agreed`` and ``hidden``, and the two counts of tags, are halved together when they are many:
    what was long ago counts less. ``doubted`` is the ``url8`` up to which the pages of a host whose
    validators are not believed any more were made due again, empty when none are left.
    """

    hidden: int = 0
    agreed: int = 0
    revealed: int = 0
    tags: int = 0
    other_tags: int = 0
    unasked: int = 0
    confirmed: int = 0
    doubted: bytes = b""

    def with_finding(self, finding: ValidatorFinding, has_tag: bool = False) -> ValidatorCounts:
        """The counts after one more; ``has_tag``: the request had an ETag."""
        hidden, agreed = self.hidden, self.agreed
        hidden += finding is ValidatorFinding.HIDDEN
        agreed += finding is ValidatorFinding.AGREED
        if hidden + agreed > _MOST:
            hidden, agreed = hidden // 2, agreed // 2
        tags = self.tags + (finding is ValidatorFinding.NOT_MODIFIED and has_tag)
        others = self.other_tags + (finding is ValidatorFinding.OTHER_TAG)
        if tags + others > _MOST:
            tags, others = tags // 2, others // 2
        return ValidatorCounts(
            hidden,
            agreed,
            min(self.revealed + (finding is ValidatorFinding.REVEALED), _MOST),
            tags,
            others,
            self.unasked + (finding is ValidatorFinding.UNASKED),
            min(self.confirmed + (finding is ValidatorFinding.NOT_MODIFIED), _MOST_CONFIRMED),
            self.doubted,
        )
