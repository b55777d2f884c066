"""Which programs work together on one crawl: the number of protocol and formats.

A program with the number n exchanges messages with those of n - 1, n and n + 1, so a cluster can be
upgraded node by node. It reads and writes the formats of n - 1 and n. Which of the two it writes is
a decision about the crawl, the *formats in force*: they are raised when all programs can read the
newer ones. The number grows when an older program could not read a message or a stored record;
versions with the same number need no care.
"""

from __future__ import annotations

PROTOCOL = 2
"""The number of this program."""

FIRST_FORMATS = 1
"""The formats of a crawl for which none were ever raised."""

LATE_FIELDS = 2
"""The first formats with the late fields of histories, URL records and rows of captures.

A program of formats 1 drops them when it writes a record again, so they are written only when these
formats are in force (``docs/decisions/one-format-step.md``).
"""


def work_together(one: int, other: int) -> bool:
    """Whether programs of these two numbers exchange messages."""
    return abs(one - other) <= 1


def formats_objection(formats: int, protocol: int = PROTOCOL) -> str:
    """Why a program cannot work on a crawl with these formats; empty when it can."""
    if formats > protocol:
        return (
            f"the crawl is stored in formats of number {formats}, and this program reads up to"
            f" {protocol}: install a newer version of lycosa"
        )
    if formats < protocol - 1:
        return (
            f"the crawl is stored in formats of number {formats}, and this program writes those of"
            f" {protocol - 1} and {protocol}: install the version before it on all machines, and"
            " raise the formats with `lycosa cluster upgrade`"
        )
    return ""
