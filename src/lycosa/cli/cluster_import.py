"""``lycosa cluster import``: bring a crawl to a cluster, or a crawl of a cluster to more shards."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.base.config.cluster_file import MAX_SHARDS
from lycosa.cli.cluster_parts import CLUSTER_FILE, given_cluster, kafka_client, object_store
from lycosa.cli.crawl_reading import ProgressLine
from lycosa.cli.output import ExitCode, counted, emit, emit_json, human_count, human_duration

if TYPE_CHECKING:
    from lycosa.base.config.cluster_file import ClusterFile
    from lycosa.moves.move import MoveReport
    from lycosa.moves.new_generation import ClusterPlaces

_EPILOG = """
\b
Examples:
  lycosa cluster import cluster.toml crawls/example.org
      bring the crawl of a folder, which is not running, to a new crawl on the cluster; its topics
      are created, and `lycosa cluster init` must not be given before
  lycosa cluster import cluster.toml --shards 32
      divide a crawl that was stopped (`lycosa cluster stop`) into 32 shards; afterwards set
      shards = 32 in cluster.toml on all machines, and start `lycosa serve` and the nodes again

Nothing is fetched. The crawl stays what it was until the last step, so the command can be broken
off and given again. The crawl is stopped afterwards; `lycosa cluster resume` continues it.

\b
Exit codes: 0 imported, now or before, 1 a service failed or data is damaged, 2 bad usage
"""


@click.command(
    "import",
    epilog=_EPILOG,
    short_help="Bring a folder's crawl to the cluster, or divide a crawl into more shards.",
)
@click.argument("file", type=CLUSTER_FILE)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=MAX_SHARDS),
    metavar="N",
    help="Divide the stopped crawl of FILE into N shards, more than it has.",
)
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    help="Local folder for temporary files, about three times the size of the crawl's state"
    " [the system's temporary folder].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def import_crawl(
    file: Path, folder: Path | None, shards: int | None, work: Path | None, as_json: bool
) -> int:
    """Bring the crawl of the folder DIR to the cluster of FILE (cluster.toml).

    Or divide the crawl of FILE into more shards, with --shards. All URLs, queues, times and
    captures are kept: no page is fetched twice, and every host keeps its delay.
    """
    if (folder is None) == (shards is None):
        raise click.UsageError(
            f"give either the folder of a crawl (lycosa cluster import {file} DIR), or a number of"
            f" shards for the crawl that is on the cluster (lycosa cluster import {file} --shards"
            " 32)"
        )
    given = given_cluster(file)
    report = _imported(given, folder, shards, work or Path(tempfile.gettempdir()))
    if as_json:
        emit_json(_values(given, report))
    else:
        _print(given, report)
    return ExitCode.FINISHED


def _imported(
    given: ClusterFile, folder: Path | None, shards: int | None, base: Path
) -> MoveReport:
    from lycosa.moves.stopped_cluster import import_shards
    from lycosa.moves.stopped_folder import import_folder
    from lycosa.state.shard.cached_snapshots import new_work_folder

    line = StepLine("import")
    work = new_work_folder(base / "lycosa-import")
    try:
        places = cluster_places(given, work, line)
        if folder is not None:
            return import_folder(folder, places)
        assert shards is not None
        return import_shards(places, shards)
    finally:
        line.clear()
        shutil.rmtree(work, ignore_errors=True)


def cluster_places(given: ClusterFile, work: Path, line: StepLine) -> ClusterPlaces:
    """The services of a cluster, for a command that moves its crawl."""
    client, store = kafka_client(given), object_store(given)
    from lycosa.moves.new_generation import ClusterPlaces
    from lycosa.state.kv.rocks import rocks_opener

    opener = rocks_opener(64 << 20, 128 << 20)
    return ClusterPlaces(given, client, store, work, opener, line.show_step, line.say)


class StepLine(ProgressLine):
    """Shows what ``command`` does: each step once, and its progress on a terminal.

    With ``as_lines`` progress is printed too.
    """

    def __init__(self, command: str, as_lines: bool = False) -> None:
        super().__init__()
        self._command, self._as_lines, self._step = command, as_lines, ""

    def show_step(self, step: str, done: int, total: int) -> None:
        """Show how much of a step is done; a total of 0 is not known."""
        text = f"{self._command}: {step}"
        if step != self._step:
            self._step = step
            self.say(text)
        if done:
            of = f" of {human_count(total)}" if total else ""
            (self.say if self._as_lines else self.show)(f"{text}, {human_count(done)}{of}")


def _values(given: ClusterFile, report: MoveReport) -> dict[str, object]:
    manifest = report.manifest
    return {
        "name": given.name,
        "crawl": manifest.crawl,
        "is_new": report.is_new,
        "shards": manifest.identity.partitions,
        "generation": manifest.generation,
        "urls": report.urls,
        "captures": report.captures,
        "segments": report.segments,
        "seconds": round(report.seconds, 3),
        "notes": list(report.notes),
    }


def _print(given: ClusterFile, report: MoveReport) -> None:
    shards = report.manifest.identity.partitions
    name = f"crawl {report.manifest.crawl[:8]}"
    if not report.is_new:
        emit(f"{name} was imported before; it has {counted(shards, 'shard')}")
    else:
        emit(
            f"{name} has {counted(shards, 'shard')} now: {human_count(report.urls)} URLs,"
            f" {human_count(report.captures)} captures,"
            f" {counted(report.segments, 'segment')} sent, in {human_duration(report.seconds)}"
        )
    emit(f"topics of its state: {given.name}.{report.manifest.generation}.*")
    for note in report.notes:
        emit(f"note: {note}")
    if shards != given.shards:
        emit(f"set shards = {shards} in {given.path}, on all machines")
    emit("start `lycosa serve` and the nodes again, if they run; then continue the crawl:")
    emit(f"  lycosa cluster resume {given.path}")
