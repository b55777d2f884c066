"""Tells name servers that answer nobody from a name that nobody answers for.

A host whose name does not resolve has a few tries and is given up. When our own line or our own
name servers are down, that would be every host the crawl turns to, within a minute. So a failure is
held against its name only while others are answered: it is not when many different names in a row
were not answered, for a while, and names that once were are not answered now either. Those are
asked for whose time to live is over, for a cache on the way goes on answering for the others. A
crawl whose last hosts are dead ones must end all the same: after some minutes the others are asked
for too, and where no name was ever answered there was no outage.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

_LEAST_NAMES = 10
_LEAST_S = 10.0
_PATIENCE_S = 300.0  # with a suspicion that nothing confirms
_KNOWN = 1000  # names that were answered
_WITNESSES = 3


class Silence:
    """What is known of whether the name servers answer at all. ``most_s`` bounds for how long it
    is taken for our own trouble.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._since = 0.0  # the first failure since the last answer
        self._is_late = False  # any witness will do
        self._unanswered: set[str] = set()
        # names, and when the answer runs out; the oldest first
        self._known: OrderedDict[str, float] = OrderedDict()

    def answered(self, name: str = "", expires: float = 0.0) -> None:
        """Some name was answered, be it that there is none such; with ``name``, by an address
        that is good until ``expires``.
        """
        self._unanswered.clear()
        if name:
            self._is_late = False
            self._known[name] = expires
            self._known.move_to_end(name)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def unanswered(self, name: str, now: float) -> None:
        """Nobody answered for a name, or somebody with an error."""
        if not self._unanswered:
            self._since = now
        if len(self._unanswered) < _LEAST_NAMES:
            self._unanswered.add(name)

    def is_suspected(self, now: float) -> bool:
        """Nobody has answered for a while, and not for want of different questions."""
        most_s = self._most_s if self._known else min(self._most_s, _PATIENCE_S)
        return len(self._unanswered) >= _LEAST_NAMES and _LEAST_S <= now - self._since < most_s

    def witnesses(self, now: float) -> list[str]:
        """Names that could be asked for to see whether anybody answers."""
        over = (name for name, expires in self._known.items() if expires <= now)
        found = list(islice(over, _WITNESSES))
        self._is_late = self._is_late or now - self._since >= _PATIENCE_S
        return list(islice(self._known, _WITNESSES)) if self._is_late and not found else found
