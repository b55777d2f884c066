"""The folder of a link check: its crawls, and the reports of earlier runs.

    FOLDER/check.json   the seeds, and whether the crawl of the site ended
    FOLDER/pages/       the crawl of the site, made again by each run
    FOLDER/own/         the crawl of single URLs of the site that are no page of it
    FOLDER/others/      that of URLs of other sites, and places/ of those with named places
    FOLDER/reports/     one JSON report a run, the newest 100

For a crawl that exists, the site is that crawl, and the rest is in its folder ``link-check``.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lycosa.base.system.durable import replace_file
from lycosa.inspect.linked.link_findings import LinkReport
from lycosa.inspect.linked.report_files import read_report, written
from lycosa.state.folder.manifest import has_manifest

_KEPT = 100
_IN_CRAWL = "link-check"


class BadReport(Exception):
    """There is no earlier report as the user named it; the message says what there is."""


class CheckNote(msgspec.Struct, frozen=True):
    """``check.json``. ``is_complete``: the crawl of the site ended; the next run makes another."""

    seeds: list[str]
    is_complete: bool = False


class CheckFolder:
    """``root`` is the folder of the check, ``pages`` that of the crawl of the site.

    ``is_given`` says that the crawl existed before, so it is only read.
    """

    def __init__(self, root: Path, pages: Path, is_given: bool = False) -> None:
        self.root, self.pages, self.is_given = root, pages, is_given
        self._note = root / "check.json"
        self._reports = root / "reports"

    @classmethod
    def of_crawl(cls, folder: Path) -> CheckFolder:
        """The check of a crawl that exists."""
        return cls(folder / _IN_CRAWL, folder, is_given=True)

    @classmethod
    def of_site(cls, root: Path) -> CheckFolder:
        """The check of a site, with a separate crawl."""
        return cls(root, root / "pages")

    @property
    def seeds(self) -> list[str]:
        """The seeds of the last run; none before the first."""
        return self._noted().seeds

    def begin(self, seeds: Sequence[str]) -> bool:
        """Prepare a run: a crawl that ended is deleted. Returns whether an unfinished one resumes.

        The folder must be locked.
        """
        note = self._noted()
        is_unfinished = (
            has_manifest(self.pages) and not note.is_complete and note.seeds == list(seeds)
        )
        if not is_unfinished and self.pages.exists():
            shutil.rmtree(self.pages)
        self._save(CheckNote(list(seeds)))
        return is_unfinished

    def note_complete(self) -> None:
        """Note that the crawl of the site ended."""
        self._save(CheckNote(self._noted().seeds, True))

    def save_report(self, report: LinkReport) -> Path:
        """Keep a report for later comparisons; returns its file."""
        self._reports.mkdir(parents=True, exist_ok=True)
        name = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")
        file = self._reports / f"{name}.json"
        replace_file(file, written(report, "json").encode())
        for old in self._files()[:-_KEPT]:
            old.unlink(missing_ok=True)
        return file

    def earlier(self, text: str) -> LinkReport | None:
        """The report that ``--since`` names: ``last``, a file, or the newest one up to a time.

        ``None`` when there is no last one yet. Raises ``BadReport``.
        """
        files = self._files()
        if text != "last" and Path(text).is_file():
            return _read(Path(text))
        reports = [_read(file) for file in reversed(files)]
        if text != "last":
            moment = _moment(text)
            if moment > _time_text(datetime.now(UTC)):
                raise BadReport(f"{text} is in the future; there is no report of then")
            reports = [each for each in reports if each.ended <= moment]
        if not reports:
            if text == "last":
                return None
            raise BadReport(f"there is no report up to {text} in {self._reports}")
        return reports[0]

    def _files(self) -> list[Path]:
        return sorted(self._reports.glob("*.json")) if self._reports.is_dir() else []

    def _noted(self) -> CheckNote:
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=CheckNote)
        except (FileNotFoundError, msgspec.MsgspecError):
            return CheckNote([])  # a new folder, or one whose note was cut: the crawl begins again

    def _save(self, note: CheckNote) -> None:
        replace_file(self._note, msgspec.json.encode(note))


def is_check(folder: Path) -> bool:
    """Whether a folder is that of a check of a site."""
    return (folder / "check.json").is_file()


def _read(file: Path) -> LinkReport:
    try:
        return read_report(file.read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise BadReport(f"{file} is not a JSON report of `lycosa check links`: {error}") from error


def _moment(text: str) -> str:
    """A time as in reports; a span as ``2d`` is in the past. Raises ``BadReport``."""
    from lycosa.base.config.units import read_moment

    try:
        return _time_text(datetime.fromtimestamp(read_moment(text, time.time()), UTC))
    except ValueError:
        raise BadReport(
            f"{text!r} is neither a file nor a time; write last, 2026-01-31T12:00:00 (UTC), 2d,"
            " or the file of a JSON report"
        ) from None


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
