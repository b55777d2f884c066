"""Decides how long a host rests after a request; the only module that does.

The rules are in ``politeness.delay``. This module applies them to the host's visit state. A
``HostRest`` is made before a request and called when the request has ended. If it is never called,
because the request was cancelled, the host rests for the longest ordinary delay.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import TracebackType

import msgspec

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.delay import (
    REFUSALS,
    clamp,
    delay_s,
    in_seconds,
    longest_delay,
    pace_after_request,
    parse_retry_after,
)
from lycosa.stages.politeness.own_proofs import OwnHosts

_SAME_S = 0.001  # two stored times this close are the same


class HostRest:
    """The rest of one host after the exchange that is about to begin.

    It ends at ``until`` on the monotonic clock and ``time_until`` in crawl time. When the ``with``
    block ends, the host gets the rest. ``on_asked`` is called when the server asked for a longer
    one.
    """

    def __init__(
        self,
        host: VisitState,
        section: PolitenessSection,
        clock: CrawlClock,
        chance: random.Random,
        on_asked: Callable[[], None],
        own: OwnHosts | None = None,
    ) -> None:
        self._visit = host
        self._on_asked = on_asked
        self._own = own
        self._section = section
        self._clock = clock
        self._chance = chance
        longest = max(longest_delay(section), host.record.pace.operator_delay_s)
        self._ended = (clock.monotonic(), clock.time())
        self._begun = self._ended[1]
        self.until, self.time_until = self._ended[0] + longest, self._ended[1] + longest
        self.is_asked = False

    def __enter__(self) -> HostRest:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the host rest from now on, however its exchange ended."""
        self._visit.rest(self.until, self.time_until, self._clock.monotonic())

    def __call__(self, fetched: Fetched, now: float, wall: float, is_robots: bool) -> float:
        """Update the host's pace by the answer; return the delay in seconds.

        ``wall`` is compared with a date in Retry-After. ``is_robots`` says that the request was for
        robots.txt.
        """
        record, time = self._visit.record, self._clock.time()
        if is_robots:
            # What the file says is not known yet: it may be that the host is not proved any more.
            self._own = None
        # No request was sent, so the host needs no rest.
        if fetched.reason is Reason.LEASE_EXPIRED:
            self._ended = self.until, self.time_until = now, time
            self.is_asked = False
            return 0.0
        pace, asked = (
            clamp(record.pace, self._section, time),
            _longest_retry_after(fetched, wall),
        )
        # A refused HTTP/2 stream means the same as 503: the server is overloaded.
        status = 503 if fetched.reason is Reason.REQUEST_REFUSED else fetched.status
        after = pace_after_request(
            pace, self._section, status, asked, fetched.duration_s, time, is_robots=is_robots
        )
        if after.backoffs > pace.backoffs > 0 and pace.backoff_at > self._begun:
            # Of several requests at once, all that met the same overload are one refusal.
            after = msgspec.structs.replace(after, backoffs=pace.backoffs)
        record.pace = after
        self._ended = self.until, self.time_until = now, time
        if not self._visit.open_requests:
            return self.decide_delay()
        # The host keeps the rest that the end of another request required. It has this one at once:
        # the next request may be about to begin.
        self.until = max(now, self._visit.rest_time)
        self.time_until = max(time, record.rests_until)
        delay_s = self.decide_delay()
        self._visit.rest(self.until, self.time_until, now)
        return delay_s

    def apply_retry_after(self, seconds: float) -> None:
        """Apply a Retry-After that an outside fetcher reports apart from the answer."""
        record, time = self._visit.record, self._clock.time()
        asked = time + min(max(seconds, 0.0), self._section.max_retry_after_s)
        record.pace = msgspec.structs.replace(
            record.pace, retry_at=max(record.pace.retry_at, asked)
        )
        self.decide_delay()

    def decide_delay(self) -> float:
        """Decide the delay in seconds by the current pace.

        It is decided again when the answer, a robots.txt, has a Crawl-delay. The jitter is drawn
        again, so a second decision only lengthens the rest: the attempt log already has the first.
        """
        section = self._section
        if self._own is not None:
            section = self._own.section_of(self._visit.name, section, self._clock.wall())
        delay = delay_s(self._visit.record.pace, section, self._ended[1], self._chance)
        self.until = max(self.until, self._ended[0] + delay.seconds)
        self.time_until = max(self.time_until, self._ended[1] + delay.seconds)
        self.is_asked = delay.source in REFUSALS
        if self.is_asked:
            self._on_asked()
        return self.until - self._ended[0]


def _longest_retry_after(fetched: Fetched, wall: float) -> str:
    """Retry-After in seconds. Of several fields the longest counts; empty without one."""
    if not fetched.header("retry-after"):
        return ""
    given = [value for name, value in fetched.headers() if name == "retry-after"]
    return max((in_seconds(value, wall) for value in given), key=_number)


def _number(value: str) -> float:
    """Seconds as ``in_seconds`` returns them; below 0 for a value that cannot be read."""
    seconds = parse_retry_after(value, 0.0)
    return -1.0 if seconds is None else seconds


class Pacing:
    """Makes the rests of one worker."""

    def __init__(
        self,
        section: PolitenessSection,
        clock: CrawlClock,
        chance: random.Random,
        own: OwnHosts | None = None,
    ) -> None:
        self.own = own
        """Which hosts are proved to be the operator's, if the settings name any."""
        self.section = section  # its settings may change while the crawl runs
        self._clock = clock
        self._chance = chance
        self.was_asked = False
        """Whether a host has asked for a rest that is not committed yet.

        Until then the next owner of the shard would not know it.
        """

    def delay_of(self, host: VisitState) -> float:
        """The delay in seconds of a host whose last request is not known."""
        return delay_s(host.record.pace, self.section, self._clock.time(), self._chance).seconds

    def apply_crawl_delay(self, host: VisitState) -> None:
        """Apply a Crawl-delay that became known some time after the host's last exchange.

        It counts from now.
        """
        record, section = host.record, self.section
        own_s = record.pace.operator_delay_s
        if record.pace.crawl_delay_s > (own_s if own_s >= 0 else section.delay_s):
            now, time = self._clock.monotonic(), self._clock.time()
            delay = delay_s(record.pace, section, time, self._chance).seconds
            host.rest_time, record.rest_at = (
                max(host.rest_time, now + delay),
                max(record.rests_until, time + delay),
            )
            host.next_time, record.next_at = (
                max(host.next_time, host.rest_time),
                max(record.next_at, record.rest_at),
            )

    def lend(self, host: VisitState, seconds: float) -> float:
        """Let an outside fetcher have the host; returns the end of that in crawl time.

        The host is busy for ``seconds``. Then its delay follows, unless it is returned before.
        """
        now, time = self._clock.monotonic(), self._clock.time()
        delay = delay_s(host.record.pace, self.section, time, self._chance).seconds
        host.rest(now + seconds + delay, time + seconds + delay, now)
        return time + seconds + delay

    def take_back(self, host: VisitState, busy_until: float) -> None:
        """Let the host be free now if it was busy until ``busy_until`` (crawl time) and no longer.

        The rest after the exchange is decided next.
        """
        record = host.record
        if max(record.next_at, record.rests_until) <= busy_until + _SAME_S:
            host.next_time = host.rest_time = self._clock.monotonic()
            record.next_at = record.rest_at = self._clock.time()

    def rest_of(self, host: VisitState) -> HostRest:
        return HostRest(host, self.section, self._clock, self._chance, self._note_asked, self.own)

    def _note_asked(self) -> None:
        self.was_asked = True
