"""The parser port in this process, for virtual time, tests and tools that read stored documents
again.
"""

from __future__ import annotations

import msgspec

from lycosa.model.parsed import Document, Parsed, ParserHealth
from lycosa.parse.document import DocumentParser
from lycosa.parse.parser_config import ParserConfig
from lycosa.urls.identity import Canonicalizer


def build_parser(config: ParserConfig) -> DocumentParser:
    """The parser that a configuration describes."""
    return DocumentParser(config.section, Canonicalizer(config.canonical), config.product)


class InlineParser:
    """Parses at once. A document that hangs hangs the caller."""

    def __init__(self, config: ParserConfig) -> None:
        self._parser = build_parser(config)

    async def parse(self, document: Document) -> Parsed:
        """Everything the document says, in no time: the real CPU time would make two histories
        of one seed differ.
        """
        return msgspec.structs.replace(self._parser.parse(document), elapsed_s=0.0)

    def health(self) -> ParserHealth:
        """It is always there."""
        return ParserHealth()

    async def close(self) -> None:
        """Nothing to do."""
