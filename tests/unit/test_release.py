"""``script/release``: what it refuses, and a dry run and a release in a clone, without packages."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout of git"),
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen, to sign"),
]


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, folder / "script" / "release", *words, "--offline", "--image=never"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of what is here, with changes that are in no commit yet as a commit."""
    folder = tmp_path / "clone"
    git(ROOT, "clone", "--quiet", "--shared", "--no-tags", str(ROOT), str(folder))
    changes = git(ROOT, "diff", "HEAD", "--binary")
    subprocess.run(["git", "apply", "--allow-empty"], cwd=folder, input=changes + "\n", text=True)
    for key, value in (("user.name", "Test"), ("user.email", "test@example.org")):
        git(folder, "config", key, value)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "Changes")
    return folder


def test_a_release_is_a_commit_a_tag_and_files_that_agree(clone: Path) -> None:
    before = git(clone, "rev-parse", "HEAD")
    sent = release(clone, "0.9.0", "--push=127.0.0.1:1/lycosa")
    assert sent.returncode == 1 and "--push needs images" in sent.stderr
    (clone / "README.md").write_text("changed")
    changed = release(clone, "0.9.0")
    assert changed.returncode == 1 and "README.md" in changed.stderr
    assert not (clone / "dist").exists()
    git(clone, "checkout", "--quiet", "README.md")
    key = clone.parent / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    done = release(clone, "0.9.0", "--sign-key", str(key))
    assert done.returncode == 0, done.stderr
    made = clone / "dist" / "0.9.0"
    files = {"lycosa-0.9.0-py3-none-any.whl", "lycosa-0.9.0.tar.gz"}
    sums = (made / "SHA256SUMS").read_text("utf-8").splitlines()
    assert {line.split()[1] for line in sums} == files
    for line in sums:
        digest, name = line.split()
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    signers = clone.parent / "signers"
    signers.write_text(f"lycosa {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-I", "lycosa", "-n", "lycosa-release"]
    with (made / "SHA256SUMS").open() as signed:
        told = subprocess.run(
            [*verify, "-s", "SHA256SUMS.sig", "-f", signers], cwd=made, stdin=signed, check=False
        )
    assert told.returncode == 0
    assert git(clone, "rev-parse", "v0.9.0^{commit}") == git(clone, "rev-parse", "HEAD") != before
    assert git(clone, "log", "-1", "--format=%s") == "Release 0.9.0"
    assert "Lycosa 0.9.0" in git(clone, "tag", "--list", "--format=%(contents)")
    for name in ("pyproject.toml", "CITATION.cff", "deploy/helm/lycosa/Chart.yaml", "README.md"):
        text = (clone / name).read_text("utf-8")
        assert "0.9.0" in text
        assert not re.search(r"lycosa[/-]0\.1\.0|ersion[:= \"]+0\.1\.0", text)
    assert re.search(
        r"(?m)^## 0\.9\.0, 20\d\d-\d\d-\d\d$", (clone / "CHANGELOG.md").read_text("utf-8")
    )
    again = release(clone, "0.9.0")
    assert again.returncode == 1 and "the tag v0.9.0 exists" in again.stderr
    less = release(clone, "0.8.9")
    assert less.returncode == 1 and "0.9.0 was released; 0.8.9 is less" in less.stderr
    empty = release(clone, "1.0.0")
    assert empty.returncode == 1 and "has no section" in empty.stderr


@pytest.mark.long
def test_a_dry_run_makes_the_same_files_and_changes_nothing(clone: Path) -> None:
    before = git(clone, "rev-parse", "HEAD")
    sums = []
    for words in (["--dry-run"], []):
        done = release(clone, "0.9.0", *words)
        assert done.returncode == 0, done.stderr
        sums.append((clone / "dist" / "0.9.0" / "SHA256SUMS").read_text("utf-8"))
        if words:
            assert "dry run: no commit and no tag" in done.stdout
            now = [git(clone, *each) for each in (["rev-parse", "HEAD"], ["tag"], ["status", "-s"])]
            assert now == [before, "", ""]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0-beta", ""])
def test_what_is_no_version_is_refused(version: str) -> None:
    done = release(ROOT, version, "--dry-run")
    assert done.returncode == 1 and "is not a version" in done.stderr


def test_an_image_is_signed_only_in_a_registry() -> None:
    key = release(ROOT, "9.0.0", "--dry-run", "--image-key=cosign.key")
    assert key.returncode == 2 and "--image-key needs --push" in key.stderr


def test_the_tools_of_a_release_are_locked() -> None:
    lock = (ROOT / "requirements" / "release.txt").read_text("utf-8")
    assert {"cyclonedx-bom", "twine"} <= set(re.findall(r"(?m)^([\w.-]+)==", lock))
    assert "://" not in lock and "pyarrow" not in lock
