"""What a site says about the use of one page, and whether a purpose may use it.

The promise: what was said is stored as it was sent, with its source, and one function decides. The
sources disagree about words and about nesting, so each becomes a ``Statement`` with answers in one
vocabulary, and statements combine by one rule: for each use, a "no" counts before a "yes", and an
unstated use is neutral (draft-ietf-aipref-vocab-08 section 7.1). docs/consent.md has one row for
each pair of sources.

There is one exception, and it comes from a specification. TDMRep says in "Processing priority" that
its header supersedes its file, and its markup supersedes both. Among the three, only the last one
that answers counts.

A statement about a broader use answers for the narrower uses that the same statement leaves
unstated. This nesting is applied to each statement before they are combined: otherwise a second
statement about the narrower use could turn a "no" into a "yes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

MAX_STATEMENT_CHARACTERS = 1000
"""A longer text is cut when it is stored. Answers are read from the whole."""


class Use(StrEnum):
    """A use of a page: the values are those of ``agent.purpose`` and the keys of ``answers``."""

    SEARCH = "search"  # an index whose results lead to the page
    AI_TRAIN = "ai-train"  # training or fine-tuning of models
    AI_INPUT = "ai-input"  # input of a model when it answers (retrieval, grounding)
    TDM = "tdm"  # text and data mining (EU directive 2019/790, article 2)
    BOTS = "bots"  # any automated processing; covers all others
    ARCHIVE = "archive"  # preservation; no source names it
    RESEARCH = "research"  # research; no source names it


class PreferenceSource(IntEnum):
    """Where a statement was read. The value is written to disk and never used again."""

    USAGE_HEADER = 1  # Content-Usage, header
    USAGE_ROBOTS = 2  # Content-Usage, robots.txt
    SIGNAL_HEADER = 3  # Content-Signal, header
    SIGNAL_ROBOTS = 4  # Content-Signal, robots.txt
    ROBOTS_TAG = 5  # noai, noimageai in X-Robots-Tag
    ROBOTS_META = 6  # noai, noimageai in meta robots
    TDM_FILE = 7  # /.well-known/tdmrep.json
    TDM_HEADER = 8  # tdm-reservation, header
    TDM_META = 9  # tdm-reservation, meta element
    LICENSE_ROBOTS = 10  # License, robots.txt (RSL)
    LICENSE_HEADER = 11  # Link with rel=license
    LICENSE_MARKUP = 12  # link element with rel=license

    @property
    def label(self) -> str:
        """The name in outputs: ``usage_header``."""
        return self.name.lower()


class Statement(msgspec.Struct, frozen=True, array_like=True, gc=False, omit_defaults=True):
    """One statement of a site.

    ``text`` is as sent, at most ``MAX_STATEMENT_CHARACTERS``. ``line`` is its line in robots.txt,
    from 1, or 0. ``answers`` has only the uses that it states: ``True`` allows. It is empty for a
    licence, whose text is an address, and for text that could not be read.
    """

    source: PreferenceSource
    text: str
    line: int = 0
    answers: dict[str, bool] = {}


class Preferences(msgspec.Struct, frozen=True, array_like=True, gc=False, omit_defaults=True):
    """All that is stated about one page, as of its fetch.

    ``answers`` are those of ``combine``; an absent use is unstated. ``license`` is the address of
    an RSL licence, ``price`` the price header of an answer 402. ``Preferences()`` means that
    nothing is stated.
    """

    answers: dict[str, bool] = {}
    statements: tuple[Statement, ...] = ()
    license: str = ""
    price: str = ""


NARROWER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # TDMRep and the Commission's answer E-000479/2023: training and input of models are text
        # and data mining, an index for search is not (w3c/tdm-reservation-protocol, tdm-meaning).
        Use.TDM.value: (Use.AI_TRAIN.value, Use.AI_INPUT.value),
        # draft-romm-aipref-contentsignals-00 section 3 and draft-ietf-aipref-vocab-04: each use is
        # a proper subset of automated processing. vocab-08 has neither this label nor nesting.
        Use.BOTS.value: tuple(each.value for each in Use if each is not Use.BOTS),
    }
)
"""The uses that a broader use covers, from the broader to the narrower."""

_TDM_RANK = {
    PreferenceSource.TDM_FILE: 1,
    PreferenceSource.TDM_HEADER: 2,
    PreferenceSource.TDM_META: 3,
}


def may_use(preferences: Preferences, purpose: Iterable[str], unstated: str) -> bool:
    """Whether every use in ``purpose`` is allowed.

    No purpose means that preferences are recorded and not obeyed, so everything may be used.
    ``unstated`` is ``use`` or ``skip``: what to do where a site states nothing about a use.
    """
    answers = preferences.answers
    default = unstated != "skip"
    return all(answers.get(str(use), default) for use in purpose)


def combine(statements: Iterable[Statement]) -> dict[str, bool]:
    """The answers of all ``statements`` together, in the order of ``Use``; unstated uses absent."""
    stated = [each for each in statements if each.answers]
    if not stated:
        return {}
    last = max((_TDM_RANK.get(each.source, 0) for each in stated), default=0)
    merged: dict[str, bool] = {}
    for each in stated:
        if _TDM_RANK.get(each.source, last) < last:  # superseded
            continue
        for use, allowed in nested_answers(each.answers).items():
            merged[use] = allowed and merged.get(use, True)
    return {use.value: merged[use.value] for use in Use if use.value in merged}


def nested_answers(answers: Mapping[str, bool]) -> dict[str, bool]:
    """``answers`` of one statement and, where it states none, those of the next broader use."""
    full = dict(answers)
    # ``tdm`` is narrower than ``bots`` and broader than the rest: whichever is nearer answers.
    for broader in (Use.TDM.value, Use.BOTS.value):
        if broader in answers:
            for use in NARROWER[broader]:
                full.setdefault(use, answers[broader])
    return full


def gather_preferences(
    statements: Iterable[Statement], address: str = "", price: str = ""
) -> Preferences:
    """The preferences of a page from all its statements.

    ``address`` is that of its licence. Without one it is the text of the most specific statement
    about a licence: markup, then header, then robots.txt.
    """
    kept = tuple(statements)
    if not kept and not address and not price:
        return NOTHING_STATED
    if not address:
        licences = [each for each in kept if each.source in _LICENCES]
        if licences:
            address = max(licences, key=lambda each: each.source).text
    return Preferences(combine(kept), kept, address, price)


NOTHING_STATED = Preferences()
_LICENCES = frozenset(
    {
        PreferenceSource.LICENSE_ROBOTS,
        PreferenceSource.LICENSE_HEADER,
        PreferenceSource.LICENSE_MARKUP,
    }
)
