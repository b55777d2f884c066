"""``lycosa extract``: items from stored captures, without a request."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from lycosa.cli.crawl_reading import ProgressLine
from lycosa.cli.output import ExitCode, clean, counted, emit, emit_json, human_count
from lycosa.cli.setting_options import set_option

if TYPE_CHECKING:
    from lycosa.feeds.extraction.extraction_place import ExtractionPlace
    from lycosa.feeds.extraction.extraction_run import ExtractionProgress, ExtractionReport
    from lycosa.feeds.extraction.extraction_versions import ExtractionKind

_EPILOG = """
\b
Examples:
  lycosa extract crawls/shop.example ./shop.py:products            items of captures that have none
  lycosa extract crawls/shop.example ./shop.py:products --again    a new version, after a correction
  lycosa extract crawls/shop.example ./shop.py:products --failed   only where the code had failed
  lycosa extract crawls/shop.example ./shop.py:products --watch    try it on pages, while you write
  lycosa extract crawls/shop.example --forget products 2           remove version 2
  lycosa extract --cluster cluster.toml shop.extractors:products --again
  lycosa extract --warc CC-MAIN-*.warc.gz ./shop.py:products --to out/

No request is sent. The crawl may run: nothing is locked, and its own files stay as they are. Tables
are made of closed segments; give the command again for those that close later, or --follow. It may
be interrupted, killed, and run on several machines at once: the same command continues. Readers
(`lycosa sql`, `lycosa feed`) see a version when it is complete, and until then the one before.

With --sample N the code is tried on N stored pages, and with --watch again at each change of it:
items are printed and nothing is stored. The exit code is 2 if it failed on one of them.

