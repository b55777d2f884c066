"""Facts about conditional requests, and about what a host answers to a path that does not exist."""

from __future__ import annotations

from typing import Any

from lycosa.base.model.host_memory import MissingPage, ValidatorCounts
from lycosa.base.reasons import Reason
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.stages.frontier.visit_state import VisitRecord
from lycosa.stages.schedule.validator_trust import (
    TO_CHECK,
    conditions_of,
    has_useless_tags,
    is_distrusted,
)
from lycosa.state.kv.table_records import UrlRecord


def validator_facts(answer: Explanation, record: UrlRecord, host: VisitRecord, url8: bytes) -> None:
    """Add how the page will be requested, and why; nothing before its first capture."""
    history = record.history
    if history is None:
        return
    if history.etag or history.last_modified:
        sent = conditions_of(history, record.reason, host.validators, url8)
        names = [
            name
            for name, value in (
                ("If-None-Match", sent.etag),
                ("If-Modified-Since", sent.last_modified),
            )
            if value
        ]
        facts = {"etag": history.etag, "last_modified": history.last_modified, "sent": names}
        said = f"{' and '.join(names)} with the next request" if names else "not sent"
        answer.add_fact("validators", facts, f"{said}{_why(record, host.validators)}")
    if host.validators is not None:
        answer.add_fact(
            "host_validators", trust_facts(host.validators), trust_words(host.validators)
        )
    if host.missing is not None:
        answer.add_fact("host_missing", missing_facts(host.missing), missing_words(host.missing))


def _why(record: UrlRecord, counts: ValidatorCounts | None) -> str:
    if record.reason in TO_CHECK:
        return ": the last answer is to be checked"
    if record.reason is Reason.UNASKED_NOT_MODIFIED:
        return ": the last answer was a 304 to another question"
    if counts is not None and is_distrusted(counts):
        return ": those of the host hid changes, so they are tried once in 50 requests"
    if counts is not None and has_useless_tags(counts):
        return ": ETags of the host differ from request to request"
    return ""


def trust_facts(counts: ValidatorCounts) -> dict[str, Any]:
    """What is known of the validators of a host, for programs."""
    return {
        "believed": not is_distrusted(counts),
        "hidden": counts.hidden,
        "agreed": counts.agreed,
        "revealed": counts.revealed,
        "other_tags": counts.other_tags,
        "unasked": counts.unasked,
    }


def trust_words(counts: ValidatorCounts) -> str:
    """What is known of the validators of a host."""
    found = [
        f"{number} {what}"
        for number, what in (
            (counts.hidden, "hidden changes"),
            (counts.revealed, "revealed changes"),
            (counts.agreed, "checks that agreed"),
            (counts.other_tags, "ETags that differed without a change"),
            (counts.unasked, "304s to another question"),
        )
        if number
    ]
    verdict = "not believed" if is_distrusted(counts) else "believed"
    return f"{verdict}{': ' if found else ''}{', '.join(found)}"


def missing_facts(missing: MissingPage) -> dict[str, Any]:
    """What a host answers to a path that does not exist, for programs."""
    return {
        "asked_at": missing.asked_at,
        "status": missing.status,
        "location": missing.target,
        "wanted": missing.is_wanted,
    }


def missing_words(missing: MissingPage) -> str:
    """What a host answers to a path that does not exist."""
    if missing.is_wanted:
        return "a path that does not exist is requested in its next turn"
    if not missing.asked_at:
        return f"not asked; {missing.copies} copies among its pages"
    if not missing.status:
        return f"nothing of use, on {when(missing.asked_at)}"
    to = f", to {missing.target}" if missing.target else ""
    return f"status {missing.status}{to}, on {when(missing.asked_at)}"
