"""Commands that read a crawl say the same of a crawl on machines as of the same crawl in a folder.

A crawl is made in a folder, finished or killed, and put into Kafka and an object store. Each command
is then run on both.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, moved, page, robots
from kafka_broker import Broker
from lycosa.cli.main import main
from lycosa.config.sections import PolitenessSection, StoreSection
from lycosa.objects.opening import open_store
from lycosa.synthetic import Faults, Response
from stored_crawl import cluster_file, put_crawl

pytestmark = pytest.mark.service

HOSTS = [f"www.h{number}.example" for number in range(6)]
WEB: dict[str, Response] = {
    f"http://{host}/{path}": page(
        "/a",
        "/b",
        "/old",
        f"http://{HOSTS[(at + 1) % len(HOSTS)]}/c",
        text=f"{path} of {host} " * 9,
    )
    for at, host in enumerate(HOSTS)
    for path in ("", "a", "b", "c")
}
WEB |= {f"http://{HOSTS[0]}/old": moved("/a")}
WEB |= {f"http://{HOSTS[1]}/robots.txt": robots("User-agent: *", "Disallow: /b")}
CONFIG = msgspec.structs.replace(
    QUICK,
    store=StoreSection(commit_pages=4, segment_bytes=100_000, segment_age_s=10.0),
    politeness=PolitenessSection(jitter=0.0),
)
ENDS = {"finished": "", "killed": "commit:settled"}
ALONE = {"shard", "owner_term", "commit", "inbox_position", "settings_version"}
ALONE |= {"attempts", "attempts_read"}


class Both:
    """One crawl in a folder, and on a cluster."""

    def __init__(self, folder: Path, file: Path, cache: Path, is_killed: bool) -> None:
        self.folder, self.file, self.cache, self.is_killed = folder, file, cache, is_killed

    def cluster_args(self, command: str, *args: str) -> list[str]:
        return [command, "--cluster", str(self.file), "--cache", str(self.cache), *args]


@pytest.fixture(scope="module", params=sorted(ENDS))
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka: Broker
) -> Iterator[Both]:
    place = tmp_path_factory.mktemp("both")
    point = ENDS[request.param]
    faults = Faults(random.Random(1), crash_at=5, crash_point=point) if point else None
    crawl_folder(
        place / "crawl", Pages(WEB), [f"http://{host}/" for host in HOSTS], CONFIG, faults=faults
    )
    (place / "bucket").mkdir()
    url = f"file://{place / 'bucket'}"
    topics = put_crawl(place / "crawl", open_store(url), kafka, place / "work")
    file = cluster_file(place / "cluster.toml", topics, kafka, url)
    yield Both(place / "crawl", file, place / "cache", bool(point))


class Asking:
    """Runs a command on both."""

    def __init__(self, both: Both, capsys: pytest.CaptureFixture[str]) -> None:
        self._both, self._capsys = both, capsys
        self.told = ""

    def ask(self, command: str, *args: str) -> tuple[str, str]:
        """What it prints of the folder, and of the cluster."""
        self._capsys.readouterr()
        assert main([command, str(self._both.folder), *args]) == 0, self._capsys.readouterr().err
        first = self._capsys.readouterr().out
        assert main(self._both.cluster_args(command, *args)) == 0, self._capsys.readouterr().err
        second = self._capsys.readouterr()
        self.told = second.err
        return first, second.out


@pytest.fixture
def asking(both: Both, capsys: pytest.CaptureFixture[str]) -> Asking:
    return Asking(both, capsys)


def lines(text: str) -> list[Any]:
    return sorted(text.splitlines())


@pytest.mark.parametrize("kind", ["urls", "hosts", "pages", "links", "fetches"])
def test_an_export_is_the_same(asking: Asking, kind: str) -> None:
    folder, cluster = asking.ask("export", kind)
    assert lines(cluster) == lines(folder)
    assert len(lines(folder)) >= len(HOSTS)
    assert "3 shards, as of their last commits: the newest is" in asking.told


def test_a_query_is_answered_the_same(asking: Asking) -> None:
    query = "SELECT state, count(*) n, sum(depth) d FROM urls GROUP BY state ORDER BY state"
    folder, cluster = asking.ask("sql", query)
    assert cluster == folder
    folder, cluster = asking.ask(
        "sql", "--json", "SELECT url, warc_record_offset FROM pages ORDER BY ALL"
    )
    assert cluster == folder


def test_every_url_is_explained_the_same_with_its_shard(asking: Asking, both: Both) -> None:
    asked = [*list(WEB)[::3], f"http://{HOSTS[2]}/never", "http://elsewhere.org/", "not a url"]
    shards = set()
    for url in asked:
        folder, cluster = map(json.loads, asking.ask("explain", url, "--json"))
        facts = cluster["facts"]
        if folder["url"]:
            assert facts["owner_term"] == 1
            assert facts["commit"]["term"] == 1
            shards.add(facts["shard"])
        for each in (folder, cluster):
            each["facts"] = {k: v for k, v in each["facts"].items() if k not in ALONE}
            # links are searched only when asked to
            each["headline"] = each["headline"].partition(",")[0].partition(";")[0]
        if folder["verdict"] in ("never_seen", "refused_by_scope"):
            assert cluster["verdict"] == folder["verdict"]
        else:
            assert cluster == folder
    assert shards == {0, 1, 2}


def test_one_url_needs_one_shard(both: Both, tmp_path: Path, asking: Asking) -> None:
    args = ["explain", "--cluster", str(both.file), "--cache", str(tmp_path / "new")]
    assert main([*args, f"http://{HOSTS[0]}/never"]) == 0
    (tables,) = (tmp_path / "new").glob("*/tables")
    assert len(list(tables.iterdir())) == 1
    before = sorted(path.stat().st_ino for path in tables.rglob("*"))
    assert main([*args, f"http://{HOSTS[0]}/none"]) == 0
    assert sorted(path.stat().st_ino for path in tables.rglob("*")) == before
    assert not list((tmp_path / "new").glob("*/open-*"))


def test_status_counts_the_same_and_lists_the_shards(asking: Asking) -> None:
    folder, cluster = map(json.loads, asking.ask("status", "--json", "--sites", "5"))
    for key in ("states", "discovered", "captures", "pages", "hosts_by_state", "is_balanced"):
        assert cluster[key] == folder[key], key
    assert [each["shard"] for each in cluster["shards"]] == [0, 1, 2]
    assert all(each["commits"] > 3 for each in cluster["shards"])
    text = asking.ask("status")[1]
    assert "owner's term" in text
    assert "3 shards, as of their last commits" in text


def test_a_clean_crawl_passes_the_audit(asking: Asking, both: Both) -> None:
    folder, cluster = map(json.loads, asking.ask("audit", "--json", "--all", "--hosts"))
    assert cluster["clean"] is True
    checked = [
        {check["name"]: check["checked"] for check in each["checks"]} for each in (folder, cluster)
    ]
    left_out = {"url-seen", "commit log"}
    assert {name: number for name, number in checked[0].items() if name not in left_out} == {
        name: number for name, number in checked[1].items() if name != "parcels"
    }
    assert cluster["hosts"] == folder["hosts"]
    assert cluster["is_running"] is both.is_killed
    assert cluster["clock_tolerance_s"] == 4.0


def test_the_audit_lists_what_it_cannot_prove(asking: Asking, both: Both) -> None:
    report = json.loads(asking.ask("audit", "--json")[1])
    assert {each["shard"] for each in report["unproven"]} == (
        {0, 1, 2} if both.is_killed else {1, 2}
    )
    text = asking.ask("audit")[1]
    assert "no file of terms 1 to 1 was sent" in text
    assert ("Not ended orderly" in text) is both.is_killed
