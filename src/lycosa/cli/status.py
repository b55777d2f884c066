"""``lycosa status``: the progress of a crawl."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, age_of, crawl_place, reading_crawl
from lycosa.cli.output import (
    ExitCode,
    clean,
    counted,
    emit,
    emit_json,
    emit_pairs,
    human_bytes,
    human_count,
    human_duration,
    human_time,
)
from lycosa.cli.refetch_lines import (
    addresses_line,
    policies_line,
    refetches_line,
    set_back_line,
    validators_line,
)
from lycosa.cli.status_lists import print_completeness, print_lists, print_sitemaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lycosa.base.model.progress_parts import WebhookNote
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.crawl_status import CrawlStatus
    from lycosa.state.store.closing import LackingFile

_MAX_SOURCES = 10  # seeds that are listed
_EPILOG = """
\b
Examples:
  lycosa status crawls/example.org                     URLs by state, errors, sizes, waits
  lycosa status crawls/example.org --hosts 50          the 50 hosts with most waiting URLs
  lycosa status crawls/example.org --hosts --order errors the hosts with most failed requests
  lycosa status crawls/example.org --hosts --order wait   the hosts whose next request is latest
  lycosa status crawls/example.org --sites             sites: pages, budget, linking sites
  lycosa status crawls/example.org --completeness      pages stored with what they load
  lycosa status crawls/example.org --sitemaps          sitemaps and feeds, and how far believed
  lycosa status crawls/example.org --json | jq .states
  lycosa status crawls/example.org --watch             a live table, until the crawl ends
  lycosa status crawls/example.org --metrics > FILE    for Prometheus' textfile collector
  lycosa status --cluster cluster.toml                 by the last commits; see also cluster status
