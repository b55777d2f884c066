"""Attempts that are marked as those of the operator's own hosts: a stored file must prove each.

The files are read back from the WARC, and each token is computed again from the secret that the
settings name, or from one that it has replaced. Where this machine cannot read the secret, only
times and form are checked, and the report says so.
"""

from __future__ import annotations

import re

import msgspec

from lycosa.base.config.sections import RequestsSection
from lycosa.base.model.fetched import FetchKind
from lycosa.base.urls.identity import host_of, target_of
from lycosa.inspect.audit.audit_report import Check
from lycosa.stages.fetch.secret_values import SecretError, read_own_secrets
from lycosa.stages.politeness.own_proofs import OWN_PATH, VALID_S, has_token, token_of
from lycosa.state.attempts import Attempt
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.stored_data import StoredRecord

_TOKEN = re.compile(rb"\s*[0-9a-f]{64}\s*")


class _File(msgspec.Struct, frozen=True):
    """A stored response: when its request began (seconds since 1970), and whether it proves."""

    at: float
    is_right: bool


class OwnFileAudit:
    """Call ``check_row`` for every capture, then ``check_attempt`` for every attempt."""

    def __init__(self, section: RequestsSection, is_live: bool = False) -> None:
        self._is_live = is_live
        self.check = Check(
            "own hosts", "attempts without a delay at own hosts: a stored file proves the host"
        )
        self._files: dict[str, list[_File]] = {}
        self._unread: set[str] = set()
        self._secrets = self._read_secrets(section.own_secret) if section.own_secret else ()

    def _read_secrets(self, place: str) -> tuple[bytes, ...]:
        try:
            return read_own_secrets(place)
        except SecretError as error:
            self.check.add_note(f"tokens were not computed again: {error}")
            return ()

    def check_row(self, row: JournalRow, record: StoredRecord | None) -> None:
        """Take in one capture."""
        if row.kind is not FetchKind.KEY_FILE or target_of(row.url) != OWN_PATH:
            return
        host = host_of(row.url)
        if record is None:
            self._unread.add(host)  # the check of records says why
            return
        is_right = self._is_right(host, row.status, record.body)
        self._files.setdefault(host, []).append(_File(row.date_us / 1e6, is_right))

    def _is_right(self, host: str, status: int, body: bytes) -> bool:
        if not self._secrets:
            return status == 200 and _TOKEN.fullmatch(body) is not None
        return any(has_token(status, body, token_of(each, host)) for each in self._secrets)

    def check_attempt(self, attempt: Attempt) -> None:
        """Check an attempt that is marked.

        By the newest file from before its end, which decided on the delay, and by that from before
        its start if others might be open then.
        """
        if attempt.host in self._unread:
            self.check.add_note(f"{attempt.host}: its file could not be read back")
            return
        if attempt.at_once > 1:
            self._check_at(attempt, attempt.started_wall)
        if attempt.is_own:
            self._check_at(attempt, attempt.ended_wall)

    def _check_at(self, attempt: Attempt, at: float) -> None:
        before = [file for file in self._files.get(attempt.host, ()) if file.at < at]
        newest = max(before, key=lambda file: file.at, default=None)
        if newest is None and self._is_live:
            # The first file may have been committed after the captures were read.
            self.check.add_note(f"{attempt.host}: its file was not stored yet when it was read")
            return
        is_proved = newest is not None and newest.is_right and at - newest.at < VALID_S
        self.check.expect(
            is_proved, f"{attempt.url}: marked as of an own host, and {_why_not(newest, at)}"
        )


def _why_not(newest: _File | None, at: float) -> str:
    if newest is None:
        return f"no {OWN_PATH} of the host was stored before"
    if not newest.is_right:
        return (
            f"the {OWN_PATH} that was stored last before has not its token (of a secret that was"
            " replaced, write the older one on a further line of the file of the present one)"
        )
    return f"its {OWN_PATH} was {at - newest.at:.0f} s old; it is valid for {VALID_S:.0f} s"
