"""Preferences as text: in WARC metadata records, tables, explanations and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lycosa.base.preferences.preference_model import Preferences, PreferenceSource, Statement, Use

LICENSE, PRICE = "license", "price"
PREFERENCE_LABELS = (
    *(f"{use.value}={answer}" for use in Use for answer in ("yes", "no")),
    LICENSE,
    PRICE,
)
"""What is counted of captures: each answer, a licence, and the price of an answer 402."""

_ROBOTS, _HEADER, _MARKUP = "robots.txt", "header", "markup"
_PLACES: Mapping[PreferenceSource, tuple[str, str]] = {
    PreferenceSource.USAGE_HEADER: (_HEADER, "Content-Usage"),
    PreferenceSource.USAGE_ROBOTS: (_ROBOTS, "Content-Usage"),
    PreferenceSource.SIGNAL_HEADER: (_HEADER, "Content-Signal"),
    PreferenceSource.SIGNAL_ROBOTS: (_ROBOTS, "Content-Signal"),
    PreferenceSource.ROBOTS_TAG: (_HEADER, "X-Robots-Tag"),
    PreferenceSource.ROBOTS_META: (_MARKUP, "meta robots"),
    PreferenceSource.TDM_FILE: ("/.well-known/tdmrep.json", "tdm-reservation"),
    PreferenceSource.TDM_HEADER: (_HEADER, "tdm-reservation"),
    PreferenceSource.TDM_META: (_MARKUP, "tdm-reservation"),
    PreferenceSource.LICENSE_ROBOTS: (_ROBOTS, "License"),
    PreferenceSource.LICENSE_HEADER: (_HEADER, "Link rel=license"),
    PreferenceSource.LICENSE_MARKUP: (_MARKUP, "link rel=license"),
}


def statement_words(statement: Statement) -> str:
    """Where a statement stands and what it is: ``robots.txt line 7: Content-Signal: ai-train=no``.

    Control characters, which markup may contain, become spaces.
    """
    place, field = _PLACES[statement.source]
    line = f" line {statement.line}" if statement.line else ""
    text = "".join(each if each.isprintable() else " " for each in statement.text)
    return f"{place}{line}: {field}: {text}"


def answers_words(answers: Mapping[str, bool]) -> str:
    """Answers in the form of Content-Signal: ``search=yes, ai-train=no``."""
    return ", ".join(f"{use}={'yes' if allowed else 'no'}" for use, allowed in answers.items())


def read_answers(words: str) -> dict[str, bool]:
    """The answers in a text of ``answers_words``."""
    pairs = (each.strip().partition("=") for each in words.split(",") if each.strip())
    return {use: answer == "yes" for use, _, answer in pairs}


def preference_labels(preferences: Preferences) -> list[str]:
    """Those of ``PREFERENCE_LABELS`` that apply to a capture."""
    found = [f"{use}={'yes' if allowed else 'no'}" for use, allowed in preferences.answers.items()]
    found += [LICENSE] if preferences.license else []
    return [*found, PRICE] if preferences.price else found


def counts_words(counts: Mapping[str, int]) -> str:
    """Numbers of captures by label, in a fixed order: ``ai-train=no: 12, license: 3``."""
    return ", ".join(f"{label}: {counts[label]}" for label in PREFERENCE_LABELS if label in counts)


# Directives with a value: the colon in them does not end a product token, and a "none" in the value
# is no directive.
_WITH_VALUE = re.compile(r"(?:unavailable_after|max-[a-z-]{1,30})\s{0,8}[:=]\s*[^,;]*")
_AGENT = re.compile(r"\s*([a-z_*-][a-z0-9_.*/-]*)\s*:")


def meta_words(content: str) -> list[str]:
    """The words of a meta element's content, in lower case."""
    return re.split(r"[\s,;]+", _WITH_VALUE.sub("", content.lower()))


def tag_words(value: str, product: str) -> Iterable[str]:
    """The words of one X-Robots-Tag value that are addressed to us, in lower case.

    A name applies to what follows it, up to the next name. ``product`` is in lower case.
    """
    addressed = True
    for part in _WITH_VALUE.sub("", value.lower()).split(","):
        if name := _AGENT.match(part):
            addressed = name.group(1) in (product, "*", "robots")
            part = part[name.end() :]
        if addressed:
            yield from part.split()