"""


_MAX_LACKING_SHOWN = 10


@click.command(
    "status",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Progress of a crawl: URLs by state, hosts, errors.",
)
@crawl_place
@click.option(
    "--hosts",
    metavar="N",
    type=click.IntRange(0),
    is_flag=False,
    flag_value=50,
    default=10,
    help="Number of hosts to list, most waiting URLs first [10; 50 without N].",
)
@click.option(
    "--sites",
    metavar="N",
    type=click.IntRange(0),
    is_flag=False,
    flag_value=50,
    default=0,
    help="Number of sites to list, with their budget [0; 50 without N].",
)
@click.option(
    "--sitemaps",
    metavar="N",
    type=click.IntRange(0),
    is_flag=False,
    flag_value=50,
    default=0,
    help="List only sitemaps and feeds, of the N hosts with the most of them [50 without N].",
)
@click.option(
    "--completeness",
    metavar="N",
    type=click.IntRange(0),
    is_flag=False,
    flag_value=20,
    help="List only how many pages are stored with all that they load, what is missing and why, and"
    " the N pages that lack most [20 without N].",
)
@click.option(
    "--order",
    "by",
    type=click.Choice(["queue", "errors", "wait"]),
    default="queue",
    help=(
        "Order of hosts and sites: waiting and parked URLs, failed requests, or seconds until the"
        " next request [queue]."
    ),
)
@click.option(
    "--watch",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    is_flag=False,
    flag_value=2,
    default=0,
    help="Show the progress of the running crawl every SECONDS, until it ends or Ctrl-C [2].",
)
@click.option("--metrics", is_flag=True, help="Print the metrics as Prometheus reads them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    place: CrawlPlace,
    hosts: int,
    sites: int,
    sitemaps: int,
    completeness: int | None,
    by: str,
    watch: float,
    metrics: bool,
    as_json: bool,
) -> int:
    """Show the progress of the crawl in DIR. It may be running: nothing is locked or written."""
    if watch or metrics:
        from lycosa.cli.status_watch import print_metrics, watch_crawl

        return watch_crawl(place, watch, as_json) if watch else print_metrics(place)
    with reading_crawl(place) as reader:
        if completeness is not None:
            print_completeness(reader, completeness, as_json)
        elif sitemaps:
            print_sitemaps(reader, sitemaps, time.time(), as_json)
        else:
            run(reader, hosts, sites, by, as_json, _webhooks(place))
    return ExitCode.FINISHED


def _webhooks(place: CrawlPlace) -> list[WebhookNote]:
    """How the webhooks of a folder fare, by their files, also while the crawl does not run."""
    if place.cluster is not None:
        return []  # their states are where `lycosa webhooks --cluster` runs
    from lycosa.feeds.webhook_delivery import webhook_folder, webhook_states
    from lycosa.state.folder.folder_notes import saved_settings

    config = saved_settings(place.folder)
    if config is None or not config.webhooks.urls:
        return []
    now = time.time()
    states = webhook_states(webhook_folder(place.folder), config.webhooks)
    return [each.note(now) for each in states]


def run(
    reader: CrawlReader,
    hosts: int,
    sites: int,
    by: str,
    as_json: bool,
    webhooks: Sequence[WebhookNote] = (),
) -> None:
    """Read the status and print it."""
    import msgspec

    from lycosa.inspect.crawl_status import crawl_status, estimate
    from lycosa.inspect.saved_settings import load_saved_settings
    from lycosa.inspect.top_lists import Order

    now = time.time()
    status = crawl_status(reader, load_saved_settings(reader), now, hosts, Order(by), sites)
    if as_json:
        told = [msgspec.to_builtins(each) for each in webhooks]
        also = {"estimate": estimate(status), "webhooks": told}
        emit_json({**msgspec.to_builtins(status), **also})
    else:
        _print(status, estimate(status), now, webhooks)


def _print(
    status: CrawlStatus, estimated: str, now: float, webhooks: Sequence[WebhookNote]
) -> None:
    _print_head(status, estimated, now, webhooks)
    _print_states(status)
    print_lists(status, now)
    if status.removed:
        number, size = (
            sum(getattr(each, name) for each in status.removed) for name in ("files", "bytes")
        )
        emit(
            clean(
                f"{counted(number, 'file')} ({human_bytes(size)}) of closed segments are in"
                f" {status.upload_url or 'the store they were uploaded to'} alone: removed here"
                " after their upload"
            )
        )
    for line in lacking_lines(status.lacking):
        emit(clean(line))


def _print_head(
    status: CrawlStatus, estimated: str, now: float, webhooks: Sequence[WebhookNote]
) -> None:
    """Print the crawl's name, its state and its totals."""
    from lycosa.cli.progress_rows import (
        captures_per_s,
        due_pages_in_words,
        memory_by_part,
        uploads_in_words,
        webhook_notes_in_words,
    )
    from lycosa.inspect.crawl_status import shown_status

    shown = shown_status(status.live)
    live = shown.progress if shown is not None else None
    captures = (
        f"{human_count(status.captures)} ({human_count(status.pages)} pages) in"
        f" {human_count(status.requests)} requests"
    )
    stored_at = f"to {status.upload_url}" if status.upload_url else ""
    emit_pairs(
        (
            ("crawl", _name(status)),
            ("state", _state(status, now)),
            ("pages/s", f"{captures_per_s(live):.4g}" if live else ""),
            ("memory", memory_by_part(live) if live else ""),
            ("waiting for", status.waits_for),
            ("paused", _paused(status)),
            ("leased", _leased(status)),
            ("due pages", due_pages_in_words(status.due_pages)),
            ("set back", set_back_line(status)),
            ("refetches", refetches_line(status)),
            ("addresses", addresses_line(status)),
            ("policies", policies_line(status)),
            ("validators", validators_line(status)),
            ("uploads", (uploads_in_words(live) if live else "") or stored_at),
            ("feeds", "; ".join(live.feeds_away) if live else ""),
            ("renders", _renders(status)),
            ("renderer", live.renderer.line() if live and live.renderer else ""),
            ("webhooks", webhook_notes_in_words(webhooks)),
            ("extensions", "; ".join(str(each) for each in live.failures) if live else ""),
            ("estimate", estimated),
            ("clock", _clock(status)),
            *(("seeds", line) for line in _seeds(status)),
            ("last commit", human_time(status.last_commit)),
            ("captures", captures),
            ("received", human_bytes(status.body_bytes)),
            ("purpose", ", ".join(status.purpose)),
            ("stated", _stated(status)),
            ("items", _items(status)),
            ("cold", _cold(status)),
            ("ranks", _ranks(status)),
            ("scripted", _scripted(status)),
        )
    )


def _paused(status: CrawlStatus) -> str:
    if not status.hosts_paused:
        return ""
    return (
        f"{counted(status.hosts_paused, 'host')}, by operators; the crawl may end without their"
        " URLs"
    )


def _leased(status: CrawlStatus) -> str:
    return f"{counted(status.leased, 'URL')} to outside fetchers" if status.leased else ""


def _cold(status: CrawlStatus) -> str:
    """URLs whose record is in a cold file."""
    if not status.cold:
        return ""
    files = f"{counted(status.cold_files, 'file')}, {human_bytes(status.cold_bytes)}"
    return f"{counted(sum(status.cold.values()), 'URL')} in {files}"


