"""What there is to note about a fetch or a parse: often nothing, sometimes several things."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lycosa.base.reasons import Reason


class Remark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A reason, with what is known beyond it."""

    reason: Reason
    detail: str = ""


def distinct(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks in their order, each once, without those of no reason."""
    return tuple(dict.fromkeys(each for each in remarks if each.reason is not Reason.NONE))
