"""``lycosa simulate``: predict the results of a crawl before it is run."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.crawl_reading import ProgressLine
from lycosa.cli.output import ExitCode, emit_json, emit_table, human_duration
from lycosa.cli.setting_options import config_option

if TYPE_CHECKING:
    from lycosa.simulate.simulation_report import SimulationReport
    from lycosa.simulate.simulation_run import Model, SimulationOutcome

_EPILOG = """
\b
Examples:
  lycosa simulate                                     100M pages on 4.5M hosts, one worker
  lycosa simulate --hosts 45M --pages 1G --workers 8 --cores 16 --picture crawl.svg
  lycosa simulate --hosts 2000 --pages 500k --delay 2s --days 7 --let web.latency_s=1s
  lycosa simulate --hosts-of crawls/news --means-of crawls/news --days 365   as a past crawl
  lycosa simulate --hosts-of hosts.csv --hosts 10M    exported hosts, scaled up to ten million
  lycosa simulate --shards 64 --cores 64 --hosts 1M   a cluster: its exchange and brokers
  lycosa simulate --keys                              every key of the model
  lycosa simulate --json | jq .binds                  the limit that holds the crawl back

Frontier, delays, robots.txt, retries and refetches run with the crawler's code, in virtual time, on
a sample of the hosts that has the same share of cores, bandwidth and fetch slots. The counts are
scaled up; `lycosa docs simulation` has the law and its accuracy. Settings are those of
`lycosa crawl`: --config, --set, LYCOSA_... The cost of a page is in the model: --let
means.page_ms=3, or --means-of a past crawl. Limits (--max-pages and others) and scope rules are not
simulated.

\b
What binds:
  cpu         the processors
  network     the bandwidth
  slots       every fetch slot waits for a server
  workbench   places for hosts in memory (frontier.workbench)
  brokers     commits of shards wait for Kafka (--shards)
  politeness  every host waits for its delay: more machines do not help
  hosts       nothing to fetch
"""


@click.command(
    "simulate",
    epilog=_EPILOG,
    short_help="Predict pages a day, freshness, disk and cost of a crawl.",
)
@click.option(
    "--hosts",
    metavar="N",
    help="Hosts of the web, such as 2000, 45M [4.5M, or those of --hosts-of].",
)
@click.option(
    "--pages", metavar="N", help="Pages of all hosts together, such as 500k, 1G [22 for each host]."
)
@click.option(
    "--days",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True, max=10_000),
    help="Length of the crawl in days [30; five minutes with --shards].",
)
@click.option(
    "--shards",
    metavar="N",
    type=click.IntRange(min=1, max=1024),
    help="Simulate the exchange between the shards of a cluster, which share --cores.",
)
@click.option("--cores", metavar="N", help="Cores that the crawl may use; 0.5 is half a core [2].")
@click.option("--workers", metavar="N|auto", help="Worker processes; auto is one per core [1].")
@click.option("--delay", metavar="TIME", help="Minimum pause between two requests to a host [1s].")
@click.option(
    "--let",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="One key of the model; may be repeated. See --keys.",
)
@click.option(
    "--model",
    "model_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keys of the model in TOML: [web] [means] [prices].",
)
@click.option(
    "--hosts-of",
    metavar="DIR|FILE",
    type=click.Path(path_type=Path),
    help="Hosts of a past crawl: its folder, or `lycosa export DIR hosts`.",
)
@click.option(
    "--means-of",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Cost of a page, measured in a past crawl's folder.",
)
@config_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting of the crawl; may be repeated. See `lycosa config`.",
)
@click.option(
    "--sample", metavar="N", help="Number of hosts to simulate [as many as have 50,000 pages]."
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Processes that simulate [one per core]; changes only the time it takes.",
)
@click.option(
    "--picture",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the curves to FILE.svg.",
)
@click.option(
    "--keys", is_flag=True, help="List the keys of the model, with meaning, default and bound."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, with all points in time."
)
def command(**options: Any) -> ExitCode:
    """Predict the results of a crawl: pages a day, freshness, queue, bandwidth, disk, cost.

    The answer also names the limit that holds the crawl back. A web is described by a few numbers
    (hosts, pages, how slow they are, how often they change and fail), or by the hosts of a past
    crawl.
    """
    return run(**options)


def run(**options: Any) -> ExitCode:
    """Read the model, simulate, print and draw."""
    from lycosa.base.system.machine import cores
    from lycosa.cli.simulate_answers import print_answers
    from lycosa.cli.simulate_model import model_of
    from lycosa.simulate.simulation_report import as_document, report
    from lycosa.simulate.simulation_run import simulate

    if options["keys"]:
        _list_keys(options["as_json"])
        return ExitCode.FINISHED
    picture = options["picture"]
    if picture is not None:
        _check_picture(picture)
    model = model_of(options)
    if options["shards"]:
        return _run_shards(model, options)
    progress = SimulationProgress()
    try:
        outcome = simulate(model, options["jobs"] or cores(), progress.show_share)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    finally:
        progress.clear_line()
    found = report(model, outcome)
    if picture is not None:
        _draw(picture, model, outcome, found)
    if options["as_json"]:
        emit_json(as_document(model, outcome, found))
    else:
        print_answers(model, outcome, found)
    return ExitCode.FINISHED


def _run_shards(model: Model, options: dict[str, Any]) -> ExitCode:
    """Simulate a cluster and print what its shards do."""
    from lycosa.cli.simulate_shards import print_shards, shards_document
    from lycosa.simulate.shards import simulate_shards

    for name in ("picture", "workers"):
        if options[name] is not None:
            raise click.UsageError(
                f"--{name} cannot be used with --shards: each shard is one worker, and its rates"
                " are steady"
            )
    progress = SimulationProgress()
    try:
        outcome = simulate_shards(model, options["shards"], progress.show_share)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    finally:
        progress.clear_line()
    if options["as_json"]:
        emit_json(shards_document(model, outcome))
    else:
        print_shards(model, outcome)
    return ExitCode.FINISHED


class SimulationProgress:
    """The progress on standard error: live on a terminal, every ten seconds elsewhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._line = ProgressLine(0.5, 10.0, is_late=True, clock=clock)
        self.clear_line = self._line.clear

    def show_share(self, share: float) -> None:
        """Show which share of the virtual time has passed."""
        left = (self._clock() - self._began) * (1 - share) / share if share > 0.01 else 0.0
        self._line.show(
            f"simulated {100 * share:.0f} % of the time"
            + (f", about {human_duration(left)} left" if left else "")
        )


def _list_keys(as_json: bool) -> None:
    from lycosa.simulate.model_settings import model_fields

    rows = [
        (key, field.show(field.default), field.bound_text or field.type_text, field.meaning)
        for key, field in model_fields().items()
    ]
    names = ("key", "default", "bound", "meaning")
    if as_json:
        emit_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        emit_table(names, rows)


def _check_picture(path: Path) -> None:
    """Check, before the simulation, whether the picture can be drawn."""
    if path.suffix.lower() != ".svg":
        raise click.UsageError(
            f"--picture {path}: the name must end with .svg; browsers show such a file, and"
            " rsvg-convert, resvg or inkscape convert it to PNG"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


def _draw(path: Path, model: Model, outcome: SimulationOutcome, found: SimulationReport) -> None:
    from lycosa.cli.simulate_answers import subtitle_of, title_of
    from lycosa.simulate.picture import svg

    text = svg(found, title_of(model), subtitle_of(model, outcome))
    path.write_text(text, "utf-8")
    click.echo(f"lycosa: the curves are in {path}", err=True)
