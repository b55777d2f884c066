"""What whole crawls are judged by: the web's request log, the committed state, the files that
were left.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from fastwarc.warc import ArchiveIterator, WarcRecordType

from lycosa.base.config.sections import (
    Config,
    FrontierSection,
    ParseSection,
    PolitenessSection,
    ScopeRule,
    ScopeSection,
)
from lycosa.base.model.parcel_items import Asker
from lycosa.base.model.render_row import RenderRow
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, join_url
from lycosa.stages.frontier.demands import DEMAND_KEY, DEMANDS, decode_demand
from lycosa.stages.frontier.visit_state import HostState, VisitRecord, decode_visit
from lycosa.stages.schedule.soft_gone import MISSING_PATH
from lycosa.state.cold.cold_rows import return_key
from lycosa.state.cold.whole_table import WholeTable, whole_table
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.folder.names import table_folder
from lycosa.state.kv.kv_port import KeyValue, SavedTable
from lycosa.state.kv.table_records import (
    UrlRecord,
    decode_url,
    meta_key,
    parked_key,
    prefix_end,
    row_urls,
    url_key,
    waiting_key,
)
from lycosa.state.objects.folder import FolderStore
from lycosa.state.shard.counters import Counters
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Obstacle, RequestLog, SyntheticWeb
from lycosa.synthetic.oracle import Truth
from store_samples import crawl_rows
from virtual_crawl import VirtualCrawl, sum_of

SUFFIXES = "com\nexample\ntest\n"


def quick_config(**sections: object) -> Config:
    """Settings for whole crawls of a small web: all hosts in scope, few partitions, no language
    identification.
    """
    plain: dict[str, object] = {
        "scope": ScopeSection(rule=ScopeRule.ANY),
        "frontier": FrontierSection(partitions=3, bands=4, head=6),
        "parse": ParseSection(language=False),
    }
    return Config(**{**plain, **sections})  # type: ignore[arg-type]


def new_folder(path: Path) -> Path:
    """A crawl folder to be, with a suffix list of three lines: the whole one takes longer to
    read than the crawl takes.
    """
    path.mkdir()
    (path / "public_suffix_list.dat").write_text(SUFFIXES)
    return path


def file_bytes(folder: Path) -> dict[str, bytes]:
    """Every file under a folder: its name from there, and what is in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def asked(log: RequestLog) -> list[str]:
    """The URLs that were requested, files about an origin left out, with repeats."""
    return [
        url for url in log.urls() if not url.split("/", 3)[3].startswith(("robots", ".well-known/"))
    ]


def is_polite(log: RequestLog, politeness: PolitenessSection, late_s: float = 1e-6) -> None:
    """No host was asked before its delay was over, or twice at once; no address beyond its delay
    and slots. A server on a busy machine may note the end of an answer ``late_s`` after the
    crawler has received it.
    """
    for host in log.hosts():
        least = min(log.gaps(host), default=politeness.delay_s)
        assert least >= politeness.delay_s - late_s, (host, least)
    for address in log.addresses():
        assert log.max_parallel(address) <= politeness.address_slots, address
        least = min(log.start_gaps(address), default=politeness.address_delay_s)
        assert least >= politeness.address_delay_s - 1e-6, (address, least)


# -- state


@contextlib.contextmanager
def tables(crawl: VirtualCrawl) -> Iterator[list[KeyValue]]:
    """The partitions' tables of a crawl that does not run."""
    numbers = range(crawl.config.frontier.partitions)
    opened = [crawl.open_table(table_folder(crawl.folder, n)) for n in numbers]
    try:
        yield opened
    finally:
        for table in opened:
            table.close()


def hosts_of(table: SavedTable) -> dict[bytes, VisitRecord]:
    """Visit states by host8."""
    return {key[1:]: decode_visit(value) for key, value in table.scan(b"H", prefix_end(b"H"))}


def urls_of(table: SavedTable) -> Iterator[tuple[VisitRecord, bytes, UrlRecord]]:
    """Every URL with its host."""
    hosts = hosts_of(table)
    for key, value in table.scan(b"U", prefix_end(b"U")):
        yield hosts[key[1:9]], key[9:], decode_url(value)


def state_of(host: VisitRecord, record: UrlRecord) -> UrlState:
    """The state that a URL counts as: queued ones go with their host."""
    if record.state is not UrlState.QUEUED:
        return record.state
    return {HostState.PARKED: UrlState.PARKED, HostState.RETIRED: UrlState.RETIRED}.get(
        host.state, UrlState.QUEUED
    )


def counters_of(table: SavedTable) -> Counters:
    """The counters as committed."""
    value = table.get(meta_key("counters"))
    return msgspec.msgpack.decode(value, type=Counters) if value else Counters()


