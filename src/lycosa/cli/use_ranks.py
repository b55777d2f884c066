"""``lycosa use-ranks``: let a crawl go by the ranks of a link graph."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lycosa.cli.callable_crawl import change_live_settings, crawl_runs, remark_options
from lycosa.cli.cluster_parts import reachable_cluster
from lycosa.cli.crawl_reading import CrawlCommand, CrawlPlace, crawl_place
from lycosa.cli.output import ExitCode, counted, emit, emit_json

if TYPE_CHECKING:
    from lycosa.state.objects.objects_port import ObjectStore
    from lycosa.state.ranks.rank_set import RankSet
    from lycosa.state.ranks.rank_sources import RankSource

_EPILOG = """
\b
Examples:
  lycosa use-ranks crawls/news                           the newest result of `lycosa rank`
  lycosa use-ranks crawls/news crawls/news/ranks/3       that one
  lycosa use-ranks crawls/new crawls/old                 the newest result of another crawl
  lycosa use-ranks crawls/news cc-main-2026-host-ranks.txt.gz   of Common Crawl's web graphs
  lycosa use-ranks --cluster cluster.toml cc-main-2026-host-ranks.txt.gz
  lycosa use-ranks crawls/news --none                    go by links alone again

The crawl may be running. What waits keeps its place; a host whose rank is higher than its URLs were
queued with gets a better place when it lines up next. `lycosa docs priority` says how ranks count.

\b
Exit codes: 0 done, 1 the crawl does not answer, 2 bad usage, or a file that is no file of ranks
"""


@click.command(
    "use-ranks",
    cls=CrawlCommand,
    epilog=_EPILOG,
    short_help="Let a crawl go by the ranks of a link graph.",
)
@crawl_place
@click.argument("sources", nargs=-1, metavar="[FILE|FOLDER]...", type=click.Path(path_type=Path))
@click.option("--none", "is_none", is_flag=True, help="Go by no ranks.")
@remark_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def command(
    place: CrawlPlace,
    sources: tuple[Path, ...],
    is_none: bool,
    why: str,
    by: str,
    as_json: bool,
) -> int:
    """Order a crawl by ranks of hosts and pages, from now on.

    FILE has ranks of hosts or of pages in the form of Common Crawl's web graphs; several are
    joined. FOLDER is a result of `lycosa rank`, or a crawl folder, of which the newest counts.
    Without any, the newest result of the crawl itself is used. DIR is the crawl folder; leave it
    out with --cluster.
    """
    if is_none and sources:
        raise click.UsageError("--none and ranks: give one of them")
    digest, found = ("", None) if is_none else _stored(place, sources)
    change_live_settings(place, {"priority.ranks": digest}, by, why)
    if as_json:
        about = (
            {"source": found.source, "hosts": found.hosts, "pages": found.pages} if found else {}
        )
        emit_json({"ranks": digest, **about})
        return ExitCode.FINISHED
    if found is None:
        emit("no ranks are used any more")
    else:
        emit(f"{counted(found.hosts, 'host')} and {counted(found.pages, 'page')} have ranks:")
        emit(f"  {found.source}")
        emit(f"  priority.ranks = {digest}")
    if not crawl_runs(place):
        emit("the crawl does not run; its next run goes by this")
    return ExitCode.FINISHED


def _about(found: RankSet) -> dict[str, Any]:
    return {"source": found.source, "hosts": found.hosts, "pages": found.pages}


def _stored(place: CrawlPlace, sources: Sequence[Path]) -> tuple[str, RankSet | None]:
    """Make the files where the workers find them; returns their digest."""
    from lycosa.base.config.sources import SettingsError
    from lycosa.state.ranks.rank_results import RanksError

    for path in sources:
        if not path.exists():
            raise click.UsageError(f"there is no file or folder {path}")
    try:
        return (
            _in_cluster(place.cluster, sources)
            if place.cluster
            else _in_folder(place.folder, sources)
        )
    except RanksError as error:
        raise SettingsError([str(error)]) from error


def _in_folder(folder: Path, sources: Sequence[Path]) -> tuple[str, RankSet]:
    from lycosa.base.urls.identity import partition_of
    from lycosa.state.folder.manifest import load_manifest
    from lycosa.state.folder.names import crawl_sites
    from lycosa.state.objects.folder import FolderStore
    from lycosa.state.ranks.rank_set import read_rank_set
    from lycosa.state.ranks.rank_sources import given_source, use_source

    identity = load_manifest(folder).identity
    site_of, number = crawl_sites(folder, identity.suffixes).site_of, identity.partitions
    source = given_source(sources or [folder])
    digest = use_source(folder, number, lambda host: partition_of(site_of(host), number), source)
    return digest, read_rank_set(FolderStore(str(folder), folder), digest)


def _in_cluster(file: Path, sources: Sequence[Path]) -> tuple[str, RankSet]:
    from lycosa.base.urls.identity import partition_of
    from lycosa.cluster.shards.stored_crawl import SUFFIXES_NAME, newest_manifest, stored_sites
    from lycosa.state.objects.store_opening import open_store
    from lycosa.state.ranks.rank_set import read_rank_set, upload_rank_set
    from lycosa.state.ranks.rank_sources import use_source

    store = open_store(reachable_cluster(file).objects)
    number = newest_manifest(store)[0].identity.partitions
    site_of = stored_sites(store.get(SUFFIXES_NAME)).site_of
    source = _cluster_source(store, sources)
    with tempfile.TemporaryDirectory(prefix="lycosa-ranks-") as work:
        owner_of: Callable[[str], int] = lambda host: partition_of(site_of(host), number)  # noqa: E731  two arguments of one line
        digest = use_source(Path(work), number, owner_of, source)
        upload_rank_set(Path(work), store, digest)
    return digest, read_rank_set(store, digest)


def _cluster_source(store: ObjectStore, sources: Sequence[Path]) -> RankSource:
    from lycosa.state.ranks.rank_results import RankResults, RanksError
    from lycosa.state.ranks.rank_sources import given_source, result_source

    if sources:
        return given_source(sources)
    results = RankResults(store)
    numbers = results.numbers()
    if not numbers:
        raise RanksError("the crawl has no ranks; `lycosa rank --cluster FILE` computes them")
    return result_source(results, numbers[-1])
