"""``lycosa status``, ``explain`` and ``audit`` on a small whole crawl: finished, stopped,
killed, and running.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Names, Pages, crawl_folder, html, moved, page, robots
from judging import file_bytes
from lycosa.base.config.sections import PolitenessSection
from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.cli.main import main
from lycosa.inspect.audit.crawl_audit import AuditOptions
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_status import crawl_status, estimate
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.processes.status_file import StatusFile
from lycosa.state.folder.lock import CrawlLock
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import url_key
from lycosa.synthetic import VIRTUAL_EPOCH, Faults
from progress_making import progress_with

SITE = "http://www.example.org"
PAGES = {
    f"{SITE}/robots.txt": robots("User-agent: *", "Disallow: /cgi/"),
    f"{SITE}/": page(
        "/cgi/x",
        "/gone",
        "/old",
        "http://elsewhere.org/",
        *(f"/{n}" for n in range(40)),
        text="Welcome",
    ),
    f"{SITE}/old": moved("/1"),
    **{
        f"{SITE}/{n}": html(f"<title>{n}</title><p>Page number {n}, {'and so on ' * n}")
        for n in range(40)
    },
}
POINTS = [
    "commit:cut",
    "commit:begin",
    "commit:stored",
    "commit:logged",
    "commit:applied",
    "commit:settled",
    "flush:done",
]
SEEDS = [f"{SITE}/", "http://dead.example.org/"]


def resolver(clock: object) -> Names:
    return Names({"dead.example.org": Reason.DNS_NO_SUCH_NAME})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect") / "finished"
    crawl_folder(folder, Pages(PAGES), SEEDS, resolver=resolver)
    return folder


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect") / "slow"
    config = msgspec.structs.replace(QUICK, politeness=PolitenessSection(delay_s=100.0, jitter=0.0))
    crawl_folder(folder, Pages(PAGES), SEEDS, config, resolver=resolver, stop_after_s=350.0)
    return folder


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    return code, capsys.readouterr().out


def told_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, text = told(capsys, *arguments, "--json")
    assert code in (0, 1)
    document: dict[str, Any] = json.loads(text)
    return document


# -- status


def test_status_counts_what_the_crawl_did(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = told_json(capsys, "status", finished)
    assert status["is_balanced"] and not status["is_running"]
    assert status["discovered"] == sum(status["states"].values()) == 45
    wanted = {
        "queued": 0,
        "parked": 0,
        "fetched": 41,
        "redirected": 1,
        "failed": 1,
        "refused": 1,
        "retired": 1,
        "gone": 0,
    }
    assert status["states"] == wanted
    assert (status["captures"], status["pages"]) == (43, 41)
    assert {line["reason"]: line["count"] for line in status["refusals"]} == {"out_of_scope": 1}
    assert all(line["meaning"] for line in status["remarks"])
    assert {out["kind"] for out in status["outputs"] if out["files"]} == {
        "warc",
        "journal",
        "cdxj",
        "pages",
        "links",
        "text",
        "state",
        "log",
    }
    assert (
        status["waits_for"].startswith("nothing now; the next refetch")
        or "days" in status["waits_for"]
    )


def test_status_gives_an_honest_estimate(slow: Path) -> None:
    reader = read_folder(slow)
    status = crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH + 350)
    assert status.states["queued"] > 30
    assert status.hosts[0].host == "www.example.org" and status.hosts[0].delay_s == 100.0
    assert 3000 < status.hosts[0].needs_s < 4300
    assert "host www.example.org alone needs 1 hour" in estimate(
        status
    ) and "at 100 s a request" in estimate(status)


def test_status_of_a_running_crawl_says_what_it_says_of_itself(
    slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(slow, tmp_path / "slow"))
    progress = progress_with(
        memory_bound=1_500_000_000,
        memory_bytes=412_000_000,
        running=3,
        relief="drops caches",
        memory=[
            ProcessMemory("supervisor", 43_000_000, 55_000_000),
            ProcessMemory("worker", 314_000_000, 74_000_000),
        ],
        needs={3: 1},
    ).with_numbers({}, {"lycosa_captures_per_second": {"minute": 12.5}})
    StatusFile(folder).write("crawling", progress, 1, 0)
    live = json.loads((folder / "status.json").read_text())
    with CrawlLock(folder).acquire(time.time() - 60):
        code, text = told(capsys, "status", folder)
        assert (
            code == 0
            and "running: process" in text
            and "12.5" in text
            and "3 pages being fetched or read" in text
        )
        assert "412 MB of 1.50 GB: a worker drops caches (supervisor 43.0 MB, worker 314 MB" in text
        assert (
            json.loads(told(capsys, "status", folder, "--json")[1])["live"]["memory"]
            == live["memory"]
        )
        for unusable in (live | {"updated": time.time() - 60}, live | {"updated": None}, [live]):
            (folder / "status.json").write_text(json.dumps(unusable))
            assert "a while; it may hang" in told(capsys, "status", folder)[1]
    with CrawlLock(folder).acquire(time.time() - 5):
        text = told(capsys, "status", folder)[1]
        assert "running: process" in text and "its start: it has not written its status" in text
    lock = CrawlLock(folder)
    lock.take_lock()  # a start before it signs the lock: the file still names the last run
    assert "running: it is starting" in told(capsys, "status", folder)[1]
    lock.release()
    assert "not running" in told(capsys, "status", folder)[1]


def test_status_changes_nothing(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    before = file_bytes(folder)
    for arguments in (
        ("status", folder),
        ("explain", folder, f"{SITE}/"),
        ("audit", folder, "--all"),
    ):
        assert told(capsys, *arguments)[0] == 0
    after = file_bytes(folder)
    assert after == before


# -- explain


def test_explain_prints_one_sentence_and_the_facts(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, "explain", finished, f"{SITE}/cgi/x")
    assert code == 0
    assert text.splitlines()[:2] == [f"{SITE}/cgi/x", text.splitlines()[1]]
    assert "robots.txt disallows it: line 2: Disallow: /cgi/" in text.splitlines()[1]
    answer = told_json(capsys, "explain", finished, hash8(f"{SITE}/old").hex())
    assert list(answer) == ["asked", "url", "url_hash", "urlHash", "verdict", "headline", "facts"]
    assert (answer["url"], answer["verdict"], answer["facts"]["redirect_to"]) == (
        f"{SITE}/old",
        "redirected",
        f"{SITE}/1",
    )


# -- audit


def test_audit_says_what_it_checked_and_gives_0(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, "audit", finished, "--all", "--pauses")
    assert code == 0 and "Every check passed" in text and "www.example.org" in text
    report = told_json(capsys, "audit", finished)
    assert report["clean"] and report["breaches"] == 0
    checked = {check["name"]: check["checked"] for check in report["checks"]}
    assert checked["outlinks"] >= 44 and checked["robots"] == checked["once"] - 1 == 43


def test_audit_gives_1_and_the_first_breaches(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    number = read_folder(folder).partition_of(f"{SITE}/")
    table = RocksKeyValue(folder / "state" / f"p{number:05d}")
    table.write(
        [(url_key(hash8("www.example.org"), hash8(f"{SITE}/{n}")), None) for n in range(30)]
    )
    table.close()
    code, text = told(capsys, "audit", folder)
    assert code == 1 and "breaches" in text
    assert (
        len([line for line in text.splitlines() if line.startswith(("  counters: ", "  due: "))])
        <= 10
    )
    report = told_json(capsys, "audit", folder)
    outlinks = next(check for check in report["checks"] if check["name"] == "outlinks")
    # one of the pages is also a redirect's target
    assert outlinks["breaches"] == 31 and len(outlinks["first"]) == 10


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("at", [1, 4])
def test_the_audit_of_a_killed_crawl_is_clean_before_and_after_it_goes_on(
    tmp_path: Path, point: str, at: int
) -> None:
    folder = tmp_path / "crawl"
    end = crawl_folder(
        folder,
        Pages(PAGES),
        SEEDS,
        resolver=resolver,
        faults=Faults(random.Random(1), crash_at=at, crash_point=point),
    )
    first = audit(folder, AuditOptions(sample=0))
    assert first.first_breaches() == []
    if end is None:
        crawl_folder(folder, Pages(PAGES), SEEDS, resolver=resolver, start=100.0)
    second = audit(folder, AuditOptions(sample=0))
    assert second.first_breaches() == []
    reader = read_folder(folder)
    assert crawl_status(reader, load_saved_settings(reader), VIRTUAL_EPOCH).states["fetched"] == 41


def test_a_folder_that_is_no_crawl_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (("status",), ("explain", "http://a.test/"), ("audit",)):
        assert main([command[0], str(tmp_path), *command[1:]]) == 2
        printed = capsys.readouterr()
        assert (
            printed.out == "" and printed.err.count("\n") == 1 and "is not a crawl" in printed.err
        )


# -- damage


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("bit", [5, 60, 163, 167, 200])
def test_a_flipped_bit_in_the_suffix_list_is_told_as_damage_by_every_command(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], bit: int
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    path = folder / "public_suffix_list.dat"
    path.write_bytes(flipped(path.read_bytes(), bit))
    commands = [
        ("crawl", "--dir", folder),
        ("audit", folder),
        ("explain", folder, f"{SITE}/"),
        ("sql", folder, "SELECT count(*) FROM urls"),
        ("status", folder, "--sites"),
        ("export", folder, "hosts"),
    ]
    for command in commands:
        try:
            code = main([str(each) for each in command])
        except SystemExit as end:
            code = int(end.code or 0)
        err = capsys.readouterr().err
        if command[0] != "status" or code:  # sites are listed while something waits there
            assert (
                code == 1
                and str(path) in err
                and "restore it from a copy" in err
                and "internal" not in err
            ), (command, err)


def test_a_missing_suffix_list_is_told_as_damage(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(finished, tmp_path / "copy"))
    (folder / "public_suffix_list.dat").unlink()
    assert main(["audit", str(folder)]) == 1
    assert "public_suffix_list.dat is missing" in capsys.readouterr().err


# -- simulate


def test_the_hosts_of_a_crawl_can_be_simulated(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = told_json(capsys, "status", finished)
    found = told_json(capsys, "simulate", "--hosts-of", finished, "--days", "0.1")
    assert found["listed_hosts"] == found["web"]["hosts"] == sum(status["hosts_by_state"].values())
    assert found["web"]["pages"] == status["discovered"]
    assert 0 < found["stored"] < found["web"]["pages"]  # one of the names does not resolve


def test_a_crawl_that_left_no_costs_says_so(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--means-of", str(finished)]) == 2
    assert "does not show the cost of a page" in capsys.readouterr().err
