"""Tells an outage of all DNS from a failure of one name.

A host whose name does not resolve has a few tries and is then retired. During an outage of our
network or our name servers that would retire every host whose turn comes, within a minute. So a
failure counts against its name only while other names are answered. It does not count when many
different names in a row got no answer for a while and names that were answered earlier get none now
either. Only names whose TTL has expired are used for that check, because a cache on the way still
answers for the others.

A crawl whose last hosts are dead must end all the same. After some minutes names that have not
expired are used too, and if no name was ever answered, there is no outage.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

_LEAST_NAMES = 10
_LEAST_S = 10.0
_PATIENCE_S = 300.0  # duration of a suspicion that nothing confirms
_KNOWN = 1000  # names that were answered
_WITNESSES = 3  # names to check


class NameServerSilence:
    """Whether the name servers answer at all.

    ``most_s`` bounds the time for which failures are attributed to an outage.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._since = 0.0  # the first failure since the last answer
        self._is_late = False  # names that have not expired may be used for the check
        self._unanswered: set[str] = set()
        # names, and when the answer expires; the oldest first
        self._known: OrderedDict[str, float] = OrderedDict()

    def note_answer(self, name: str = "", expires: float = 0.0) -> None:
        """Record an answer for some name, including "no such name".

        With ``name``, the answer was an address that is valid until ``expires``.
        """
        self._unanswered.clear()
        if name:
            self._is_late = False
            self._known[name] = expires
            self._known.move_to_end(name)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def note_no_answer(self, name: str, now: float) -> None:
        """Record that a lookup of ``name`` got no answer or an error."""
        if not self._unanswered:
            self._since = now
        if len(self._unanswered) < _LEAST_NAMES:
            self._unanswered.add(name)

    def is_suspected(self, now: float) -> bool:
        """Whether enough different names have been without an answer for long enough."""
        most_s = self._most_s if self._known else min(self._most_s, _PATIENCE_S)
        return len(self._unanswered) >= _LEAST_NAMES and _LEAST_S <= now - self._since < most_s

    def witnesses(self, now: float) -> list[str]:
        """Names to look up in order to check whether any name server answers."""
        over = (name for name, expires in self._known.items() if expires <= now)
        found = list(islice(over, _WITNESSES))
        self._is_late = self._is_late or now - self._since >= _PATIENCE_S
        return list(islice(self._known, _WITNESSES)) if self._is_late and not found else found
