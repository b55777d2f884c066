"""What rendering pages of one kind brought."""

from __future__ import annotations

import msgspec


class RenderTally(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What renders of pages of one shape brought; ``useful`` of those ``tried`` added something."""

    tried: int = 0
    useful: int = 0
