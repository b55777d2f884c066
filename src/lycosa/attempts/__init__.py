"""The log of every request: written around each one, read after a crash and by the audit."""

from lycosa.attempts.crashes import CrashCounts, Suspicion, suspects
from lycosa.attempts.files import Attempt, boot_id
from lycosa.attempts.gaps import AddressUse, Gap, address_use, gaps
from lycosa.attempts.log import AttemptLog, Keeping, LogOwner
from lycosa.attempts.read import (
    Contact,
    Since,
    crashed_attempts,
    last_contacts,
    read_attempts,
)
from lycosa.attempts.storing import StoringMark, left_storing

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
