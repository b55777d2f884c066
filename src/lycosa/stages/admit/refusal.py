"""Why a URL was not admitted: the reason, rule and value that ``lycosa explain`` shows."""

from __future__ import annotations

import msgspec

from lycosa.base.reasons import Reason


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """One refusal.

    ``rule`` names the setting or rule (``scope.exclude[0]``), ``value`` what it was about (the
    pattern, the depth).
    """

    reason: Reason
    rule: str
    value: str

    def __str__(self) -> str:
        return f"{self.reason.label}: {self.reason.meaning} ({self.rule}: {self.value})"
