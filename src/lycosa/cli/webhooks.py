"""``lycosa webhooks``: tell the URLs of the settings what has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place, opened_cluster
from lycosa.cli.feed_export import input_has_ended
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, human_duration, human_time

if TYPE_CHECKING:
    from lycosa.base.config.sections import WebhookSection
    from lycosa.base.model.progress_parts import WebhookState
    from lycosa.processes.changes_feed import NewestReader

_EPILOG = """
\b
Examples:
  lycosa crawl https://example.org/ --config crawl.toml     tells webhooks while it runs
  lycosa webhooks crawls/example.org                        what they were not told yet, and end
  lycosa webhooks crawls/example.org --show --json          which of them fail, since when and why
  lycosa webhooks crawls/example.org --name indexer.example --since 2026-11-01
  lycosa webhooks --cluster cluster.toml --state webhooks --follow

\b
In crawl.toml:
  [webhooks]
  urls = ["https://indexer.example/lycosa"]
  secret_file = "/etc/lycosa/webhook-secret"

The URLs are those of the settings of the crawl's last start. Each gets all changes in order, in
requests that are signed as Standard Webhooks describes; the next request is sent when one was
answered with 200 to 299. A URL that fails is tried again after 1 s, 2 s, 4 s and so on, and holds
no other up. One that failed for longer than frontier.changes_days, so that changes are lost
to it, is told nothing more until --since says where to continue; the crawl must not run then.
`lycosa docs exporters` has the requests and a receiver.
"""


class _Crawl(NamedTuple):
    """What webhooks need of a crawl."""

    states: Path
    section: WebhookSection
    id: str
    newest: Callable[[], NewestReader]


@click.command(
    "webhooks", cls=CrawlCommand, epilog=_EPILOG, short_help="Tell URLs what has changed."
)
@crawl_place
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --cluster: folder on this machine for the positions of the webhooks.",
)
@click.option("--follow/--once", help="Follow the crawl, or end when all was sent [--once].")
@click.option("--follow-input", is_flag=True, hidden=True, help="Follow until the input ends.")
@click.option("--show", is_flag=True, help="Show how the webhooks fare; send nothing.")
@click.option(
    "--since",
    metavar="TIME",
    help="Send nothing: let the webhook of --name continue with the changes from this time on"
    " (seconds since 1970 or ISO 8601; 0 is all that are kept).",
)
@click.option("--name", metavar="NAME", default="", help="With --since: a name as --show has it.")
@click.option("--json", "as_json", is_flag=True, help="Print the webhooks as JSON.")
def command(
    place: CrawlPlace,
    state: Path | None,
    follow: bool,
    follow_input: bool,
    show: bool,
    since: str | None,
    name: str,
    as_json: bool,
) -> int:
    """Tell the URLs in the setting webhooks.urls which pages of the crawl in DIR have changed."""
    from lycosa.feeds.webhook_delivery import webhook_states

    if bool(name) != (since is not None):
        raise click.UsageError("--name and --since belong together")
    show |= since is not None
    with _opened(place, state) as crawl:
        if not crawl.section.urls:
            raise click.UsageError("the settings of this crawl have no webhooks (webhooks.urls)")
        if since is not None:
            _move(crawl, name, since)
        if not show:
            _deliver(
                crawl,
                follow or follow_input,
                partial(input_has_ended, 0.0) if follow_input else None,
            )
        states = webhook_states(crawl.states, crawl.section)
    if as_json:
        import msgspec

        emit_json([msgspec.to_builtins(each) for each in states])
    else:
        for each in states:
            emit(clean(_line(each)))
    # A crawl that ends does not wait for a URL that is away: its next run tells what is left.
    is_told = show or follow_input or not any(each.failures for each in states)
    return ExitCode.FINISHED if is_told else ExitCode.INTERRUPTED


def _move(crawl: _Crawl, name: str, since: str) -> None:
    """Let a webhook continue with the changes from a time on."""
    from lycosa.feeds.webhook_delivery import move_webhook
    from lycosa.inspect.queries.changed_list import BadCursor, cursor_since, cursor_text

    try:
        cursor = cursor_since(crawl.id, since)
    except BadCursor as error:
        raise click.UsageError(f"--since: {error}") from error
    is_all = not cursor.since_s and not cursor.read
    move_webhook(crawl.states, crawl.section, name, "" if is_all else cursor_text(crawl.id, cursor))


def _deliver(crawl: _Crawl, follows: bool, has_ended: Callable[[], bool] | None) -> None:
    from lycosa.feeds.webhook_delivery import Webhooks
    from lycosa.processes.changes_feed import ChangesFeed, WantedChanges

    wanted = WantedChanges(crawl.section.kinds)
    webhooks = Webhooks(
        crawl.states,
        crawl.section,
        crawl.id,
        lambda after: ChangesFeed(crawl.id, crawl.newest(), after, wanted),
        lambda text: click.echo(clean(f"lycosa: {text}"), err=True),
    )
    webhooks.run(not follows, has_ended or (lambda: False))


@contextmanager
def _opened(place: CrawlPlace, state: Path | None) -> Iterator[_Crawl]:
    from lycosa.feeds.webhook_delivery import webhook_folder
    from lycosa.processes.changes_feed import ClusterReaders, FolderReaders
    from lycosa.state.folder.folder_notes import settings_of
    from lycosa.state.folder.manifest import load_manifest

    if place.cluster is None:
        if state is not None:
            raise click.UsageError("--state is for a crawl on machines: give --cluster FILE")
        crawl = load_manifest(place.folder).crawl
        section = settings_of(place.folder).webhooks
        yield _Crawl(
            webhook_folder(place.folder), section, crawl, lambda: FolderReaders(place.folder)
        )
        return
    if state is None:
        raise click.UsageError("give --state DIR, a folder for the positions of the webhooks")
    with opened_cluster(place) as opened:
        origin = opened.view.seen.origin
        saved = origin.settings()
        if saved is None:
            raise click.UsageError("this crawl has no settings yet")

        downloading = threading.Lock()
        yield _Crawl(
            state,
            saved.webhooks,
            origin.manifest.crawl,
            lambda: ClusterReaders(opened, downloading),
        )


def _line(state: WebhookState) -> str:
    told = f"{state.name}: {counted(state.delivered, 'change')} told"
    if state.delivered_at:
        told += f", the last at {human_time(state.delivered_at)}"
    if not state.failures:
        return told
    now = time.time()
    return (
        f"{told}; failed {counted(state.failures, 'time')} in"
        f" {human_duration(now - state.failing_since)}: {state.why}; next try in"
        f" {human_duration(max(state.next_try - now, 0.0))}"
    )
