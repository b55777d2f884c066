"""The links of a page with their places, as a check of links needs them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lycosa.base.model.discovered import LinkKind


class LinkPlace(NamedTuple):
    """One occurrence of a link. ``raw`` is the reference as written, without blanks around it.

    ``line`` is that of the element in the source, from 1; 0 is not known. ``url`` is the canonical
    URL. It is empty where there is none: then ``why`` says in words what is wrong with the
    reference, or ``scheme`` that it is for another program (``mailto``).
    """

    raw: str
    kind: LinkKind
    text: str
    line: int
    url: str = ""
    why: str = ""
    scheme: str = ""


class LinkedPage(msgspec.Struct, array_like=True):
    """The links of a page in their order, and its anchors: what a fragment can name.

    ``is_cut``: it has more links than are read.
    """

    places: list[LinkPlace] = []
    anchors: frozenset[str] = frozenset()
    is_cut: bool = False
