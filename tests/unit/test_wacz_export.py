"""``lycosa export DIR wacz``: the file by its specification, and what it says when it cannot be made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.base.model.discovered import LinkKind
from lycosa.base.signing.archive_key import create_archive_key, is_signature_of
from lycosa.base.signing.signing_key import create_key
from lycosa.cli.main import main
from lycosa.inspect.wacz.wacz_file import WaczFile
from lycosa.inspect.wacz.wacz_pages import PageLists
from lycosa.state.store.journal_rows import JournalRow
from sample_crawl import SampleCrawl, content
from written_archive import WrittenArchive


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[SampleCrawl]:
    made = SampleCrawl(tmp_path / "crawl")
    yield made
    made.close()


def export(crawl: SampleCrawl, target: Path, *options: str) -> WrittenArchive:
    assert main(["export", str(crawl.folder), "wacz", "-o", str(target), *options]) == 0
    archive = WrittenArchive(target)
    archive.check()
    return archive


def test_captures_of_closed_and_open_segments_are_in_it_once(
    crawl: SampleCrawl, tmp_path: Path
) -> None:
    archive = export(crawl, tmp_path / "a.wacz")
    assert sorted(line["url"] for line in archive.lines) == sorted(crawl.captured)
    assert len([name for name in archive.entries if name.startswith("archive/")]) == 2
    warc = next((crawl.folder / "warc").glob("*.warc.gz"))
    assert archive.entries[f"archive/{warc.name}"] == warc.read_bytes()


def test_what_is_not_committed_is_not_in_it(crawl: SampleCrawl, tmp_path: Path) -> None:
    crawl.capture(6)
    crawl.write_files()
    archive = export(crawl, tmp_path / "a.wacz")
    assert sorted(line["url"] for line in archive.lines) == sorted(crawl.captured[:5])


def test_the_crawl_is_unchanged_and_the_same_state_gives_the_same_bytes(
    crawl: SampleCrawl, tmp_path: Path
) -> None:
    before = content(crawl.folder)
    create_archive_key(tmp_path / "key.pem")
    for name in ("a.wacz", "b.wacz"):
        export(crawl, tmp_path / name, "--sign", str(tmp_path / "key.pem"))
    assert (tmp_path / "a.wacz").read_bytes() == (tmp_path / "b.wacz").read_bytes()
    assert content(crawl.folder) == before


def test_the_manifest_says_what_it_is(crawl: SampleCrawl, tmp_path: Path) -> None:
    archive = export(crawl, tmp_path / "a.wacz", "--title", "Größe")
    manifest = archive.manifest
    assert (manifest["profile"], manifest["wacz_version"]) == ("data-package", "1.1.1")
    assert manifest["title"] == "Größe"
    assert manifest["created"].endswith("Z")
    assert manifest["mainPageUrl"] == archive.lists["pages/pages.jsonl"][1]["url"]
    names = [each["name"] for each in manifest["resources"]]
    assert len(set(names)) == len(names) and all(name == name.lower() for name in names)


def test_pages_have_their_text(crawl: SampleCrawl, tmp_path: Path) -> None:
    archive = export(crawl, tmp_path / "a.wacz")
    assert sorted(page["url"] for page in archive.pages) == sorted(crawl.captured)
    for rows in archive.lists.values():
        assert rows[0]["format"] == "json-pages-1.0" and rows[0]["hasText"] is True
    assert all(page["text"] and page["ts"].endswith("Z") for page in archive.pages)
    assert len({page["id"] for page in archive.pages}) == len(archive.pages)


def test_a_signature_is_of_the_digest_of_the_manifest(crawl: SampleCrawl, tmp_path: Path) -> None:
    key = create_archive_key(tmp_path / "key.pem")
    archive = export(crawl, tmp_path / "a.wacz", "--sign", str(tmp_path / "key.pem"))
    signed = archive.digest["signedData"]
    fields = {"hash", "created", "software", "version", "signature", "publicKey"}
    assert signed.keys() == fields  # "MUST not contain any property that is not listed"
    assert signed["hash"] == archive.digest["hash"]
    assert signed["created"] == archive.manifest["created"]
    assert is_signature_of(signed["hash"], signed["signature"], key.public)


def test_it_may_be_written_to_a_pipe(crawl: SampleCrawl, tmp_path: Path) -> None:
    code = "import sys; from lycosa.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "export", str(crawl.folder), "wacz"]
    done = subprocess.run(command, capture_output=True, check=True)
    export(crawl, tmp_path / "a.wacz")
    assert done.stdout == (tmp_path / "a.wacz").read_bytes()


def test_the_report_counts(
    crawl: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "a.wacz"
    export(crawl, target)
    assert "5 captures and 5 pages of 2 segments" in capsys.readouterr().err
    export(crawl, target, "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["captures"], report["pages"], report["segments"]) == (5, 5, 2)
    assert report["size"] == target.stat().st_size
    assert report["left_out"] == report["elsewhere"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["wacz", "--format", "csv"], "--format is for tables"),
        (["wacz", "--where", "true"], "--where is for tables"),
        (["wacz", "-o", "a.zip"], "ends with .wacz"),
        (["pages", "--title", "x"], "--title is for wacz"),
        (["pages", "--sign", "x"], "--sign is for wacz"),
        (["wacz", "-o", "a.wacz", "--sign", "missing.pem"], "no such key file"),
        (["wacz", "-o", "a.wacz", "--purpose", "dance"], "'dance' is not a use"),
        (["Wacz"], "wacz, crawl-log, commoncrawl are the whole crawl"),
    ],
)
def test_wrong_options_are_told(
    crawl: SampleCrawl, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["export", str(crawl.folder), *options]) == 2
    assert said in capsys.readouterr().err


def test_nothing_remains_of_an_archive_that_fails(
    crawl: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_key(tmp_path / "signing.pem")
    target = tmp_path / "a.wacz"
    arguments = ["export", str(crawl.folder), "wacz", "-o", str(target)]
    assert main([*arguments, "--sign", str(tmp_path / "signing.pem")]) == 2
    assert "P-384" in capsys.readouterr().err
    warc = next((crawl.folder / "warc").glob("*.warc.gz"))
    warc.write_bytes(warc.read_bytes()[:-700])
    assert main(arguments) == 1
    assert "its journal has records up to" in capsys.readouterr().err
    next((crawl.folder / "journal").glob("*.zst")).unlink()
    assert main(arguments) == 1
    assert "which alone says where its records are" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.wacz")) and not list(tmp_path.glob(".*.tmp"))


def row(number: int, kind: LinkKind = LinkKind.A, depth: int = 1, **fields: object) -> JournalRow:
    return JournalRow(
        url=f"https://a.example/{number}",
        surt=f"example,a)/{number}",
        host="a.example",
        site="a.example",
        date_us=1_700_000_000_000_000 + number,
        status=200,
        segment="x",
        offset=1,
        length=1,
        record_id=f"urn:uuid:{number}",
        media_type="text/html",
        link_kind=kind,
        depth=depth,
        **fields,  # type: ignore[arg-type]
    )


def lists_of(tmp_path: Path, *rows: JournalRow) -> dict[str, list[str]]:
    lists = PageLists(tmp_path)
    with WaczFile(tmp_path / "x.wacz", 0.0) as file:
        for each in rows:
            lists.add_capture(each)
        lists.write(file)
        paths = [each.path for each in file.resources]
        file.add_document("indexes/index.cdx.gz", b"")
        file.add_document("datapackage.json", b"{}")
        file.add_document("datapackage-digest.json", b"{}")
    lists.close()
    archive = WrittenArchive(tmp_path / "x.wacz")
    assert set(paths) == archive.lists.keys()
    return {name: [each["id"] for each in rows[1:]] for name, rows in archive.lists.items()}


def test_pages_of_seeds_are_in_the_first_list(tmp_path: Path) -> None:
    found = lists_of(tmp_path, row(1), row(2, LinkKind.SEED, 0), row(3, LinkKind.SITEMAP))
    assert found == {"pages/pages.jsonl": ["2"], "pages/extraPages.jsonl": ["1", "3"]}


def test_without_a_seed_all_pages_are_in_the_first_list(tmp_path: Path) -> None:
    assert lists_of(tmp_path, row(1), row(2)) == {"pages/pages.jsonl": ["1", "2"]}
    assert lists_of(tmp_path) == {"pages/pages.jsonl": []}


def test_what_is_part_of_a_page_is_no_page(tmp_path: Path) -> None:
    parts = [row(1, LinkKind.IFRAME), row(2, LinkKind.IMG), row(3, LinkKind.STYLE)]
    others = [row(4, revisit="server-not-modified"), row(5, media_type_detected="image/png")]
    found = lists_of(tmp_path, *parts, *others, row(6, media_type_detected="application/pdf"))
    assert found == {"pages/pages.jsonl": ["6"]}
