"""The audit finds each breach that is planted into a crawl folder, and none where there is none."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crawling import QUICK, crawl_folder
from lycosa.base.config.sections import PolitenessSection, ScopeRule, ScopeSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.preferences.preference_model import (
    PreferenceSource,
    Statement,
    gather_preferences,
)
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import reversed_host
from lycosa.inspect.audit.audit_report import AuditReport, Check
from lycosa.inspect.audit.audited_segments import segments
from lycosa.inspect.audit.crawl_audit import AuditOptions
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.audit.politeness_check import OwnersLogs, PolitenessChecks
from lycosa.inspect.committed_state import UrlEntry, read_folder
from lycosa.stages.frontier.host_grids import HostGridRow
from lycosa.state.attempts import Attempt, Gap
from lycosa.state.attempts.attempt_files import attempt_files_of, open_file, zstd
from lycosa.state.attempts.read import _Reader
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import (
    due_key,
    due_urls,
    encode_record,
    front_key,
    host_grid_key,
    host_key,
    host_name_key,
    meta_key,
    prefix_end,
    row_urls,
    url_key,
)
from lycosa.state.seen.seen_port import Hashes
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.store import journal, layout
from lycosa.state.store.journal import read_header, read_rows
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Faults, SyntheticResolver, SyntheticWeb, WebPlan

CONFIG = msgspec.structs.replace(QUICK, scope=ScopeSection(rule=ScopeRule.ANY))
PLAN = WebPlan(
    seed=5,
    hosts=4,
    pages=14,
    cross_links=0.2,
    robots=1.0,
    robots_variants=("section", "redirect"),
    duplicates=0.1,
)


def crawled(folder: Path, **how: object) -> Path:
    web = SyntheticWeb(PLAN)
    crawl_folder(
        folder,
        web,
        [web.seed_url()],
        CONFIG,
        resolver=lambda clock: SyntheticResolver(web.hosts, clock),
        **how,
    )  # type: ignore[arg-type]
    return folder


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished crawl, one that was stopped half-way, one that was killed."""
    base = tmp_path_factory.mktemp("crawls")
    return {
        "finished": crawled(base / "finished"),
        "stopped": crawled(base / "stopped", stop_after_s=12.0),
        "killed": crawled(
            base / "killed",
            faults=Faults(random.Random(0), crash_at=6, crash_point="commit:logged"),
        ),
    }


@pytest.fixture
def take(crawls: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(crawls[name], tmp_path / name))

    return copy


def run(folder: Path) -> AuditReport:
    return audit(folder, AuditOptions(sample=0))


def breached(folder: Path) -> dict[str, list[str]]:
    """The first breaches of each check that has some."""
    return {check.name: check.first for check in run(folder).checks if check.breaches}


def write(folder: Path, partition: int, writes: list[tuple[bytes, bytes | None]]) -> None:
    table = RocksKeyValue(folder / "state" / f"p{partition:05d}")
    table.write(writes)
    table.close()


def one_url(folder: Path, wanted: Callable[[UrlEntry], bool]) -> UrlEntry:
    return next(entry for entry in read_folder(folder).urls() if wanted(entry))


def is_queued(entry: UrlEntry) -> bool:
    return entry.record.state is UrlState.QUEUED and not entry.record.due_at


def is_linked_page(entry: UrlEntry) -> bool:
    return entry.record.state is UrlState.FETCHED and entry.record.depth > 0


@pytest.mark.parametrize("name", ["finished", "stopped", "killed"])
def test_a_crawl_that_was_left_alone_holds_every_promise(
    crawls: dict[str, Path], name: str
) -> None:
    report = run(crawls[name])
    assert report.first_breaches() == []
    checked = {check.name: check.checked for check in report.checks}
    if name == "finished":
        # content is off by default
        assert [name for name, count in checked.items() if not count] == ["content"], checked
    assert report.share == 1.0 and not report.is_running


def test_a_sample_reads_fewer_records_and_still_counts_everything(crawls: dict[str, Path]) -> None:
    report = audit(crawls["finished"], AuditOptions(sample=10, hosts=True))
    checked = {check.name: check.checked for check in report.checks}
    assert report.is_clean and 0 < report.share < 1
    assert checked["warc"] < checked["once"]
    assert sum(pace.requests for pace in report.hosts) > 20 and all(
        pace.margin_s > -2e-6 for pace in report.hosts
    )


