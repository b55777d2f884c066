"""Decisions of operators: a third input of the frontier, after ``Discovered`` and ``Completed``.

The owner of the host applies a decision and commits it together with who made it and when, so that
``explain`` can show it. ``call`` is an id that the caller chose: a repeated call has one effect.
What an operator gives as text, to the API, the page or a command, is read here.
"""

from __future__ import annotations

import uuid
from enum import Enum
from typing import TypeVar

import msgspec

from lycosa.base.config.units import read_seconds
from lycosa.base.model.dead_letter import DeadLetterAction

_Action = TypeVar("_Action", bound=Enum)

LONGEST_DELAY_S = 86_400.0
"""Seconds between two requests to a host that an operator may decide."""

MAX_WORDS = 500
"""Characters of an operator's name and of a remark that are kept."""


class HostAction(Enum):
    """What an operator does with a host."""

    PAUSE = "pause"  # nothing is requested from it until it is resumed
    RESUME = "resume"  # ends a pause, and a retirement
    RETIRE = "retire"  # never requested again; its waiting URLs are refused
    DELAY = "delay"  # has its own minimum pause between two requests, or again that of all


class HostDecision(msgspec.Struct, frozen=True, tag=True):
    """A decision about one host, or with ``is_site`` about all known hosts of its site.

    ``by`` is the operator, ``why`` a remark for the record. ``delay_s`` belongs to ``DELAY``
    (negative = that of the settings again, ``LONGEST_DELAY_S`` at most). Only with ``is_new`` may
    it be about a host that the crawl has not met.
    """

    call: str
    by: str
    host: str
    action: HostAction
    why: str = ""
    is_site: bool = False
    is_new: bool = False
    delay_s: float = -1.0


class DeadLetterDecision(msgspec.Struct, frozen=True, tag=True):
    """A decision about dead letters of one partition.

    It is about the URLs with these hashes (16 hexadecimal digits each), or, when there are none,
    about all dead letters with that ``reason`` (empty = any) of that ``host`` (empty = any). The
    owner searches for the hashes among its dead letters, unless ``numbers`` has the number of each
    as listed (0 = it has none, and ``host`` is given). One call decides at most about 5,000 dead
    letters; the same call is made again until the answer is complete.
    """

    call: str
    by: str
    action: DeadLetterAction
    hashes: list[str] = []
    reason: str = ""
    host: str = ""
    why: str = ""
    numbers: list[int] = []


class ReparseDecision(msgspec.Struct, frozen=True, tag=True):
    """A decision that the owner of a partition parses stored documents again.

    They are those that were not parsed and wait for it; ``with_killed`` includes those that crashed
    the parser or used its processor time. The answer has their number, and comes before they are
    parsed. The owner, or the next one, then parses each of them once.
    """

    call: str
    by: str
    with_killed: bool = False
    why: str = ""


class DecisionAnswer(msgspec.Struct, frozen=True, tag=True):
    """The decision is committed; with earlier calls of the same id it changed ``changed`` hosts or
    URLs. Unless it ``is_complete`` the caller makes the same call again for the rest.

    ``hosts`` names the first hosts that a ``HostDecision`` is about, whether it changed them or
    not. It is empty when the crawl knows none of them, and ``None`` from an owner of an earlier
    version.
    """

    changed: int
    is_complete: bool = True
    hosts: list[str] | None = None


def new_call(source: str) -> str:
    """A new id of a call that was made there."""
    return f"{source} {uuid.uuid4().hex}"


def read_action(kind: type[_Action], text: str) -> _Action:
    """What to do. Raises ``ValueError``, which says what can be done."""
    try:
        return kind(text)
    except ValueError:
        *others, last = (str(each.value) for each in kind)
        raise ValueError(f"it must be {', '.join(others)} or {last}") from None


def read_delay(text: str) -> float:
    """The pause of a host in seconds, negative for that of all hosts (``default``).

    Raises ``ValueError``, which says how to write it.
    """
    if text == "default":
        return -1.0
    try:
        delay_s = read_seconds(text)
    except ValueError as error:
        raise ValueError(f"{error}; or default") from error
    if delay_s > LONGEST_DELAY_S:
        raise ValueError(f"{text} is too long, write at most 1d; or pause the host")
    return delay_s


def read_remark(text: str) -> str:
    """A remark or name for the record. Raises ``ValueError`` when it is too long."""
    if len(text) > MAX_WORDS:
        raise ValueError(f"at most {MAX_WORDS} characters; there are {len(text):,}")
    return text
