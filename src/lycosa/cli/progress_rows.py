"""The rows by which commands show the progress of a crawl: ``PROGRESS_ROWS``, and their texts.

The live table of ``lycosa crawl`` and of ``status --watch``, their lines without a terminal, and
``lycosa cluster status`` show all rows; ``lycosa status`` shows some of their texts next to the
numbers of the last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from lycosa.base.messages.progress import Progress
from lycosa.base.model.progress_parts import WebhookNote
from lycosa.base.model.rendered_page import RenderEnd
from lycosa.base.reasons import Reason
from lycosa.base.system.meter import Distribution
from lycosa.base.system.metric_catalogue import DUE_LABELS, SECONDS
from lycosa.cli.output import counted, human_bytes, human_count, human_duration
from lycosa.cluster.coordinator.forecast import forecast_of
from lycosa.processes.status_file import waiting_for

_UNITS = (("minute", 60, 5400), ("hour", 3600, 172_800))
_SHORT_S = 10.0  # a forecast of less is not shown
_MOST_FAILURES = 4
_WITH_DOCUMENT = {end.value for end in RenderEnd if end.has_document}


def progress_rows(progress: Progress) -> list[tuple[str, str]]:
    """Labels and texts of the rows that say something."""
    return [(label, text) for label, show in PROGRESS_ROWS if (text := show(progress))]


def captures_per_s(progress: Progress) -> float:
    """Captures a second, over the last minute."""
    return progress.meter.number("lycosa_captures_per_second", "minute")


def _captured(progress: Progress) -> str:
    return f"{human_count(progress.captures)} ({captures_per_s(progress):.1f}/s)"


def _received(progress: Progress) -> str:
    per_s = progress.meter.number("lycosa_received_bytes_per_second", "minute")
    return f"{human_bytes(progress.body_bytes)} ({human_bytes(per_s)}/s)"


def _queued(progress: Progress) -> str:
    queued = human_count(progress.states.get("queued", 0))
    return f"{queued} of {human_count(progress.discovered)} discovered"


def _due_pages(progress: Progress) -> str:
    return due_pages_in_words(progress.meter.table("lycosa_due_pages"))


def due_pages_in_words(by_band: Mapping[str, int]) -> str:
    """``35 to be fetched again: 3 fourfold, 32 due``; empty without any."""
    found = [(label, by_band.get(label, 0)) for label in DUE_LABELS]
    parts = [f"{human_count(number)} {label}" for label, number in found if number]
    total = human_count(sum(by_band.values()))
    return f"{total} to be fetched again: {', '.join(parts)}" if parts else ""


def hosts_in_words(progress: Progress) -> str:
    """All hosts by state; the numbers add up.

    9: 2 fetching, 1 ready, 1 made to wait, 5 between requests or done
    """
    parts = [
        (progress.running, "fetching"),
        (progress.hosts_ready, "ready"),
        (progress.hosts_front, "waiting for room in memory"),
        (progress.hosts_snoozed, "made to wait"),
        (progress.hosts_parked, "parked"),
        (progress.hosts_retired, "retired"),
        (progress.hosts_paused, "paused"),
    ]
    rest = progress.hosts - sum(number for number, _ in parts)
    said = ", ".join(
        f"{human_count(number)} {what}"
        for number, what in (*parts, (rest, "between requests or done"))
        if number > 0
    )
    return f"{human_count(progress.hosts)}{': ' if said else ''}{said}"


def _failed(progress: Progress) -> str:
    """The number of URLs that failed, and the most frequent failures, also of URLs to retry."""
    failures = sorted(
        (-number, name)
        for name, number in progress.reasons.items()
        if number and Reason[name.upper()].is_failure
    )
    named = ", ".join(
        f"{human_count(-number)} {name}" for number, name in failures[:_MOST_FAILURES]
    )
    return human_count(progress.states.get("failed", 0)) + (f" ({named})" if named else "")


def _refused(progress: Progress) -> str:
    links = sum(progress.rule_refusals.values())
    return (
        f"{counted(progress.states.get('refused', 0), 'URL')} by robots.txt,"
        f" {counted(links, 'link')} by scope and traps"
    )


def memory_in_words(progress: Progress) -> str:
    """``412 MB of 1.5 GB``, and the measure taken when memory is short; empty if unknown."""
    if not progress.memory_bytes:
        return ""
    of = f" of {human_bytes(progress.memory_bound)}" if progress.memory_bound else ""
    relief = f": a worker {progress.relief}" if progress.relief else ""
    return f"{human_bytes(progress.memory_bytes)}{of}{relief}"


def memory_by_part(progress: Progress) -> str:
    """The same with the memory of each process.

    412 MB of 1.5 GB (supervisor 41 MB, worker 210 MB, parser 95 MB;
    with at most 60 MB of mapped files)
    """
    if not progress.memory:
        return memory_in_words(progress)
    parts = ", ".join(f"{each.part} {human_bytes(each.own_bytes)}" for each in progress.memory)
    mapped = human_bytes(max(each.mapped_bytes for each in progress.memory))
    return f"{memory_in_words(progress)} ({parts}; with at most {mapped} of mapped files)"


def webhooks_in_words(progress: Progress) -> str:
    """What webhooks were told, and which of them fail; empty without any."""
    return webhook_notes_in_words(progress.webhooks)


def webhook_notes_in_words(notes: Sequence[WebhookNote]) -> str:
    """The same of notes."""
    if not notes:
        return ""
    told = counted(sum(each.delivered for each in notes), "change")
    failing = [
        f"{each.name} has failed {counted(each.failures, 'time')} in"
        f" {human_duration(each.failing_s)} ({each.why}), next try in"
        f" {human_duration(each.next_in_s)}"
        for each in notes
        if each.failures
    ]
    return "; ".join([f"{told} told", *failing])


def uploads_in_words(progress: Progress) -> str:
    """``12 files (1.2 GB) to URL, 3 waiting (200 MB); nothing accepted for 2m 10s: WHY``."""
    if (uploads := progress.uploads) is None:
        return ""
    said = f"{counted(uploads.files, 'file')} ({human_bytes(uploads.bytes)}) to {uploads.url}"
    if uploads.waiting_files:
        waiting = human_bytes(uploads.waiting_bytes)
        said += f", {human_count(uploads.waiting_files)} waiting ({waiting})"
    if uploads.doubtful_files:
        said += f"; {counted(uploads.doubtful_files, 'file')} kept here: the store has another one"
    if uploads.failing_s:
        said += f"; nothing accepted for {human_duration(uploads.failing_s)}"
    return said + (f": {uploads.why}" if uploads.why else "")


def estimate_of(progress: Progress) -> str:
    """The forecast in words, or the empty string when nothing can be said or it is short.

    about 40 minutes, limited by the delay of 3 hosts (a.example: 1,200 URLs at 2 s each)
    """
    found = forecast_of(progress)
    if found is None or found.seconds < _SHORT_S:
        return ""
    time_left = rough_duration(found.seconds)
    if found.is_limited_by_captures:
        return f"about {time_left} until the limit on pages"
    said = f"{'at least' if found.is_least else 'about'} {time_left}"
    note = found.host
    if note is not None:
        said += f", limited by the delay of {counted(found.hosts, 'host')}"
        said += f" ({note.host}: {counted(note.waiting, 'URL')} at {note.delay_s:.3g} s each)"
    elif found.rate:
        said += f" at {found.rate:.3g} URLs a second"
    if found.is_least and found.found:
        said += f"; {found.found:.3g} new URLs a second"
    return said


def rough_duration(seconds: float) -> str:
    """A forecast time in one unit: ``40 minutes``; more digits would not be true."""
    if seconds < 100:
        return f"{max(round(seconds, -1), 10):.0f} seconds"
    for unit, size_s, below_s in _UNITS:
        if seconds < below_s:
            return counted(round(seconds / size_s), unit)
    return counted(round(seconds / 86_400), "day")


def _policies(progress: Progress) -> str:
    """How many records a change of refetch policies has not reached, and what it cannot keep."""
    left, notes = progress.policy_records_left, progress.promises
    parts = [f"{counted(left, 'record')} under older rules"] if left else []
    if notes:
        first = notes[0]
        more = f", and {len(notes) - 1} more hosts" if len(notes) > 1 else ""
        parts.append(
            f"{first.host} was promised {first.promised:,.0f} fetches a day and has"
            f" {first.turns:,.0f} turns{more}"
        )
    return "; ".join(parts)


def renders_in_words(progress: Progress) -> str:
    """What is rendered and what waits, and for what; empty without any.

    230 rendered (5 without a document: 4 hung, 1 lost), 37 wait (3 due, 2 in work, 32 for what they
    load), 12 stayed as they are; half of the rounds within 0.5 s, 95 % within 2.5 s
    """
    meter = progress.meter
    waiting = meter.table("lycosa_render_queue_depth")
    said = renders_and_ends(
        meter.table("lycosa_renders_total"),
        (
            (waiting.get("due", 0), "due"),
            (waiting.get("lent", 0), "in work"),
            (waiting.get("waiting", 0), "for what they load"),
        ),
    )
    if crowded := meter.whole("lycosa_renders_crowded_out_total"):
        said += f", {human_count(crowded)} stayed as they are (render.queue)"
    times = meter.distributions.get("lycosa_render_seconds", {}).get("")
    if times is None or not times.count:
        return said
    half, most = (_bound_of(times, share) for share in (0.5, 0.95))
    return f"{said}; half of the rounds within {half:.3g} s, 95 % within {most:.3g} s"


def _bound_of(times: Distribution, share: float) -> float:
    """The bound of the bucket below which this share of the values are, in seconds."""
    reached = 0
    for number, bound in zip(times.counts, SECONDS, strict=False):
        reached += number
        if reached >= share * times.count:
            return bound
    return inf


def renders_and_ends(ended: Mapping[str, int], waiting: Sequence[tuple[int, str]]) -> str:
    """Renders that ended, by how, and pages that wait, by what they wait for."""
    total, open_pages = sum(ended.values()), sum(number for number, _ in waiting)
    if not total and not open_pages:
        return ""
    lost = [(number, end) for end, number in ended.items() if number and end not in _WITH_DOCUMENT]
    said = f"{human_count(total)} rendered"
    if lost:
        lost.sort(reverse=True)
        named = ", ".join(f"{human_count(number)} {end}" for number, end in lost)
        said += f" ({human_count(sum(number for number, _ in lost))} without a document: {named})"
    named = ", ".join(f"{human_count(number)} {what}" for number, what in waiting if number)
    return said + (f", {human_count(open_pages)} wait ({named})" if open_pages else "")


PROGRESS_ROWS: tuple[tuple[str, Callable[[Progress], str]], ...] = (
    ("captured", _captured),
    ("received", _received),
    ("queued", _queued),
    ("due pages", _due_pages),
    ("hosts", hosts_in_words),
    ("failed", _failed),
    ("refused", _refused),
    ("memory", memory_in_words),
    ("policies", _policies),
    ("uploads", uploads_in_words),
    ("feeds", lambda progress: "; ".join(progress.feeds_away)),
    ("renders", renders_in_words),
    ("renderer", lambda progress: progress.renderer.line() if progress.renderer else ""),
    ("webhooks", webhooks_in_words),
    ("extensions", lambda progress: "; ".join(str(each) for each in progress.failures)),
    ("waiting for", waiting_for),
    ("estimate", estimate_of),
)
"""Label and text of each row; a row without text is not shown."""
