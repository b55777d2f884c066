"""The parser port in this process.

For virtual time, tests, and tools that read stored documents again.
"""

from __future__ import annotations

import msgspec

from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.parser_config import ParserConfig


def build_parser(config: ParserConfig) -> DocumentParser:
    return DocumentParser(
        config.section,
        Canonicalizer(config.canonical),
        config.product,
        config.reads_content,
        config.reads_files,
        config.reads_requisites,
        config.judges_scripts,
    )


class InlineParser:
    """Parses at once. A document that hangs blocks the caller."""

    def __init__(self, config: ParserConfig) -> None:
        self._config, self._parser = config, build_parser(config)

    async def parse(self, document: ParseInput) -> Parsed:
        """The content of the document, with an elapsed time of zero.

        The real CPU time would make two histories of one seed differ.
        """
        return msgspec.structs.replace(self._parser.parse(document), elapsed_s=0.0)

    def health(self) -> ParserHealth:
        """Always healthy."""
        return ParserHealth()

    def judge_scripts(self, is_wanted: bool) -> None:
        """See ``Parser``."""
        if is_wanted is not self._config.judges_scripts:
            self._config = msgspec.structs.replace(self._config, judges_scripts=is_wanted)
            self._parser = build_parser(self._config)

    async def close(self) -> None:
        """Do nothing: there is no child to end."""
