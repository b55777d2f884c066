"""Commands that read a crawl say the same of a crawl on machines as of the same crawl in a folder.

A crawl is made in a folder, finished or killed, and put into Kafka and an object store. Each command
is then run on both.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, moved, page, robots
from kafka_broker import Broker
from lycosa.base.config.sections import PolitenessSection, StoreSection
from lycosa.cli.main import main
from lycosa.state.objects.store_opening import open_store
from lycosa.state.store.layout import stem_of
from lycosa.synthetic import Faults, Response
from s3_server import BUCKET, CREDENTIALS, needs_s3, s3_store, shared_server
from stored_crawl import cluster_file, put_crawl
from written_archive import WrittenArchive

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
    store=StoreSection(commit_pages=4, segment_bytes=100_000, segment_age_s=2.0),
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
    faults = Faults(random.Random(1), crash_at=7, crash_point=point) if point else None
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

    def ask(self, command: str, *args: str, code: int = 0) -> tuple[str, str]:
        """What it prints of the folder, and of the cluster."""
        self._capsys.readouterr()
        assert main([command, str(self._both.folder), *args]) == code, self._capsys.readouterr().err
        first = self._capsys.readouterr().out
        assert main(self._both.cluster_args(command, *args)) == code, self._capsys.readouterr().err
        second = self._capsys.readouterr()
        self.told = second.err
        return first, second.out


@pytest.fixture
def asking(both: Both, capsys: pytest.CaptureFixture[str]) -> Asking:
    return Asking(both, capsys)


def segment_in(path: str) -> str:
    """The segment of a WARC's path, or of its parts."""
    return path.removeprefix("parts/00000/").rstrip("/") if path[:5] == "parts" else stem_of(path)


def lines(text: str) -> list[Any]:
    return sorted(text.splitlines())


@pytest.mark.parametrize("kind", ["urls", "hosts", "pages", "links", "fetches"])
def test_an_export_is_the_same(asking: Asking, kind: str) -> None:
    folder, cluster = asking.ask("export", kind)
    assert lines(cluster) == lines(folder)
    assert len(lines(folder)) >= len(HOSTS)
    assert "3 shards, as of their last commits: the newest is" in asking.told


def test_an_archive_has_the_same_captures(both: Both, tmp_path: Path) -> None:
    files = tmp_path / "folder.wacz", tmp_path / "cluster.wacz"
    assert main(["export", str(both.folder), "wacz", "-o", str(files[0])]) == 0
    assert main(both.cluster_args("export", "wacz", "-o", str(files[1]))) == 0
    folder, cluster = map(WrittenArchive, files)
    cluster.check()
    assert cluster.keys == folder.keys and len(folder.keys) >= len(HOSTS)
    assert sorted(map(str, cluster.pages)) == sorted(map(str, folder.pages))
    assert cluster.entries.keys() == folder.entries.keys()


def test_a_query_is_answered_the_same(asking: Asking) -> None:
    query = "SELECT state, count(*) n, sum(depth) d FROM urls GROUP BY state ORDER BY state"
    folder, cluster = asking.ask("sql", query)
    assert cluster == folder
    folder, cluster = asking.ask(
        "sql", "--json", "SELECT url, warc_record_offset FROM pages ORDER BY ALL"
    )
    assert cluster == folder