def _ranks(status: CrawlStatus) -> str:
    """By which ranks the crawl orders hosts and pages."""
    if (ranks := status.ranks) is None:
        return ""
    if not ranks.source:
        return ranks.damage or ranks.digest[:12]
    names = f"{counted(ranks.hosts, 'host')} and {counted(ranks.pages, 'page')}"
    return f"{ranks.digest[:12]}, of {names}, from {ranks.source}"


def _stated(status: CrawlStatus) -> str:
    """Captures by what their sites stated about the use of the page."""
    from lycosa.base.preferences.preference_words import counts_words

    return f"{found} (captures)" if (found := counts_words(status.preferences)) else ""


def _items(status: CrawlStatus) -> str:
    """Rows of user code, by extractor."""
    found = sorted(status.items.items())
    return ", ".join(f"{name} {human_count(number)}" for name, number in found)


def _scripted(status: CrawlStatus) -> str:
    """Pages that seem to be empty until their scripts run, and the hosts with most of them."""
    if not status.scripted:
        return ""
    most = ", ".join(f"{each.host} {human_count(each.captures)}" for each in status.scripted_hosts)
    return f"{counted(status.scripted, 'capture')} look empty until their scripts run: {most}"


def _renders(status: CrawlStatus) -> str:
    """Pages that were rendered and that wait for it, and the hosts with most of them."""
    from lycosa.cli.progress_rows import renders_and_ends

    found = status.renders
    wants = counted(found.wants, "URL")
    said = renders_and_ends(
        status.rendered, ((found.due, "due"), (found.waiting, f"for {wants} that they load"))
    )
    most = ", ".join(f"{host} {human_count(number)}" for host, number in found.hosts.items())
    return f"{said}: {most}" if most else said


def _name(status: CrawlStatus) -> str:
    run = f", run {status.runs}" if status.runs else ""  # shards have terms instead
    return f"{status.folder} ({status.crawl[:8]}{run})"


def _print_states(status: CrawlStatus) -> None:
    """Print URLs and hosts by state."""
    balance = (
        "the sum of the states"
        if status.is_balanced
        else "but the states do not add up: run lycosa audit"
    )
    emit(f"\n{human_count(status.discovered)} URLs discovered, {balance}")
    live = status.live
    leased = [("leased (of the queued)", live["running"])] if "running" in live else []
    emit_pairs(
        [*((name, human_count(number)) for name, number in status.states.items()), *leased],
        indent="  ",
    )
    emit("\nhosts")
    emit_pairs(
        (
            ("nothing waits" if name == "exhausted" else name, human_count(number))
            for name, number in sorted(status.hosts_by_state.items())
        ),
        indent="  ",
    )


def lacking_lines(lacking: Sequence[LackingFile]) -> list[str]:
    """The first ten missing derived files, with the reasons why they are not built."""
    if not lacking:
        return []
    lines = [
        f"{counted(len(lacking), 'derived file')} missing (every capture is in warc/ all the same):"
    ]
    lines += [
        f"  {each.file}: {each.reason or 'not built yet; the next start of the crawl builds it'}"
        for each in lacking[:_MAX_LACKING_SHOWN]
    ]
    if len(lacking) > _MAX_LACKING_SHOWN:
        lines.append(f"  and {len(lacking) - _MAX_LACKING_SHOWN:,} more; --json lists all")
    return lines


def _seeds(status: CrawlStatus) -> list[str]:
    """Sources that were not read completely, and the last one given."""
    from lycosa.state.folder.seed_sources import how_far, unread

    left = unread(status.seeds)
    return [
        how_far(source)
        for source in [*left, *(source for source in status.seeds[-1:] if source not in left)]
    ][:_MAX_SOURCES]


def _clock(status: CrawlStatus) -> str | None:
    """A line about a clock that was set back; empty when the clock is right."""
    behind = status.clock_set_back_s
    return (
        f"{human_duration(behind)} behind the clock of an earlier run; waits keep their length"
        if behind >= 1
        else None
    )


def _state(status: CrawlStatus, now: float) -> str:
    if status.shards:
        return (
            f"{age_of(status.shards, now)} (`lycosa cluster status FILE` asks the coordinator what"
            " runs)"
        )
    if not status.is_running:
        holder = status.holder
        if holder is not None and not holder.released:
            return (
                "not running (the last run crashed or was killed; the next start recovers the last"
                " commit)"
            )
        return "not running"
    said = str(status.live.get("state", "")) if status.live else ""
    holder = status.holder
    if holder is not None and holder.released:  # still of the last run
        return "running: it is starting"
    who = (
        f"process {holder.pid} for {human_duration(now - holder.started)}"
        if holder
        else "an unknown process"
    )
    return f"running: {who}{f', {said}' if said else ''}"
