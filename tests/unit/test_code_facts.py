"""``explain`` and ``audit`` say which version of user code a capture was extracted with."""

from __future__ import annotations

from pathlib import Path

import msgspec

from item_crawl import PRODUCTS, ItemCrawl
from lycosa.inspect.audit.extractor_counts import ExtractorCounts
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.explain.facts import Explanation
from lycosa.inspect.explain.lookup import code_facts
from lycosa.state.store.journal_rows import Extractor

OLD, NEW = "a" * 64, "b" * 64


def test_a_capture_has_the_code_of_its_segment_which_ends_at_a_change(tmp_path: Path) -> None:
    crawl = ItemCrawl(tmp_path)
    crawl.store.use_extractors([Extractor.of(PRODUCTS, OLD)])
    first = crawl.page("lamp", 1.0, ["lamp", 3.0])
    second = msgspec.structs.replace(PRODUCTS, version=2)
    crawl.commit([])
    crawl.store.use_extractors([Extractor.of(second, NEW)])
    then = crawl.page("chair", 2.0, ["chair", 4.0], ["stool", None])
    crawl.close_segments()
    assert first.segment != then.segment
    for place, version, code in ((first, 1, OLD), (then, 2, NEW)):
        answer = Explanation(asked="x")
        code_facts(answer, read_folder(tmp_path), place.segment)
        (fact,) = answer.facts
        assert fact.value == [{"name": "products", "version": version, "sha256": code}]
        assert fact.text == f"products version {version} (SHA-256 {code[:12]})"


def test_a_segment_without_extractors_has_no_such_fact(tmp_path: Path) -> None:
    crawl = ItemCrawl(tmp_path)
    crawl.store.use_extractors([])
    place = crawl.page("lamp", 1.0)
    crawl.close_segments()
    answer = Explanation(asked="x")
    code_facts(answer, read_folder(tmp_path), place.segment)
    code_facts(answer, read_folder(tmp_path), "no-such-segment.warc.gz")
    assert answer.facts == []


def test_the_audit_counts_by_version_and_code(tmp_path: Path) -> None:
    from lycosa.state.store import layout
    from lycosa.state.store.journal import read_header, read_rows

    crawl = ItemCrawl(tmp_path)
    crawl.store.use_extractors([Extractor.of(PRODUCTS, OLD)])
    crawl.page("lamp", 1.0, ["lamp", 3.0])
    crawl.page("sofa", 1.5, ["sofa", 3.0], ["bed", 4.0])
    crawl.commit([])
    crawl.store.use_extractors([Extractor.of(msgspec.structs.replace(PRODUCTS, version=2), NEW)])
    crawl.page("chair", 2.0, ["chair", 4.0])
    crawl.page("about", 3.0)
    crawl.close_segments()
    counts = ExtractorCounts()
    for name in sorted(layout.segment_names(tmp_path, layout.JOURNAL)):
        path = layout.existing(tmp_path, layout.JOURNAL, name)
        counts.begin_segment(read_header(path))
        for row in read_rows(path, None):
            counts.row(row)
    assert list(counts.lines()) == [
        f"products version 1 (SHA-256 {OLD[:12]}): items 3, captures 2, segments 1",
        f"products version 2 (SHA-256 {NEW[:12]}): items 1, captures 1, segments 1",
    ]
