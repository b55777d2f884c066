"""Whole crawls beside a site of endless near copies: its URLs are set back, and no honest page is
missed; a restart and a move keep what was learned.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.base.config.sections import CopiesSection
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.queries.host_rows import whole_host
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.kv.table_records import SET_BACK_BAND, prefix_end, row_urls
from lycosa.state.shard.counters import total_of
from proofs.trap_sites import TRAP, Shares, crawl_beside_trap

HOSTS, PAGES = 6, 8


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Shares]]:
    folder = tmp_path_factory.mktemp("near") / "crawl"
    yield folder, crawl_beside_trap(folder, HOSTS, PAGES, after_s=100.0)


def test_no_honest_page_is_missed_and_the_trap_is_only_probed(
    crawled: tuple[Path, Shares],
) -> None:
    folder, shares = crawled
    assert not shares.missed
    # one of two turns of at least a tenth of a second, once its patterns are known
    assert shares.late_s > 40
    assert shares.lately <= 5.0 * shares.late_s + 1
    records = [each.record for each in read_folder(folder).urls() if TRAP in each.url]
    waiting = [each for each in records if each.state is UrlState.QUEUED]
    reasons = {each.reason for each in waiting}
    assert reasons == {Reason.NEAR_COPIES, Reason.LEARNED_PARAMETER}
    assert len(waiting) > 500


def test_without_the_judgement_the_trap_gets_everything_that_is_left(tmp_path: Path) -> None:
    shares = crawl_beside_trap(tmp_path / "crawl", 4, 5, CopiesSection(probe_turns=1), after_s=20.0)
    assert shares.lately >= 8 * shares.late_s


def test_it_is_shown_why_a_url_waits_and_what_is_known_of_its_host(
    crawled: tuple[Path, Shares],
) -> None:
    reader = read_folder(crawled[0])
    saved = load_saved_settings(reader)
    told = {}
    for entry in reader.urls():
        if entry.record.reason in (Reason.NEAR_COPIES, Reason.LEARNED_PARAMETER):
            told.setdefault(entry.record.reason, entry.url)
    for reason, url in told.items():
        answer = explain(reader, saved, url, 0.0, lambda *_: None)  # type: ignore[arg-type,return-value]
        assert reason.meaning in answer.headline
        facts = answer.to_json()["facts"]
        assert facts["reason"] == facts["set_back"] == reason.label
    assert "visit" in answer.to_json()["facts"].get("learned_parameters", ["visit"])
    host = next(each for each in reader.hosts() if each.record.host == TRAP)
    with reader.partition_view(host.partition) as view:
        row = whole_host(reader, view, host, saved, 0.0)["copies"]
    patterns = {each["pattern"]: each["set_back"] for each in row["patterns"]}
    assert patterns["/events/0"] and patterns["/offer/0"]
    assert [each["name"] for each in row["parameters"] if each["learned"]] == ["visit"]
    shop = next(each for each in reader.hosts() if each.record.host == "thin-shop.test")
    with reader.partition_view(shop.partition) as view:
        row = whole_host(reader, view, shop, saved, 0.0)["copies"]
    assert not any(each["set_back"] for each in row.get("patterns", []))


def test_the_urls_that_are_set_back_are_counted(
    crawled: tuple[Path, Shares], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = crawled[0]
    rows = sum(
        len(row_urls(row))
        for view in read_folder(folder).partition_views()
        for key, row in view.scan(b"Q", prefix_end(b"Q"))
        if key[9] == SET_BACK_BAND
    )
    total = total_of(view.counters() for view in read_folder(folder).partition_views())
    assert total.set_back == rows > 500
    report = audit(folder)
    assert report.is_clean, report.first_breaches()
    assert main(["status", str(folder)]) == 0
    assert f"{rows:,} URLs, because pages like them were near copies" in capsys.readouterr().out
