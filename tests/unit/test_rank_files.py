"""Rank files: made from scores of hosts and pages, found again by the owners of the hosts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.factors import NO_RANK
from lycosa.base.urls.identity import hash8, partition_of
from lycosa.stages.admit.linking_sites import HOST_SIZE, is_exact, linking_sites, with_site
from lycosa.state.objects.folder import FolderStore
from lycosa.state.ranks.rank_results import RanksError
from lycosa.state.ranks.rank_set import (
    make_rank_set,
    open_rank_file,
    upload_rank_set,
)
from lycosa.state.ranks.rank_sources import given_source
from lycosa.state.seen.hash_files import HashFileDamaged

ROWS = """\
#harmonicc_pos\t#harmonicc_val\t#pr_pos\t#pr_val\t#host_rev
1\t5.0\t3\t0.1\texample.a
2\t4.0\t1\t0.5\texample.b
3\t3.0\t2\t0.3\texample.c.www
"""


def owner_in(partitions: int):  # type: ignore[no-untyped-def]
    return lambda host: partition_of(host, partitions)


names = st.text("abcdefgh", min_size=1, max_size=6).map(lambda name: f"{name}.example")
scores = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 1e-9])


@given(st.dictionaries(names, scores, max_size=60), st.sampled_from([1, 4, 16]))
@settings(deadline=None, max_examples=25)
def test_each_name_has_the_quantile_of_its_score(of: dict[str, float], partitions: int) -> None:
    with TemporaryDirectory() as folder:
        pages = {f"http://{name}/": score for name, score in of.items()}
        place, owner_of = Path(folder), owner_in(partitions)
        digest = make_rank_set(place, partitions, owner_of, "test", of.items(), pages.items())
        files = [
            open_rank_file(place, None, digest, each, partitions)[1] for each in range(partitions)
        ]
        ordered = sorted(of.values())
        for name, score in of.items():
            file = files[owner_of(name)]
            rank = file.host_rank(hash8(name))
            # values that differ by less than 0.2 % may count as equal
            low = bisect_left(ordered, score * 0.998) / len(ordered)
            high = bisect_right(ordered, score * 1.002) / len(ordered)
            assert 255 * low - 1 <= rank <= 255 * high + 1
            assert file.page_rank(hash8(f"http://{name}/")) == rank
            assert file.host_rank(hash8(f"{name}.other")) == NO_RANK
        assert sum(each.hosts for each in files) == sum(each.pages for each in files) == len(of)


def test_the_same_ranks_have_the_same_digest_and_nothing_is_left_over(tmp_path: Path) -> None:
    of = {f"h{n}.example": n / 100 for n in range(100)}
    rising = make_rank_set(tmp_path, 4, owner_in(4), "x", of.items())
    falling = make_rank_set(tmp_path, 4, owner_in(4), "x", reversed(of.items()))
    assert rising == falling
    assert [path.name for path in (tmp_path / "ranks" / "files").iterdir()] == [rising]


def test_ranks_for_fewer_partitions_serve_more(tmp_path: Path) -> None:
    of = {f"h{n}.example": n / 100 for n in range(100)}
    digest = make_rank_set(tmp_path, 4, owner_in(4), "x", of.items())
    for name in of:
        file = open_rank_file(tmp_path, None, digest, owner_in(8)(name), 8)[1]
        assert file.host_rank(hash8(name)) != NO_RANK
    with pytest.raises(RanksError, match="for 4 partitions, and the crawl has 6"):
        open_rank_file(tmp_path, None, digest, 0, 6)


def test_a_worker_of_a_cluster_takes_the_file_of_its_shard_from_the_store(tmp_path: Path) -> None:
    here, bucket, machine = (tmp_path / name for name in ("here", "bucket", "machine"))
    bucket.mkdir()
    store = FolderStore("bucket", bucket)
    digest = make_rank_set(here, 4, owner_in(4), "x", [("a.example", 0.5)])
    upload_rank_set(here, store, digest)
    upload_rank_set(here, store, digest)
    shard = owner_in(4)("a.example")
    _, file = open_rank_file(machine, store, digest, shard, 4)
    assert file.host_rank(hash8("a.example")) == 128
    folder = machine / "ranks" / "files" / digest
    assert sorted(path.name for path in folder.iterdir()) == [f"{shard:05}", "set.json"]
    assert open_rank_file(machine, None, digest, shard, 4)[0].source == "x", "explain has it too"
    other = bucket / "ranks" / "files" / digest / f"{(shard + 1) % 4:05}"
    other.write_bytes(other.read_bytes()[:-1] + b"!")
    with pytest.raises(RanksError, match="is damaged"):
        open_rank_file(machine, store, digest, (shard + 1) % 4, 4)


def test_damage_is_found(tmp_path: Path) -> None:
    digest = make_rank_set(tmp_path, 1, owner_in(1), "x", [("a.example", 0.5)])
    folder = tmp_path / "ranks" / "files" / digest
    content = (folder / "00000").read_bytes()
    (folder / "00000").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(HashFileDamaged):
        open_rank_file(tmp_path, None, digest, 0, 1)
    (folder / "set.json").write_bytes(b"{}")
    with pytest.raises(RanksError, match="is damaged"):
        open_rank_file(tmp_path, None, digest, 0, 1)
    with pytest.raises(RanksError, match="give them with --ranks FILE"):
        open_rank_file(tmp_path, None, "0" * 64, 0, 1)
    with pytest.raises(RanksError, match="no digest"):
        open_rank_file(tmp_path, None, "../../etc", 0, 1)


def test_files_of_hosts_and_of_pages_are_joined(tmp_path: Path) -> None:
    hosts, pages = tmp_path / "hosts.txt", tmp_path / "pages.txt"
    hosts.write_text(ROWS)
    page = "https://a.example/x"
    pages.write_text(f"{ROWS.splitlines()[0].replace('host_rev', 'url')}\n1\t1.0\t1\t0.5\t{page}\n")
    source = given_source([hosts, pages])
    assert dict(source.hosts) == {"a.example": 0.1, "b.example": 0.5, "www.c.example": 0.3}
    assert dict(source.pages) == {page: 0.5}
    assert "hosts.txt (SHA-256 " in source.words and "pages.txt" in source.words


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no ranks"),
        ("<html>", "is no file of ranks"),
        ("PK\x03\x04\x14\x00\x08", "host_rev\\): it is a ZIP file$"),
        ("\x89HDF\r\n\x1a", "host_rev\\): it is not text$"),
    ],
)
def test_a_file_that_has_no_ranks_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(content)
    with pytest.raises(RanksError, match=said):
        given_source([path])


def test_a_folder_that_is_no_crawl_is_not_told_to_be_ranked(tmp_path: Path) -> None:
    with pytest.raises(RanksError, match="neither a crawl folder nor a result"):
        given_source([tmp_path])


def test_a_broken_line_leaves_no_files(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(f"{ROWS}4\tbroken\n")
    source = given_source([path])
    with pytest.raises(ValueError, match="line 5 is not a row of ranks"):
        make_rank_set(tmp_path, 1, owner_in(1), "x", source.hosts)
    assert not list((tmp_path / "ranks" / "files").iterdir())


@given(st.sets(st.integers(0, 2**64 - 1), max_size=600))
@settings(deadline=None, max_examples=30)
def test_the_small_record_of_a_host_never_shrinks_and_is_bounded(sites: set[int]) -> None:
    record, before = b"", 0
    for site in sites:
        record = with_site(record, site.to_bytes(8, "big"), HOST_SIZE)
        assert linking_sites(record) >= before and len(record) <= 65
        before = linking_sites(record)
    assert is_exact(record) == (len(sites) <= 8)
    if is_exact(record):
        assert before == len(sites)


def test_the_small_record_is_right_to_its_standard_error() -> None:
    record = b""
    for number in range(2000):
        record = with_site(record, hash8(str(number)), HOST_SIZE)
    assert linking_sites(record) == pytest.approx(2000, rel=3 * 0.13)