def test_dead_letters_are_listed_the_same(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ["--cluster", str(both.file), "--cache", str(both.cache)]
    found = []
    for place in ([str(both.folder)], cluster):
        capsys.readouterr()
        assert main(["dlq", "list", *place, "--json"]) == 0, capsys.readouterr().err
        found.append(json.loads(capsys.readouterr().out)["dead_letters"])
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
    assert found[0] or both.is_killed
    assert all(letter["date_us"] for letter in found[1])


def test_every_url_is_explained_the_same_with_its_shard(asking: Asking, both: Both) -> None:
    asked = [*list(WEB)[::3], f"http://{HOSTS[2]}/never", "http://elsewhere.org/", "not a url"]
    shards = set()
    for url in asked:
        folder, cluster = map(
            json.loads, asking.ask("explain", url, "--json", code=2 * (url == "not a url"))
        )
        facts = cluster["facts"]
        if folder["url"]:
            assert facts["owner_term"] == 1
            assert facts["commit"]["term"] == 1
            shards.add(facts["shard"])
        for each in (folder, cluster):
            each["facts"] = {k: v for k, v in each["facts"].items() if k not in ALONE}
            if "warc" in each["facts"]:  # parts, unless the last commit says that it is closed
                each["facts"]["warc"] = segment_in(each["facts"]["warc"])
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
    folder, cluster = map(json.loads, asking.ask("audit", "--json", "--all", "--pauses"))
    assert cluster["clean"] is True
    checked = [
        {check["name"]: check["checked"] for check in each["checks"]} for each in (folder, cluster)
    ]
    left_out = {"url-seen", "commit log"}
    assert {name: number for name, number in checked[0].items() if name not in left_out} == {
        name: number for name, number in checked[1].items() if name not in ("parcels", "snapshots")
    }
    assert cluster["hosts"] == folder["hosts"]
    assert cluster["is_running"] is both.is_killed
    assert cluster["clock_tolerance_s"] == 4.0


def test_the_audit_lists_what_it_cannot_prove(asking: Asking, both: Both) -> None:
    report = json.loads(asking.ask("audit", "--json")[1])
    # the machine of shard 0 has sent everything, also that of the killed worker
    assert {each["shard"] for each in report["unproven"]} == {1, 2}
    text = asking.ask("audit")[1]
    assert "no file of term 1 was sent" in text
    assert ("Not ended orderly" in text) is both.is_killed


class Damaged:
    """A copy of the objects with some damage, read with the same topics."""

    def __init__(self, both: Both, place: Path) -> None:
        self.bucket = place / "bucket"
        shutil.copytree(both.file.parent / "bucket", self.bucket)
        self.file = place / "cluster.toml"
        text = both.file.read_text()
        self.file.write_text(text.replace(str(both.file.parent / "bucket"), str(self.bucket)))
        self._cache = place / "cache"

    def one(self, kind: str) -> Path:
        """A file of this kind."""
        return sorted((self.bucket / kind).iterdir())[0]

    def audit(self, capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
        """The first breaches of each check that found any."""
        capsys.readouterr()
        args = [
            "audit",
            "--cluster",
            str(self.file),
            "--cache",
            str(self._cache),
            "--json",
            "--all",
        ]
        code = main(args)
        report = json.loads(capsys.readouterr().out)
        assert (code == 0) is report["clean"]
        return {check["name"]: check["first"] for check in report["checks"] if check["breaches"]}


@pytest.fixture
def damaged(both: Both, tmp_path: Path) -> Damaged:
    return Damaged(both, tmp_path)


def test_a_missing_warc_is_a_breach(damaged: Damaged, capsys: pytest.CaptureFixture[str]) -> None:
    path = damaged.one("warc")
    path.unlink()
    assert any(path.name in told for told in damaged.audit(capsys)["warc"])


def test_a_missing_file_of_a_snapshot_is_a_breach_although_a_reader_has_it(
    damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    assert damaged.audit(capsys) == {}
    path = damaged.one("files/00001")
    path.unlink()
    (told,) = damaged.audit(capsys)["snapshots"]
    assert "shard 1, snapshot of commit 3 of term 1" in told
    assert path.name in told


def test_a_missing_list_of_a_snapshot_is_no_breach_while_the_log_has_all_commits(
    damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.one("snapshots/00002").unlink()
    assert damaged.audit(capsys) == {}


def test_a_changed_byte_of_a_warc_is_a_breach(
    damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged.one("warc")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert "warc" in damaged.audit(capsys)


def test_a_missing_journal_is_a_breach(
    damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged.one("journal").unlink()
    assert {"captures", "once"} <= damaged.audit(capsys).keys()


def test_a_missing_table_of_pages_is_a_breach(
    damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged.one("pages")
    path.unlink()
    assert damaged.audit(capsys) == {"pages": [f"pages/{path.name} is missing"]}


def test_a_table_of_no_segment_is_a_breach_when_the_crawl_has_ended(
    both: Both, damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged.one("links")
    shutil.copy(path, path.with_name("odd-w000-000001-20250101000000.parquet"))
    assert damaged.audit(capsys).keys() == (set() if both.is_killed else {"links"})


def test_a_request_that_came_too_early_is_a_breach(
    damaged: Damaged, capsys: pytest.CaptureFixture[str]
) -> None:
    """One pause of the log is longer than what was waited."""
    (path,) = (damaged.bucket / "attempts" / "00000").glob("*.log.zst")
    with zstd.open(path, "rb") as file:
        lines = file.read().split(b"\n")
    at = next(number for number, line in enumerate(lines) if line.startswith(b"E\t"))
    fields = lines[at].split(b"\t")
    fields[-1] = b"900000000"
    lines[at] = b"\t".join(fields)
    with zstd.open(path, "wb") as file:
        file.write(b"\n".join(lines))
    (told,) = damaged.audit(capsys)["host pauses"]
    assert "900.000000 s were due" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("shards = 3", "shards = 4"), "has 3 shards"),
        (('name = "', 'name = "other-'), "belongs to the cluster crawl"),
        (("[objects]\nurl", "#"), "has no"),
    ],
)
def test_a_wrong_file_is_explained(
    both: Both,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    told: str,
) -> None:
    file = tmp_path / "cluster.toml"
    text = both.file.read_text()
    if told == "has no":
        text = text.partition("[objects]")[0]
    file.write_text(text.replace(*change))
    assert main(["status", "--cluster", str(file), "--cache", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err


def test_topics_that_are_missing_are_named(
    both: Both, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = Damaged(both, tmp_path)
    (damaged.bucket / "cluster.json").write_text('{"name": "never-made", "format": 1}')
    text = damaged.file.read_text()
    name = text.partition('"')[2].partition('"')[0]
    damaged.file.write_text(text.replace(f'"{name}"', '"never-made"'))
    assert main(["status", "--cluster", str(damaged.file)]) == 2
    assert "topic never-made.changelog is missing; `lycosa cluster init" in capsys.readouterr().err


def test_options_of_clusters_need_a_cluster(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["audit", "--topic"], ["explain", "--links"], ["status", "--cache", "x"]):
        extra = ["http://a.example/"] if args[0] == "explain" else []
        assert main([args[0], str(both.folder), *extra, *args[1:]]) == 2
        assert "--cluster" in capsys.readouterr().err


@needs_s3
def test_a_crawl_in_a_bucket_is_read_as_one_in_a_folder(
    both: Both,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prefix = f"read-{uuid.uuid4().hex[:8]}"
    bucket = both.file.parent / "bucket"
    store = s3_store(prefix)
    for path in sorted(path for path in bucket.rglob("*") if path.is_file()):
        store.put(str(path.relative_to(bucket)), path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", shared_server().endpoint)
    file = tmp_path / "cluster.toml"
    file.write_text(both.file.read_text().replace(f"file://{bucket}", f"s3://{BUCKET}/{prefix}"))
    args = ["--cluster", str(file), "--cache", str(tmp_path / "cache")]
    assert main(["audit", *args]) == 0, capsys.readouterr()
    assert "Every check passed" in capsys.readouterr().out
    assert main(["export", *args, "fetches"]) == 0
    here = lines(capsys.readouterr().out)
    assert main(["export", str(both.folder), "fetches"]) == 0
    assert here == lines(capsys.readouterr().out)


def test_damaged_downloads_are_named_and_may_be_deleted(
    both: Both, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["status", "--cluster", str(both.file), "--cache", str(tmp_path)]
    assert main(args) == 0
    files = [path for path in tmp_path.glob("*/tables/*/*") if path.stat().st_size > 1000]
    for path in files:
        path.write_bytes(bytes(path.stat().st_size))
    assert main(args) == 1
    told = capsys.readouterr().err
    (folder,) = tmp_path.glob("*/tables")
    assert f"delete the downloaded files, and give the command again: rm -r {folder}" in told
    shutil.rmtree(folder)
    assert main(args) == 0
