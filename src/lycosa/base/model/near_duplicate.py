"""What partitions tell each other to find near-duplicates: a page's fingerprint, and a verdict."""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Original


class Fingerprint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The simhash of a capture that was stored, for the owners of its buckets."""

    simhash: int
    original: Original


class Verdict(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The page ``url`` is a near-duplicate: the answer to the partition that owns its URL.

    ``simhash`` is that of the page, so a verdict about earlier content is recognized. ``original``
    is the earlier capture whose simhash differs from it in ``distance`` bits.
    """

    url: str
    simhash: int
    distance: int
    original: Original

    @property
    def rank(self) -> tuple[int, str]:
        """The smaller one of two verdicts about a page counts, in whatever order they arrive.

        It names the earlier original, because the later one may itself be a near-duplicate of it.
        """
        return self.original.date_us, self.original.url
