"""A render that ended: what the store writes of it.

It is the last round of a page (``rendered_page``), what the parser found in its document, and what
is known of the capture that was rendered. A render that gave no document is stored too, with the
reason.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lycosa.base.model.capture import StoredOriginal
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Privacy
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.remark import Remark
from lycosa.base.model.rendered_page import Rendered
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.reasons import Reason

RENDERED_HEADERS = (("content-type", "text/html; charset=utf-8"),)
"""Header fields of a rendered document: those of the answer are about other bytes."""

_PLACEHOLDER = 200
_NONCE = re.compile(r"""(\snonce=)(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)


class RoundNote(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One round of a render.

    ``at`` is when it began (wall time, seconds), ``end`` a ``RenderEnd``. ``wants`` are the URLs
    that it wanted, ``found`` the requests that the archive answered.
    """

    at: float
    end: str
    elapsed_s: float = 0.0
    processor_s: float = 0.0
    wants: int = 0
    found: int = 0


class FinishedRender(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A render to be stored.

    ``original`` is the capture that was rendered, with the record id and the place of the response
    that has its body. ``rendered`` is the last round, ``parsed`` what the parser found in its
    document (``None`` without one), ``rendered_at`` when it ended (wall time, seconds). ``reason``
    and ``detail`` say why it ended before a round wanted nothing new, if it did. ``status``,
    ``depth``, ``via``, ``link_kind``, ``fetch_number`` and ``preferences`` are those of the
    capture. ``page_characters`` and ``page_links`` are what the parser found in the capture itself.
    ``items`` are the rows that extractors made of the document, ``remarks`` those of user code.
    """

    url: str
    host: str
    site: str
    original: StoredOriginal
    rendered: Rendered
    parsed: Parsed | None
    rendered_at: float
    rounds: tuple[RoundNote, ...] = ()
    reason: Reason = Reason.NONE
    detail: str = ""
    status: int = 200
    depth: int = 0
    via: str = ""
    link_kind: LinkKind = LinkKind.SEED
    fetch_number: int = 1
    preferences: Preferences = NOTHING_STATED
    page_characters: int = 0
    page_links: int = 0
    items: dict[str, list[list[Any]]] = {}
    remarks: tuple[Remark, ...] = ()
    privacy: Privacy = Privacy.PUBLIC

    @property
    def is_better(self) -> bool:
        """Whether readers get the text of the render, and not that of the page itself.

        The longer text counts, because a script that fails often leaves an empty page. A text of
        the page that is as short as a placeholder ("Loading, please wait") never does.
        """
        if self.parsed is None or not self.rendered.end.has_document:
            return False
        found = len(self.parsed.text)
        return found > self.page_characters or (found > 0 and self.page_characters < _PLACEHOLDER)


def without_nonces(html: str) -> str:
    """A document in which equal renders are equal.

    The values of ``nonce`` attributes are left out, of which a page must choose a new one each time
    (Content Security Policy level 3, section 7.1).
    """
    return _NONCE.sub(r"\1", html)
