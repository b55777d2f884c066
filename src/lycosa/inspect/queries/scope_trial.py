"""What a change of the scope would drop: the waiting URLs that it refuses and the present one not.

Every waiting URL is judged as it would be when its turn has come (``Scope.judge_waiting``). Records
are read in the order of their keys, which begin with a hash of the host. So where the time does not
suffice for all, those read are a random sample of hosts, and ``share`` says how large it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from lycosa.base.config.live_settings import with_live
from lycosa.base.config.scope_sections import ScopeSection
from lycosa.base.config.sections import Config
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import join_url
from lycosa.inspect.committed_state import TableView
from lycosa.inspect.queries.time_budget import OutOfTime
from lycosa.stages.admit.scope import Scope
from lycosa.state.kv.table_records import decode_url, prefix_end

_WAITING = (UrlState.QUEUED, UrlState.PARKED)
_EXAMPLES = 10
_KEYS = 1 << 64


class ScopeTrial(msgspec.Struct):
    """What was counted: waiting URLs, those that would be dropped, by reason, and some of them.

    ``after`` is the key of the last record that was read, empty when all were. ``share`` is the
    share of the records that were read, in [0, 1].
    """

    waiting: int = 0
    dropped: int = 0
    reasons: dict[str, int] = {}
    examples: list[str] = []
    after: str = ""
    share: float = 1.0

    def line(self, is_set: bool = False) -> str:
        """The result in words; ``is_set`` when the change is saved."""
        drops = "it drops" if is_set else "it would drop"
        if self.share >= 1:
            return f"{drops} {self.dropped:,} of {self.waiting:,} waiting URLs"
        if not self.share:
            return "no waiting URL could be judged in time"
        return (
            f"{drops} about {self.dropped / self.share:,.0f} of"
            f" {self.waiting / self.share:,.0f} waiting URLs: {self.dropped:,} of the"
            f" {self.waiting:,} at {self.share:.1%} of the hosts, which were judged"
        )


class ScopeJudges:
    """The present scope and the one that is tried.

    Raises ``SettingsError`` or ``ValueError`` for values that are not understood.
    """

    def __init__(self, present: Config, values: dict[str, str]) -> None:
        self._now = _scope(present.scope)
        self._then = _scope(with_live(present, values).scope)

    def count(self, view: TableView, after: str = "") -> ScopeTrial:
        """Judge the waiting URLs of a partition behind a key, until the view is out of time."""
        reasons, examples = Counter[str](), list[str]()
        waiting, last, name8, name = 0, after, b"", ""
        start = b"U" + bytes.fromhex(after) + b"\0" if after else b"U"
        try:
            for key, value in view.scan(start, prefix_end(b"U")):
                record = decode_url(value)
                if record.state in _WAITING:
                    if key[1:9] != name8:
                        host = view.host_record(key[1:9])
                        name8, name = key[1:9], host.host if host is not None else ""
                    url = join_url("https" if record.secure else "http", name, record.target)
                    waiting += 1
                    found = self._then.judge_waiting(url, record.kind, record.depth)
                    if found and not self._now.judge_waiting(url, record.kind, record.depth):
                        reasons[found.reason.label] += 1
                        if len(examples) < _EXAMPLES:
                            examples.append(url)
                last = key[1:].hex()
            last, share = "", 1.0
        except OutOfTime:
            share = int(last[:16] or "0", 16) / _KEYS
        return ScopeTrial(waiting, sum(reasons.values()), dict(reasons), examples, last, share)


def _scope(section: ScopeSection) -> Scope:
    return Scope(section, lambda host: host)  # places are not judged, so sites are not needed


def together(trials: Iterable[ScopeTrial]) -> ScopeTrial:
    """The results of several partitions, of which each has the same share of the hosts."""
    found, whole, number = Counter[str](), ScopeTrial(share=0.0), 0
    for each in trials:
        number += 1
        whole.waiting += each.waiting
        whole.dropped += each.dropped
        whole.share += each.share
        whole.examples = [*whole.examples, *each.examples][:_EXAMPLES]
        found.update(each.reasons)
        whole.after = whole.after or each.after
    whole.reasons, whole.share = dict(found), whole.share / number if number else 1.0
    return whole


def continued(first: ScopeTrial, more: ScopeTrial) -> ScopeTrial:
    """Two parts of one partition, of which the second begins where the first ends."""
    both = together([first, more])
    both.after, both.share = more.after, more.share
    return both


def trial_values(trial: ScopeTrial) -> dict[str, Any]:
    """The result as JSON has it."""
    return {
        "waiting": trial.waiting,
        "dropped": trial.dropped,
        "reasons": trial.reasons,
        "examples": trial.examples,
        "share": round(trial.share, 6),
    }
