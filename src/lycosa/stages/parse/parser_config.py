"""The parser's configuration, sent once before the first document.

It is a separate module so that a worker does not import what only its child uses.
"""

from __future__ import annotations

from importlib.util import find_spec

import msgspec

from lycosa.base.config.sections import CanonicalSection, Config, ParseSection

_WALL_FACTOR = 20
_MAX_DOUBLINGS = 3


class ParserConfig(msgspec.Struct, frozen=True):
    """Limits, the options of the canonical form, and our product token for directives.

    ``reads_content`` says whether main content and metadata of pages are wanted
    (``Parsed.content``), ``reads_files`` whether this parser reads files (``file_type``),
    ``reads_requisites`` whether it reads what pages load, style sheets and modules as well
    (``parse.requisite_files``), ``judges_scripts`` whether pages may be rendered, so that it judges
    which need that (``Parsed.script_need``), and reads what style sheets and modules load.
    ``reads_places`` says that it reads links with their places only (``Parsed.linked``).
    """

    section: ParseSection
    canonical: CanonicalSection
    product: str
    reads_content: bool = False
    reads_files: bool = False
    reads_requisites: bool = False
    judges_scripts: bool = False
    reads_places: bool = False

    @staticmethod
    def of(config: Config) -> ParserConfig:
        """That of a crawl with these settings."""
        return ParserConfig(
            config.parse,
            config.canonical,
            config.agent.product,
            config.store.content,
            reads_requisites=config.scope.requisites,
            judges_scripts=config.render.is_on,
        )

    def longest_wait_s(self, tries: int = 0) -> float:
        """Seconds of wall time after which a child that does not answer is killed.

        A document is limited by processor time. This bound is for a child that hangs without using
        any, so it is far: a process that gets a twentieth of a core stays below it. It doubles
        with each failed try (``ParseInput.tries``).
        """
        return float(_WALL_FACTOR * self.section.deadline_s * 2 ** min(tries, _MAX_DOUBLINGS))


def with_installed_readers(section: ParseSection) -> ParseSection:
    """The settings without ``office`` where the library for it is not installed."""
    if not section.office or find_spec("kreuzberg") is not None:
        return section
    return msgspec.structs.replace(section, office=False)


def check_readers(section: ParseSection) -> None:
    """Raises ``ValueError`` with the command that installs what the settings need."""
    if with_installed_readers(section) is not section:
        from lycosa.base.config.extras import install_command  # half a megabyte of modules

        raise ValueError(
            "parse.office: the reader of office documents is not installed:"
            f" {install_command('office')}"
        )
