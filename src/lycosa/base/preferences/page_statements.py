"""The statements that an answer's headers and a page's markup make.

A header is about the representation it came with (draft-ietf-aipref-attach-05 section 2), so the
statements of each fetch belong to its capture, and a 304 has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lycosa.base.preferences.preference_model import (
    MAX_STATEMENT_CHARACTERS,
    PreferenceSource,
    Statement,
)
from lycosa.base.preferences.preference_words import meta_words, tag_words
from lycosa.base.preferences.usage_values import (
    bounded,
    no_ai_answers,
    signal_answers,
    tdm_answers,
    tdm_text,
    usage_answers,
)
from lycosa.base.urls.link_header import parse_link_header

_PRICE = "crawler-price"
_MAX_PRICE_CHARACTERS = 200
_RSL = "application/rsl+xml"
_READ = frozenset(
    {
        "content-usage",
        "content-signal",
        "x-robots-tag",
        "tdm-reservation",
        "tdm-policy",
        "link",
    }
)


def header_statements(headers: Sequence[tuple[str, str]], product: str) -> tuple[Statement, ...]:
    """The statements of header fields, names in lower case, for the product token ``product``."""
    fields: dict[str, list[str]] = {}
    for name, value in headers:
        if name in _READ:
            fields.setdefault(name, []).append(value)
    if not fields:
        return ()
    found: list[Statement] = []
    if lines := fields.get("content-usage"):
        # One field in several lines is one dictionary (RFC 9651 section 4.2).
        text = ", ".join(lines)
        found.append(Statement(PreferenceSource.USAGE_HEADER, text, 0, usage_answers(text)))
    if lines := fields.get("content-signal"):
        text = ", ".join(lines)
        found.append(Statement(PreferenceSource.SIGNAL_HEADER, text, 0, signal_answers(text)))
    found += _robots_tags(fields.get("x-robots-tag", ()), headers, product.lower())
    found += tdm_statements(
        PreferenceSource.TDM_HEADER,
        fields.get("tdm-reservation", ()),
        fields.get("tdm-policy", ()),
    )
    for value in fields.get("link", ()):
        for link in parse_link_header(value) if "license" in value.lower() else ():
            if "license" in link.relations and is_rsl(link.type):
                found += license_statements(PreferenceSource.LICENSE_HEADER, [link.target])
    return bounded(found)


def markup_statements(
    metas: Iterable[tuple[str, str]], licenses: Iterable[str], product: str
) -> tuple[Statement, ...]:
    """The statements of a page's markup.

    ``metas`` are its ``(name, content)`` pairs, names in lower case, ``licenses`` the absolute
    targets of its links with rel=license.
    """
    us = product.lower()
    found: list[Statement] = []
    tdm: dict[str, list[str]] = {"tdm-reservation": [], "tdm-policy": []}
    for name, content in metas:
        if name in ("robots", us) and "ai" in content.lower():
            answers = no_ai_answers(meta_words(content), is_image=False)
            if answers is not None:
                found.append(Statement(PreferenceSource.ROBOTS_META, content, 0, answers))
        elif name in tdm:
            tdm[name].append(content)
    found += tdm_statements(PreferenceSource.TDM_META, tdm["tdm-reservation"], tdm["tdm-policy"])
    found += license_statements(PreferenceSource.LICENSE_MARKUP, licenses)
    return bounded(found)


def price_header(headers: Iterable[tuple[str, str]]) -> str:
    """The price that an answer 402 names, as sent; it is kept and never paid."""
    return next((value[:_MAX_PRICE_CHARACTERS] for name, value in headers if name == _PRICE), "")


def tdm_statements(
    source: PreferenceSource, reservations: Sequence[str], policies: Sequence[str]
) -> list[Statement]:
    """One statement for each reservation, with the policy, or one for a policy alone."""
    policy = policies[0] if policies else ""
    if not reservations:
        return [Statement(source, tdm_text("", policy))] if policy else []
    return [
        Statement(source, tdm_text(each, policy), 0, tdm_answers(each)) for each in reservations
    ]


def license_statements(source: PreferenceSource, addresses: Iterable[str]) -> list[Statement]:
    """One statement for each address of a licence; an address that is cut would be another."""
    return [
        Statement(source, each) for each in addresses if 0 < len(each) <= MAX_STATEMENT_CHARACTERS
    ]


def is_rsl(media_type: str) -> bool:
    """Whether a link with rel=license may lead to an RSL licence: its type says so, or is absent.

    Source: RSL 1.0, "Adding RSL to HTTP headers" and "to web pages".
    """
    return not media_type or media_type.partition(";")[0].strip().lower() == _RSL


def _robots_tags(
    values: Sequence[str], headers: Iterable[tuple[str, str]], us: str
) -> Iterable[Statement]:
    if not any("ai" in value.lower() for value in values):
        return
    is_image = any(
        name == "content-type" and value.lower().startswith("image/") for name, value in headers
    )
    for value in values:
        answers = no_ai_answers(tag_words(value, us), is_image)
        if answers is not None:
            yield Statement(PreferenceSource.ROBOTS_TAG, value, 0, answers)
