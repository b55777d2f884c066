"""The audit of files that were removed after their upload: their store must have them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crawling import Pages, crawl_folder, page
from lycosa.base.config.sections import UploadSection
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.inspect.audit.audit_report import AuditReport, Check
from lycosa.inspect.audit.crawl_audit import AuditOptions
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.folder.upload import Upload
from lycosa.state.objects.folder import FolderStore
from lycosa.state.store.removed_files import removed_files

SEED = "http://a.test/"
WEB = {SEED: page("/1", "/2"), f"{SEED}1": page(text="one"), f"{SEED}2": page(text="two")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished crawl whose segments are in the folder ``disk`` next to it alone."""
    found, disk = tmp_path / "crawl", tmp_path / "disk"
    disk.mkdir()
    crawl_folder(found, Pages(WEB), [SEED])
    section = UploadSection(url=disk.as_uri(), remove=True)
    upload = Upload(found, section, FolderStore(section.url, disk))
    for file in upload.waiting(is_final=True):
        upload.put(file)
    for segment in upload.removable(is_final=True):
        upload.remove(segment)
    assert len(removed_files(found)) == 5
    return found


def run(folder: Path) -> AuditReport:
    return audit(folder, AuditOptions(sample=0))


def removed_check(report: AuditReport) -> Check:
    return next(check for check in report.checks if check.name == "removed")


def stored(folder: Path, kind: str) -> Path:
    (path,) = (folder.parent / "disk" / kind).iterdir()
    return path


def test_a_store_that_has_everything_is_no_breach(folder: Path) -> None:
    report = run(folder)
    assert (report.is_clean, report.unread, removed_check(report).checked) == (True, [], 5)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ["warc", "cdxj", "pages", "links", "text"])
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (Path.unlink, "does not have it"),
        (lambda path: path.write_bytes(b"short"), "has 5 bytes of its "),
        (flip, "has another content of it"),
    ],
)
def test_an_object_that_is_missing_or_another_one_is_a_breach(
    folder: Path, kind: str, damage: Callable[[Path], None], told: str
) -> None:
    path = stored(folder, kind)
    damage(path)
    report = run(folder)
    (breach,) = removed_check(report).first
    assert breach.startswith(f"{kind}/{path.name} was removed here, and file://")
    assert told in breach


def test_an_archive_that_is_nowhere_fails_the_audit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("warc", "cdxj", "pages", "links", "text"):
        shutil.rmtree(folder.parent / "disk" / kind)
    assert main(["audit", str(folder)]) == ExitCode.INTERNAL
    out = capsys.readouterr().out
    assert "5 breaches" in out
    assert "Every check" not in out


def test_a_store_that_cannot_be_read_is_named_and_no_breach(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "disk").rename(folder.parent / "unmounted")
    assert main(["audit", str(folder)]) == ExitCode.FINISHED
    out = capsys.readouterr().out
    assert "Not everything was checked. Not read:" in out
    assert "5 files that were removed here after their upload: file://" in out
    assert "WARC records of such files" in out
    assert "Every check that was made passed" in out
    assert "Every check passed" not in out


def test_a_file_that_was_copied_back_is_checked_here(folder: Path) -> None:
    path = stored(folder, "warc")
    shutil.move(path, folder / "warc" / path.name)
    report = run(folder)
    assert (report.is_clean, removed_check(report).checked) == (True, 4)
