"""Robots decisions checked again: the robots.txt that a capture names must give the same verdict.

A version is the SHA-1 of the decoded file, so the file that is read back is certainly the one that
decided. Only the places of versions are kept in memory, about 200 bytes each; compiled files are
kept for the last thousand.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict

from lycosa.base.config.sections import Config
from lycosa.base.model.capture import Location, RobotsDecision
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import decode_content
from lycosa.base.urls.identity import target_of
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import CrawlReader
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.robots_rules import Matcher, RobotsRules
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.stored_data import StoredRecord, location_of

_COMPILED = 1000
_MAX_DEFERRED = 100_000


class RobotsAudit:
    """Call ``check_row`` for every capture, then ``finish_check``; robots.txt needs its record."""

    def __init__(self, reader: CrawlReader, config: Config, is_live: bool = False) -> None:
        self.check = Check(
            "robots", "captures: robots.txt, read back from the WARC, decides the same"
        )
        self._source, self._is_live = reader.source, is_live
        self._product = config.agent.product
        self._max_bytes = config.robots.max_bytes
        self._files: dict[str, Location] = {}
        self._compiled: OrderedDict[str, tuple[RobotsRules, Matcher]] = OrderedDict()
        self._deferred: list[tuple[str, RobotsDecision]] = []
        self._has_unread = False

    def check_row(self, row: JournalRow, record: StoredRecord | None) -> None:
        """Check one capture."""
        if row.kind is FetchKind.ROBOTS:
            if 200 <= row.status < 300 and not row.revisit and record is None:
                self._has_unread = True  # the check of records says why
            elif 200 <= row.status < 300 and record is not None:
                self._files.setdefault(self._version(self._body(record)), location_of(row))
        else:
            self._decision(row.url, row.robots)

    def finish_check(self) -> None:
        """Check the captures whose robots.txt came later.

        The segments of several workers have no common order.
        """
        for url, decision in self._deferred:
            self._judge(url, decision)
        self._deferred.clear()

    def _decision(self, url: str, decision: RobotsDecision | None) -> None:
        if decision is None:
            self.check.expect(False, f"{url}: fetched without a robots.txt decision")
        elif not decision.version or decision.version in self._files:
            self._judge(url, decision)
        elif len(self._deferred) < _MAX_DEFERRED:
            self._deferred.append((url, decision))
        else:
            self.check.add_note(
                "some captures were not checked: too many name files that are later in the segments"
            )

    def _judge(self, url: str, decision: RobotsDecision) -> None:
        self.check.expect(
            decision.allowed,
            f"{url}: fetched although line {decision.line} ({decision.rule}) disallows it",
        )
        if not decision.version:
            if decision.status == 429 or decision.status >= 500 or 200 <= decision.status < 300:
                self.check.add_breach(
                    f"{url}: decided by an answer with status {decision.status}, which disallows"
                    " everything"
                )
            return
        location = self._files.get(decision.version)
        if location is None and self._is_live:
            self.check.add_note(
                "some captures were not checked: their robots.txt was stored after the audit began,"
                " by another worker"
            )
            return
        if location is None and self._has_unread:
            self.check.add_note(
                "some captures were not judged: their robots.txt could not be read back"
            )
            return
        if location is None:
            self.check.add_breach(
                f"{url}: decided by robots.txt {decision.version}, which no WARC record has"
            )
            return
        # The stored bytes are parsed again, so the rules as they are now judge the decision of
        # then.
        rules, matcher = self._load(decision.version, location)
        verdict = matcher.judge_target(target_of(url))
        told = (decision.allowed, decision.line, decision.rule, decision.group)
        again = (verdict.allowed, verdict.line, verdict.rule, rules.group)
        if told != again:
            self.check.add_breach(
                f"{url}: robots.txt {decision.version} gave {_words(*told)}, and now gives"
                f" {_words(*again)}"
            )

    def _load(self, version: str, location: Location) -> tuple[RobotsRules, Matcher]:
        known = self._compiled.get(version)
        if known is None:
            rules = parse_robots(
                self._body(self._source.read_record(location.segment, location.offset)),
                self._product,
                self._max_bytes,
            )
            known = self._compiled[version] = (rules, Matcher(rules))
            if len(self._compiled) > _COMPILED:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(version)
        return known

    def _body(self, record: StoredRecord) -> bytes:
        encoding = Fetched("", Reason.NONE, header_block=record.header_block).header(
            "content-encoding"
        )
        return decode_content(record.body, encoding, self._max_bytes + 1, 1000).body

    @staticmethod
    def _version(body: bytes) -> str:
        return base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode("ascii")


def _words(allowed: bool, line: int, rule: str, group: str) -> str:
    return (
        f"{'allowed' if allowed else 'disallowed'} by"
        f" {f'line {line} ({rule})' if line else 'no rule'} of group {group or '(none)'}"
    )
