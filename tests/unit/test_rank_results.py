"""The results of ranks: read back, complete or not there, and the form of Common Crawl."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.urls.identity import reversed_host
from lycosa.state.objects.folder import FolderStore
from lycosa.state.ranks.rank_results import (
    RankedFile,
    RankedLevel,
    RankManifest,
    RankOptions,
    RankResults,
    RanksError,
    part_key,
)
from lycosa.state.ranks.rank_text import RankedName, RankTextError, read_ranks, restored_host

ROWS = [
    RankedName("www.example.com", 1, 34626736.0, 3, 0.005384977821460953),
    RankedName("fonts.example.org", 2, 3.5, 2, 4.001342924757244e-4),
]
TEXT = (
    "#harmonicc_pos\t#harmonicc_val\t#pr_pos\t#pr_val\t#host_rev\n"
    "1\t3.4626736E7\t3\t0.005384977821460953\tcom.example.www\n"
    "2\t3.5\t2\t4.001342924757244E-4\torg.example.fonts\n"
)


def test_rows_of_common_crawl_are_read() -> None:
    assert list(read_ranks([TEXT.encode()])) == ROWS


def test_a_file_without_the_line_of_columns_is_one_of_hosts() -> None:
    assert list(read_ranks([TEXT.partition("\n")[2].encode()])) == ROWS


def test_a_domain_has_the_number_of_its_hosts() -> None:
    text = TEXT.replace("host_rev", "host_rev\t#n_hosts").replace("example.www", "example\t7")
    first, second = read_ranks([text.replace("fonts", "fonts\t1").encode()])
    assert (first.name, first.hosts, second.hosts) == ("example.com", 7, 1)


def test_columns_in_another_order_are_read() -> None:
    lines = [line.split("\t") for line in TEXT.splitlines()]
    text = "\n".join("\t".join([x[4], x[2], x[3], x[0], x[1]]) for x in lines)
    assert list(read_ranks([text.encode()])) == ROWS


def test_pages_have_their_url_as_name() -> None:
    text = TEXT.replace("#host_rev", "#url").replace("com.example.www", "https://a.example/b.c")
    assert next(read_ranks([text.encode()])).name == "https://a.example/b.c"


@given(st.lists(st.integers(1, 40), max_size=30), st.booleans())
def test_any_division_into_pieces_and_gzip_members_is_the_same(
    cuts: list[int], zipped: bool
) -> None:
    data = TEXT.encode()
    if zipped:
        data = gzip.compress(data[:70]) + gzip.compress(data[70:])
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    assert list(read_ranks([*pieces, data[at:]])) == ROWS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#a\t#b\n", "the columns are"),
        ("1\t2\t3\n", "line 1 is not a row of ranks"),
        (TEXT + "x\t1\t1\t1\tcom\n", "line 4 is not a row of ranks"),
        ("<html>not found</html>", "line 1 is not a row of ranks"),
    ],
)
def test_another_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(RankTextError, match=said):
        list(read_ranks([text.encode()]))


def test_a_truncated_download_is_refused() -> None:
    data = gzip.compress(TEXT.encode())
    with pytest.raises(RankTextError, match="ends too early"):
        list(read_ranks([data[:-9]]))
    with pytest.raises(RankTextError, match="not a gzip file"):
        list(read_ranks([b"\x1f\x8b" + data[9:]]))


@pytest.mark.parametrize(
    ("host", "turned"),
    [
        ("www.example.com", "com.example.www"),
        ("localhost", "localhost"),
        ("www.example.com:8080", "com.example.www:8080"),
        ("5.example.com", "com.example.5"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_names_are_reversed_by_labels_and_back(host: str, turned: str) -> None:
    assert reversed_host(host) == turned
    assert restored_host(turned) == host


def stored(root: Path, run: str = "a") -> tuple[RankResults, int]:
    results = RankResults(FolderStore(str(root), root))
    number = results.begin(run)
    path = root / "made"
    path.write_bytes(gzip.compress(TEXT.encode(), mtime=0))
    results.put_part(number, "host", "ranks", path)
    return results, number


def manifest(root: Path, number: int) -> RankManifest:
    data = (root / "made").read_bytes()
    file = RankedFile(len(data), hashlib.sha256(data).hexdigest())
    level = RankedLevel(2, 0, 2, 1, 0.0, "exact", 0, 0, {"ranks": file})
    options = RankOptions(("a",))
    return RankManifest(
        number, "c", "2026-01-01T00:00:00Z", options, "d", 1, 1, ["s"], {"host": level}
    )


def test_a_result_is_there_when_its_manifest_is(tmp_path: Path) -> None:
    results, number = stored(tmp_path)
    assert (number, results.numbers()) == (1, [])
    with pytest.raises(RanksError, match="no result 1 of ranks; there are: none"):
        results.read_manifest(1)
    results.finish(manifest(tmp_path, number))
    assert results.numbers() == [1]
    assert results.read_manifest(1) == manifest(tmp_path, 1)
    assert list(results.rows(1, "host")) == ROWS
    with pytest.raises(RanksError, match="has no pages"):
        list(results.rows(1, "page"))


def test_a_run_that_continues_has_its_number_and_others_another(tmp_path: Path) -> None:
    results, first = stored(tmp_path)
    assert results.begin("b") == first + 1
    assert results.begin("a") == first
    assert results.begin("c") == first + 2


def test_a_damaged_file_is_reported_at_its_end(tmp_path: Path) -> None:
    results, number = stored(tmp_path)
    results.finish(manifest(tmp_path, number))
    other = gzip.compress(TEXT.replace("3.5", "3.4").encode(), mtime=0)
    (tmp_path / part_key(number, "host", "ranks")).write_bytes(other)
    with pytest.raises(RanksError, match="damaged"):
        list(results.rows(number, "host"))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    results, number = stored(tmp_path)
    results.finish(msgspec.structs.replace(manifest(tmp_path, number), format=2))
    with pytest.raises(RanksError, match="has format 2; this version reads up to 1"):
        results.read_manifest(number)


def test_a_result_that_is_forgotten_leaves_its_number_in_use(tmp_path: Path) -> None:
    results, number = stored(tmp_path)
    results.finish(manifest(tmp_path, number))
    assert results.forget(number) == 2
    assert results.numbers() == []
    assert list((tmp_path / "ranks").rglob("*.gz")) == []
    assert results.begin("z") == number + 1
