"""The index of host names: written with new hosts, and added to older tables bit by bit."""

from __future__ import annotations

from lycosa.base.urls.identity import hash8, reversed_host
from lycosa.stages.frontier.host_names import HOST_NAME_ROWS, HostNames, indexed_until
from lycosa.stages.frontier.visit_state import VisitRecord, VisitStates
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import encode_record, host_key, prefix_end


def index(store: MemoryKeyValue) -> dict[str, bytes]:
    pairs = store.scan(HOST_NAME_ROWS, prefix_end(HOST_NAME_ROWS))
    return {key[1:].decode(): value for key, value in pairs}


def commit(table: Overlay, store: MemoryKeyValue) -> int:
    """One commit; the number of its writes."""
    batch = table.freeze()
    store.write(batch)
    table.settle()
    return len(batch)


def test_a_host_is_reversed_by_label_and_an_address_is_not() -> None:
    assert reversed_host("www.example.org") == "org.example.www"
    assert reversed_host("www.example.org:81") == "org.example.www:81"
    assert reversed_host("10.0.0.1:81") == "10.0.0.1:81"
    assert reversed_host("[::1]:81") == "[::1]:81"
    assert reversed_host(reversed_host("a.b.example")) == "a.b.example"


def test_a_new_host_is_in_the_index_from_its_first_commit_on() -> None:
    store = MemoryKeyValue()
    table = Overlay(store)
    visits = VisitStates(table, 0, 8, 100)
    visits.write_back()
    assert commit(table, store) == 0  # nothing is written for an empty table
    visits.find_or_add_host(hash8("a.example"), "a.example")
    visits.write_back()
    commit(table, store)
    assert index(store) == {"example.a": hash8("a.example")}
    assert indexed_until(store.get) is None


def test_an_older_table_is_indexed_by_its_commits_and_over_restarts() -> None:
    store = MemoryKeyValue()
    hosts = [f"h{number}.example" for number in range(250)]
    store.write([(host_key(hash8(host)), encode_record(VisitRecord(host))) for host in hosts])
    assert indexed_until(store.get) == b""
    sizes = []
    for _ in range(4):
        table = Overlay(store)
        names = HostNames(table)  # as after a restart
        names.add_name("new.example", hash8("new.example"))
        names.add_older_names()
        commit(table, store)
        sizes.append(len(index(store)))
    assert sizes == [101, 201, 251, 251]
    assert indexed_until(store.get) is None
    table = Overlay(store)
    HostNames(table).add_older_names()
    assert table.open_writes == 0
    assert index(store)[reversed_host(hosts[7])] == hash8(hosts[7])
