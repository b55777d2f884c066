"""Whom a crash may be blamed on: what was on the wire, and what had arrived and was not settled."""

from __future__ import annotations

from pathlib import Path

from lycosa.attempts import Attempt, AttemptLog
from lycosa.config import FrontierSection
from lycosa.frontier.partition import Partition
from lycosa.kv.memory import MemoryKeyValue
from lycosa.kv.overlay import Overlay
from lycosa.kv.records import UrlRecord, encode, url_key
from lycosa.model.completed import UrlState
from lycosa.model.discovered import LinkKind
from lycosa.model.fetched import FetchKind
from lycosa.reasons import Reason
from lycosa.seen.urls_sorted import SortedSeenUrls
from lycosa.suspects import suspects
from lycosa.url import hash8

HOST = "a.test"


def url_of(name: str) -> str:
    return f"http://{HOST}/{name}"


class Crashed:
    """A worker that died: its attempt log, and its partition as the last commit left it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = AttemptLog(folder, 0, 1000.0, 0.0, boot="b")
        self.partition = Partition(0, Overlay(MemoryKeyValue()), SortedSeenUrls(folder / "seen"), FrontierSection())

    def attempt(self, name: str, ends: bool = True, kind: FetchKind = FetchKind.PAGE) -> None:
        number = self.log.begin(HOST, "192.0.2.1", url_of(name), kind, 1.0, 1001.0)
        if ends:
            self.log.end(number, Reason.NONE, 200, 0.1, 1.1, 1001.1, 1.0)

    def record(self, name: str, state: UrlState, due_at: int = 0) -> None:
        record = UrlRecord(state, False, f"/{name}", 0, 0, LinkKind.A, 1000, due_at=due_at)
        self.partition.table.put(url_key(hash8(HOST), hash8(url_of(name))), encode(record))

    def suspects(self, owned: bool = True) -> set[str]:
        partitions = {0: self.partition} if owned else {}
        found: list[Attempt] = suspects(self.folder, 1001.0, partitions, lambda host: 0)
        return {attempt.url.rpartition("/")[2] for attempt in found}


def test_what_was_on_the_wire_is_suspect(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    crashed.record("open", UrlState.QUEUED)
    crashed.attempt("open", ends=False)
    assert crashed.suspects() == {"open"}


def test_a_page_that_arrived_and_is_not_settled_is_suspect(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    crashed.record("queued", UrlState.QUEUED)
    for name in ("queued", "never-committed"):
        crashed.attempt(name)
    assert crashed.suspects() == {"queued", "never-committed"}


def test_what_came_of_a_request_and_is_committed_is_above_suspicion(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    crashed.record("fetched", UrlState.FETCHED)
    crashed.record("failed", UrlState.FAILED)
    crashed.record("tried-again", UrlState.QUEUED, due_at=2000)
    for name in ("fetched", "failed", "tried-again"):
        crashed.attempt(name)
    crashed.attempt("robots.txt", kind=FetchKind.ROBOTS)
    assert crashed.suspects() == set()


def test_what_belongs_to_another_worker_is_for_that_one_to_judge(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    crashed.attempt("open", ends=False)
    assert crashed.suspects(owned=False) == set()
