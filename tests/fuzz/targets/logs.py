"""Logs as files that a crash or a disk has damaged: what is read is what was written, or the
damage is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fuzz.judging import scratch
from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.state.attempts import AttemptLog, Since, crashed_attempts, last_contacts, read_attempts
from lycosa.state.commit import Commit, CommitLog, LogDamaged, PartitionBatch, read_logs
from lycosa.state.store import journal
from lycosa.state.store.journal import JournalError, read_header, read_rows
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader

_FOLDER = scratch()
_COMMITS = "commit-w000-000000000001.log"
_ATTEMPTS = "attempts-w000-000001.log"
_OPEN, _CLOSED = _FOLDER / "s.jsonl.zst.open", _FOLDER / "s.jsonl.zst"

WORDS = (
    *(
        "LYCLOG\0\x02",
        "R\t1\tboot\trun\t1\t1\n",
        "B\t1\t1000000\t1000000\t0\t192.0.2.1\ta.example\thttp://a.example/\n",
    ),
    *(
        "E\t1\t2000000\t2000000\t0\t200\t1000000\t5000000\n",
        "S\t1\t1\n",
        '{"url":"',
        '"status":',
        '"links":[[',
    ),
)


def check(data: bytes) -> None:
    """The first byte says which log the rest is, or is to do to one."""
    for path in _FOLDER.iterdir():
        path.unlink()
    kinds = (
        _foreign_commits,
        _damaged_commits,
        _foreign_attempts,
        _written_attempts,
        _foreign_journal,
        _damaged_journal,
    )
    kinds[data[0] % len(kinds) if data else 0](data[1:])


# -- commit log


def _foreign_commits(data: bytes) -> None:
    """Any file: refused as damaged, or a log that goes on where it ends."""
    (_FOLDER / _COMMITS).write_bytes(data)
    before = _read_commits()
    log = _opened()
    if log is None or before is None:  # opening looks at the last record only
        return
    assert list(log.records()) == before
    log.append(Commit(term=log.last.term if log.last else 1, sequence=log.next_sequence, wall=1.0))
    log.close()
    assert len(_read_commits() or []) == len(before) + 1


def _damaged_commits(data: bytes) -> None:
    """Three records, and something done to them: a beginning of them is read, or the damage is
    told.

    Told it must be when a good record stands behind it: that one was begun only after those before
    it were on disk.
    """
    damaged = with_damage(_THREE, data)
    (_FOLDER / _COMMITS).write_bytes(damaged)
    found = _read_commits()
    log = _opened()
    assert (log is None) == (found is None)
    if found is not None:
        assert found == _RECORDS[: len(found)], "records that nobody wrote"
        is_committed = damaged[_HEAD:] == _THREE[_HEAD:] or (
            damaged[:_HEAD] == _THREE[:_HEAD] and damaged.endswith(_THREE[_LAST:])
        )
        assert len(found) == 3 or not is_committed, (
            "committed records are gone, and nothing is told"
        )
    if log is not None:
        assert list(log.records()) == found
        log.close()
        assert _read_commits() == found, "opening changes nothing but an unfinished end"


def with_damage(whole: bytes, data: bytes) -> bytes:
    """The bytes of a file, cut, torn, with bytes put in or overwritten, as ``data`` says."""
    place, change = int.from_bytes(data[1:3], "big") % len(whole), data[3:]
    cut = whole[:place]
    ways = (
        cut,
        cut + change,
        cut + change + whole[place:],
        cut + change + whole[place + len(change) :],
    )
    return ways[data[0] % len(ways) if data else 0]


def _read_commits() -> list[Commit] | None:
    try:
        return [record for _, record in read_logs(_FOLDER)]
    except LogDamaged as error:
        assert error.offset >= 0 and "\n" not in str(error)
        return None


def _opened() -> CommitLog | None:
    try:
        return CommitLog(_FOLDER, 0)
    except LogDamaged:
        return None


def _three() -> tuple[list[Commit], bytes, int]:
    """Three records, the file that holds them, and where the last one begins."""
    log = CommitLog(_FOLDER, 0)
    records = [
        Commit(term=1, sequence=1, wall=1.5, lengths={"warc/a": 7}),
        Commit(
            term=1,
            sequence=2,
            wall=2.5,
            batches=[PartitionBatch(3, {b"key": b"value", b"gone": None})],
        ),
        Commit(term=2, sequence=3, wall=3.5, lengths={"warc/b": 9}),
    ]
    path, last = _FOLDER / _COMMITS, 0
    for record in records:
        last = path.stat().st_size if path.exists() else 0
        log.append(record)
    log.close()
    return records, path.read_bytes(), last


_RECORDS, _THREE, _LAST = _three()
_HEAD = 16  # bytes in front of the first record


# -- attempt log


def _foreign_attempts(data: bytes) -> None:
    """Any file: each line is understood or told."""
    (_FOLDER / _ATTEMPTS).write_bytes(data)
    told: list[int] = []
    attempts = list(read_attempts(_FOLDER, lambda path, line: told.append(line)))
    assert len(attempts) + len(told) <= data.count(b"\n") + 1
    assert len(crashed_attempts(_FOLDER, {})) <= len(attempts)
    assert len(last_contacts(_FOLDER, Since(0.0))) <= len(attempts)


def _written_attempts(data: bytes) -> None:
    """Three requests with any texts, cut anywhere: those that were written whole are read, and
    the one that is cut is suspected.
    """
    texts = [part.decode("utf-8", "surrogateescape") for part in data[2:].split(b"\n", 2)]
    log = AttemptLog(_FOLDER, 0, 1e9, 5.0, boot="boot")
    for text in texts:
        number = log.begin_attempt(text, "192.0.2.1", text, FetchKind.PAGE, 6.0, 1e9 + 1)
        log.end_attempt(number, Reason.NONE, 200, 0.5, 6.5, 1e9 + 1.5, 1.0)
    log.close(1e9 + 2, 7.0)
    path = _FOLDER / _ATTEMPTS
    whole = path.read_bytes()
    told: list[int] = []
    assert [
        attempt.is_finished
        for attempt in read_attempts(_FOLDER, lambda path, line: told.append(line))
    ] == [True] * len(texts)
    assert not told and not crashed_attempts(_FOLDER, {}), "what was written is read"
    cut = whole[: int.from_bytes(data[:2], "big") % (len(whole) + 1)]
    path.write_bytes(cut)
    lines = cut.split(b"\n")[:-1]
    begun, ended = (sum(line.startswith(tag) for line in lines) for tag in (b"B\t", b"E\t"))
    attempts = list(read_attempts(_FOLDER, lambda path, line: told.append(line)))
    assert (len(attempts), sum(attempt.is_finished for attempt in attempts)) == (begun, ended)
    assert len(crashed_attempts(_FOLDER, {})) == begun - ended
    assert len(told) == (not cut.endswith(b"\n") and bool(cut))


# -- row journal

_HEADER = SegmentHeader(
    format=1,
    segment="s",
    crawl="c",
    created_us=1,
    warcinfo_id="urn:uuid:1",
    warcinfo_length=9,
    info="i",
    options={"links": True, "text": True},
)
_ROWS = [
    JournalRow(
        url="http://a/",
        surt="a)/",
        host="a",
        site="a",
        date_us=1,
        status=200,
        segment="s",
        offset=number,
        length=2,
        record_id="urn:uuid:2",
    )
    for number in range(40)
]
_FRAMES = [journal.encode_journal_frame([journal.encode_header(_HEADER)])]
_FRAMES += [
    journal.encode_journal_frame([journal.encode_line(row) for row in _ROWS[at : at + 10]])
    for at in range(0, 40, 10)
]


def _foreign_journal(data: bytes) -> None:
    """Any lines behind a header, and any bytes as a file: rows that come back the same, or the
    damage is told.
    """
    _CLOSED.write_bytes(_FRAMES[0] + journal.encode_journal_frame([data]))
    rows = _read_rows(_CLOSED)
    assert len(rows or []) <= data.count(b"\n") + 1
    if rows:
        _CLOSED.write_bytes(
            _FRAMES[0] + journal.encode_journal_frame([journal.encode_line(row) for row in rows])
        )
        assert repr(_read_rows(_CLOSED)) == repr(rows)
    for path in (_OPEN, _CLOSED):
        path.write_bytes(data)
        _read_rows(path)
    with suppress(JournalError):
        read_header(_CLOSED)


def _damaged_journal(data: bytes) -> None:
    """Five commits, something done to them: the rows of a beginning are read, and of a closed
    journal the damage is told.
    """
    whole = b"".join(_FRAMES)
    damaged = with_damage(whole, data)
    same = next(
        (at for at, (one, other) in enumerate(zip(damaged, whole, strict=False)) if one != other),
        min(len(damaged), len(whole)),
    )
    ends = [sum(map(len, _FRAMES[:number])) for number in range(1, 6)]
    intact = sum(end <= same for end in ends)  # frames before the damage
    expected = _ROWS[: max(0, 10 * (intact - 1))]
    for path in (_OPEN, _CLOSED):
        path.write_bytes(damaged)
        found: list[JournalRow] = []
        try:
            found.extend(read_rows(path))
        except JournalError:
            assert damaged != whole
        assert found[: len(expected)] == expected, "what stands before the damage is read"
    if intact:
        assert _read_rows(_CLOSED, ends[intact - 1]) == expected, (
            "the committed bytes alone are whole"
        )


def _read_rows(path: Path, length: int | None = None) -> list[JournalRow] | None:
    try:
        return list(read_rows(path, length))
    except JournalError as error:
        assert str(path) in str(error)
        return None


def samples() -> Iterator[bytes]:
    yield b"\0" + _THREE
    yield b"\0" + _THREE[:-5]
    yield b"\0" + _THREE[:16]
    for place in (3, 18, 30, _LAST, _LAST + 20):
        for way in range(4):
            yield bytes((1, way)) + place.to_bytes(2, "big") + b"\x01\x02"
    yield b"\2" + "".join(WORDS[1:5]).encode()
    yield b"\2R\t1\t\trun\t5\t5\nB\t2\t5\t6\t1\t::1\ta\tb\nE\t2\t6\t7\t3\t500\t1"
    yield b"\3\1\0http://a.example/\nhttp://b.example/\xff\t\nhttp://c.example/\xc2\x85\r\n"
    yield b"\4" + journal.encode_line(_ROWS[0]) * 3
    yield b"\4" + b"".join(_FRAMES)
    yield b"\5\0\0\xa0xxx"
    yield b"\5\1\1\x10"
