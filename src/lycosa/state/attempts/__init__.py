"""The log of every request: written around each one, read after a crash and by the audit."""

from lycosa.state.attempts.attempt_files import Attempt, boot_id
from lycosa.state.attempts.attempt_log import AttemptLog, Keeping, LogOwner
from lycosa.state.attempts.crashes import CrashCounts, Suspicion, suspects
from lycosa.state.attempts.gaps import AddressUse, Gap, address_use, gaps
from lycosa.state.attempts.read import (
    Contact,
    Since,
    crashed_attempts,
    last_contacts,
    read_attempts,
)
from lycosa.state.attempts.storing import StoringMark, left_storing

__all__ = [
    "AddressUse",
    "Attempt",
    "AttemptLog",
    "Contact",
    "CrashCounts",
    "Gap",
    "Keeping",
    "LogOwner",
    "Since",
    "StoringMark",
    "Suspicion",
    "address_use",
    "boot_id",
    "crashed_attempts",
    "gaps",
    "last_contacts",
    "left_storing",
    "read_attempts",
    "suspects",
]
