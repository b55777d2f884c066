"""What a parser is told once, before its first document. Apart from the parser, so that a worker
need not load what only its child uses.
"""

from __future__ import annotations

import msgspec

from lycosa.config.sections import CanonicalSection, ParseSection


class ParserConfig(msgspec.Struct, frozen=True):
    """Limits, the form of URLs, and our product token for directives."""

    section: ParseSection
    canonical: CanonicalSection
    product: str
