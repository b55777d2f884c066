"""``lycosa node``: what is refused before anything runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec
import pytest

from lycosa.base.config.cluster_file import ClusterFile, KafkaSection
from lycosa.base.config.sections import AgentSection, Config, ExtensionSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.signing.signing_key import KeyFileError, create_key
from lycosa.cli.node import check_listen, with_key
from lycosa.cluster.network import Credentials
from lycosa.cluster.shards.stored_crawl import StoredCrawl
from lycosa.processes.cluster.cluster_session import ClusterSession, NodeMemory
from lycosa.processes.cluster.node_folder import NodeFolder
from lycosa.state.folder.manifest import Identity, Manifest
from lycosa.worker.job import ClusterJob, encode_job


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
