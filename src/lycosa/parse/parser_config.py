"""The parser's configuration, sent once before the first document.

It is a separate module so that a worker does not import what only its child uses.
"""

from __future__ import annotations

import msgspec

from lycosa.config.sections import CanonicalSection, ParseSection


class ParserConfig(msgspec.Struct, frozen=True):
    """Limits, the options of the canonical form, and our product token for directives."""

    section: ParseSection
    canonical: CanonicalSection
    product: str
