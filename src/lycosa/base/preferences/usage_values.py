"""Reads the values of Content-Usage, Content-Signal, noai and tdm-reservation into answers.

The promise: any text gives answers, never an error. A text above ``MAX_VALUE_CHARACTERS`` is not
read, and counts as a "no" to everything: a limit of ours must not turn a "no" into silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from http_sf import StructuredFieldError, Token, parse

from lycosa.base.preferences.preference_model import (
    MAX_STATEMENT_CHARACTERS,
    PreferenceSource,
    Statement,
    Use,
)

MAX_VALUE_CHARACTERS = 4000
"""The longest value that is read; its cost is then at most 2 ms."""

MAX_STATEMENTS = 20
"""The most statements of one source that are kept for a page."""

_USAGE_LABELS = {
    "train-ai": Use.AI_TRAIN.value,  # draft-ietf-aipref-vocab-08 section 6.1
    "search": Use.SEARCH.value,
    "ai-train": Use.AI_TRAIN.value,  # draft-romm-aipref-contentsignals-00 section 4
    "ai-input": Use.AI_INPUT.value,
    "bots": Use.BOTS.value,  # draft-ietf-aipref-vocab-04, automated processing
}
_SIGNAL_LABELS = {
    "search": Use.SEARCH.value,
    "ai-train": Use.AI_TRAIN.value,
    "ai-input": Use.AI_INPUT.value,
}
_SIGNAL_VALUES = {"yes": True, "no": False}
_SIGNAL = re.compile(r"\s*([a-z*-]{1,30})\s*=\s*\"?([a-z]{1,8})\"?\s*")
_TDM_VALUES = {"0": True, "1": False}
# DeviantArt, which introduced both words in 2022, means data sets and models. They do not tell
# training from input, so both are answered.
_NO_AI = {Use.AI_TRAIN.value: False, Use.AI_INPUT.value: False}


def unread_answers() -> dict[str, bool]:
    """The answers where a limit of ours ended the reading."""
    return {Use.BOTS.value: False}


def usage_answers(text: str) -> dict[str, bool]:
    """The answers of a Content-Usage value, a dictionary of structured fields (RFC 9651).

    Source: draft-ietf-aipref-vocab-08 section 6.6. Values other than the tokens ``y`` and ``n``,
    unknown labels and parameters are ignored. A value that is no dictionary states nothing.
    """
    return dict(_usage_items(text)) if len(text) <= MAX_VALUE_CHARACTERS else unread_answers()


def signal_answers(text: str) -> dict[str, bool]:
    """The answers of a Content-Signal value, ``search=yes, ai-train=no``.

    There is no grammar for it, so letter case, quotes and unknown parts are tolerated. Where a
    label is repeated, "no" counts.
    """
    return dict(_signal_items(text)) if len(text) <= MAX_VALUE_CHARACTERS else unread_answers()


def tdm_answers(value: str) -> dict[str, bool]:
    """The answers of a tdm-reservation: 1 reserves the rights, 0 does not, else it is unset.

    Source: TDMRep (W3C Community Group report of 2024-05-10), "tdm-reservation".
    """
    allowed = _TDM_VALUES.get(value.strip())
    return {} if allowed is None else {Use.TDM.value: allowed}


def tdm_text(reservation: str, policy: str) -> str:
    """The text of a statement about text and data mining: the reservation and its policy."""
    text = f"tdm-reservation: {reservation.strip()}" if reservation else ""
    return "; ".join(filter(None, (text, f"tdm-policy: {policy.strip()}" if policy else "")))


def no_ai_answers(words: Iterable[str], is_image: bool) -> dict[str, bool] | None:
    """The answers of ``noai`` and ``noimageai`` among ``words``, ``None`` if neither is there.

    ``noimageai`` is about images: on another page it is recorded and answers nothing.
    """
    found = {"noai", "noimageai"}.intersection(words)
    if not found:
        return None
    return dict(_NO_AI) if is_image or "noai" in found else {}


def bounded(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Distinct statements, of each source at most ``MAX_STATEMENTS``, each text within its limit.

    The last one that is kept has the answers of those that are dropped: a use that one of them
    denies is denied.
    """
    kept: dict[tuple[PreferenceSource, str, int], Statement] = {}
    counts: dict[PreferenceSource, int] = {}
    last: dict[PreferenceSource, tuple[PreferenceSource, str, int]] = {}
    for each in statements:
        key = (each.source, each.text[:MAX_STATEMENT_CHARACTERS], each.line)
        if key not in kept and counts.get(each.source, 0) >= MAX_STATEMENTS:
            key = last[each.source]
        answers = each.answers
        if key in kept:
            answers = _stricter(kept[key].answers, answers)
        else:
            counts[each.source] = counts.get(each.source, 0) + 1
            last[each.source] = key
        kept[key] = Statement(*key, answers)
    return tuple(kept.values())


def _stricter(one: dict[str, bool], other: dict[str, bool]) -> dict[str, bool]:
    if one == other:
        return one
    # A "yes" that only one of them states is dropped too: the other may deny a broader use.
    both = {use: one[use] and other[use] for use in one.keys() & other.keys()}
    denied = {use: False for each in (one, other) for use, yes in each.items() if not yes}
    return both | denied


def dictionary_members(text: str) -> dict[str, Any]:
    """The bare values of a dictionary of structured fields, by key; empty if it is not valid.

    Of a repeated key the last counts, and a value without one is ``True`` (RFC 9651 section 4.2.2).
    An inner list is a list of pairs of value and parameters.
    """
    try:
        members: Any = parse(text.encode("utf-8", "surrogatepass"), tltype="dictionary")
    except StructuredFieldError:
        return {}
    return {key: member[0] for key, member in members.items()}


# Most values are those of a large provider's millions of sites.
@lru_cache(maxsize=1024)
def _usage_items(text: str) -> tuple[tuple[str, bool], ...]:
    members = dictionary_members(text)
    answers: dict[str, bool] = {}
    for label, use in _USAGE_LABELS.items():
        value = members.get(label)
        if isinstance(value, Token) and str(value) in ("y", "n"):
            answers[use] = str(value) == "y" and answers.get(use, True)
    return tuple(answers.items())


@lru_cache(maxsize=1024)
def _signal_items(text: str) -> tuple[tuple[str, bool], ...]:
    answers: dict[str, bool] = {}
    for part in text.lower().split(","):
        found = _SIGNAL.fullmatch(part)
        use = _SIGNAL_LABELS.get(found[1]) if found else None
        allowed = _SIGNAL_VALUES.get(found[2]) if found else None
        if use is not None and allowed is not None:
            answers[use] = allowed and answers.get(use, True)
    return tuple(answers.items())
