"""The log: its records, bursts, rotation, and several processes on one file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from costs import run_below
from lycosa.base.logs.bursts import BurstLimiter, Suppressed
from lycosa.base.logs.log_file import LogFile
from lycosa.base.logs.log_records import (
    EventRecord,
    FetchRecord,
    LogLevel,
    encode_json,
    encode_text,
    shown_time,
    without_secrets,
)
from lycosa.base.logs.log_writer import VARIABLE, EventLog, LogTarget, log_target
from lycosa.base.model.fetched import Fetched, FetchKind, FetchRequest
from lycosa.base.reasons import Reason
from lycosa.worker.visit.fetch_log import FetchLog

URL = "http://a.example:8080/x?y=1"


def fetched(reason: Reason = Reason.NONE, **values: Any) -> Fetched:
    return Fetched(URL, reason, address="10.0.0.1", duration_s=0.25, first_byte_s=0.2, **values)


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def log_to(path: Path, **values: Any) -> EventLog:
    return EventLog(LogTarget(str(path), "json", **values), "worker 0")


def test_there_is_one_record_for_each_attempt(tmp_path: Path) -> None:
    log = log_to(tmp_path / "log")
    fetches = FetchLog(log)
    request = FetchRequest(URL, "10.0.0.1", FetchKind.ROBOTS)
    fetches.note_attempt(request, fetched(status=200, body_bytes=7, protocol="http/1.1"), 1.5)
    fetches.note_attempt(request, fetched(Reason.CONNECT_REFUSED, detail="errno 111"), 2.0)
    log.close()
    good, bad = written(tmp_path / "log")
    assert {name: good[name] for name in ("event", "level", "kind", "host", "status")} == {
        "event": "fetch",
        "level": "info",
        "kind": "robots",
        "host": "a.example:8080",
        "status": 200,
    }
    assert (good["bytes"], good["duration_s"], good["delay_s"]) == (7, 0.25, 1.5)
    assert "reason" not in good and "status" not in bad
    assert (bad["level"], bad["reason"], bad["detail"]) == (
        "warning",
        "connect_refused",
        "errno 111",
    )


def test_records_below_the_level_are_not_written(tmp_path: Path) -> None:
    log = log_to(tmp_path / "log", level=LogLevel.WARNING)
    fetches, request = FetchLog(log), FetchRequest(URL, "10.0.0.1")
    fetches.note_attempt(request, fetched(status=200), 0.0)
    fetches.note_attempt(request, fetched(Reason.TLS_FAILED), 0.0)
    log.note(LogLevel.INFO, "note", "x")
    log.note(LogLevel.ERROR, "note", "y")
    log.close()
    assert [each["level"] for each in written(tmp_path / "log")] == ["warning", "error"]


def test_a_burst_of_failures_of_one_host_is_counted_and_summarised(tmp_path: Path) -> None:
    log = log_to(tmp_path / "log")
    fetches = FetchLog(log)
    for number in range(500):
        request = FetchRequest(f"http://a.example/{number}", "10.0.0.1")
        fetches.note_attempt(request, fetched(Reason.CONNECTION_LOST), 0.0)
        fetches.note_attempt(request, fetched(status=200), 0.0)
    log.close()
    records = written(tmp_path / "log")
    good = [each for each in records if each.get("status") == 200]
    bad = [each for each in records if each.get("reason")]
    (summary,) = (each for each in records if each["event"] == "suppressed")
    assert len(good) == 500 and len(bad) + summary["count"] == 500 and len(bad) == 20
    assert summary["host"] == "a.example" and "connection_lost" in summary["message"]
    assert log.suppressed == 480


def await_that(is_so: Callable[[], bool]) -> None:
    for _ in range(3000):
        if is_so():
            return
        Event().wait(0.01)
    pytest.fail("it did not become so within 30 s")


def test_a_failure_after_a_burst_and_a_quiet_time_is_written(tmp_path: Path) -> None:
    now, path = 1000.0, tmp_path / "log"
    log = EventLog(LogTarget(str(path), "json"), "worker 0", lambda: now)

    def fail(number: int) -> None:
        for _ in range(number):
            log.note(LogLevel.WARNING, "waiting", "kafka")

    fail(20)
    await_that(lambda: path.exists() and len(written(path)) == 20)
    now += 1000.0
    fail(1)
    log.close()
    assert [each["event"] for each in written(path)] == ["waiting"] * 21
    assert log.suppressed == 0


def test_the_number_of_lost_records_is_written_when_the_log_works_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    log = log_to(folder / "log")
    for number in range(1, 4):  # each record in a batch of its own
        log.note(LogLevel.INFO, "note", str(number))
        await_that(lambda number=number: log.suppressed == number)  # type: ignore[misc]
    folder.mkdir()
    log.note(LogLevel.INFO, "note", "again")
    log.close()
    again, lost = written(folder / "log")
    assert again["message"] == "again"
    assert (lost["event"], lost["count"]) == ("suppressed", 3)


def test_bursts_are_separate_by_host_and_end_with_their_minute() -> None:
    limiter = BurstLimiter(most=2, window_s=60.0)
    a, b = ("fetch", "a", "lost"), ("fetch", "b", "lost")
    assert [limiter.may_write(a, 0.0) for _ in range(4)] == [True, True, False, False]
    assert limiter.may_write(b, 1.0)
    assert limiter.has_pending and limiter.close_windows(59.0) == []
    assert limiter.close_windows(60.5) == [Suppressed(a, 2)]
    assert limiter.may_write(a, 61.0) and not limiter.has_pending
    assert limiter.close_windows(100.0, everything=True) == []


def test_the_memory_of_bursts_is_bounded() -> None:
    limiter = BurstLimiter(most=1)
    for number in range(30_000):
        limiter.may_write(("fetch", str(number), ""), 0.0)
        limiter.close_windows(0.0)
    assert "keys=10000" in repr(limiter)


HOSTILE = 'a\nb\x1b[31m "c" \u202e\x00 é'


@pytest.mark.parametrize("encode", [encode_json, encode_text])
def test_a_record_stays_on_its_line_and_obeys_nobody(encode: Any) -> None:
    for record in (
        EventRecord(time="t", level="info", event="note", process="p", message=HOSTILE),
        FetchRecord(
            time="t",
            level="info",
            event="fetch",
            process="p",
            url=URL,
            kind="page",
            host="h",
            reason="internal",
            detail=HOSTILE,
        ),
    ):
        line = encode(record)
        assert not re.search(r"[\x00-\x1f\x7f\u202e]", line)
    record = EventRecord(time="t", level="info", event="note", process="p", message=HOSTILE)
    assert json.loads(encode_json(record))["message"] == HOSTILE


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("redis://user:hunter2@10.0.0.1/0 is away", "redis://***@10.0.0.1/0 is away"),
        ("sasl.password=hunter2, retrying", "sasl.password=***, retrying"),
        ("Authorization: Bearer hunter2", "Authorization: ***"),
        ("token: hunter2", "token: ***"),
        ("redis://user:hunter2@hunter2@10.0.0.1/0", "redis://***@10.0.0.1/0"),
        ("password='hunter2'", "password='***'"),
        ('{"token": "hunter2"}', '{"token": "***"}'),
        ("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=***"),
        ("http://a.example/?access_token=hunter2", "http://a.example/?access_token=***"),
        ("http://a.example/?api_key=hunter2&b=1", "http://a.example/?api_key=***&b=1"),
        ("3 tokens left, see the key", "3 tokens left, see the key"),
        ('Authorization: Digest username="x", response="hunter2"', "Authorization: ***"),
        ("Proxy-Authorization: Token hunter2\nfrom: x", "Proxy-Authorization: ***\nfrom: x"),
        ("Cookie: a=1; session=hunter2\r\nnext", "Cookie: ***\r\nnext"),
        ("set-cookie: sid=hunter2; Path=/; Secure", "set-cookie: ***"),
        ("{'X-Api-Key': 'hunter2', 'Accept': '*/*'}", "{'X-Api-Key': '***', 'Accept': '*/*'}"),
        (
            '{"authorization": "Digest a=\\"b\\", r=\\"hunter2\\"", "x": 1}',
            '{"authorization": "***", "x": 1}',
        ),
        (
            '"{\\"token\\": \\"big hunter2\\", \\"x\\": 1}"',
            '"{\\"token\\": \\"***\\", \\"x\\": 1}"',
        ),
        ('password="correct hunter2 staple", x', 'password="***", x'),
        ("authorization=Digest a, response=hunter2", "authorization=***"),
        ("http://a.example/?authorization=hunter2&b=1", "http://a.example/?authorization=***&b=1"),
        ("sent Bearer abcdefgh-hunter2-xyz to it", "sent Bearer *** to it"),
        ("?X-Amz-Signature=hunter2&b", "?X-Amz-Signature=***&b"),
        ("client_secret_key: hunter2", "client_secret_key: ***"),
        ("password=hun\\ter2 is wrong", "password=*** is wrong"),
        ("password: \\hunter2", "password: ***"),
        ('"said {\\"password=hunter2\\"}"', '"said {\\"password=***\\"}"'),
        ("basic cookies and a signature: none", "basic cookies and a signature: none"),
    ],
)
def test_secrets_are_not_written(said: str, shown: str) -> None:
    record = EventRecord(
        time="t", level="info", event="note", process="p", message=said, values={"x": said}
    )
    found = json.loads(encode_json(record))
    assert found["message"] == shown and "hunter2" not in encode_text(record)
    assert found["values"]["x"] == shown.replace(said, shown)


def test_a_long_text_loses_its_middle() -> None:
    trace = "Traceback\n" + "  line\n" * 1000 + "ValueError: why"
    record = EventRecord(
        time="t", level="info", event="e", process="p", message=trace, values={"trace": trace}
    )
    found = json.loads(encode_json(record))
    for text in (found["message"], found["values"]["trace"]):
        assert text.startswith("Traceback") and text.endswith("ValueError: why")
        assert len(text) < 4100
    assert encode_text(record).count("ValueError: why") == 1, "one field in all"


def test_many_backslashes_do_not_make_the_search_for_secrets_slow() -> None:
    text = 'password: \\"' + "\\" * 20_000
    run_below(500, lambda: without_secrets(text))


def test_secrets_in_values_are_found_by_their_names_and_in_lists() -> None:
    values = {"sasl.password": "a b hunter2", "tried": ["token=hunter2", 3], "tokens_left": 7}
    record = EventRecord(
        time="t", level="info", event="note", process="p", message="m", values=values
    )
    found = json.loads(encode_json(record))["values"]
    assert found == {"sasl.password": "***", "tried": ["token=***", 3], "tokens_left": 7}
    assert "hunter2" not in encode_text(record)


def test_a_full_file_is_renamed_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "log"), most_bytes=100, most_files=3)
    for number in range(40):
        file.append([f"{number:02} " + "x" * 30])
    file.close()
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["log", "log.1", "log.2", "log.lock"]
    assert all((tmp_path / name).stat().st_size <= 100 for name in names)
    numbers = [
        int(line[:2])
        for name in ("log.2", "log.1", "log")
        for line in (tmp_path / name).read_text().splitlines()
    ]
    assert numbers == list(range(numbers[0], 40)) and len(numbers) >= 6


def test_a_file_that_another_program_moved_is_opened_again(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "log"), most_bytes=10_000, most_files=2)
    file.append(["one"])
    (tmp_path / "log").rename(tmp_path / "moved")
    file.append(["two"])
    file.close()
    assert (tmp_path / "log").read_text() == "two\n"
    assert (tmp_path / "moved").read_text() == "one\n"


_WRITER = """
import json, sys
from lycosa.base.logs.log_file import LogFile
path, name = sys.argv[1:]
file = LogFile(path, most_bytes=20_000, most_files=100)
for number in range(200):
    file.append([json.dumps({"process": name, "event": f"{number} {line}"}) for line in range(5)])
