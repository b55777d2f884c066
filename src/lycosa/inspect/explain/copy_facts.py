"""What is known of the near copies of a host, and why a URL of it is set back."""

from __future__ import annotations

from typing import Any

from lycosa.base.config.sections import CopiesSection
from lycosa.base.model.copy_record import SET_BACK_SHARE, CopyRecord
from lycosa.base.reasons import Reason
from lycosa.base.urls.url_patterns import parameters_of, pattern_of
from lycosa.inspect.explain.facts import Explanation
from lycosa.stages.frontier.copy_judgement import is_exempt
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.state.kv.table_records import UrlRecord

SET_BACK = (Reason.NEAR_COPIES, Reason.LEARNED_PARAMETER)
"""The reasons of URLs that are set back."""


def copies_row(host: VisitRecord, section: CopiesSection) -> dict[str, Any]:
    """What is known of a host's near copies; empty for a host that never had one.

    Numbers of pages are of the last ones, and a page may count in part.
    """
    copies = host.copies
    if copies is None:
        return {}
    patterns = sorted(copies.patterns, key=lambda each: -copies.patterns[each].copies)
    return {
        "share": _share(copies.pages.share),
        "exempt": is_exempt(section, host.host),
        "patterns": [_pattern(copies, each) for each in patterns if copies.patterns[each].copies],
        "parameters": [
            {
                "name": name,
                "same": round(each.same, 1),
                "other": round(each.other, 1),
                "values": list(each.values),
                "learned": each.is_learned,
            }
            for name, each in copies.parameters.items()
        ],
    }


def _pattern(copies: CopyRecord, pattern: str) -> dict[str, Any]:
    tally, share = copies.patterns[pattern], copies.share_of(pattern)
    return {
        "pattern": pattern,
        "copies": round(tally.copies, 1),
        "pages": round(tally.total, 1),
        "share": _share(share),
        "set_back": share >= SET_BACK_SHARE,
    }


def _share(share: float) -> float:
    return round(max(share, 0.0), 3)


def copy_facts(
    answer: Explanation, section: CopiesSection, record: UrlRecord, host: VisitRecord
) -> None:
    """Add why a waiting URL is set back, and what its pattern is known for. Nothing without."""
    copies = host.copies
    if copies is None:
        return
    pattern = pattern_of(record.target)
    if pattern in copies.patterns:
        found = _pattern(copies, pattern)
        text = (
            f"{found['copies']:g} of the last {found['pages']:g} pages like {pattern} were near"
            f" copies (at least {found['share']:.0%} are)"
        )
        answer.add_fact("pattern", found, text)
    learned = sorted(copies.learned & dict(parameters_of(record.target)).keys())
    if learned:
        pairs = ", ".join(
            f"{name} ({copies.parameters[name].same:g} of"
            f" {copies.parameters[name].same + copies.parameters[name].other:g} pairs of URLs)"
            for name in learned
        )
        answer.add_fact("learned_parameters", learned, f"changed no text: {pairs}")
    if record.reason in SET_BACK and not record.due_at:
        is_free = is_exempt(section, host.host)
        text = (
            "not any more: copies.exempt or copies.probe_turns says so"
            if is_free
            else f"1 of {section.probe_turns} turns of its host goes to URLs that are set back;"
            " copies.exempt ends it for a host"
        )
        answer.add_fact("set_back", record.reason.label, text)
