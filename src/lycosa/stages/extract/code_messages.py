"""What the extension child and its parent tell each other.

It is a separate module so that a worker does not import what only its child uses.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.known_code import KnownCode
from lycosa.base.model.parsed import Link
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences


class GivenDocument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a ``Document`` is made of, as it travels to the process that runs user code.

    ``fetched`` is in seconds since 1970. ``body`` has the content encodings ``encodings``; a large
    one is in the file ``spool``. ``links`` are ``None`` when they are to be found in the body.
    ``is_cut`` says that there is only the beginning of the body. ``file_text`` and ``file_title``
    are what the crawl read in a PDF file; without it (``None``) the file is to be read.
    ``is_rendered``: the body is the document after its scripts ran.
    """

    url: str
    status: int = 200
    headers: list[tuple[str, str]] = []
    fetched: float = 0.0
    media_type: str = ""
    charset: str = ""
    language: str = ""
    preferences: Preferences = NOTHING_STATED
    body: bytes = b""
    spool: str = ""
    encodings: list[str] = []
    links: list[Link] | None = None
    is_cut: bool = False
    file_text: str | None = None
    file_title: str = ""
    is_rendered: bool = False


class ExtensionAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What user code says of a page.

    ``items`` are rows by the name of the extractor, also an empty list of one that found nothing.
    ``links`` are added to those of the page, which do not have them. ``scores`` are those of links
    by URL, in 255ths; a link without an opinion is left out.
    """

    items: dict[str, list[list[Any]]] = {}
    links: list[Link] = []
    scores: dict[str, int] = {}
    failures: list[CodeFailure] = []


class ChildOrders(msgspec.Struct, frozen=True):
    """The first frame to the child: what it loads, where modules are found, and its limits."""

    codes: tuple[KnownCode, ...]
    canonical: CanonicalSection
    page_s: float
    memory_bytes: int
    max_links: int
    path: tuple[str, ...] = ()


class ChildReport(msgspec.Struct, frozen=True):
    """The first answer: the code with its parts, or why it cannot be loaded."""

    codes: tuple[KnownCode, ...] = ()
    error: str = ""


class ChildTask(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page for some of the codes, by their numbers."""

    codes: tuple[int, ...]
    page: GivenDocument


class ChildAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What became of a page.

    ``output`` is the beginning of what the code printed, ``elapsed_s`` its processor time.
    ``left`` says what it left behind, so that this is the last answer of the process.
    """

    answer: ExtensionAnswer
    output: str = ""
    elapsed_s: float = 0.0
    left: str = ""
