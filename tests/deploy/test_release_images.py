"""Images of ``script/release``: their digests, lists of packages, and signatures in a registry.

The archives have the form of OCI and a few files; the registry, skopeo and cosign are real.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import runpy
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
RELEASE: dict[str, Any] = runpy.run_path(str(ROOT / "script" / "release"))
PLATFORMS = ("amd64", "arm64")
SITE = "opt/lycosa/lib/python3.13/site-packages"
STATUS = """\
Package: libc6
Status: install ok installed
Version: {version}

Package: gone
Status: deinstall ok config-files
Version: 1
"""
BASE = {
    "var/lib/dpkg/status": STATUS.format(version="2.41-12"),
    "usr/lib/python3/dist-packages/pip-25.1.dist-info/METADATA": "Name: pip\nVersion: 25.1\n",
    f"{SITE}/old-1.0.dist-info/METADATA": "Name: old\nVersion: 1.0\n",
}
OURS = {
    "var/lib/dpkg/status": STATUS.format(version="1:2.41+deb13u1"),
    "usr/lib/python3/.wh.dist-packages": "",
    f"{SITE}/.wh.old-1.0.dist-info": "",
    f"{SITE}/backports_zstd-1.8.0.dist-info/METADATA": "Name: backports_zstd\nVersion: 1.8.0\n\nx",
}


def tar(files: dict[str, bytes], compression: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def oci_archive(path: Path) -> Path:
    """An archive of images of two platforms and two layers, as an image builder writes it."""
    blobs: dict[str, bytes] = {}

    def blob(kind: str, content: bytes | dict[str, object]) -> dict[str, object]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        form = f"application/vnd.oci.image.{kind}"
        return {"mediaType": form, "digest": f"sha256:{digest}", "size": len(data)}

    def image(architecture: str) -> dict[str, object]:
        plain = [tar({k: v.encode() for k, v in each.items()}) for each in (BASE, OURS)]
        layers = [tar({k: v.encode() for k, v in each.items()}, "gz") for each in (BASE, OURS)]
        diff = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in plain]
        about = {"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff}}  # fmt: skip
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob("config.v1+json", about),
            "layers": [blob("layer.v1.tar+gzip", each) for each in layers],
        }
        platform = {"architecture": architecture, "os": "linux"}
        return {**blob("manifest.v1+json", manifest), "platform": platform}

    form = "application/vnd.oci.image.index.v1+json"
    images = {"schemaVersion": 2, "mediaType": form, "manifests": [*map(image, PLATFORMS)]}
    index = {"schemaVersion": 2, "manifests": [blob("index.v1+json", images)]}
    layout = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}  # fmt: skip
    path.write_bytes(tar({**layout, **blobs}))
    return path


def test_an_archive_tells_digests_and_the_packages_that_are_left(tmp_path: Path) -> None:
    archive = RELEASE["Archive"](oci_archive(tmp_path / "lycosa-0.9.0.oci.tar"))
    files = RELEASE["list_images"]([archive], tmp_path)
    assert [each.name for each in files] == [
        "images",
        "lycosa-0.9.0-linux-amd64.cdx.json",
        "lycosa-0.9.0-linux-arm64.cdx.json",
    ]
    listed = (tmp_path / "images").read_text("utf-8").split()
    assert listed == [archive.digest, "lycosa-0.9.0.oci.tar", "linux/amd64", "linux/arm64"]
    for platform, digest in archive.images.items():
        bill = json.loads(RELEASE["bill_file"](archive, platform).read_text("utf-8"))
        assert bill["metadata"]["component"]["version"] == digest
        assert [each["purl"] for each in bill["components"]] == [
            "pkg:deb/debian/libc6@1%3A2.41%2Bdeb13u1",
            "pkg:pypi/backports-zstd@1.8.0",
        ], "the last layer counts, and what it removes is not there"


def test_a_program_that_is_missing_is_named_with_where_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("skopeo", "cosign"):
        with pytest.raises(RELEASE["Refused"], match=f"{name} is needed, and is not on PATH: "):
            RELEASE["tool"](name)


def _lacking(*names: str) -> list[str]:
    return [name for name in names if shutil.which(name) is None]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of a registry of images, as Debian has it."""
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": "127.0.0.1:0", "secret": "of this test"},
        "log": {"accesslog": {"disabled": True}},
    }
    (tmp_path / "registry.json").write_text(json.dumps(settings))
    command = ["docker-registry", "serve", tmp_path / "registry.json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        told = (re.search(r"listening on (127[\d.:]+)", line) for line in server.stderr)
        try:
            address = next(found[1] for found in told if found)
            rest = Thread(target=server.stderr.read)  # a full pipe would stop the server
            rest.start()
            yield address
        finally:
            server.terminate()
        rest.join()


@pytest.mark.service
@pytest.mark.skipif(
    bool(_lacking("skopeo", "docker-registry")), reason="needs skopeo and docker-registry"
)
def test_a_registry_has_the_image_by_the_digest_that_was_told(
    tmp_path: Path, registry: str
) -> None:
    archive = RELEASE["Archive"](oci_archive(tmp_path / "lycosa-0.9.0.oci.tar"))
    RELEASE["push"]([archive], f"{registry}/lycosa", None)
    forms = {"Accept": "application/vnd.oci.image.index.v1+json"}
    told = httpx.get(f"http://{registry}/v2/lycosa/manifests/0.9.0", headers=forms)
    assert told.headers["Docker-Content-Digest"] == archive.digest
    assert len(told.json()["manifests"]) == len(PLATFORMS)


@pytest.mark.service
@pytest.mark.skipif(
    bool(_lacking("skopeo", "docker-registry", "cosign")),
    reason="needs skopeo, docker-registry and cosign",
)
def test_image_and_list_of_packages_are_signed(
    tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", "of this test")
    monkeypatch.setenv("HOME", str(tmp_path))

    def cosign(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["cosign", *map(str, words)], cwd=tmp_path, capture_output=True, text=True
        )

    for name in ("ours", "other"):
        assert cosign("generate-key-pair", f"--output-key-prefix={name}").returncode == 0
    archive = RELEASE["Archive"](oci_archive(tmp_path / "lycosa-0.9.0.oci.tar"))
    RELEASE["list_images"]([archive], tmp_path)
    RELEASE["push"]([archive], f"{registry}/lycosa", tmp_path / "ours.key")
    assert not (tmp_path / ".sigstore").exists(), "a service of Sigstore was asked"
    words = ("--insecure-ignore-tlog", f"{registry}/lycosa@{archive.digest}")
    told = cosign("verify", "--key=ours.pub", *words)
    assert told.returncode == 0, told.stderr
    assert archive.digest in told.stdout
    assert cosign("verify", "--key=other.pub", *words).returncode != 0
    for image in archive.images.values():
        name = f"{registry}/lycosa@{image}"
        assert cosign("verify", "--key=ours.pub", words[0], name).returncode == 0, (
            "each platform too"
        )
        told = cosign("verify-attestation", "--key=ours.pub", "--type=cyclonedx", words[0], name)
        assert told.returncode == 0, told.stderr
        assert "payload" in told.stdout
        assert cosign("verify-attestation", "--key=other.pub", "--type=cyclonedx", words[0], name).returncode != 0  # fmt: skip