def is_balanced(table: SavedTable) -> None:
    """The committed counters add up, and a recount of everything in the table gives the same."""
    counters = counters_of(table)
    assert counters.is_balanced, counters
    marked = table.scan_marked() if isinstance(table, WholeTable) else ()
    cold = Counter(int(decode_url(each.value).state) for each in marked if each.is_cold)
    assert dict(cold) == counters.cold
    counted: Counter[int] = Counter()
    reasons: Counter[int] = Counter()
    waiting: Counter[str] = Counter()
    for host, _, record in urls_of(table):
        counted[state_of(host, record)] += 1
        if record.state not in (UrlState.QUEUED, UrlState.PARKED):
            reasons[record.reason] += 1
        if record.state is UrlState.QUEUED and not record.due_at:
            waiting[host.host] += 1
        elif record.state is UrlState.QUEUED:
            waiting["retrying " + host.host] += 1
    assert {k: n for k, n in counters.states.items() if n} == dict(counted)
    assert counters.reasons == reasons
    assert counters.discovered == sum(counted.values())
    for host in hosts_of(table).values():
        assert (host.waiting, host.retrying) == (
            waiting[host.host],
            waiting["retrying " + host.host],
        ), host
        if host.waiting and host.state not in (HostState.PARKED, HostState.RETIRED):
            assert (host.front is None) == bool(host.asleep_until), host
        host8 = hash8(host.host)
        assert host.front is None or table.get(waiting_key(host.line, *host.front)) == host8, host
        if host.errands:
            assert (host.front is None) == bool(host.asleep_until), host
        assert (
            not host.asleep_until or table.get(parked_key(host.asleep_until, host8)) is not None
        ), host
        if host.state is HostState.PARKED:
            assert table.get(parked_key(host.parked_until, host8)) is not None, host
    assert counters.asking == sum(
        not question.is_late for host in hosts_of(table).values() for question in host.questions
    )
    assert counters.hosts_asleep == sum(host.asleep_until > 0 for host in hosts_of(table).values())
    entries = Counter(
        key[1:9] for key, row in table.scan(b"Q", prefix_end(b"Q")) for _ in row_urls(row)
    )
    assert entries == Counter(
        {h8: n for h8, h in hosts_of(table).items() if (n := h.waiting + h.parked)}
    )


def errands_are_kept(opened: Mapping[int, KeyValue]) -> int:
    """Each question that is open is where its answer will come from: at the host that is asked, or
    under way there or back. Gives how many there are. ``opened`` are all partitions by number, as
    committed.
    """
    wanted: set[Asker] = set()
    held: set[Asker] = set()
    for number, table in opened.items():
        for host8, host in hosts_of(table).items():
            wanted |= {
                Asker(number, host8, question.secure, question.number)
                for question in host.questions
                if question.heard is None
            }
            held |= {asker for errand in host.errands for asker in errand.askers}
        outbox = Outbox(number, table, table)
        for destination in outbox.destinations():
            for parcel in outbox.pending_parcels(destination, 0):
                held |= {
                    asker for item in (*parcel.errands, *parcel.answers) for asker in item.askers
                }
    assert wanted <= held, ("nobody will answer", wanted - held)
    return len(wanted)


def wants_are_kept(opened: Mapping[int, KeyValue]) -> int:
    """Each URL that a page waits for is where its answer will come from: a demand of its owner, or
    under way there or back; and each demand is of a URL that waits. Gives how many URLs pages wait
    for. ``opened`` are all partitions by number, as committed.
    """
    wanted: set[tuple[int, bytes, bytes]] = set()
    held: set[tuple[int, bytes, bytes]] = set()
    for number, table in opened.items():
        for key, value in table.scan(b"v", prefix_end(b"v")):
            if len(key) == DEMAND_KEY:
                still_open = msgspec.msgpack.decode(value, type=RenderRow).open
                wanted |= {
                    (number, key[1:], still_open[at : at + 8])
                    for at in range(0, len(still_open), 8)
                }
        for key, value in table.scan(DEMANDS, prefix_end(DEMANDS)):
            if len(key) == DEMAND_KEY:
                pages = decode_demand(value).pages
                held |= {(each.partition, each.host8 + each.url8, key[9:]) for each in pages}
                record = table.get(url_key(key[1:9], key[9:]))
                state = decode_url(record).state if record is not None else None
                is_waiting = state in (UrlState.QUEUED, UrlState.PARKED)
                assert is_waiting or table.get(return_key(key[1:])) is not None, (key, state)
        outbox = Outbox(number, table, table)
        for destination in outbox.destinations():
            for parcel in outbox.pending_parcels(destination, 0):
                for want in parcel.wants:
                    place = want.page.host8 + want.page.url8
                    held.add((want.page.partition, place, hash8(want.url)))
                for settled in parcel.settled:
                    url8 = hash8(settled.url)
                    held |= {
                        (each.partition, each.host8 + each.url8, url8) for each in settled.pages
                    }
    assert wanted <= held, ("nobody will answer", wanted - held)
    return len(wanted)


def are_balanced(crawl: VirtualCrawl) -> Counters:
    """All partitions balanced; gives the sum of their counters."""
    with tables(crawl) as opened:
        for table in opened:
            is_balanced(whole_table(table, FolderStore(str(crawl.folder), crawl.folder)))
        errands_are_kept(dict(enumerate(opened)))
        wants_are_kept(dict(enumerate(opened)))
        return sum_of(counters_of(table) for table in opened)


