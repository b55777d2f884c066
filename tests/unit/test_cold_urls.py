"""Which records of a partition become cold, what happens to those that change meanwhile, and how
they come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_partition import SECTION, START, SetSeen, commit, done, found

from cold_samples import named
from lycosa.base.config.policy_classes import LISTING_CLASSES
from lycosa.base.config.sections import ColdSection
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.dead_letter import DeadLetterAction, DecidedDeadLetter
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.host_memory import MISSES, SpeculationRecord
from lycosa.base.model.parsed import Link
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of, target_of
from lycosa.stages.frontier.change_signals import SignalOutcome
from lycosa.stages.frontier.cold_cells import cold_cells
from lycosa.stages.frontier.cold_urls import ColdUrls, may_go
from lycosa.stages.frontier.dead_letter_actions import carry_out_decision
from lycosa.stages.frontier.discovery import LinkSource
from lycosa.stages.frontier.due import is_probe_place, probe_place
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.state.cold.cold_keys import COLD_DAY_S, ColdKeys, notes_of
from lycosa.state.cold.cold_rows import ColdRecord, ReturnCause, cold_files, noted_state, return_key
from lycosa.state.cold.cold_table import ColdTable
from lycosa.state.cold.whole_table import WholeTable
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, decode_url, due_urls, unparsed_key
from lycosa.state.objects.folder import FolderStore
from lycosa.state.seen.seen_port import hashes_of
from lycosa.state.shard.counters import counters_of

DAY = 86_400.0
COLD = ColdSection(after_s=10 * DAY, return_after_s=5 * DAY, least_records=1)
LATER = START + 11 * DAY
PAGES = 12
HOSTS = 3


def url_of(number: int) -> str:
    return f"http://h{number % HOSTS}.example/{number}"


def key_of(number: int) -> bytes:
    return hash8(host_of(url_of(number))) + hash8(url_of(number))


class ColdBed:
    """A partition with its cold files, of which the last commit can be gone back to."""

    def __init__(self, folder: Path, cold: ColdSection = COLD) -> None:
        self.folder, self.section = folder, cold
        self.store, self.files = MemoryKeyValue(), FolderStore(str(folder), folder)
        self.partition = self.opened()
        self.partition.discover_urls([found(url_of(n)) for n in range(PAGES)], START)
        self.fetch(START)
        commit(self.store, self.partition)

    def opened(self) -> Partition:
        known = {int.from_bytes(key[9:], "big") for key, _ in self.store.scan(b"U", b"V")}
        rows = cold_files(self.store)
        cold = ColdTable(self.files, rows)
        known |= {int(each) for part in cold.hashes() for each in part}
        partition = Partition(
            0,
            Overlay(self.store),
            SetSeen(known),  # type: ignore[arg-type]
            SECTION,
            FrontierRules(cold=self.section),
        )
        partition.cold.hashes = ColdKeys(self.folder / "cold-keys", rows, cold)
        return partition

    def fetch(self, now: float, state: UrlState = UrlState.FETCHED, due_at: int = 0) -> int:
        """Fetch all that waits; with 0 nothing is due again."""
        fetched = 0
        for host in range(HOSTS):
            visit = self.partition.visits.find_host(hash8(f"h{host}.example"))
            assert visit is not None
            while (lease := self.partition.lease_next(visit)) is not None:
                before = lease.record.history or History()
                history = History(before.fetches + 1, int(now), 200, cell=7)
                self.partition.complete_lease(lease, done(lease, state, due_at, history))
                fetched += 1
        return fetched

    def make_due(self, due: dict[int, int]) -> None:
        """Give fetched pages a time of their next fetch, by number."""
        for number, due_at in due.items():
            host8, url8 = key_of(number)[:8], key_of(number)[8:]
            record = self.partition.find_record(host8, url8)
            assert record is not None and record.history is not None
            interval_s = 0 if is_probe_place(due_at) else int(due_at - START)
            record.history = msgspec.structs.replace(record.history, interval_s=interval_s)
            record.due_at = due_at
            self.partition._put(host8, url8, record)
            if is_probe_place(due_at):
                self.partition.probes.add(record.history.fetched_at, host8 + url8)
            else:
                self.partition._due.add_due(due_at, host8 + url8)
        commit(self.store, self.partition)

    def gather(self, now: float = LATER) -> Sequence[ColdRecord]:
        return self.partition.cold.step(now, 1000)

    def archive(self, gathered: Sequence[ColdRecord], now: float = LATER) -> int:
        """Write a file, delete the rows and commit; returns how many."""
        cold = self.partition.cold
        if not gathered:
            return 0
        number = max(cold.files, default=0) + 1
        row = msgspec.structs.replace(named(self.files, gathered, number), archived_at=int(now))
        removed = [each for part in cold.remove(number, row, gathered) for each in part]
        commit(self.store, self.partition)
        if removed:
            notes = notes_of(
                [each.url for each in removed],
                int(now) // COLD_DAY_S,
                [noted_state(each.record) for each in removed],
                [int(each.record.reason) for each in removed],
            )
            keys = cold.hashes
            assert isinstance(keys, ColdKeys)
            keys.add(number, row.name, notes)
        return len(removed)

    def bring_back(self, now: float) -> int:
        cold = ColdTable(self.files, cold_files(self.partition.table))
        urls = sorted(self.partition.cold.returning)
        return sum(self.partition.come_back(url, cold.get(b"U" + url), now) for url in urls)

    def restart(self) -> None:
        """Lose what is not committed."""
        self.partition = self.opened()

    def check(self) -> None:
        """Every URL is in one place that counts, and the counters say so."""
        cold = ColdTable(self.files, cold_files(self.store))
        live = {key for key, _ in self.store.scan(b"U", b"V")}
        gone = {key for key, _ in cold.scan(b"U", b"V")} - live
        assert {key[1:] for key in live | gone} == {key_of(n) for n in range(PAGES)}
        counters = counters_of(self.store)
        assert counters.is_balanced and counters.discovered == PAGES
        assert sum(counters.cold.values()) == len(gone)
        self.check_due(ColdTable(self.files, cold_files(self.store)))

    def check_due(self, cold: ColdTable) -> None:
        """No time of a next fetch is forgotten, and pages are counted by the cells they have."""
        scheduled = {
            (int.from_bytes(key[1:5], "big"), url)
            for key, row in self.store.scan(b"D", b"E")
            for url in due_urls(key, row)
        }
        table, cells, in_files = WholeTable(self.store, cold), Counter[int](), Counter[bytes]()
        for key, value, is_cold in table.scan_marked():
            record = decode_url(value)
            is_returning = self.store.get(return_key(key[1:])) is not None
            if record.due_at and not is_returning:
                assert (record.due_at, key[1:]) in scheduled
            if record.history is not None and record.history.cell:
                cells[record.history.cell] += 1
                in_files[key[1:9]] += is_cold
        assert sum(counters_of(self.store).cells.values()) == cells.total()
        for host in range(HOSTS):
            host8 = hash8(f"h{host}.example")
            assert sum(cold_cells(self.store.get, host8).values()) == in_files[host8]


@pytest.fixture
def bed(tmp_path: Path) -> ColdBed:
    return ColdBed(tmp_path)


def test_what_nothing_waits_for_goes_in_one_commit(bed: ColdBed) -> None:
    assert bed.gather(START + DAY) == ()
    bed.partition.cold.row.next_at = 0
    gathered = bed.gather()
    assert [each.url for each in gathered] == sorted(key_of(n) for n in range(PAGES))
    assert bed.archive(gathered) == PAGES
    counters = counters_of(bed.store)
    assert counters.cold == {int(UrlState.FETCHED): PAGES} and counters.cells == {}
    assert counters.count_in(UrlState.FETCHED) == PAGES
    bed.check()


def test_a_record_that_changed_while_its_file_was_written_stays(bed: ColdBed) -> None:
    gathered = bed.gather()
    host = bed.partition.visits.find_host(key_of(3)[:8])
    record = bed.partition.find_record(key_of(3)[:8], key_of(3)[8:])
    assert host is not None and record is not None
    bed.partition.queue_again(host, key_of(3)[8:], record)
    assert bed.archive(gathered) == PAGES - 1
    found_now = bed.partition.find_record(key_of(3)[:8], key_of(3)[8:])
    assert found_now is not None and found_now.state is UrlState.QUEUED
    bed.check()


def test_a_record_with_a_row_that_expects_it_stays(bed: ColdBed) -> None:
    bed.partition.table.put(unparsed_key(key_of(3)[:8], key_of(3)[8:]), b"")
    assert key_of(3) not in {each.url for each in bed.gather()}


def test_too_few_records_are_not_worth_a_file(tmp_path: Path) -> None:
    bed = ColdBed(tmp_path, msgspec.structs.replace(COLD, least_records=PAGES + 1))
    assert bed.gather() == ()


def test_nothing_goes_without_the_setting(tmp_path: Path) -> None:
    bed = ColdBed(tmp_path, ColdSection())
    assert bed.partition.cold.next_step(LATER) == float("inf")


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"state": UrlState.QUEUED}, False),
        ({"state": UrlState.PARKED}, False),
        ({"state": UrlState.RETIRED, "history": None}, True),
        ({"state": UrlState.REFUSED, "history": None}, True),
        ({"state": UrlState.GONE}, True),
        ({"due_at": 1}, False),
        ({"due_at": 200}, False),
        ({"due_at": 201}, True),
        ({"due_at": 201, "state": UrlState.QUEUED}, False),
        ({"due_at": probe_place(50)}, True),
        ({"found_at": 500}, False),
        ({"history": History(1, 500)}, False),
        ({"history": History(1, 50, policy=LISTING_CLASSES[ListingKind.SITEMAP])}, False),
    ],
)
def test_only_records_for_which_nothing_waits_may_go(change: dict[str, object], goes: bool) -> None:
    record = UrlRecord(
        UrlState.FETCHED, True, "/", 0, 0, LinkKind.A, 50, history=History(1, 50, 200)
    )
    assert may_go(msgspec.structs.replace(record, **change), 100.0, 200.0) is goes


def test_a_page_that_is_due_later_is_cold_until_then_and_keeps_its_cell(bed: ColdBed) -> None:
    soon, late = int(LATER + 9 * DAY), int(LATER + 30 * DAY)
    bed.make_due({0: soon, 3: late})
    cells = dict(bed.partition.counters.cells)
    assert bed.archive(bed.gather()) == PAGES - 1
    assert bed.partition.find_record(key_of(0)[:8], key_of(0)[8:]) is not None
    assert sum(cells.values()) == PAGES
    # Those that are never due left the counts by cell; the two others did not.
    assert sum(bed.partition.counters.cells.values()) == 2
    host8 = key_of(3)[:8]
    assert sum(cold_cells(bed.partition.table.get, host8).values()) == 1
    # Neither a link nor a seed fetches it earlier than its time.
    bed.partition.discover_urls(
        [found(url_of(3)), found(url_of(3), LinkKind.SEED)], LATER + 9 * DAY
    )
    assert not bed.partition.cold.returning
    bed.restart()
    assert bed.partition.wake_due(late - 1) == 1  # the page that never left
    assert not bed.partition.cold.returning and bed.partition.next_due() == late
    assert bed.partition.wake_due(late) == 1
    commit(bed.store, bed.partition)
    bed.restart()  # the schedule has it no more, and a row says that it is to come back
    assert bed.partition.cold.returning[key_of(3)].why is ReturnCause.DUE
    assert bed.bring_back(late) == 1 and bed.partition.wake_due(late) == 1
    record = bed.partition.find_record(key_of(3)[:8], key_of(3)[8:])
    assert record is not None and record.state is UrlState.QUEUED and record.due_at == 0
    assert record.history is not None and record.history.cell
    commit(bed.store, bed.partition)
    assert cold_cells(bed.partition.table.get, host8) == {}
    assert sum(bed.partition.counters.cells.values()) == 2
    bed.check()


def test_a_cold_probe_comes_back_when_it_is_its_turn(bed: ColdBed) -> None:
    bed.make_due({3: probe_place(int(START)), 4: probe_place(int(START))})
    assert bed.archive(bed.gather()) == PAGES
    now = LATER + 8 * DAY
    assert bed.partition.wake_due(now) == 1
    (url,) = bed.partition.cold.returning
    assert bed.bring_back(now) == 1
    record = bed.partition.find_record(url[:8], url[8:])
    assert record is not None and record.state is UrlState.QUEUED
    commit(bed.store, bed.partition)
    bed.check()


def test_a_signal_brings_a_cold_page_back_if_it_is_newer_than_its_fetch(bed: ColdBed) -> None:
    late = int(LATER + 60 * DAY)
    bed.make_due({3: late, 4: late})
    bed.archive(bed.gather())
    announce = bed.partition.announce_change
    told, now = int(LATER + DAY), LATER + 2 * DAY
    assert announce(key_of(4), SignalSource.PUSH, int(START - DAY), now) is SignalOutcome.KEPT
    assert announce(key_of(5), SignalSource.PUSH, told, now) is SignalOutcome.ENDED
    assert announce(key_of(3), SignalSource.PUSH, told, now) is SignalOutcome.SOONER
    commit(bed.store, bed.partition)
    bed.restart()
    assert bed.bring_back(now) == 1
    record = bed.partition.find_record(key_of(3)[:8], key_of(3)[8:])
    assert record is not None and record.state is UrlState.FETCHED
    row = bed.partition.signals.row(key_of(3))
    assert row.open == {SignalSource.PUSH: told}
    assert bed.partition.next_due() == record.due_at
    commit(bed.store, bed.partition)
    bed.check()


def test_a_link_brings_a_url_back_only_after_its_time(bed: ColdBed) -> None:
    bed.archive(bed.gather())
    assert bed.partition.discover_urls([found(url_of(3))], LATER + DAY) == [False]
    assert not bed.partition.cold.returning
    later = LATER + 6 * DAY
    assert bed.partition.discover_urls([found(url_of(3))], later) == [False]
    assert set(bed.partition.cold.returning) == {key_of(3)}
    commit(bed.store, bed.partition)
    bed.restart()  # the row is in the commit
    assert bed.bring_back(later) == 1
    record = bed.partition.find_record(key_of(3)[:8], key_of(3)[8:])
    assert record is not None and record.state is UrlState.QUEUED
    assert record.history is not None and record.history.fetches == 1
    commit(bed.store, bed.partition)
    bed.check()
    assert bed.fetch(later) == 1
    # It is not cold any more, so the next link to it has no effect.
    bed.partition.discover_urls([found(url_of(3))], later + 1)
    assert not bed.partition.cold.returning


def test_what_is_given_again_comes_back_at_once(bed: ColdBed) -> None:
    bed.archive(bed.gather())
    bed.partition.discover_urls([found(url_of(3), kind=LinkKind.GIVEN)], LATER + 1)
    bed.partition.discover_urls([found(url_of(4), kind=LinkKind.SEED)], LATER + 1)
    assert bed.bring_back(LATER + 2) == 2
    commit(bed.store, bed.partition)
    bed.check()


def stopped_guess(bed: ColdBed) -> tuple[Discovered, Discovered]:
    """A guess that was refused because those like it did not exist, and a link to its URL."""
    host = bed.partition.visits.find_host(key_of(PAGES)[:8])
    assert host is not None
    target = target_of(url_of(PAGES))
    known = host.record.speculation = SpeculationRecord()
    for _ in range(MISSES):
        known.note_answer(target, exists=False)
    guess = found(url_of(PAGES), kind=LinkKind.SPECULATIVE)
    bed.partition.discover_urls([guess], START)
    return guess, found(url_of(PAGES))


def test_a_cold_guess_comes_back_with_a_link_and_not_with_a_guess(bed: ColdBed) -> None:
    guess, link = stopped_guess(bed)
    assert bed.archive(bed.gather()) == PAGES + 1
    ripe = LATER + 6 * DAY
    bed.partition.discover_urls([guess], ripe)
    text = Link(guess.url, guess.host8, guess.url8, guess.kind)
    bed.partition.gather_links(LinkSource("", 1, 0.5), [text], ripe)
    bed.partition.take_gathered()
    assert not bed.partition.cold.returning
    bed.partition.discover_urls([link], LATER + 1)
    assert set(bed.partition.cold.returning) == {key_of(PAGES)}
    assert bed.bring_back(LATER + 2) == 1
    assert bed.fetch(LATER + 3) == 1  # not refused at its turn
    record = bed.partition.find_record(key_of(PAGES)[:8], key_of(PAGES)[8:])
    assert record is not None and (record.state, record.kind) == (UrlState.FETCHED, LinkKind.A)


def test_a_seed_counts_more_than_a_link_that_waits_for_the_same_file(bed: ColdBed) -> None:
    bed.archive(bed.gather())
    ripe = LATER + 6 * DAY
    for kind, depth, why in (
        (LinkKind.A, 3, ReturnCause.LINK),
        (LinkKind.SEED, 0, ReturnCause.GIVEN),
        (LinkKind.A, 2, ReturnCause.GIVEN),
    ):
        bed.partition.discover_urls([found(url_of(3), depth, kind)], ripe)
        row = bed.partition.cold.returning[key_of(3)]
        assert row.why is why
    assert row.depth == 0
    assert bed.bring_back(ripe) == 1


def test_an_operator_retries_a_cold_url_that_failed_and_no_other(tmp_path: Path) -> None:
    bed = ColdBed(tmp_path)
    for number in range(2):
        host = bed.partition.visits.find_host(key_of(number)[:8])
        record = bed.partition.find_record(key_of(number)[:8], key_of(number)[8:])
        assert host is not None and record is not None
        bed.partition.queue_again(host, key_of(number)[8:], record)
    bed.fetch(START, UrlState.FAILED)
    bed.archive(bed.gather())
    retry = DecidedDeadLetter(DeadLetterAction.RETRY, "me", 1, 1)
    answers = [
        carry_out_decision(bed.partition, key_of(n)[:8], key_of(n)[8:], retry, LATER)
        for n in (0, 1, 2)
    ]
    assert answers == [True, True, False]
    assert not carry_out_decision(bed.partition, key_of(0)[:8], key_of(0)[8:], retry, LATER)
    assert bed.bring_back(LATER) == 2
    commit(bed.store, bed.partition)
    bed.check()


def test_a_damaged_record_is_not_waited_for(bed: ColdBed) -> None:
    bed.archive(bed.gather())
    bed.partition.discover_urls([found(url_of(3), kind=LinkKind.SEED)], LATER)
    assert not bed.partition.come_back(key_of(3), None, LATER)
    assert not bed.partition.cold.returning


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "gather",
                "archive",
                "gather and archive",
                "seed",
                "link",
                "signal",
                "return",
                "fetch",
                "fetch for later",
                "wake",
                "crash",
                "commit",
            )
        ),
        st.integers(0, PAGES - 1),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS)
def test_in_any_order_and_with_crashes_every_url_is_in_one_place(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int]]
) -> None:
    bed, now = ColdBed(tmp_path_factory.mktemp("bed")), LATER
    bed.make_due({number: int(LATER + (12 + 6 * number) * DAY) for number in range(0, PAGES, 2)})
    gathered: Sequence[ColdRecord] = ()
    for name, number in operations:
        now += 4 * DAY
        if name == "gather":
            bed.partition.cold.row.next_at = 0
            gathered = bed.gather(now) or gathered
        elif name == "archive" and gathered:
            bed.archive(gathered, now)
            gathered = ()
        elif name == "gather and archive":
            bed.partition.cold.row.next_at = 0
            bed.archive(bed.gather(now), now)
            gathered = ()
        elif name in ("seed", "link"):
            kind = LinkKind.SEED if name == "seed" else LinkKind.A
            bed.partition.discover_urls([found(url_of(number), kind=kind)], now)
        elif name == "signal":
            bed.partition.announce_change(key_of(number), SignalSource.PUSH, int(now - DAY), now)
        elif name == "return":
            bed.bring_back(now)
        elif name == "fetch":
            bed.fetch(now)
        elif name == "fetch for later":
            bed.fetch(now, due_at=int(now + (5 + 5 * number) * DAY))
        elif name == "wake":
            bed.partition.wake_due(now)
        elif name == "crash":
            bed.restart()
            gathered = ()
        else:
            commit(bed.store, bed.partition)
        if name in ("archive", "crash", "commit"):
            bed.check()
    commit(bed.store, bed.partition)
    bed.check()
    # Whatever happened, each page that is due comes back and is fetched.
    due = {key[1:] for key, value in whole_of(bed) if decode_url(value).due_at}
    now += 100 * DAY
    while bed.partition.next_due() <= now or bed.partition.cold.returning:
        bed.partition.wake_due(now)
        bed.bring_back(now)
    waits = {key[1:] for key, value in whole_of(bed) if decode_url(value).state is UrlState.QUEUED}
    assert due <= waits


def whole_of(bed: ColdBed) -> list[tuple[bytes, bytes]]:
    commit(bed.store, bed.partition)
    return list(WholeTable(bed.store, ColdTable(bed.files, cold_files(bed.store))).scan(b"U", b"V"))


def test_hashes_of_cold_urls_survive_in_their_file(bed: ColdBed, tmp_path: Path) -> None:
    bed.archive(bed.gather())
    keys = bed.partition.cold.hashes
    assert isinstance(keys, ColdKeys)
    day = int(LATER) // COLD_DAY_S
    wanted = hashes_of([key_of(n)[8:] for n in range(PAGES)] + [b"12345678"])
    for each in (keys, "saved", "opened", "rebuilt"):
        if each == "saved":
            keys.save()
        elif each == "opened":
            bed.restart()
        elif each == "rebuilt":
            (tmp_path / "cold-keys").write_bytes(b"rubbish")
            bed.restart()
        now = bed.partition.cold.hashes
        assert now.ripe(wanted, day).tolist() == [True] * PAGES + [False]
        assert not now.ripe(wanted, day - 1).any()
        note = now.find(key_of(2)[8:])
        assert note == (day, UrlState.FETCHED, Reason.NONE, False)


def test_hashes_of_other_files_are_not_used(bed: ColdBed, tmp_path: Path) -> None:
    bed.archive(bed.gather())
    keys = bed.partition.cold.hashes
    assert isinstance(keys, ColdKeys)
    keys.save()
    empty = ColdKeys(tmp_path / "cold-keys", {}, ColdTable(bed.files, {}))
    assert len(empty) == 0 and "other cold files" in empty.damage


def test_of_two_notes_of_a_url_the_newer_counts() -> None:
    one = notes_of([b"h" * 8 + b"u" * 8], 5, [3], [0])
    keys = ColdKeys(Path("never-read"), {}, ColdTable(FolderStore("x", Path()), {}))
    keys.add(1, "a", one)
    keys.add(2, "b", notes_of([b"h" * 8 + b"u" * 8], 9, [5], [1]))
    assert len(keys) == 1 and keys.find(b"u" * 8) == (9, 5, 1, False)
    assert keys.ripe(np.array([hashes_of([b"u" * 8])[0]]), 8).tolist() == [False]
    keys.forget(b"u" * 8)
    assert keys.find(b"u" * 8) is None
    keys.add(3, "c", one)
    assert keys.find(b"u" * 8) == (5, 3, 0, False)


def test_it_says_what_it_has(bed: ColdBed) -> None:
    assert isinstance(bed.partition.cold, ColdUrls)
    assert "files=0" in repr(bed.partition.cold) and "fresh=0" in repr(bed.partition.cold.hashes)
