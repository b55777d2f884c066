"""How long the crawl will still take, as far as that can be known.

Two times bound it. A host is fetched one request at a time, so the host that needs most time (its
waiting URLs times its delay) is a bound whatever the machine does. And the queue of all hosts needs
its length divided by the rate at which URLs are settled now. The greater one is the forecast.

It is a lower bound, and is called so, while the crawl still finds many URLs, because their number
is unknown. A bound is computed with the best rate of the run, because the present one may rise
again. It counts waiting URLs as if each were fetched. A URL that robots.txt disallows takes no
request, so a host with many of those is done earlier. A limit on captures ends the crawl earlier
too.
"""

from __future__ import annotations

from math import log2

import msgspec

from lycosa.base.messages.progress import HostNote, Progress

_GROWING_SHARE = 0.05  # found URLs for each settled one, from which the end cannot be told
_STEPS = 4  # buckets for each doubling of the time that a host needs


class Forecast(msgspec.Struct, frozen=True):
    """``seconds`` remain; ``is_least`` when it may be any time longer.

    ``hosts`` is the number of hosts whose delay limits the crawl: those that need at least half of
    that time. It is 0 when the rate of the whole crawl does. ``host`` is the one that needs most.
    ``rate`` is the number of URLs settled a second, ``found`` of those found. With
    ``is_limited_by_captures`` the limit on captures comes first.
    """

    seconds: float
    is_least: bool
    hosts: int = 0
    host: HostNote | None = None
    rate: float = 0.0
    found: float = 0.0
    is_limited_by_captures: bool = False


def forecast_of(progress: Progress) -> Forecast | None:
    """The forecast, or ``None`` when nothing is queued, the crawl is paused, or it is too early."""
    meter = progress.meter
    queued = progress.states.get("queued", 0)
    if not queued or progress.is_idle or progress.is_paused:
        return None
    rate = float(meter.number("lycosa_urls_settled_per_second", "minute"))
    found = float(meter.number("lycosa_urls_discovered_per_second", "minute"))
    slowest = max(progress.slowest, key=lambda note: note.need_s, default=None)
    host_s = slowest.need_s if slowest is not None else 0.0
    is_least = rate <= 0 or found > _GROWING_SHARE * rate
    # The rate may rise again, so a lower bound takes the best that it was.
    best = max(rate, float(meter.number("lycosa_urls_settled_per_second", "peak")))
    queue_s = queued / (best if is_least else rate) if best > 0 else 0.0
    seconds = max(host_s, queue_s)
    if seconds <= 0:
        return None
    limited = _until_limit(progress)
    if 0 < limited < seconds:
        return Forecast(limited, False, 0, None, rate, found, True)
    if host_s < queue_s:
        return Forecast(seconds, is_least, rate=rate, found=found)
    hosts = max(hosts_needing(progress.needs, host_s / 2), 1)
    return Forecast(seconds, is_least, hosts, slowest, rate, found)


def need_bucket(need_s: float) -> int:
    """The bucket of a host that needs so many seconds; 0 below one second."""
    return int(_STEPS * log2(need_s)) if need_s > 1 else 0


def hosts_needing(needs: dict[int, int], seconds: float) -> int:
    """Number of hosts that need about that time or more, by their buckets."""
    least = need_bucket(seconds)
    return sum(number for bucket, number in needs.items() if bucket >= least)


def _until_limit(progress: Progress) -> float:
    """Seconds until the limit on captures; 0 without one, or without a rate."""
    most = progress.meter.whole("lycosa_captures_limit")
    rate = float(progress.meter.number("lycosa_captures_per_second", "minute"))
    return max(most - progress.captures + progress.wanted, 0) / rate if most and rate > 0 else 0.0
