"""Pages behind a login on a real cluster, whose objects are on an S3 server: a node loses its secret,
another one is killed, pages are requested again with their validators, and then the crawl moves into
more shards and is rescued. No object, message or line has a secret, and no reader gives the pages.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from clusters import SETTINGS, RealCluster, await_death, real_cluster
from kafka_broker import Broker
from killing import kill_machine
from lycosa.cli.main import cli
from private_site import KEY, LOGIN, SECRETS, PrivateSites, plain, private_sites
from s3_server import BUCKET, CREDENTIALS, S3Server, needs_s3

pytestmark = [pytest.mark.service, pytest.mark.long]
PAGES = 30
MARKER = b"marker-in"  # in the text of the private pages
READ = ("--cluster", "cluster.toml")


def lycosa(cluster: RealCluster, *arguments: str) -> bytes:
    """What a command prints, run in this process: most of the time of a new one is its start."""
    before = Path.cwd()
    os.chdir(cluster.folder)
    try:
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.output
    assert not any(each in done.output_bytes for each in SECRETS), arguments
    return done.stdout_bytes


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    for name, text in (("login", LOGIN), ("key", KEY)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3") as server:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": server.endpoint}.items():
            monkeypatch.setenv(name, value)
        yield server


@needs_s3
def test_private_pages_stay_private_on_a_cluster(
    tmp_path: Path, kafka: Broker, secrets: Path, s3: S3Server
) -> None:
    with (
        private_sites(PAGES) as sites,
        real_cluster(tmp_path, kafka, SETTINGS, 3, is_made=False) as cluster,
    ):
        file = cluster.file
        file.write_text(file.read_text().replace(f"file://{tmp_path}/objects", f"s3://{BUCKET}/c"))
        begin(cluster, sites, secrets)
        crawl_with_losses(cluster, sites, secrets)
        check_readers(cluster, sites, PAGES + 1)
        check_everything(cluster, kafka, s3)
        # into more shards
        lycosa(cluster, "cluster", "import", "cluster.toml", "--shards", "4")
        file.write_text(file.read_text().replace("shards = 3", "shards = 4"))
        check_readers(cluster, sites, PAGES + 1)
        for program in cluster.programs:
            program.end()
        # the topics are lost, and the snapshots that the import has made
        admin = kafka.client.admin()
        ours = [each for each in admin.list_topics(timeout=30).topics if cluster.name in each]
        for future in admin.delete_topics(ours, operation_timeout=60).values():
            future.result(60)
        [generation] = (s3.bucket / "c" / "generations").iterdir()
        shutil.rmtree(generation / "snapshots")
        lycosa(cluster, "cluster", "rescue", "cluster.toml", "--work", "rescue", "--json")
        check_readers(cluster, sites, PAGES + 1)
        lycosa(cluster, "audit", *READ)
        check_everything(cluster, kafka, s3)


def begin(cluster: RealCluster, sites: PrivateSites, secrets: Path) -> None:
    """Make the crawl, and let it be told that a node without the secrets is of no use."""
    host = f"host:in.test:{sites.server_port}"
    rules = [f"{host} basic file:{secrets}/login", f"{host} header X-Key file:{secrets}/key"]
    settings = {
        **SETTINGS,
        "requests.rules": json.dumps(rules),
        "store.content": "true",
        "store.commit_s": "0.5",
        "limits.continuous": "true",
        "refetch.rule": "adaptive",
        "refetch.first_s": "5",
        "refetch.min_s": "5",
        "refetch.max_s": "5",
    }
    pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
    lycosa(cluster, "cluster", "init", "cluster.toml", *pairs)
    cluster.serve()
    (secrets / "key").rename(secrets / "away")
    refused = cluster.run("node", *READ, "--name", "without")
    assert refused.wait() == 2 and f"there is no file {secrets}/key" in str(refused)
    (secrets / "away").rename(secrets / "key")


def crawl_with_losses(cluster: RealCluster, sites: PrivateSites, secrets: Path) -> None:
    """Crawl until each page was requested again; the shards of a node that is killed come to one
    that has lost its key meanwhile.
    """
    first, second = cluster.machine("a"), cluster.machine("b")
    cluster.crawl(*sites.first)
    sites.await_asked(20)
    (secrets / "key").rename(secrets / "away")
    gone = kill_machine(first.process.pid)
    await_death(gone)
    second.await_line("cannot run here: requests.rules, line 2: there is no file")
    (secrets / "away").rename(secrets / "key")
    sites.await_that(lambda: again(sites) == 2 * (PAGES + 1))
    lycosa(cluster, "cluster", "stop", "cluster.toml")
    second.await_line("the crawl is over")
    second.end()
    assert not [each for each in sites.of("in.test") if each.status == 401]
    ours = {"authorization", "x-key"}
    assert not [each for each in sites.of("out.test") if each.named & ours]


def again(sites: PrivateSites) -> int:
    """How many pages were not modified when they were requested again."""
    return len({(each.host, each.path) for each in sites.asked if each.status == 304})


def check_readers(cluster: RealCluster, sites: PrivateSites, pages: int) -> None:
    """Readers that give captures away leave the private ones out; the operator's have them."""
    private = sites.first[0].encode()
    for table, column in (("pages", "url"), ("texts", "url"), ("links", "source_url")):
        start = f'"{column}": "'.encode() + private
        given = lycosa(cluster, "export", *READ, table).replace(b'":"', b'": "')
        shown = lycosa(cluster, "export", *READ, table, "--private").replace(b'":"', b'": "')
        assert start not in given and start in shown, table
        assert MARKER not in given
    given = lycosa(cluster, "export", *READ, "text")
    shown = lycosa(cluster, "export", *READ, "text", "--private")
    assert (len(given.splitlines()), len(shown.splitlines())) == (pages, 2 * pages)
    assert MARKER not in given and shown.count(MARKER) >= pages
    log = lycosa(cluster, "export", *READ, "crawl-log")
    assert log and not [line for line in log.splitlines() if line.split()[3].startswith(private)]
    for name, options in (("public", ()), ("whole", ("--private",))):
        lycosa(cluster, "export", *READ, "wacz", "-o", f"{name}.wacz", *options)
        with zipfile.ZipFile(cluster.folder / f"{name}.wacz") as archive:
            packed = b"".join(
                part for each in archive.namelist() for part in plain(archive.read(each))
            )
        assert b"marker-out" in packed and (MARKER in packed) == bool(options)
        (cluster.folder / f"{name}.wacz").unlink()
    lycosa(cluster, "feed", "pages", *READ, "--to", "pages.jsonl")
    fed = cluster.folder / "pages.jsonl"
    assert sites.first[1].encode() in fed.read_bytes()
    assert b'"url":"' + private not in fed.read_bytes()
    assert private not in lycosa(cluster, "changes", *READ)
    query = "SELECT count(DISTINCT url) AS n FROM pages WHERE privacy = 'private'"
    assert json.loads(lycosa(cluster, "sql", *READ, "--json", query)) == [{"n": pages}]


def check_everything(cluster: RealCluster, kafka: Broker, s3: S3Server) -> None:
    """No object, message, file of a node or line has a secret, and no index a private page."""
    objects = [path for path in (s3.bucket / "c").rglob("*") if path.is_file()]
    parts = [(path, part) for path in objects for part in plain(path.read_bytes())]
    assert any(b"Authorization: [" in part for _, part in parts)  # it was looked into
    local = [path for path in (cluster.folder / "nodes").rglob("*") if path.is_file()]
    parts += [(path, part) for path in local for part in plain(path.read_bytes())]
    for path, part in parts:
        assert not any(each in part for each in SECRETS), path
        assert ".cdxj" not in path.name or b'"url":"http://in.test' not in part, path
    topics = kafka.client.admin().list_topics(timeout=30).topics
    for name in [each for each in topics if cluster.name in each]:
        for partition in topics[name].partitions:
            for value in kafka.values(name, partition):
                assert not any(each in value for each in SECRETS), name
    assert not any(each.decode() in str(cluster) for each in SECRETS)
