"""Whole crawls by processes with a key: every request that leaves is signed, also for robots.txt,
sitemaps and errands, and the key itself is nowhere but in its file.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from warcio.archiveiterator import ArchiveIterator

from crawling import Pages, moved, page, robots
from lycosa import Crawl
from lycosa.base.config.sources import load_settings
from lycosa.base.signing.signing_key import KeyFileError, create_key, public_jwk
from lycosa.cli.main import main
from lycosa.synthetic import Response
from serving import served
from signature_judge import Judge, SeenRequest, seen_block

DIRECTORY = "https://crawler.example/.well-known/http-message-signatures-directory"
XML = ("Content-Type", "application/xml")
HOSTS = 6


class SeenWeb(Pages):
    """The pages of the test by path and host without port, and every request as it came."""

    def __init__(self) -> None:
        super().__init__(_web())
        self.seen: list[SeenRequest] = []
        self.arrived: list[float] = []

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        self.seen.append(SeenRequest("GET", url, dict(headers)))
        self.arrived.append(at)
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        self.port = int(host.partition(":")[2])
        found = super().respond(f"{scheme}://{host.partition(':')[0]}{slash}{path}", at, headers)
        body = found.body.replace(b":PORT", b":%d" % self.port)
        heads = [(n, v.replace(":PORT", f":{self.port}")) for n, v in found.headers]
        return Response(found.status, heads, body)


def _web() -> dict[str, Response]:
    """Hosts of several sites; the robots.txt of each but the first is on the first: an errand."""
    first = "http://h0.example:PORT"
    sitemap = f"<urlset><url><loc>{first}/listed</loc></url></urlset>".encode()
    found = {
        "http://h0.example/robots.txt": robots("User-agent: *", f"Sitemap: {first}/map.xml"),
        "http://h0.example/map.xml": Response(200, [XML], sitemap),
        "http://h0.example/listed": page(text="listed"),
        "http://h0.example/": page(
            "/a?b=c", "/moved", *(f"http://h{n}.test:PORT/" for n in range(1, HOSTS))
        ),
        "http://h0.example/a?b=c": page(text="a"),
        "http://h0.example/moved": moved(f"{first}/target"),
        "http://h0.example/target": page(text="target"),
    }
    for n in range(1, HOSTS):
        found[f"http://h{n}.test/robots.txt"] = moved(f"{first}/robots-{n}")
        found[f"http://h0.example/robots-{n}"] = robots("User-agent: *", "Disallow: /no")
        found[f"http://h{n}.test/"] = page("/x", text=f"host {n}")
        found[f"http://h{n}.test/x"] = page(text=f"x of {n}")
    return found


def crawl(folder: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LYCOSA_LOG": str(folder.parent / "log"),
        "LYCOSA_LOG_LEVEL": "debug",
    }
    return subprocess.run(
        [
            *(sys.executable, "-m", "lycosa", "crawl", f"http://h0.example:{port}/"),
            *("--dir", str(folder), "--workers", "2", "--scope", "any", "--delay", "0.7s"),
            *("--set", "politeness.adaptive_factor=0", "--set", "politeness.address_delay_s=0"),
            *("--set", "frontier.finish_wait_s=5s", "--resolve", "*=127.0.0.1"),
            *("--allow-address", "127.0.0.0/8", "--contact", "test@example.org", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )


def signed(path: Path) -> tuple[str, ...]:
    return ("--set", f"agent.key_file={path}", "--set", f"agent.key_directory={DIRECTORY}")


def forms(path: Path) -> Iterator[bytes]:
    """The private key as it could have been written."""
    pem = path.read_bytes()
    private = serialization.load_pem_private_key(pem, None)
    assert isinstance(private, Ed25519PrivateKey)
    seed = private.private_bytes_raw()
    yield from (seed, seed.hex().encode(), base64.b64encode(seed), base64.urlsafe_b64encode(seed))
    yield pem.splitlines()[1]
    yield repr(seed).encode()


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file, compressed ones as text too."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path, data
            if path.suffix == ".gz":
                yield path, gzip.decompress(data)


def test_every_request_of_a_crawl_is_signed_and_the_key_is_in_no_file(tmp_path: Path) -> None:
    key_file, folder = tmp_path / "signing.pem", tmp_path / "crawl"
    key = create_key(key_file)
    web = SeenWeb()
    with served(web) as port:
        done = crawl(folder, port, *signed(key_file))
    assert done.returncode == 0, done.stderr
    judge = Judge({DIRECTORY: {"keys": [public_jwk(key.public)]}})
    for each, arrived in zip(web.seen, web.arrived, strict=True):
        created = judge.accept(each).parameters["created"]  # which takes no nonce twice
        # Signed when it left: not when its URL was found, nor before its host's delay.
        assert -0.1 <= arrived - created < 2.5
    assert web.arrived[-1] - web.arrived[0] > 3  # so that the line above says something

    paths = {each.url.partition("://")[2].partition("/")[2] for each in web.seen}
    hops = {f"robots-{n}" for n in range(1, HOSTS)}
    assert paths >= {"robots.txt", "map.xml", "listed", "a?b=c", "moved", "target", "x", *hops}

    # The records of requests have what the server got.
    stored = []
    for path in sorted((folder / "warc").glob("*.warc.gz")):
        with path.open("rb") as opened:
            for record in ArchiveIterator(opened, no_record_parse=True):
                if record.rec_type == "request":
                    stored.append(seen_block(record.raw_stream.read()))
                elif record.rec_type == "warcinfo":
                    assert b"signing.pem" not in record.raw_stream.read()
    again = Judge({DIRECTORY: {"keys": [public_jwk(key.public)]}})
    for each in stored:
        again.accept(each)
    assert again.nonces == judge.nonces

    texts = [done.stdout.encode(), done.stderr.encode()]
    texts += [data for _, data in contents(folder)]
    texts += [data for _, data in contents(tmp_path) if _ != key_file]
    for form in forms(key_file):
        assert not any(form in text for text in texts)
    saved = json.loads((folder / "settings.json").read_bytes())
    assert saved["agent"]["key_file"] == str(key_file)  # the path, for the next run


def test_a_crawl_in_a_program_signs_too_and_says_when_it_cannot(tmp_path: Path) -> None:
    path = tmp_path / "signing.pem"
    web = SeenWeb()
    with served(web) as port:
        pairs = [
            f"agent.key_file={path}",
            f"agent.key_directory={DIRECTORY}",
            "dns.pins=*=127.0.0.1",
            "fetch.allow_addresses=127.0.0.0/8",
            "limits.max_pages=2",
            "politeness.delay_s=0",
        ]
        config = load_settings(None, {}, pairs).config
        program = Crawl([f"http://h0.example:{port}/"], tmp_path / "crawl", config)
        with pytest.raises(KeyFileError, match="no such key file"):
            program.run()
        assert web.seen == []
        key = create_key(path)
        program.run()
    # What fetches nothing needs no key, so a crawl is also kept on machines that have none.
    path.rename(tmp_path / "elsewhere.pem")
    assert main(["reparse", str(tmp_path / "crawl")]) == 0
    judge = Judge({DIRECTORY: {"keys": [public_jwk(key.public)]}})
    for each in web.seen:
        judge.accept(each)
    assert len(judge.nonces) > 2


def test_a_crawl_without_a_key_sends_and_stores_no_signature(tmp_path: Path) -> None:
    web = SeenWeb()
    with served(web) as port:
        done = crawl(tmp_path / "crawl", port)
    assert done.returncode == 0, done.stderr
    assert web.seen and not any(each.is_signed for each in web.seen)
    for path, data in contents(tmp_path / "crawl" / "warc"):
        assert b"signature" not in data.lower(), path


def test_a_crawl_whose_key_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "signing.pem"
    create_key(path)
    web = SeenWeb()
    with served(web) as port:
        path.chmod(0o640)
        done = crawl(tmp_path / "crawl", port, *signed(path))
        assert done.returncode == 2
        assert f"{path} has the mode 0640" in done.stderr and "chmod 600" in done.stderr
        done = crawl(tmp_path / "crawl", port, *signed(tmp_path / "absent"))
        assert done.returncode == 2 and "absent: no such key file" in done.stderr
        path.chmod(0o600)
        done = crawl(tmp_path / "crawl", port, "--set", f"agent.key_file={path}")
        assert done.returncode == 2 and "set agent.key_directory" in done.stderr
    assert web.seen == []
    assert not (tmp_path / "crawl").exists()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_check_of_a_robots_txt_is_signed_too(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "signing.pem"
    key = create_key(path)
    web = SeenWeb()
    with served(web) as port:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "lycosa", "check", "robots", "--fetch"),
                *("--set", "dns.pins=*=127.0.0.1", "--set", "fetch.allow_addresses=127.0.0.0/8"),
                *(*signed(path), *options, f"http://h0.example:{port}/a"),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    assert len(web.seen) == 1
    Judge({DIRECTORY: {"keys": [public_jwk(key.public)]}}).accept(web.seen[0])