print(file.lost)
"""


def test_several_processes_write_and_rotate_one_file_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), f"writer {number}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    assert [writer.communicate(timeout=300)[0] for writer in writers] == ["0\n"] * 3
    files = [each for each in tmp_path.iterdir() if not each.name.endswith(".lock")]
    assert len(files) > 5
    found = {(each["process"], each["event"]) for file in files for each in written(file)}
    assert len(found) == sum(len(written(file)) for file in files) == 3000


def test_a_disk_that_takes_nothing_loses_records_and_nothing_else(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from lycosa.base.logs.log_file import LogFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = LogFile(sys.argv[1], 10**9, 2)
file.append(["one"])
resource.setrlimit(resource.RLIMIT_FSIZE, (7, resource.RLIM_INFINITY))
file.append(["two and more"])
file.append(["three"])
print(file.lost)
resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, resource.RLIM_INFINITY))
file.append(["four"])
"""
    path = tmp_path / "log"
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert run.stdout == "2\n"
    assert path.read_text().splitlines()[0] == "one"
    assert path.read_text().splitlines()[-1] == "four"  # on a line of its own


def test_the_target_travels_in_the_environment() -> None:
    target = LogTarget("/tmp/x", "json", LogLevel.DEBUG, 5, 6)
    environment = {VARIABLE: msgspec.json.encode(target).decode()}
    assert log_target(environment) == target
    assert log_target({}) is log_target({VARIABLE: "damaged"}) is None


def test_without_a_target_nothing_is_written_and_no_thread_runs() -> None:
    log = EventLog(None, "x")
    log.note(LogLevel.ERROR, "note", "y")
    assert not log.writes(LogLevel.ERROR) and log.suppressed == 0
    log.close()


def test_times_are_rfc_3339() -> None:
    assert shown_time(1_795_354_802.1239) == "2026-11-22T13:40:02.123Z"
