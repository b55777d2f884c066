"""How far refetch policies are applied to the records of a crawl, and what is for one URL."""

from __future__ import annotations

from typing import Any

import msgspec

from lycosa.base.config.refetch_policies import find_policy, find_rule, policies_version
from lycosa.base.config.sections import RefetchSection
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.messages.progress import PromiseNote
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.inspect.wall_time import record_in_wall_time
from lycosa.stages.frontier.policy_walk import WalkRow, walk_row, worst_promises


class PolicyState(msgspec.Struct, frozen=True):
    """``left`` records are not looked at yet; ``moved`` ones got another time by the last change.

    ``promises`` are hosts whose pages were promised more fetches than the host has turns, when
    their records were looked at.
    """

    left: int
    moved: int
    promises: list[PromiseNote]


def policy_state(reader: CrawlReader, section: RefetchSection | None = None) -> PolicyState:
    """The sum over all partitions, as of their last commits.

    With the ``section`` in force, partitions that have not begun with its rules count as left.
    """
    version = policies_version(section) if section is not None else None
    return sum_of_walks([row_and_total(view, version) for view in reader.partition_views()])


def row_and_total(view: TableView, version: bytes | None = None) -> tuple[WalkRow, int]:
    """The row of a partition, and the number of its records."""
    row = walk_row(view.get)
    if version is not None and row.version != version:
        row = WalkRow(version)
    return row, view.counters().discovered


def sum_of_walks(rows: list[tuple[WalkRow, int]]) -> PolicyState:
    """The state of several partitions together."""
    return PolicyState(
        sum(max(total - row.seen, 0) for row, total in rows if not row.is_done),
        sum(row.moved for row, _ in rows),
        worst_promises([note for row, _ in rows for note in row.promises]),
    )


def rule_facts(section: RefetchSection, url: str, listed: int = NOT_LISTED) -> dict[str, Any]:
    """The rule that is for a canonical URL: where it is, its text, and the policy.

    ``listed`` is the mark in its record: that of a sitemap that a rule names.
    """
    rule = find_rule(section, url, listed)
    found: dict[str, Any] = {"policy": find_policy(section, url, listed).show()}
    if rule is None:
        return found | {"setting": "refetch.rule", "line": 0, "rule": section.rule.value}
    return found | {"setting": rule.setting, "line": rule.number, "rule": rule.text}


def shown_rule(facts: dict[str, Any]) -> str:
    """The same as a sentence's part: ``every 1h (refetch.policies, line 2: ...)``."""
    if not facts["line"]:
        return f"{facts['policy']} (no rule is for it: {facts['setting']} is {facts['rule']})"
    return f"{facts['policy']} ({facts['setting']}, line {facts['line']}: {facts['rule']})"


def due_facts(reader: CrawlReader, url: str, now: float) -> dict[str, Any]:
    """The state of a canonical URL and when it is fetched next, 0 if it is not known or not due."""
    entry = reader.find_url(url)
    if entry is None:
        return {"state": "", "next_due": 0}
    record = record_in_wall_time(entry.record, reader.ahead_s(now))
    return {"state": entry.state.label, "next_due": record.due_at}


def mark_in(reader: CrawlReader, url: str) -> int:
    """The mark in the record of a canonical URL (``frontier.listed_pages``)."""
    entry = reader.find_url(url)
    return entry.record.listed if entry is not None else NOT_LISTED
