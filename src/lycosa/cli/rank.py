"""``lycosa rank``: PageRank and harmonic centrality of hosts, domains and pages."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from lycosa.cli.crawl_reading import (
    CrawlCommand,
    CrawlPlace,
    ProgressLine,
    crawl_place,
    opened_cluster,
    reading_crawl,
    tell_age,
)
from lycosa.cli.output import ExitCode, counted, emit, emit_json, emit_table

if TYPE_CHECKING:
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.ranks.rank_run import RankProgress
    from lycosa.state.ranks.rank_results import RankManifest, RankOptions, RankResults

_EPILOG = """
\b
Examples:
  lycosa rank crawls/example.org                        hosts, domains and pages
  lycosa rank crawls/example.org --levels host,domain   without pages: less time and disk
  lycosa rank crawls/example.org --list
  lycosa rank crawls/example.org --forget 3
  lycosa rank --cluster cluster.toml --work /scratch/ranks --memory 16GB
  zcat crawls/example.org/ranks/1/host/ranks.txt.gz | head

The links that the crawl has stored, of the newest content of each page, and redirects are the
edges. The result is a new folder ranks/NUMBER with vertices, edges and ranks, in the form of Common
Crawl's web graphs, and ranks.json, which says what it is made of. On a cluster it goes to object
storage. `lycosa docs ranks` has the meaning of every number, and a Spark job for more links than
one machine can rank.

The crawl may run: nothing else is changed. A run that is interrupted or killed continues with the
same command, over the links that were stored when it began. The crawl needs its links
(store.links, which is the default).
"""
_LEVELS = ("host", "domain", "page")


def _as_levels(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    asked = [each.strip().removesuffix("s") for each in value.split(",") if each.strip()]
    if not asked or not set(asked) <= set(_LEVELS):
        raise click.BadParameter(f"{value!r} is not a list of some of {', '.join(_LEVELS)}")
    return tuple(each for each in _LEVELS if each in asked)


def _as_megabytes(context: click.Context, parameter: click.Parameter, value: str) -> int:
    from lycosa.base.config.units import read_bytes

    try:
        return max(read_bytes(value) // 1_000_000, 128)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    "rank",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="PageRank and harmonic centrality by the stored links.",
)
@crawl_place
@click.option(
    "--levels",
    metavar="LEVEL,...",
    default=",".join(_LEVELS),
    callback=_as_levels,
    help="What is ranked: host, domain, page [all].",
)
@click.option("--nofollow", is_flag=True, help="Count links that are nofollow too.")
@click.option(
    "--damping",
    metavar="SHARE",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.85,
    help="Damping factor of PageRank [0.85].",
)
@click.option(
    "--registers",
    metavar="POWER",
    type=click.IntRange(6, 16),
    help="HyperBall counters of 2^POWER registers, where harmonic centrality is not exact: more are"
    " more precise, and each takes 2^POWER bytes for each page [chosen by the number of links].",
)
@click.option(
    "--exact", is_flag=True, help="Exact harmonic centrality also of large graphs; takes long."
)
@click.option(
    "--memory",
    "memory_mb",
    metavar="SIZE",
    default="1GB",
    callback=_as_megabytes,
    help="Memory for sorting and joining; beyond it data is spilled to disk [1GB].",
)
@click.option(
    "--work",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the files of a run, with room for three times the links"
    " [ranks/work in the crawl's folder; for a cluster in --cache].",
)
@click.option("--again", is_flag=True, help="Also if there is a result of the same links.")
@click.option("--list", "is_list", is_flag=True, help="List the results that there are.")
@click.option("--forget", metavar="NUMBER", type=click.IntRange(1), help="Delete a result.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    place: CrawlPlace,
    levels: tuple[str, ...],
    nofollow: bool,
    damping: float,
    registers: int | None,
    exact: bool,
    memory_mb: int,
    work: Path | None,
    again: bool,
    is_list: bool,
    forget: int | None,
    as_json: bool,
) -> ExitCode:
    """Rank the hosts, domains and pages of the crawl in DIR by the links that it has stored."""
    from lycosa.inspect.ranks.counted_links import LEADING_KINDS
    from lycosa.state.ranks.rank_results import RankOptions, RankResults

    with _opened(place, not is_list and forget is None) as crawl:
        results = RankResults(crawl.store)
        if forget is not None:
            return _forget(results, forget, as_json)
        if is_list:
            return _list(results, as_json)
        options = RankOptions(LEADING_KINDS, nofollow, damping, registers=registers or 0)
        if exact:
            options = RankOptions(LEADING_KINDS, nofollow, damping, exact_up_to=2**62)
        found = None if again else _present(crawl.reader, results, options, levels)
        if found is None:
            found = _compute(crawl, work or crawl.work, results, options, levels, memory_mb)
        elif not as_json:
            emit(f"nothing new since result {found.number}; --again computes it again")
    if as_json:
        emit_json(_document(found))
    else:
        _report(found)
        where = shlex.quote(str(place.cluster or place.folder))
        option = "--cluster " if place.cluster else ""
        emit(f"let the crawl go by these ranks: lycosa use-ranks {option}{where}")
    return ExitCode.FINISHED


class _Opened(NamedTuple):
    """A crawl, where its results go, and the folder for a run's files."""

    reader: CrawlReader
    store: Any
    work: Path


