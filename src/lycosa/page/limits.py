"""What limits the crawl at the moment, in sentences, the most important first."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.cluster.forecast import Forecast, forecast_of
from lycosa.cluster.messages import ClusterStatus
from lycosa.page.words import count_text, span_text


def crawl_limits(status: ClusterStatus, slots: int) -> list[str]:
    """The reasons why the crawl is not faster; ``slots`` requests may be in flight."""
    return list(_limits(status, slots))


def _limits(status: ClusterStatus, slots: int) -> Iterator[str]:
    progress = status.progress
    if status.end:
        yield "The crawl is ending." if not status.is_over else "The crawl has ended."
        return
    if status.is_paused:
        yield "An operator has paused the crawl."
        return
    waits = status.waits_for or progress.waits_for
    if waits:
        yield f"It waits for {waits}."
    if progress.lacks_room:
        yield "The disk has less free space than store.min_free_bytes: no request is started."
    if progress.relief:
        yield f"Memory is short: a worker {progress.relief}."
    if progress.parser.away_why:
        yield f"No parser can be started: {progress.parser.away_why}."
    if progress.undelivered:
        yield f"URLs cannot be delivered: {progress.undelivered}."
    if slots and progress.running >= slots:
        yield f"All {count_text(slots)} request slots (fetch.slots) are in use."
    yield from _by_hosts(status)


def _by_hosts(status: ClusterStatus) -> Iterator[str]:
    progress = status.progress
    queued = progress.states.get("queued", 0)
    if not queued:
        yield "No URL waits."
        return
    waiting = progress.hosts_snoozed + progress.hosts_front
    if not progress.hosts_ready:
        yield (
            f"No host may be requested at this moment: {count_text(queued)} URLs wait for the"
            f" delays of their hosts. {count_text(progress.hosts_snoozed)} hosts were made to wait"
            " longer."
        )
    elif waiting:
        yield f"{count_text(progress.hosts_ready)} hosts may be requested now."
    if forecast := forecast_of(progress):
        yield _forecast_text(forecast)


def _forecast_text(forecast: Forecast) -> str:
    """How long the crawl will still take, and what decides it."""
    about = "at least" if forecast.is_least else "about"
    text = f"It will take {about} {span_text(forecast.seconds)}"
    if forecast.is_limited_by_captures:
        return f"{text}, until the limit on captures."
    if forecast.host is None:
        return f"{text}, limited by the rate of {forecast.rate:.3g} URLs a second."
    hosts = "one host" if forecast.hosts == 1 else f"{count_text(forecast.hosts)} hosts"
    note = forecast.host
    return (
        f"{text}, limited by the delay of {hosts}: {note.host} has {count_text(note.waiting)} URLs"
        f" at {note.delay_s:.3g} s each."
    )
