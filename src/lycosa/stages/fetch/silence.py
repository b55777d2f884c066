"""Tells an outage of our own network from a failure of one name or one host.

A host whose name does not resolve, or that accepts no connection, waits and is retired in the end.
During an outage of our network or our name servers that would concern every host whose turn comes.
So a failure counts against its name or host only while others are answered. It does not count when
several of them in a row got no answer for a while, and those that were answered earlier get none
now either. One ``Silence`` watches the name servers, another one the addresses of hosts.

**Names.** Other names that were answered earlier are looked up as witnesses. Only names whose TTL
has expired are used for that check, because a cache on the way still answers for the others. A
crawl whose last hosts are dead must end all the same. After some minutes names that have not
expired are used too, and if no name was ever answered, there is no outage.

**Addresses.** A host is not asked out of turn, so there are no witnesses. Instead only failures of
addresses that answered lately are recorded (``is_known``): a crawl whose last hosts were always
dead sees no outage.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import islice

MIN_NAMES = 10
MIN_ADDRESSES = 3  # fewer may well be away for unrelated reasons
_MIN_S = 10.0
_PATIENCE_S = 300.0  # duration of a suspicion that nothing confirms
_KNOWN = 1000  # names or addresses that were answered
_WITNESSES = 3  # names to check


class Silence:
    """Whether anything answers at all, of what was asked by name or by address.

    ``least`` different ones must be without an answer. ``most_s`` bounds the time for which
    failures are attributed to an outage.
    """

    def __init__(self, most_s: float, least: int) -> None:
        self._most_s, self._least = most_s, least
        self._since = 0.0  # the first failure since the last answer
        self._is_late = False  # names that have not expired may be used for the check
        self._unanswered: set[str] = set()
        # what was answered, and when the answer expires; the oldest first
        self._known: OrderedDict[str, float] = OrderedDict()

    def note_answer(self, name: str = "", expires: float = 0.0) -> None:
        """Record an answer. With ``name``, it is good until ``expires``."""
        self._unanswered.clear()
        if name:
            self._is_late = False
            self._known[name] = expires
            self._known.move_to_end(name)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def note_no_answer(self, name: str, now: float) -> None:
        """Record that ``name`` got no answer or an error."""
        if not self._unanswered:
            self._since = now
        # More names prove no more, and the set stays small in a long outage.
        if len(self._unanswered) < self._least:
            self._unanswered.add(name)

    def is_known(self, name: str, now: float) -> bool:
        """Whether ``name`` was answered, and that has not expired."""
        return self._known.get(name, 0.0) > now

    def outage_s(self, now: float) -> float:
        """How long the outage has lasted that is suspected now; 0 when there is none."""
        lasted_s = now - self._since
        # If nothing was ever answered, it is no outage of ours for long: the crawl must end.
        most_s = self._most_s if self._known else min(self._most_s, _PATIENCE_S)
        is_one = len(self._unanswered) >= self._least and _MIN_S <= lasted_s < most_s
        return lasted_s if is_one else 0.0

    def witnesses(self, now: float) -> list[str]:
        """Names to look up in order to check whether any name server answers."""
        # Only these: for a name whose TTL runs, a cache on the way answers, whatever the servers
        # do.
        over = (name for name, expires in self._known.items() if expires <= now)
        found = list(islice(over, _WITNESSES))
        self._is_late = self._is_late or now - self._since >= _PATIENCE_S
        return list(islice(self._known, _WITNESSES)) if self._is_late and not found else found


class ProxySilence:
    """Whether the proxy of requests could be used lately; times are monotonic seconds.

    It is forgotten when nothing was tried through a proxy for two and a half minutes.
    """

    def __init__(self) -> None:
        self._since = self._last = -math.inf
        self.why = ""
        """Why it could not be used, until something was answered."""

    def note_failure(self, why: str, now: float) -> None:
        """A request could not be sent through it."""
        if not self.reason(now):
            self._since = now
        self._last, self.why = now, why

    def note_answer(self) -> None:
        """A request was answered."""
        self.why = ""

    def outage_s(self, now: float) -> float:
        """For how long it has failed, if it failed just now; at least a second."""
        return max(now - self._since, 1.0)

    def reason(self, now: float) -> str:
        """Why it could not be used lately; empty if it could, or was not tried."""
        return self.why if now - self._last <= _FORGOTTEN_S else ""


_FORGOTTEN_S = 150.0  # hosts are tried again after two minutes at most
