"""The rows by which commands show the progress of a crawl, and the line without a terminal."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.sections import Config
from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.model.progress_parts import UploadState
from lycosa.base.system.meter import Distribution, Histogram, MeterSnapshot
from lycosa.base.system.metric_catalogue import SECONDS
from lycosa.cli.crawl_display import Display, folder_display
from lycosa.cli.output import Column, emit_columns
from lycosa.cli.progress_rows import memory_by_part, progress_rows, renders_in_words
from progress_making import progress_with

BUSY = progress_with(
    discovered=5842,
    captures=1234,
    body_bytes=20_885_350,
    states={"queued": 2681, "fetched": 2814, "failed": 249, "refused": 98},
    reasons={"http_client_error": 240, "dns_failed": 9, "near_duplicate": 75, "none": 3},
    rule_refusals={"nofollow": 359, "out_of_scope": 1},
    hosts=201,
    running=3,
    hosts_ready=1,
    memory_bytes=412_000_000,
    memory_bound=1_500_000_000,
    relief="drops caches",
    uploads=UploadState("s3://b/x", 12, 1_200_000_000, 3, 200_000_000, failing_s=130, why="away"),
    feeds_away=("pages: it ended", "dlq: it ended"),
    memory=[
        ProcessMemory("supervisor", 43_000_000, 55_000_000),
        ProcessMemory("worker", 369_000_000, 74_000_000),
    ],
)


def test_each_number_has_one_row() -> None:
    assert progress_rows(BUSY) == [
        ("captured", "1,234 (0.0/s)"),
        ("received", "20.9 MB (0 B/s)"),
        ("queued", "2,681 of 5,842 discovered"),
        ("hosts", "201: 3 fetching, 1 ready, 197 between requests or done"),
        ("failed", "249 (240 http_client_error, 9 dns_failed)"),
        ("refused", "98 URLs by robots.txt, 360 links by scope and traps"),
        ("memory", "412 MB of 1.50 GB: a worker drops caches"),
        (
            "uploads",
            "12 files (1.20 GB) to s3://b/x, 3 waiting (200 MB); nothing accepted for 2m 10s: away",
        ),
        ("feeds", "pages: it ended; dlq: it ended"),
        ("waiting for", "3 pages being fetched or read"),
    ]


def test_renders_say_what_waits_and_why() -> None:
    progress = progress_with(captures=1).with_numbers(
        {"lycosa_renders_crowded_out_total": 12},
        {
            "lycosa_render_queue_depth": {"due": 3, "waiting": 32, "lent": 2},
            "lycosa_renders_total": {"quiet": 220, "busy": 5, "hung": 4, "lost": 1, "crashed": 0},
        },
    )
    assert renders_in_words(progress) == (
        "230 rendered (5 without a document: 4 hung, 1 lost), 37 wait (3 due, 2 in work, 32 for"
        " what they load), 12 stayed as they are (render.queue)"
    )
    times = Histogram(SECONDS)
    for seconds in [0.3] * 60 + [2.0] * 40:
        times.observe(seconds)
    shown = Distribution(times.counts, times.sum)
    meter = MeterSnapshot(progress.meter.numbers, {"lycosa_render_seconds": {"": shown}})
    timed = msgspec.structs.replace(progress, meter=meter)
    assert renders_in_words(timed).endswith("; half of the rounds within 0.5 s, 95 % within 2.5 s")
    assert renders_in_words(progress_with(captures=1)) == ""


def test_rows_that_say_nothing_are_left_out() -> None:
    assert [label for label, _ in progress_rows(progress_with(captures=1))] == [
        "captured",
        "received",
        "queued",
        "hosts",
        "failed",
        "refused",
        "waiting for",
    ]


def test_the_memory_of_each_process_is_named() -> None:
    assert memory_by_part(BUSY) == (
        "412 MB of 1.50 GB: a worker drops caches (supervisor 43.0 MB, worker 369 MB; with at most"
        " 74.0 MB of mapped files)"
    )


def test_without_a_terminal_a_line_has_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    with Display("news", ["crawl news"], every_s=0) as shown:
        shown.more = [("cluster", "2 nodes")]
        shown.show_progress(BUSY)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("0s  cluster 2 nodes  captured 1,234 (0.0/s)  received 20.9 MB (0 B/s)")
    assert line.endswith("waiting for 3 pages being fetched or read")
    assert "refused" not in line


def test_a_new_folder_is_named_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with folder_display(tmp_path, Config(), is_new=True):
        pass
    assert f"crawling into {tmp_path}" in capsys.readouterr().err


def test_a_table_has_its_columns_and_nothing_without_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns: tuple[Column[tuple[str, int]], ...] = (
        Column("host", lambda each: each[0]),
        Column("waiting", lambda each: each[1], spare=1),
    )
    emit_columns(columns, [("a.example", 3), ("b", 12)])
    emit_columns(columns, [])
    assert capsys.readouterr().out == "\nhost       waiting\na.example  3\nb          12\n"
