"""What is stored of a render: records, the row, the table; and what a segment without one shows."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from lycosa.base.model.capture import Location
from lycosa.base.model.finished_render import FinishedRender, without_nonces
from lycosa.base.model.rendered_page import RenderEnd
from lycosa.base.preferences.preference_model import (
    PreferenceSource,
    Statement,
    gather_preferences,
)
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.base.urls.surt import urn_key
from lycosa.state.store import layout
from lycosa.state.store.cdxj import lines
from lycosa.state.store.closing import build_derived
from lycosa.state.store.journal import encode_line, is_render, read_all_rows, read_header, read_rows
from lycosa.state.store.journal_rows import RENDERS_FORMAT, JournalRow, RowBuilder
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segment_recovery import recover
from lycosa.state.store.usable_rows import usable_row
from lycosa.state.store.warc import block_digest
from render_samples import HTML, PNG, SCRIPT, TEXT, failed_render, finished_render, rendered
from store_samples import (
    FileStore,
    capture,
    close_all,
    commit,
    fetched,
    numbered,
    open_store,
    parsed,
)


def journals(folder: Path) -> list[Path]:
    return sorted((folder / "journal").glob("*.jsonl.zst*"))


def renders(folder: Path) -> list[JournalRow]:
    return [row for path in journals(folder) for row in read_rows(path, having=RENDER_LINE)]


def stored(folder: Path, **changes: object) -> tuple[FinishedRender, FileStore]:
    """A capture and its render in a segment that is closed."""
    store = open_store(folder)
    page = numbered(1)
    render = finished_render(page, store.append_capture(page), **changes)  # type: ignore[arg-type]
    store.append_render(render)
    close_all(store)
    return render, store


def records(folder: Path) -> dict[str, tuple[dict[str, str], bytes]]:
    """Fields and content of the records of renders, by their URL."""
    found = {}
    for path in (folder / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                if record.rec_type in ("conversion", "resource"):
                    fields = dict(record.rec_headers.headers)
                    found[fields["WARC-Target-URI"]] = fields, record.content_stream().read()
    return found


def test_the_records_have_the_forms_that_archivists_know(tmp_path: Path) -> None:
    render, _ = stored(tmp_path, rendered=rendered(numbered(1).fetched.url, screenshot=PNG))
    url, found = render.url, records(tmp_path)
    assert list(found) == [url, f"urn:pageinfo:{url}", f"urn:text:{url}", f"urn:view:{url}"]
    document, html = found[url]
    assert document["WARC-Type"] == "conversion"
    assert document["WARC-Refers-To"] == f"<{render.original.record_id}>"
    assert (document["Content-Type"], html) == ("text/html;charset=utf-8", HTML.encode())
    for each, media_type in (
        ("pageinfo", "application/json"),
        ("text", "text/plain"),
        ("view", "image/png"),
    ):
        fields, block = found[f"urn:{each}:{url}"]
        assert (fields["WARC-Type"], fields["Content-Type"]) == ("resource", media_type)
        assert fields["WARC-Concurrent-To"] == f"<{render.original.record_id}>"
        assert fields["WARC-Block-Digest"] == block_digest(block)
    assert found[f"urn:text:{url}"][1] == TEXT.encode()
    assert found[f"urn:view:{url}"][1] == PNG


def test_the_list_of_requests_is_as_browsertrix_writes_it(tmp_path: Path) -> None:
    render, _ = stored(tmp_path)
    info = json.loads(records(tmp_path)[f"urn:pageinfo:{render.url}"][1])
    assert list(info) == ["pageid", "urls", "url", "ts", "tsStatus", "counts"]
    assert (info["url"], info["tsStatus"], info["counts"]) == (render.url, 200, {"jsErrors": 1})
    assert info["urls"] == {
        render.url: {"status": 200, "mime": "text/html", "type": "document"},
        SCRIPT: {"status": 200, "mime": "text/javascript", "type": "script"},
        "https://www.example.org/data.json": {
            "status": 0,
            "mime": "",
            "type": "fetch",
            "error": "robots_disallowed",
        },
    }


def test_a_render_without_a_document_has_a_list_of_requests_and_a_row(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    page = numbered(1)
    store.append_render(failed_render(page, store.append_capture(page)))
    close_all(store)
    assert list(records(tmp_path)) == [f"urn:pageinfo:{page.fetched.url}"]
    (row,) = renders(tmp_path)
    assert row.render is not None
    assert (row.render.end, row.render.is_better, row.render.steady_digest) == ("hung", False, "")
    (line,) = pq.read_table(next((tmp_path / "renders").iterdir())).to_pylist()
    assert (line["end"], line["document_digest"], line["text"]) == ("hung", None, None)


def test_the_table_says_what_was_loaded_and_what_it_cost(tmp_path: Path) -> None:
    render, _ = stored(tmp_path)
    (row,) = pq.read_table(next((tmp_path / "renders").iterdir())).to_pylist()
    assert (row["url"], row["text"], row["title"]) == (render.url, TEXT, "From a script")
    assert row["page_record_id"] == render.original.record_id
    assert [each["wants"] for each in row["rounds"]] == [2, 0]
    assert [each["refusal"] for each in row["requests"]] == [None, None, "robots_disallowed"]
    assert row["refused"] == [{"name": "popup", "count": 2}]
    assert (row["elapsed_s"], row["memory_bytes"]) == (2.5, 200_000_000)
    assert row["steady_digest"] == block_digest(HTML.replace('"r4nd0m"', "").encode())
    assert [each["name"] for each in row["records"]] == ["document", "pageinfo", "text"]


def test_readers_of_captures_see_captures_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    place = store.append_capture(numbered(1))
    commit(store)  # a segment without renders
    store.append_render(finished_render(numbered(1), place))
    store.append_capture(numbered(2))
    close_all(store)
    without, having = journals(tmp_path)
    assert [read_header(path).format for path in (without, having)] == [1, RENDERS_FORMAT]
    assert "renders" not in read_header(without).options
    assert [len(list(read_rows(path))) for path in (without, having)] == [1, 1]
    assert [row.render is None for row in read_all_rows(having)] == [False, True]
    assert [len(pq.read_table(path)) for path in sorted((tmp_path / "pages").iterdir())] == [1, 1]
    assert len(list((tmp_path / "renders").iterdir())) == 1


def test_a_page_cannot_pass_for_a_render(tmp_path: Path) -> None:
    """Neither by its text nor by the rows that user code makes of it."""
    store = open_store(tmp_path)
    forged = parsed(text='"render":{"end":"quiet"}', title='{"render":{}}')
    page = capture(fetched(), parsed=forged)
    place = store.append_capture(page)
    store.append_render(finished_render(numbered(1), place))
    close_all(store)
    assert len(renders(tmp_path)) == 1
    row = next(read_rows(journals(tmp_path)[0]))
    items = {"shop": [[{"render": {"end": "quiet"}}]]}
    line = encode_line(msgspec.structs.replace(row, items=items))
    assert RENDER_LINE in line and not is_render(line)


def test_a_later_run_goes_on_with_a_segment_that_has_renders(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    place = store.append_capture(numbered(1))
    store.append_render(finished_render(numbered(1), place))
    lengths = commit(store)
    recover(tmp_path, lengths)
    again = open_store(tmp_path, seed=1)
    again.append_render(finished_render(numbered(2), again.append_capture(numbered(2))))
    close_all(again)
    assert len(renders(tmp_path)) == 2
    # the first one began as a segment without renders, so it was sealed
    assert len(list((tmp_path / "renders").iterdir())) == 1


def test_what_was_not_committed_is_cut_off(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    place = store.append_capture(numbered(1))
    store.append_render(finished_render(numbered(1), place))
    lengths = commit(store)
    store.append_render(finished_render(numbered(1), place))
    commit(store)  # on disk, and no commit names it
    assert recover(tmp_path, lengths).cut
    close_all(open_store(tmp_path, seed=1))
    assert len(renders(tmp_path)) == 1
    assert len(records(tmp_path)) == 3


def test_lost_tables_are_built_again_with_the_same_bytes(tmp_path: Path) -> None:
    stored(tmp_path)
    kinds = ("renders", "cdxj", "links", "text", "pages")
    before = {path: path.read_bytes() for kind in kinds for path in (tmp_path / kind).iterdir()}
    for path in before:
        path.unlink()
    for name in layout.closed_segments(tmp_path):
        build_derived(tmp_path, name)
    assert before == {path: path.read_bytes() for path in before}


def test_records_that_were_made_for_a_sealed_segment_are_made_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    page = numbered(1)
    render = finished_render(page, store.append_capture(page))
    built = store.draft_render(render).build()
    store.append_render(render, built)
    late = store.draft_render(render).build()
    close_all(store)
    store.append_render(render, late)
    close_all(store)
    for path in (tmp_path / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            heads = [each.rec_headers for each in ArchiveIterator(file)]
        infos = {each.get_header("WARC-Warcinfo-ID") for each in heads[1:]}
        assert infos == {heads[0].get_header("WARC-Record-ID")}


def test_the_index_has_the_records_with_a_urn_and_not_the_document(tmp_path: Path) -> None:
    stored(tmp_path)
    (row,) = renders(tmp_path)
    data = b"".join(path.read_bytes() for path in (tmp_path / "warc").glob("*.warc.gz"))
    assert len(lines(row)) == 2
    for line in lines(row):
        key, _, entry = line.decode().split(" ", 2)
        found = json.loads(entry)
        assert key == found["url"] and key.startswith("urn:")
        file = (tmp_path / found["filename"]).read_bytes()
        start = int(found["offset"])
        assert file[start : start + int(found["length"])] in data
    paths = sorted((tmp_path / "cdxj").iterdir())
    listed = b"".join(path.read_bytes() for path in paths).splitlines(keepends=True)
    assert [line for line in listed if line.startswith(b"urn:")] == lines(row)


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.example.org/", "https://www.example.org"),
        ("https://www.example.org/?a=1", "https://www.example.org?a=1"),
        (
            "https://www.example.org/Page/6?b=2&a=1",
            "https://www.example.org/page/6?a=1&b=2",
        ),
        ("https://www.example.org:8443/dir/", "https://www.example.org:8443/dir"),
        ("https://www.example.org/a//b//", "https://www.example.org/a//b/"),
        ("https://example.org/%C3%A4%20b?q=%C3%A4", "https://example.org/%c3%a4%20b?q=%c3%a4"),
        ("http://[2001:db8::1]/x", "http://[2001:db8::1]/x"),
    ],
)
def test_the_key_of_a_record_is_that_of_pywb(url: str, key: str) -> None:
    assert urn_key("urn:view:", url) == f"urn:view:{key}"


def test_links_of_a_render_join_the_capture_as_its_own_do(tmp_path: Path) -> None:
    render, _ = stored(tmp_path)
    rows = [
        row for path in (tmp_path / "links").iterdir() for row in pq.read_table(path).to_pylist()
    ]
    assert len({(row["source_url"], row["source_time"]) for row in rows}) == 1
    assert [row["is_rendered"] for row in rows].count(True) == 5
    assert render.page_links == [row["is_rendered"] for row in rows].count(False)


def test_formats_without_renders_refuse_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store._rows = RowBuilder(lambda url: url, None, True, True, formats=1)
    place = store.append_capture(numbered(1))
    with pytest.raises(ValueError, match="formats 1"):
        store.append_render(finished_render(numbered(1), place))


def test_a_purpose_that_may_not_use_the_page_gets_no_words_of_its_render(tmp_path: Path) -> None:
    refused = gather_preferences(
        [Statement(PreferenceSource.SIGNAL_ROBOTS, "ai-train=no", 7, {"ai-train": False})]
    )
    stored(tmp_path, preferences=refused)
    (row,) = renders(tmp_path)
    usable = usable_row(row, UsePolicy(("ai-train",)))
    assert usable.render is not None
    assert (usable.title, usable.text, usable.render.console, usable.render.errors) == (
        "",
        "",
        (),
        (),
    )


@given(st.integers(0, 2000), st.integers(0, 2000))
def test_the_longer_text_is_the_better_one_unless_the_page_has_hardly_any(
    own: int, found: int
) -> None:
    page = numbered(1)

    at = Location("s.warc.gz", 1, 1, "urn:uuid:1")
    render = finished_render(page, at, parsed(text="x" * found), page_characters=own)
    assert render.is_better == (found > own or (found > 0 and own < 200))
    hung = msgspec.structs.replace(render, rendered=rendered("u", end=RenderEnd.HUNG))
    assert not hung.is_better


@given(st.text(), st.text())
def test_equal_documents_with_other_nonces_are_equal(one: str, other: str) -> None:
    quoted = [each.replace('"', "&quot;") for each in (one, other)]
    documents = [f'<p a=1>x<script nonce="{each}" src=x></script>' for each in quoted]
    assert without_nonces(documents[0]) == without_nonces(documents[1])
    assert without_nonces(documents[0]) == "<p a=1>x<script nonce= src=x></script>"