@contextmanager
def _opened(place: CrawlPlace, reads_links: bool) -> Iterator[_Opened]:
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.state.objects.folder import FolderStore
    from lycosa.state.ranks.rank_results import WORK_FOLDER

    if place.cluster is None:
        with reading_crawl(place) as reader:
            store = FolderStore(str(place.folder), place.folder)
            yield _Opened(reader, store, place.folder / WORK_FOLDER)
        return
    with opened_cluster(place) as opened:
        if reads_links:
            opened.view.open_shards()
            tell_age(opened.view)
        yield _Opened(CrawlReader(opened.view), opened.objects, opened.cache / "ranks")


def _present(
    reader: CrawlReader, results: RankResults, options: RankOptions, levels: Sequence[str]
) -> RankManifest | None:
    """The newest result, if it is what would be computed now."""
    from lycosa.inspect.ranks.counted_links import links_digest

    numbers = results.numbers()
    if not numbers:
        return None
    newest = results.read_manifest(numbers[-1])
    is_same = newest.options == options and list(newest.levels) == list(levels)
    return newest if is_same and newest.links_digest == links_digest(reader) else None


def _compute(
    crawl: _Opened,
    work: Path,
    results: RankResults,
    options: RankOptions,
    levels: tuple[str, ...],
    memory_mb: int,
) -> RankManifest:
    from lycosa.inspect.ranks.rank_run import RankRun
    from lycosa.inspect.ranks.work_files import delete_work, work_folder

    line = ProgressLine()
    with work_folder(work, options, levels) as files:
        if files.is_resumed:
            line.say("continuing the run that was interrupted, over the links of its beginning")
        try:
            run = RankRun(crawl.reader, results, files, options, levels, memory_mb, _telling(line))
            found = run.run(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        except KeyboardInterrupt:
            line.say("the same command continues this run")
            raise
        finally:
            line.clear()
        delete_work(work)
    return found


def _telling(line: ProgressLine) -> Callable[[RankProgress], None]:
    def show(progress: RankProgress) -> None:
        detail = f": {progress.detail}" if progress.detail else ""
        line.show(f"step {progress.step} of {progress.steps}, {progress.text}{detail}")

    return show


def _document(manifest: RankManifest) -> object:
    import msgspec

    return msgspec.to_builtins(manifest)


def _report(manifest: RankManifest) -> None:
    emit(
        f"result {manifest.number}: {counted(manifest.links, 'link')} of"
        f" {counted(manifest.captures, 'page')}, in ranks/{manifest.number}/"
    )
    emit_table(
        ["level", "vertices", "edges", "dangling", "PageRank", "harmonic centrality", "radius"],
        [
            [
                level,
                f"{of.vertices:,}",
                f"{of.edges:,}",
                f"{of.dangling:,}",
                f"{of.pagerank_steps} steps",
                of.harmonic + (f", 2^{of.registers} registers" if of.registers else ""),
                str(of.radius),
            ]
            for level, of in manifest.levels.items()
        ],
    )


def _list(results: RankResults, as_json: bool) -> ExitCode:
    found = [results.read_manifest(number) for number in results.numbers()]
    if as_json:
        emit_json({"results": [_document(each) for each in found]})
    elif not found:
        click.echo("lycosa: no result yet; the command without --list makes one", err=True)
    else:
        emit_table(
            ["result", "made", "segments", "pages", "links", "levels"],
            [
                [
                    str(each.number),
                    each.created,
                    f"{len(each.segments):,}",
                    f"{each.captures:,}",
                    f"{each.links:,}",
                    ", ".join(each.levels),
                ]
                for each in found
            ],
        )
    return ExitCode.FINISHED


def _forget(results: RankResults, number: int, as_json: bool) -> ExitCode:
    results.read_manifest(number)  # raises when there is none
    deleted = results.forget(number)
    if as_json:
        emit_json({"forgotten": number, "files": deleted})
    else:
        emit(f"result {number}: {counted(deleted, 'file')} deleted")
    return ExitCode.FINISHED
