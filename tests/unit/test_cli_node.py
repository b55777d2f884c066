"""``lycosa node``: what is refused before anything runs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from base64 import b32encode
from pathlib import Path

import click
import msgspec
import pytest

from lycosa.base.config.cluster_file import ClusterFile, KafkaSection
from lycosa.base.config.feature_sections import EarlierSection
from lycosa.base.config.sections import AgentSection, Config, ExtensionSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.base.signing.signing_key import KeyFileError, create_key
from lycosa.cli.node import check_listen, with_key
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.shards.stored_crawl import StoredCrawl
from lycosa.processes.cluster.cluster_session import ClusterSession, NodeMemory
from lycosa.processes.cluster.node_folder import NodeFolder
from lycosa.state.folder.manifest import Identity, Manifest
from lycosa.synthetic import VirtualOffload
from lycosa.worker.earlier_captures import EarlierCaptures, earlier_of_job
from lycosa.worker.job import ClusterJob, decode_job, encode_job


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("127.0.0.1:7071", "without a port"),
        ("192.0.2.1", "neither token_file nor"),
        ("", "give --listen HOST"),
    ],
)
def test_a_host_at_which_workers_cannot_listen_is_refused_at_once(host: str, said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        asyncio.run(check_listen(host, Credentials()))


def test_an_address_of_this_machine_is_taken() -> None:
    asyncio.run(check_listen("127.0.0.1", Credentials()))


def test_a_node_uses_its_own_key_file_and_is_refused_without_a_usable_one(tmp_path: Path) -> None:
    """Nodes of one crawl have the same settings, and each has a key of its own."""
    agent = AgentSection(key_file="/etc/of-the-crawl.pem", key_directory="https://a.example/d")
    identity = Identity(
        partitions=2, bands=1, canonical={}, canonical_version=1, suffixes="of the tests"
    )
    manifest = Manifest(crawl="c", created="", software="", identity=identity)
    crawl = StoredCrawl(manifest, Config(agent=agent), b"")
    assert with_key(crawl, "") is crawl
    own = with_key(crawl, str(tmp_path / "own.pem"))
    assert own.config.agent.key_directory == agent.key_directory
    assert crawl.config.agent.key_file == "/etc/of-the-crawl.pem"

    given = ClusterFile(tmp_path, "c", KafkaSection(("127.0.0.1:1",)))
    memory = NodeMemory(own.config, 2, 2, 8_000_000_000)

    def session() -> ClusterSession:
        folder = NodeFolder(tmp_path / "node")
        return ClusterSession(given, own, folder, memory, "127.0.0.1", lambda _: None, lambda: own)

    with pytest.raises(KeyFileError, match=r"own\.pem: no such key file"):
        session()
    create_key(tmp_path / "own.pem")
    job = session().job(0, memory.plan(1), ClusterJob(tmp_path, 0, "", tmp_path))
    assert job.config.agent.key_file == str(tmp_path / "own.pem")
    told: list[str] = []
    # An extension that is not installed here: a node that starts is refused, and one that runs
    # keeps the settings of before.
    wants = msgspec.structs.replace(own.config, extensions=ExtensionSection(rules=("absent",)))
    wanted = msgspec.structs.replace(own, config=wants)

    def node(of: StoredCrawl) -> ClusterSession:
        folder = NodeFolder(tmp_path / "node")
        return ClusterSession(given, of, folder, memory, "127.0.0.1", told.append, lambda: wanted)

    with pytest.raises(SettingsError, match="no installed package has 'absent'"):
        node(wanted)
    running = node(own)
    running.follow_settings()
    assert "new settings cannot be used here" in told[-1] and "'absent'" in told[-1]
    kept = running.job(0, memory.plan(1), ClusterJob(tmp_path, 0, "", tmp_path))
    assert kept.config.extensions == ExtensionSection()
    # What a worker is sent over its socket has the path, and not the key.
    pem = (tmp_path / "own.pem").read_bytes().splitlines()[1]
    assert b"own.pem" in encode_job(job) and pem not in encode_job(job)


def test_workers_of_a_node_know_the_earlier_crawls_of_its_machine(tmp_path: Path) -> None:
    body, url = hashlib.sha1(b"a body", usedforsecurity=False).digest(), "https://a.example/"
    line = {"url": url, "mime": "text/html", "status": "200", "digest": b32encode(body).decode()}
    line |= {"length": "9", "offset": "7", "filename": "x.warc.gz"}
    index = tmp_path / "all.cdxj"
    index.write_text(f"example,a)/ 20260102030405 {json.dumps(line)}\n")
    identity = Identity(
        partitions=2, bands=1, canonical={}, canonical_version=1, suffixes="of the tests"
    )
    manifest = Manifest(crawl="c", created="", software="", identity=identity)
    earlier = EarlierSection(archives=(str(index),), check_every=1)
    given = ClusterFile(tmp_path, "c", KafkaSection(("127.0.0.1:1",)))

    def found(section: EarlierSection, formats: int) -> EarlierCaptures | None:
        crawl = StoredCrawl(manifest, Config(earlier=section), b"")
        memory, folder = NodeMemory(crawl.config, 2, 2, 8_000_000_000), NodeFolder(tmp_path / "n")
        folder.path.mkdir(exist_ok=True)
        session = ClusterSession(
            given, crawl, folder, memory, "127.0.0.1", lambda _: None, lambda: crawl
        )
        of_cluster = ClusterJob(tmp_path, 0, "", tmp_path, formats=formats)
        # as the worker reads it from its socket, with a folder that is its shard's alone
        job = decode_job(encode_job(session.job(1, memory.plan(1), of_cluster)))
        assert job.folder != job.earlier_folder == folder.path
        return earlier_of_job(job, VirtualOffload(random.Random(0)))

    known = found(earlier, LATE_FIELDS)
    assert known is not None
    fetched = Fetched(url, Reason.NONE, status=200, body=b"a body", body_bytes=6)
    original = asyncio.run(known.find_original(fetched, body))
    assert original is not None and (original.url, original.segment) == (url, "@x.warc.gz")
    assert found(earlier, LATE_FIELDS - 1) is None, "formats in force lack the place"
    assert found(EarlierSection(), LATE_FIELDS) is None