def outcomes(crawl: VirtualCrawl) -> dict[str, tuple[UrlState, Reason]]:
    """What every known URL came to."""
    store = FolderStore(str(crawl.folder), crawl.folder)
    with tables(crawl) as opened:
        return outcomes_in(whole_table(table, store) for table in opened)


def outcomes_in(opened: Iterable[SavedTable]) -> dict[str, tuple[UrlState, Reason]]:
    """What every URL of some tables came to."""
    found = {}
    for table in opened:
        for host, _, record in urls_of(table):
            url = join_url("https" if record.secure else "http", host.host, record.target)
            found[url] = (state_of(host, record), record.reason)
    return found


def host_states(crawl: VirtualCrawl) -> dict[str, VisitRecord]:
    """All hosts by name."""
    with tables(crawl) as opened:
        return {host.host: host for table in opened for host in hosts_of(table).values()}


def ends_as_surveyed(
    truth: Truth, requested: Collection[str], found: Mapping[str, UrlState]
) -> None:
    """What a crawl that has ended requested, and what its URLs came to, is what the web's own
    survey says.
    """
    # How a host answers a path that does not exist is asked beside the crawl.
    pages = {url for url in requested if MISSING_PATH not in url}
    differ = pages ^ truth.requested
    assert not differ, ("requests", sorted(differ)[:5])
    wanted = {
        UrlState.FETCHED: truth.pages | truth.others,
        UrlState.REDIRECTED: set(truth.redirected),
        UrlState.FAILED: set(truth.failed),
        UrlState.REFUSED: truth.disallowed,
    }
    for state, urls in wanted.items():
        differ = {url for url, came in found.items() if came is state} ^ urls
        assert not differ, (state.name, sorted(differ)[:5])


# -- output


def stored_rows(folder: Path) -> list[JournalRow]:
    """The rows of all journals, after checking that every other file says the same and that no
    capture is there twice.
    """
    rows = list(crawl_rows(folder))
    numbered = Counter((row.url, row.fetch_number) for row in rows if not row.kind.is_of_origin)
    assert not {key: n for key, n in numbered.items() if n > 1}
    assert len({row.record_id for row in rows}) == len(rows)
    assert not list(folder.glob("*/*.open")) and not list(folder.glob("*/.*.tmp")), (
        "the last run closed every segment"
    )
    stems = {path.name.removesuffix(".warc.gz") for path in (folder / "warc").iterdir()}
    assert {row.segment for row in rows} <= stems
    # one that has no rows has no captures either: DNS answers alone, before the worker died
    for stem in stems:
        _segment_agrees(folder, stem, [row for row in rows if row.segment == stem])
    return rows


def _segment_agrees(folder: Path, stem: str, rows: list[JournalRow]) -> None:
    wanted = [
        (
            row.offset,
            row.record_id.removeprefix("urn:uuid:"),
            row.url,
            "revisit" if row.revisit else "response",
        )
        for row in rows
    ]
    found = []
    with (folder / "warc" / f"{stem}.warc.gz").open("rb") as file:
        for record in ArchiveIterator(file, parse_http=False):
            assert record.verify_block_digest(), record.record_id
            if record.record_type in (WarcRecordType.response, WarcRecordType.revisit):
                # its payload is elsewhere
                is_revisit = record.record_type == WarcRecordType.revisit
                record.parse_http()
                assert is_revisit or record.verify_payload_digest(), record.record_id
                uri = record.headers["WARC-Target-URI"]
                found.append(
                    (
                        record.stream_pos,
                        record.record_id[10:-1],
                        uri,
                        "revisit" if is_revisit else "response",
                    )
                )
    assert [(i.removeprefix("urn:uuid:"), *rest) for _, i, *rest in found] == [
        (i.removeprefix("urn:uuid:"), *rest) for _, i, *rest in wanted
    ]
    assert [each[0] for each in found] == [each[0] for each in wanted]
    lines = (folder / "cdxj" / f"{stem}.cdxj").read_text().splitlines()
    entries = [json.loads(line.split(" ", 2)[2]) for line in lines]
    shown = [row for row in rows if row.revisit != "server-not-modified" and not row.is_private]
    assert Counter((e["url"], int(e["offset"])) for e in entries) == Counter(
        (row.url, row.offset) for row in shown
    )
    table = pq.read_table(
        folder / "pages" / f"{stem}.parquet", columns=["url", "warc_record_offset"]
    )
    assert Counter(
        zip(table["url"].to_pylist(), table["warc_record_offset"].to_pylist(), strict=True)
    ) == Counter((row.url, row.offset) for row in rows)


def no_disallowed(web: SyntheticWeb, log: RequestLog) -> None:
    """Nothing was requested that robots.txt forbids."""
    assert not {url for url in asked(log) if web.verdict(url) is Obstacle.DISALLOWED}
