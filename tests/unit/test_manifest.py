"""``crawl.json``: what it keeps, and every folder that is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.scope_sections import CanonicalSection
from lycosa.state.folder.lock import CrawlLock
from lycosa.state.folder.manifest import (
    FOLDER_FORMAT,
    MANIFEST_FORMAT,
    DamagedManifest,
    FolderUnusable,
    Identity,
    IdentityChanged,
    NewerFormat,
    NotACrawl,
    begin_run,
    check_identity,
    create_crawl,
    has_manifest,
    load_manifest,
    prepare_folder,
)

IDENTITY = Identity(
    partitions=16,
    bands=8,
    canonical={"sort_query": False, "drop_www": False},
    canonical_version=1,
    suffixes="2026-01-01",
)


def made(folder: Path) -> Path:
    create_crawl(folder, IDENTITY, "1.0", 1.7e9)
    return folder / "crawl.json"


def test_a_new_crawl_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert not has_manifest(folder)
    manifest = create_crawl(folder, IDENTITY, "1.0", 1.7e9)
    assert has_manifest(folder)
    assert load_manifest(folder) == manifest
    assert (manifest.created, manifest.term, manifest.seeds, len(manifest.crawl)) == (
        "2023-11-14T22:13:20Z",
        0,
        0,
        36,
    )
    assert [path.name for path in folder.iterdir()] == ["crawl.json"]


def test_each_run_has_the_next_number(tmp_path: Path) -> None:
    made(tmp_path)
    for number in (1, 2, 3):
        begin_run(tmp_path, load_manifest(tmp_path), f"1.{number}", 1.7e9 + number, seeds=10)
        found = load_manifest(tmp_path)
        assert (found.term, found.software, found.seeds) == (number, f"1.{number}", number * 10)
    assert found.started == "2023-11-14T22:13:23Z"


def test_a_run_gives_the_folder_the_format_of_its_records(tmp_path: Path) -> None:
    made(tmp_path)
    assert load_manifest(tmp_path).format == 1
    begin_run(tmp_path, load_manifest(tmp_path), "1.1", 1.7e9)
    assert load_manifest(tmp_path).format == FOLDER_FORMAT == MANIFEST_FORMAT


def test_a_lock_and_a_broken_off_start_do_not_make_a_folder_foreign(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    with CrawlLock(tmp_path).acquire(1.7e9):
        (tmp_path / ".crawl.json.tmp").write_bytes(b"{")
        made(tmp_path)
    prepare_folder(tmp_path)


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(NotACrawl, match=r"not empty and not a crawl \(it has thesis.tex"):
        made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FolderUnusable, match="is a file, or below a file"):
            made(folder)
        with pytest.raises(NotACrawl):
            load_manifest(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FolderUnusable, match="is not writable"):
        made(tmp_path)
    with pytest.raises(FolderUnusable, match="cannot be created"):
        made(tmp_path / "below")


def test_loading_what_is_not_a_crawl_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        NotACrawl, match=r"there is no crawl\.json in it; `lycosa crawl --dir .* SEED` starts one"
    ):
        load_manifest(tmp_path)
    with pytest.raises(NotACrawl, match="there is no such folder"):
        load_manifest(tmp_path / "none")
    (tmp_path / "hosts").touch()
    with pytest.raises(NotACrawl, match=r"no crawl\.json in it; give the folder of a crawl$"):
        load_manifest(tmp_path)


def test_a_newer_format_is_refused_even_if_nothing_else_of_it_is_known(tmp_path: Path) -> None:
    made(tmp_path).write_text(
        json.dumps({"kind": "lycosa-crawl", "format": MANIFEST_FORMAT + 1, "everything": "else"})
    )
    with pytest.raises(NewerFormat, match="has format 4, this program reads up to 3"):
        load_manifest(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"kind": "lycosa-crawl", "format": 1}',
        b'{"kind": "\xff"}',
        b'{"a":' * 9999,
        bytes(50),
    ],
)
def test_a_damaged_manifest_is_reported(tmp_path: Path, data: bytes) -> None:
    made(tmp_path).write_bytes(data)
    with pytest.raises(DamagedManifest, match="restore it from a copy"):
        load_manifest(tmp_path)


def test_a_flipped_bit_in_the_identity_is_damage_and_no_change_of_settings(tmp_path: Path) -> None:
    path = made(tmp_path)
    whole = path.read_bytes()
    start, end = whole.index(b'"identity"'), whole.index(b'"identity_digest"')
    before = load_manifest(tmp_path)
    for at in range(start * 8, end * 8):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        path.write_bytes(damaged)
        try:
            assert load_manifest(tmp_path) == before  # white space
        except DamagedManifest as error:
            assert "crawl.json" in str(error) and "restore it from a copy" in str(error)


def test_a_manifest_from_before_it_had_a_digest_is_read_and_gets_one(tmp_path: Path) -> None:
    path = made(tmp_path)
    old = json.loads(path.read_bytes())
    del old["identity_digest"]
    old["identity"]["of_a_later_version"] = 1
    path.write_text(json.dumps(old))
    manifest = load_manifest(tmp_path)
    assert (manifest.identity, manifest.identity_digest) == (IDENTITY, "")
    assert (
        begin_run(tmp_path, manifest, "1.1", 1.7e9).identity_digest
        and load_manifest(tmp_path).term == 1
    )


def test_the_manifest_of_another_program_is_not_a_crawl(tmp_path: Path) -> None:
    (tmp_path / "crawl.json").write_text('{"kind": "other", "format": 1}')
    with pytest.raises(NotACrawl, match=r"its kind is other"):
        load_manifest(tmp_path)


def test_the_same_identity_passes(tmp_path: Path) -> None:
    check_identity(load_manifest(made(tmp_path).parent), IDENTITY)


def test_an_option_of_the_canonical_form_that_is_newer_than_the_crawl_has_its_default(
    tmp_path: Path,
) -> None:
    manifest = load_manifest(made(tmp_path).parent)
    assert "drop_session_ids" not in manifest.identity.canonical
    known = manifest.identity.canonical
    default = CanonicalSection().drop_session_ids
    check_identity(
        manifest,
        msgspec.structs.replace(IDENTITY, canonical={**known, "drop_session_ids": default}),
    )
    with pytest.raises(IdentityChanged) as caught:
        check_identity(
            manifest,
            msgspec.structs.replace(IDENTITY, canonical={**known, "drop_session_ids": not default}),
        )
    assert [(each.setting, each.old, each.new) for each in caught.value.changes] == [
        ("canonical.drop_session_ids", default, not default)
    ]


def test_every_changed_setting_is_listed_with_old_new_and_why(tmp_path: Path) -> None:
    manifest = load_manifest(made(tmp_path).parent)
    wanted = msgspec.structs.replace(
        IDENTITY,
        partitions=32,
        suffixes="2027-01-01",
        canonical={"sort_query": True, "drop_www": False, "fresh": 1},
    )
    with pytest.raises(IdentityChanged) as caught:
        check_identity(manifest, wanted)
    assert [(change.setting, change.old, change.new) for change in caught.value.changes] == [
        ("frontier.partitions", 16, 32),
        ("the public suffix list", "2026-01-01", "2027-01-01"),
        ("canonical.fresh", None, 1),
        ("canonical.sort_query", False, True),
    ]
    assert (
        "frontier.partitions is 16 and would become 32: every stored URL would be searched for in"
        " another partition" in str(caught.value)
    )


def test_every_part_of_the_identity_is_compared(tmp_path: Path) -> None:
    manifest = load_manifest(made(tmp_path).parent)
    other = {
        "partitions": 1,
        "bands": 1,
        "canonical": {},
        "canonical_version": 9,
        "suffixes": "x",
        "split_sites": ("big.test",),
        "seen_urls": "bloom",
    }
    assert set(other) == set(Identity.__struct_fields__)
    for name, value in other.items():
        with pytest.raises(IdentityChanged):
            check_identity(manifest, msgspec.structs.replace(IDENTITY, **{name: value}))