def test_what_a_kill_left_beyond_the_last_commit_is_not_looked_at(
    take: Callable[[str], Path],
) -> None:
    folder = take("killed")
    opened = sorted(folder.glob("*/*.open"))
    assert {path.parent.name for path in opened} == {"warc", "journal"}
    for path in opened:
        path.write_bytes(path.read_bytes() + b"torn")
    assert breached(folder) == {}


def test_an_open_file_shorter_than_committed_is_found(take: Callable[[str], Path]) -> None:
    folder = take("killed")
    (path,) = (folder / "warc").glob("*.open")
    path.write_bytes(path.read_bytes()[:-20])
    assert "were committed" in breached(folder)["warc"][0]


# -- the state


def test_a_lost_record_is_found_from_three_sides(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    entry = one_url(folder, is_linked_page)
    write(folder, entry.partition, [(url_key(entry.host8, entry.url8), None)])
    found = breached(folder)
    assert {"counters", "outlinks", "url-seen", "captures", "due"} <= set(found)
    assert entry.url in found["outlinks"][0]


def test_a_record_in_another_state_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    entry = one_url(folder, is_linked_page)
    entry.record.state = UrlState.FAILED
    write(
        folder, entry.partition, [(url_key(entry.host8, entry.url8), encode_record(entry.record))]
    )
    assert set(breached(folder)) == {"counters"}


def test_a_host_whose_name_is_not_indexed_and_a_name_without_a_host_are_found(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    host = next(read_folder(folder).hosts())
    name = reversed_host(host.record.host)
    stranger = host_name_key("example.stranger")
    write(folder, host.partition, [(host_name_key(name), None), (stranger, host.host8)])
    first = breached(folder)["host names"]
    assert len(first) == 2
    assert host.record.host in first[0] and "example.stranger" in first[1]


def test_a_queued_url_that_is_in_no_queue_is_found(take: Callable[[str], Path]) -> None:
    folder = take("stopped")
    entry = one_url(folder, is_queued)
    with read_folder(folder).partition_view(entry.partition) as view:
        key, row = next(
            (key, row)
            for key, row in view.scan(b"Q", prefix_end(b"Q"))
            if entry.url8 in row_urls(row)
        )
    write(folder, entry.partition, [(key, row.replace(entry.url8, b"") or None)])
    found = breached(folder)
    assert set(found) == {"queues", "hosts"}
    assert entry.url8.hex() in found["queues"][0]


def test_a_queue_entry_of_a_fetched_url_and_one_outside_its_lane_are_found(
    take: Callable[[str], Path],
) -> None:
    folder = take("stopped")
    entry = one_url(folder, is_linked_page)
    key = b"Q" + entry.host8 + bytes([0]) + (99_999).to_bytes(6, "big")
    write(folder, entry.partition, [(key, entry.url8)])
    found = breached(folder)["queues"]
    assert any("outside its lane" in text for text in found)
    assert any("does not wait there" in text for text in found)


def test_a_refetch_that_nobody_would_remember_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    entry = one_url(folder, is_linked_page)
    with read_folder(folder).partition_view(entry.partition) as view:
        rows = [(key, due_urls(key, row)) for key, row in view.scan(b"D", prefix_end(b"D"))]
    key, urls = next((key, urls) for key, urls in rows if entry.host8 + entry.url8 in urls)
    urls.remove(entry.host8 + entry.url8)
    rest = [(due_key(entry.record.due_at, url[:8], url[8:]), b"") for url in urls]
    write(folder, entry.partition, [(key, None), *rest])
    assert breached(folder) == {
        "due": [f"{entry.url} is due at {entry.record.due_at} but is not in the schedule"]
    }


def test_wrong_counts_are_found(take: Callable[[str], Path]) -> None:
    folder = take("stopped")
    entry = one_url(folder, is_queued)
    with read_folder(folder).partition_view(entry.partition) as view:
        counters, host = view.counters(), view.host_record(entry.host8)
    assert host is not None
    counters.states[UrlState.FETCHED] += 1
    host.waiting += 1
    write(
        folder,
        entry.partition,
        [
            (meta_key("counters"), encode_record(counters)),
            (host_key(entry.host8), encode_record(host)),
        ],
    )
    found = breached(folder)
    assert set(found) == {"counters", "hosts"}
    assert len(found["counters"]) == 2  # the state, and the sum
    assert "waiting by the visit state" in found["hosts"][0]


def test_cells_that_disagree_with_the_records_are_found(take: Callable[[str], Path]) -> None:
    folder = take("stopped")
    entry = one_url(folder, is_queued)
    with read_folder(folder).partition_view(entry.partition) as view:
        counters, host = view.counters(), view.host_record(entry.host8)
    assert host is not None
    counters.cells[500] = counters.cells.get(500, 0) + 1
    host.cells += 1
    grid = HostGridRow({500: 1}, is_whole=True)
    write(
        folder,
        entry.partition,
        [
            (meta_key("counters"), encode_record(counters)),
            (host_key(entry.host8), encode_record(host)),
            (host_grid_key(entry.host8), encode_record(grid)),
            (host_grid_key(b"no host!"), encode_record(HostGridRow())),
        ],
    )
    found = breached(folder)
    assert set(found) == {"counters", "hosts"}
    assert "pages have a cell of the refetch price" in found["counters"][0]
    assert len(found["hosts"]) == 3
    for told in (
        "pages have a cell",
        "its grid of the refetch price has 1 pages",
        "no visit state",
    ):
        assert any(told in each for each in found["hosts"]), told


def test_a_host_that_waits_in_no_front_queue_is_found(take: Callable[[str], Path]) -> None:
    folder = take("stopped")
    entry = one_url(folder, is_queued)
    with read_folder(folder).partition_view(entry.partition) as view:
        host = view.host_record(entry.host8)
    assert host is not None and host.front is not None
    write(folder, entry.partition, [(front_key(*host.front), None)])
    assert "no front queue" in breached(folder)["hosts"][0]


def test_a_hash_without_a_record_and_a_record_without_its_hash_are_found(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    entry = one_url(folder, is_linked_page)
    path = folder / "state" / f"seen-{entry.partition:05d}"
    seen = SortedSeenUrls(path)
    stamp = seen.stamp
    hashes = [
        int.from_bytes(e.url8, "big")
        for e in read_folder(folder).urls()
        if e.partition == entry.partition and e.url8 != entry.url8
    ]
    changed: Hashes = np.array([*hashes, 12345], dtype=np.uint64)
    seen.rebuild([changed], stamp)
    seen.close()
    found = breached(folder)
    assert set(found) == {"url-seen"}
    assert f"lacks {entry.url8.hex()}" in found["url-seen"][0]
    assert "1 URLs without a record" in found["url-seen"][1]


def test_a_record_that_points_beside_its_capture_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    entry = one_url(folder, is_linked_page)
    assert entry.record.history is not None
    entry.record.history = msgspec.structs.replace(
        entry.record.history, offset=entry.record.history.offset + 1
    )
    write(
        folder, entry.partition, [(url_key(entry.host8, entry.url8), encode_record(entry.record))]
    )
    found = breached(folder)
    assert set(found) == {"captures"}
    assert entry.url in found["captures"][0]


# -- beside a running crawl


OTHER_PARCELS = [
    {"contents": [(b"s" * 9, b"x")]},
    {"errands": [[1, "http://a.test/"]]},
    {"answers": [], "contents": []},
]


@pytest.mark.parametrize("parcel", OTHER_PARCELS)
def test_parcels_of_any_kind_may_wait_in_an_outbox(
    take: Callable[[str], Path], parcel: dict[str, object]
) -> None:
    folder = take("finished")
    entry = one_url(folder, is_linked_page)
    lost = Discovered(entry.url, entry.host8, entry.url8, LinkKind.A, 1)
    row = b"O" + bytes(4) + (1).to_bytes(8)
    write(
        folder,
        1,
        [
            (b"O" + bytes(4), (2).to_bytes(8)),
            (row, encode_record(parcel)),
            (row[:-1] + b"\2", encode_record([lost])),
        ],
    )
    assert breached(folder) == {}
    write(folder, entry.partition, [(url_key(entry.host8, entry.url8), None)])
    assert "outlinks" not in breached(folder), "it waits for its owner, in the row behind"
    write(folder, 1, [(row[:-1] + b"\2", None)])
    assert entry.url in breached(folder)["outlinks"][0]


def test_a_running_crawl_is_judged_by_what_was_committed_when_the_audit_began(
    take: Callable[[str], Path],
) -> None:
    """A segment that closes while it is audited is found under its new name, up to the length that
    was read; one that began since is left out.
    """
    folder = take("killed")
    lengths, check = read_folder(folder).source.seen.last.lengths, Check("warc", "")
    (before,) = segments(folder, lengths, check, closed=set())
    rows = len(list(before.rows()))
    for name, length in lengths.items():
        path = folder / name
        path.write_bytes(path.read_bytes()[:length])
        shutil.copy(
            path, path.with_name(path.name.replace("-000001-", "-000002-").removesuffix(".open"))
        )
        path.rename(path.with_name(path.name.removesuffix(".open")))
    assert rows and len(list(before.rows())) == rows
    (after,) = segments(folder, lengths, check, closed=set())
    assert (after.is_closed, after.warc_length, check.breaches) == (True, before.warc_length, 0)
    with (folder / layout.file_name(layout.JOURNAL, after.name)).open("ab") as file:
        file.write(
            journal.encode_journal_frame([journal.encode_line(row) for row in before.rows()])
        )
    (grown,) = segments(folder, lengths, check, closed=set())
    assert not grown.is_closed, "its derived files hold more than what is looked at"
    assert len(list(grown.rows())) == rows
    assert len(segments(folder, lengths, check)) == 2, "at rest all are looked at"


def test_attempts_that_began_after_the_audit_did_are_not_judged(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    edit_attempts(folder, lambda number, fields: lasting(fields, 3_000_000))
    for until, is_found in ((None, True), (0.0, False)):
        checks = PolitenessChecks(PolitenessSection(), False, lambda what, done, total: None, until)
        checks.check_logs([OwnersLogs(attempt_files_of(folder / "log"))])
        assert bool(checks.hosts.breaches) is is_found


def test_an_attempt_log_that_is_compressed_or_dropped_meanwhile_is_read_on(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    (path,) = attempt_files_of(folder / "log")[0]
    plain = path.read_bytes()
    path.with_name(path.name + ".zst").write_bytes(zstd.compress(plain))
    path.unlink()
    with open_file(path) as file:
        assert file.read() == plain
    path.with_name(path.name + ".zst").unlink()
    assert list(_Reader(0, lambda file, line: None).attempts([path])) == []


def test_a_damaged_compressed_attempt_log_is_a_breach_and_no_error(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    (path,) = attempt_files_of(folder / "log")[0]
    packed = zstd.compress(path.read_bytes())
    path.with_name(path.name + ".zst").write_bytes(packed[: len(packed) // 2])
    path.unlink()
    assert any("not proven" in text for text in breached(folder)["host pauses"])


# -- outputs


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def rewrite_journal(folder: Path, change: Callable[[JournalRow], JournalRow]) -> None:
    path = only(folder, "journal/*.jsonl.zst")
    lines = [
        journal.encode_header(read_header(path)),
        *(journal.encode_line(change(row)) for row in read_rows(path)),
    ]
    path.write_bytes(journal.encode_journal_frame(lines))


def test_a_changed_body_is_found_by_its_digests(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    row = next(
        row
        for row in read_rows(only(folder, "journal/*.jsonl.zst"))
        if row.kind is FetchKind.PAGE and row.status == 200
    )
    rewrite_journal(
        folder,
        lambda each: (
            msgspec.structs.replace(each, digest="sha1:" + "A" * 32)
            if each.url == row.url
            else each
        ),
    )
    found = breached(folder)
    assert any(row.url in text and "digest" in text for text in found["warc"])
    assert {"cdxj", "pages"} <= set(found)


def test_a_flipped_byte_in_the_warc_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    path = only(folder, "warc/*.warc.gz")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert "warc" in breached(folder)


def test_a_cut_warc_and_a_cut_journal_are_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    path = only(folder, "warc/*.warc.gz")
    path.write_bytes(path.read_bytes()[:-100])
    assert any(
        "its records end at byte" in text or "no record of" in text
        for text in breached(folder)["warc"]
    )
    path = only(folder, "journal/*.jsonl.zst")
    path.write_bytes(path.read_bytes()[:-100])
    assert {"warc", "captures", "once"} <= set(breached(folder))


@pytest.mark.parametrize("name", ["finished", "stopped"])
def test_a_missing_commit_log_is_found_and_tables_that_the_log_still_has_are_not_missed(
    take: Callable[[str], Path], name: str
) -> None:
    folder = take(name)
    logs = sorted((folder / "log").glob("commit-*.log"))
    for path in logs:
        path.rename(folder.parent / path.name)
    assert all(
        "a log lost its end or is missing" in text for text in breached(folder)["commit log"]
    )
    for path in logs:
        (folder.parent / path.name).rename(path)
    assert "commit log" not in breached(folder)
    shutil.rmtree(folder / "state")
    assert breached(folder) == {}


def test_a_missing_warc_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    only(folder, "warc/*.warc.gz").unlink()
    assert "is missing" in breached(folder)["warc"][0]


def test_a_capture_stored_twice_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    for pattern in (
        "warc/*.warc.gz",
        "journal/*.jsonl.zst",
        "cdxj/*",
        "pages/*",
        "links/*",
        "text/*",
    ):
        path = only(folder, pattern)
        shutil.copy(path, path.with_name(path.name.replace("-w000-000001-", "-w001-000001-")))
    found = breached(folder)["once"]
    assert "and elsewhere" in found[0]


def test_a_line_of_the_cdxj_that_is_missing_or_changed_is_found(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    path = only(folder, "cdxj/*.cdxj")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert set(breached(folder)) == {"cdxj"}
    path.write_bytes(
        b"".join([*lines[:3], lines[3].replace(b'"offset":"', b'"offset":"9'), *lines[4:]])
    )
    assert "line 4" in breached(folder)["cdxj"][0]


@pytest.mark.parametrize("kind", ["pages", "links"])
def test_a_row_of_a_table_that_is_missing_too_much_or_changed_is_found(
    take: Callable[[str], Path], kind: str
) -> None:
    folder = take("finished")
    path = only(folder, f"{kind}/*.parquet")
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    assert set(breached(folder)) == {kind}
    pq.write_table(pa.concat_tables([table, table.slice(0, 2)]), path)
    assert "2 rows more" in breached(folder)[kind][0]
    column = {"pages": "url", "links": "target_url"}[kind]
    values = table[column].to_pylist()
    values[2] = "http://elsewhere.test/"
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, table.schema.field(column), [values]), path)
    assert "elsewhere.test" in breached(folder)[kind][0]


@pytest.mark.parametrize(("kind", "last"), [("pages", 3), ("links", 1)])
def test_a_table_from_before_its_last_columns_were_added_is_no_breach(
    take: Callable[[str], Path], kind: str, last: int
) -> None:
    folder = take("finished")
    path = only(folder, f"{kind}/*.parquet")
    table = pq.read_table(path)
    names = table.column_names
    pq.write_table(table.select(names[:-last]), path)
    report = run(folder)
    assert report.first_breaches() == []
    notes = next(check.notes for check in report.checks if check.name == kind)
    assert any(
        f"lacks {', '.join(names[-last:])}: the version that wrote it" in note for note in notes
    )
    pq.write_table(table.drop_columns([names[1]]), path)
    assert breached(folder) == {kind: [f"{kind}/{path.name}: has no column {names[1]}"]}


@pytest.mark.parametrize("kind", ["pages", "links"])
def test_a_table_of_another_origin_in_the_place_of_a_segments_own_is_found(
    take: Callable[[str], Path], kind: str
) -> None:
    folder = take("finished")
    path = only(folder, f"{kind}/*.parquet")
    own = pq.read_table(path)
    label = {"pages": "url", "links": "target_url"}[kind]
    at = own.column_names.index(label)
    for other in (
        pa.table({"x": [1]}),
        pa.table({label: [1] * own.num_rows}),
        own.set_column(at, label, pa.array(range(own.num_rows))),
        own.slice(0, own.num_rows - 1),
        own.slice(0, 0),
    ):
        pq.write_table(other, path)
        assert set(breached(folder)) == {kind}, other.schema
    path.write_bytes(b"not Parquet")
    assert "cannot be read" in breached(folder)[kind][0]


@pytest.mark.parametrize(
    "name",
    [
        "pages/evil.parquet",
        "links/x.parquet",
        "cdxj/other.cdxj",
        "text/x.warc.wet.gz",
        "pages/notes.txt",
    ],
)
def test_a_file_that_belongs_to_no_segment_is_found(take: Callable[[str], Path], name: str) -> None:
    folder = take("finished")
    (folder / name).write_bytes(b"")
    kind = name.split("/")[0]
    assert breached(folder) == {
        kind: [f"{name} belongs to no segment of this crawl; move it elsewhere"]
    }


def test_a_changed_text_record_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    path = only(folder, "text/*.warc.wet.gz")
    path.write_bytes(path.read_bytes()[:-30])
    assert "text" in breached(folder)


def test_a_robots_decision_that_the_stored_file_does_not_give_is_found(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")

    def claim(row: JournalRow) -> JournalRow:
        if row.robots is None or not row.robots.version:
            return row
        return msgspec.structs.replace(
            row, robots=msgspec.structs.replace(row.robots, line=7, rule="Allow: /x")
        )

    rewrite_journal(folder, claim)
    assert "gave allowed by line 7 (Allow: /x)" in breached(folder)["robots"][0]


def test_a_robots_file_that_was_not_stored_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")

    def unknown(row: JournalRow) -> JournalRow:
        if row.robots is None or not row.robots.version:
            return row
        return msgspec.structs.replace(
            row, robots=msgspec.structs.replace(row.robots, version="Z" * 32)
        )

    rewrite_journal(folder, unknown)
    assert "which no WARC record has" in breached(folder)["robots"][0]


def test_a_statement_that_no_stored_tdmrep_json_makes_is_found(
    take: Callable[[str], Path],
) -> None:
    folder = take("finished")
    claimed = Statement(PreferenceSource.TDM_FILE, "tdm-reservation: 1", 0, {"tdm": False})

    def claim(row: JournalRow) -> JournalRow:
        if row.kind is not FetchKind.PAGE:
            return row
        return msgspec.structs.replace(row, preferences=gather_preferences([claimed]))

    rewrite_journal(folder, claim)
    assert "which no stored tdmrep.json says" in breached(folder)["tdm"][0]


# -- politeness


def edit_attempts(folder: Path, change: Callable[[int, list[str]], list[str]]) -> None:
    path = only(folder, "log/attempts-w000-*.log")
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    path.write_text(
        "".join("\t".join(change(number, line)) + "\n" for number, line in enumerate(lines))
    )


def test_a_request_that_came_too_early_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    last: dict[str, int] = {}

    def send_without_delay(number: int, fields: list[str]) -> list[str]:
        if fields[0] == "B" and fields[6] in last and number > 20 and "done" not in last:
            last["done"] = 1
            return [*fields[:2], str(int(fields[2]) - 500_000), *fields[3:]]
        if fields[0] == "B":
            last[fields[6]] = number
        return fields

    edit_attempts(folder, send_without_delay)
    found = breached(folder)
    assert "host pauses" in found and set(found) <= {
        "host pauses",
        "addresses",
    }, "its address may be another host's too"
    assert "were due" in found["host pauses"][0]


def lasting(fields: list[str], more_us: int) -> list[str]:
    return [*fields[:2], str(int(fields[2]) + more_us), *fields[3:]] if fields[0] == "E" else fields


def test_requests_that_overlap_are_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    edit_attempts(folder, lambda number, fields: lasting(fields, 3_000_000))
    assert any("before the end of" in text for text in breached(folder)["host pauses"])


def test_an_address_that_was_pressed_is_found(take: Callable[[str], Path]) -> None:
    folder = take("finished")

    def press(number: int, fields: list[str]) -> list[str]:
        return (
            [*fields[:5], "198.18.0.77", *fields[6:]]
            if fields[0] == "B"
            else lasting(fields, 9_000_000)
        )

    edit_attempts(folder, press)
    assert "198.18.0.77" in breached(folder)["addresses"][0]


def test_lines_that_cannot_be_read_prove_nothing(take: Callable[[str], Path]) -> None:
    folder = take("finished")
    edit_attempts(folder, lambda number, fields: ["nonsense"] if number in (8, 9) else fields)
    assert any("not proven" in text for text in breached(folder)["host pauses"])


def test_second_addresses_after_no_connection_press_nobody() -> None:
    checks = PolitenessChecks(PolitenessSection(), False, lambda what, done, total: None)
    common = {
        "worker": 0,
        "run": "r",
        "boot": "b",
        "number": 1,
        "kind": FetchKind.PAGE,
        "host": "a.test",
        "url": "http://a.test/",
    }
    times = {"started": 1.0, "started_wall": 1.0, "ended": 2.0, "ended_wall": 2.0}
    first = Attempt(
        **common, **times, address="192.0.2.1", outcome=Reason.CONNECT_REFUSED, delay_s=1.0
    )  # type: ignore[arg-type]
    second = Attempt(**common, **times, address="192.0.2.2")  # type: ignore[arg-type]
    checks._judge(Gap("a.test", first, second, 0.001))
    checks._judge(Gap("a.test", second, first, 0.001))
    assert checks.hosts.breaches == 0
    same = msgspec.structs.replace(second, address="192.0.2.1")
    checks._judge(Gap("a.test", first, same, 0.001))
    assert checks.hosts.breaches == 1