Code that is corrected makes a new version; the same code continues its version. In a crawl the
items of pages are made while they are fetched: `lycosa crawl ... --extension ./shop.py:products`.
With --warc FILE... WARC files of other programs are read, and --to gets the tables.
"""


_SAMPLE = 20


class _Asked(NamedTuple):
    """What the arguments mean."""

    folder: Path | None
    files: tuple[Path, ...]
    code: str
    version: int | None


@click.command(
    "extract",
    epilog=_EPILOG,
    short_help="Items from stored captures by your code, without a request.",
)
@click.argument("arguments", nargs=-1, metavar="[DIR|FILE...] FILE.py:NAME|MODULE:NAME")
@click.option(
    "--cluster",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The crawl of this cluster.toml; leave DIR out.",
)
@click.option("--warc", "is_warc", is_flag=True, help="Read these WARC files of other programs.")
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --warc: the folder for the tables.",
)
@click.option("--again", is_flag=True, help="Make a new version of all items.")
@click.option(
    "--failed",
    is_flag=True,
    help="Make a new version, in which only captures are extracted again at which the code failed.",
)
@click.option("--forget", is_flag=True, help="Remove a version: DIR NAME [VERSION].")
@click.option("--follow", is_flag=True, help="Also segments that close later, until interrupted.")
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="Try the code on N stored pages, print what it finds, and store nothing.",
)
@click.option("--watch", is_flag=True, help="With --sample [20]: again at each change of the code.")
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Processes that run the code [one for each core].",
)
@set_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    arguments: tuple[str, ...],
    cluster: Path | None,
    is_warc: bool,
    target: Path | None,
    again: bool,
    failed: bool,
    forget: bool,
    follow: bool,
    sample: int | None,
    watch: bool,
    processes: int | None,
    pairs: tuple[str, ...],
    as_json: bool,
) -> ExitCode:
    """Run your code over the stored captures of the crawl in DIR, and store the items it makes."""
    from lycosa.feeds.extraction.extraction_versions import ExtractionKind

    if sum((again, failed, forget)) > 1:
        raise click.UsageError("--again, --failed and --forget exclude each other")
    chosen = {"--again": again, "--failed": failed, "--forget": forget, "--follow": follow}
    others = [name for name, is_given in chosen.items() if is_given]
    size = _sample_size(sample, watch, others + (["--to"] if target else []))
    is_odd = is_warc != (target is not None) and not size
    if is_odd or (is_warc and (cluster or follow)):
        raise click.UsageError("--warc and --to belong together, without --cluster and --follow")
    asked = _asked(arguments, is_warc, cluster is not None, forget)
    line = ProgressLine()
    with _place(asked, cluster, target, line) as place:
        if forget:
            return _forget(place, asked, as_json)
        if size:
            return _try_sample(place, asked.code, size, watch, processes, pairs, as_json, line)
        mode = (
            ExtractionKind.AGAIN
            if again
            else ExtractionKind.FAILED
            if failed
            else ExtractionKind.FILL
        )
        reports = asyncio.run(_extract(place, asked.code, mode, follow, processes, pairs, line))
    if as_json:
        import msgspec

        emit_json({"extractors": [msgspec.to_builtins(each) for each in reports]})
        return ExitCode.FINISHED
    for report in reports:
        for text in _report_lines(report):
            emit(clean(text))
    return ExitCode.FINISHED


def _sample_size(size: int | None, is_watching: bool, others: list[str]) -> int:
    """The number of pages to try; 0 if nothing is to be tried. Raises ``click.UsageError``."""
    if not (size or is_watching):
        return 0
    if others:
        raise click.UsageError(
            f"--sample and --watch store nothing, so {' and '.join(others)} cannot be given too"
        )
    return size or _SAMPLE


def _asked(
    arguments: tuple[str, ...], is_warc: bool, is_cluster: bool, is_forgetting: bool
) -> _Asked:
    """Tell the arguments apart. Raises ``click.UsageError``."""
    rest = list(arguments)
    folder = None
    if not is_cluster and not is_warc:
        if not rest:
            raise click.UsageError("give the crawl's folder and the code: DIR ./FILE.py:NAME")
        folder = Path(rest.pop(0))
        if ":" in folder.name and not folder.exists():
            raise click.UsageError(
                f"{folder} is the code; the folder of the crawl comes first: DIR {folder}"
            )
    if is_forgetting:
        if len(rest) not in (1, 2) or (len(rest) == 2 and not rest[1].isdecimal()):
            raise click.UsageError("--forget needs the name of an extractor and perhaps a version")
        return _Asked(folder, (), rest[0], int(rest[1]) if len(rest) == 2 else None)
    if not rest or ":" not in rest[-1]:
        raise click.UsageError(
            "the last argument is the code: ./FILE.py:NAME or PACKAGE.MODULE:NAME"
        )
    code = rest.pop()
    if bool(rest) != is_warc:
        raise click.UsageError(
            "--warc needs files" if is_warc else f"what is {rest[0]}? one crawl, one code"
        )
    return _Asked(folder, tuple(map(Path, rest)), code, None)


@contextmanager
def _place(
    asked: _Asked, cluster: Path | None, target: Path | None, line: ProgressLine
) -> Iterator[ExtractionPlace]:
    from lycosa.base.system.private_folder import private_folder
    from lycosa.feeds.extraction.extraction_place import cluster_place, files_place, folder_place

    if cluster is not None:
        from lycosa.base.config.cluster_file import read_cluster_file

        with cluster_place(read_cluster_file(cluster)) as place:
            yield place
    elif target is not None:
        yield files_place(asked.files, target, line.say)
    elif asked.files:  # a sample, of which nothing is stored
        with private_folder("sample") as unused:
            yield files_place(asked.files, unused, line.say)
    else:
        assert asked.folder is not None
        yield folder_place(asked.folder)


def _try_sample(
    place: ExtractionPlace,
    name: str,
    size: int,
    is_watching: bool,
    processes: int | None,
    pairs: tuple[str, ...],
    as_json: bool,
    line: ProgressLine,
) -> ExitCode:
    from lycosa.base.config.sources import load_settings
    from lycosa.base.system.machine import cores
    from lycosa.cli.extract_sample import SampleRun

    config = load_settings(None, os.environ, pairs, base=place.config).config
    run = SampleRun(
        place.source, config, name, size, min(processes or cores(), size), as_json, line.say
    )
    return run.watch() if is_watching else run.run_once()


async def _extract(
    place: ExtractionPlace,
    name: str,
    mode: ExtractionKind,
    follow: bool,
    processes: int | None,
    pairs: tuple[str, ...],
    line: ProgressLine,
) -> list[ExtractionReport]:
    """Extract with each extractor of the code."""
    from lycosa.base.config.sources import load_settings
    from lycosa.base.model.known_code import KnownCode
    from lycosa.base.system.clock import SystemClock
    from lycosa.base.system.machine import cores
    from lycosa.feeds.extraction.code_pool import CodePool
    from lycosa.feeds.extraction.extraction_run import CodeToRun, ExtractionRun
    from lycosa.feeds.extraction.extraction_versions import ExtractionRefused
    from lycosa.stages.extract.code_check import described

    config = load_settings(None, os.environ, pairs, base=place.config).config
    section, path = config.extensions, [each for each in sys.path if each]
    (code,) = described([KnownCode(name)], section, path)
    if not code.schemas:
        raise ExtractionRefused(f"{name} has no extractor: no function with @lycosa.extract")
    if follow and len(code.schemas) > 1:
        raise click.UsageError("--follow needs code with one extractor")
    reports = []
    for part in code.parts:
        if part.kind != "extractor":
            continue
        pool = CodePool(
            code, section, config.canonical, SystemClock(), processes or cores(), path, line.say
        )
        run = ExtractionRun(
            place.source,
            place.store,
            CodeToRun(part.schema, part.match, code.digest, name),
            pool.ask,
            pool.at_once,
            _Telling(line),
        )
        try:
            reports.append(await run.run(mode, follow))
        finally:
            line.clear()
            await pool.close()
    return reports


class _Telling:
    """Shows progress with the rate since the start."""

    def __init__(self, line: ProgressLine) -> None:
        self._line, self._began = line, time.monotonic()

    def __call__(self, progress: ExtractionProgress) -> None:
        rate = progress.captures / max(time.monotonic() - self._began, 0.001)
        waits = f"; waits for {progress.waits_for}" if progress.waits_for else ""
        self._line.show(
            f"{progress.name} version {progress.version}: {progress.ready} of"
            f" {counted(progress.segments, 'segment')}, {counted(progress.captures, 'capture')}"
            f" ({human_count(rate)} a second), {counted(progress.items, 'item')},"
            f" {progress.failed} failed{waits}"
        )


def _report_lines(report: ExtractionReport) -> list[str]:
    name = f"{report.name} version {report.version}"
    lines = [
        f"{name}: {counted(report.items, 'item')} of {counted(report.captures, 'capture')} in"
        f" {counted(report.made, 'segment')}"
        if report.made
        else f"{name}: nothing to do, no capture failed in it"
        if report.base
        else f"{name}: nothing to do, it is made of {counted(report.segments, 'closed segment')};"
        " --again makes a new version, with corrected code"
    ]
    if report.failed:
        lines.append(
            f"{counted(report.failed, 'capture')} failed; --failed extracts them again, with"
            " corrected code:"
        )
        lines += [f"  {each}" for each in report.failures]
    if report.open_segments:
        lines.append(
            f"{counted(report.open_segments, 'segment')} of the crawl not closed yet; give the"
            " command again later"
        )
    return lines


def _forget(place: ExtractionPlace, asked: _Asked, as_json: bool) -> ExitCode:
    from lycosa.feeds.extraction.extraction_place import forget_version

    found = forget_version(place, asked.code, asked.version)
    if as_json:
        emit_json(
            {"name": asked.code, "removed": {str(key): value for key, value in found.items()}}
        )
        return ExitCode.FINISHED
    for version, tables in found.items():
        emit(f"{asked.code} version {version}: {counted(tables, 'table')} removed")
    return ExitCode.FINISHED
