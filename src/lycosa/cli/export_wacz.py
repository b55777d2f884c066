"""What ``lycosa export DIR wacz`` writes and tells."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lycosa.cli.output import ExitCode, clean, counted, emit_json, human_bytes

if TYPE_CHECKING:
    from lycosa.base.preferences.use_policy import UsePolicy
    from lycosa.inspect.committed_state import CrawlReader
    from lycosa.inspect.wacz.wacz_export import WaczReport

_SUFFIX = ".wacz"


def run_wacz(
    reader: CrawlReader,
    output: str,
    policy: UsePolicy | None,
    key_file: Path | None,
    title: str,
    as_json: bool,
) -> ExitCode:
    """Write the crawl as one file, for ``policy`` or the purpose of the crawl."""
    from lycosa.base.preferences.use_policy import agent_policy
    from lycosa.base.signing.archive_key import load_archive_key
    from lycosa.inspect.saved_settings import load_saved_settings
    from lycosa.inspect.wacz.wacz_export import write_wacz

    policy = policy or agent_policy(load_saved_settings(reader).config.agent)
    key = load_archive_key(key_file) if key_file else None
    if output != "-":
        if Path(output).suffix.lower() != _SUFFIX:
            raise click.UsageError(
                f"--output {output}: the name of a WACZ file ends with {_SUFFIX}, by which readers"
                " know it"
            )
        report = write_wacz(reader, Path(output), policy, key, title)
        _tell(report, output, as_json)
        return ExitCode.FINISHED
    if sys.stdout.isatty():
        raise click.UsageError("a WACZ file is not printed on a terminal: give --output FILE.wacz")
    with tempfile.TemporaryDirectory(prefix="lycosa-export-") as temporary:
        # a ZIP file ends with its directory, and its entries begin with their lengths
        path = Path(temporary) / f"crawl{_SUFFIX}"
        write_wacz(reader, path, policy, key, title)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return ExitCode.FINISHED


def _tell(report: WaczReport, output: str, as_json: bool) -> None:
    if as_json:
        emit_json({"output": output, "table": "wacz", "format": "wacz", **asdict(report)})
        return
    lines = [
        f"{counted(report.captures, 'capture')} and {counted(report.pages, 'page')} of"
        f" {counted(report.segments, 'segment')} in {output}, {human_bytes(report.size)}"
    ]
    if report.left_out:
        lines.append(
            f"{counted(report.left_out, 'capture')} left out: the purpose may not use them"
        )
    if report.private:
        lines.append(
            f"{counted(report.private, 'capture')} left out: private, because fetched with"
            " credentials; --private adds them"
        )
    if report.elsewhere:
        lines.append(
            f"{counted(report.elsewhere, 'revisit')} without the body, which is not in this crawl:"
            " replay the file together with the earlier crawl that has it"
        )
    if report.public_key:
        lines.append(f"signed by {report.public_key}")
    for line in lines:
        click.echo(clean(line), err=True)
