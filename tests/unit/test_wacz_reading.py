"""WACZ files for replay: ours and those of others, and files that anyone may have made."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from lycosa.base.signing.archive_key import create_archive_key
from lycosa.cli.main import main
from lycosa.inspect.wacz.replay_folder import prepare_replay
from lycosa.inspect.wacz.wacz_reading import WaczContent, WaczError, WaczPage
from sample_crawl import SampleCrawl, content
from written_archive import WrittenArchive

RECORD = gzip.compress(b"WARC/1.1\r\nContent-Length: 0\r\n\r\n\r\n\r\n")
LINE = {"url": "http://a.example/", "filename": "data.warc.gz", "offset": 0, "length": "9"}
PLAIN = b"example,a)/ 20240101000000123 " + json.dumps(LINE).encode() + b"\n"


def made(
    path: Path,
    index: bytes = PLAIN,
    name: str = "indexes/index.cdx",
    method: int = zipfile.ZIP_STORED,
    digest: dict[str, Any] | None = None,
    pages: bytes = b"",
    **manifest: object,
) -> Path:
    """A WACZ file of another program, with what is wrong with it."""
    entries = {"archive/data.warc.gz": RECORD, name: index}
    if pages:
        entries["pages/pages.jsonl"] = pages
    hashes = [
        {"path": each, "hash": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        for each, data in entries.items()
    ]
    written = json.dumps({"resources": hashes, **manifest}).encode()
    with zipfile.ZipFile(path, "w") as file:
        for each, data in entries.items():
            file.writestr(each, data, method if each.startswith("archive") else None)
        file.writestr("datapackage.json", written)
        if digest is not None:
            own = f"sha256:{hashlib.sha256(written).hexdigest()}"
            file.writestr("datapackage-digest.json", json.dumps({"hash": own, **digest}))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    with WaczContent(path) as found:
        return [
            json.loads(line.split(b" ", 2)[2])
            for name in found.indexes()
            for line in found.index_lines(name, "0.wacz")
        ]


@pytest.mark.parametrize("name", ["index.cdx", "index.cdxj", "index.cdx.gz"])
def test_a_record_is_found_in_the_file_itself(tmp_path: Path, name: str) -> None:
    index = gzip.compress(PLAIN) if name.endswith(".gz") else PLAIN
    path = made(tmp_path / "a.wacz", index, f"indexes/{name}")
    (line,) = lines_of(path)
    assert line["filename"] == "0.wacz"
    start = int(line["offset"])
    assert path.read_bytes()[start : start + len(RECORD)] == RECORD


def test_times_have_fourteen_digits(tmp_path: Path) -> None:
    path = made(tmp_path / "a.wacz")
    with WaczContent(path) as found:
        (line,) = found.index_lines("indexes/index.cdx", "0.wacz")
    assert line.startswith(b"example,a)/ 20240101000000 {")


def test_the_page_to_begin_with_is_that_of_the_manifest_or_the_first_one(tmp_path: Path) -> None:
    main_page = {"mainPageURL": "http://a.example/b", "mainPageDate": "2024-01-01T00:00:00Z"}
    with WaczContent(made(tmp_path / "a.wacz", **main_page)) as found:
        assert found.main_page() == WaczPage("http://a.example/b", "2024-01-01T00:00:00Z")
    pages = b'{"format": "json-pages-1.0"}\n{"url": "http://a.example/c", "ts": "2024"}\n'
    with WaczContent(made(tmp_path / "b.wacz", pages=pages)) as found:
        assert found.main_page() == WaczPage("http://a.example/c", "2024")
    with WaczContent(made(tmp_path / "c.wacz")) as found:
        assert found.main_page() is None


def test_a_signature_is_checked(tmp_path: Path) -> None:
    with pytest.raises(WaczError, match="the signature does not belong"):
        key = create_archive_key(tmp_path / "key.pem")
        signed = {"hash": "sha256:0", "signature": key.sign_text("sha256:0")}
        digest = {"signedData": {**signed, "publicKey": key.public}}
        WaczContent(made(tmp_path / "a.wacz", digest=digest))
    domain = {"signedData": {"domain": "example.org", "signature": "x"}}
    with WaczContent(made(tmp_path / "b.wacz", digest=domain)) as found:
        assert found.public_key == ""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": zipfile.ZIP_DEFLATED}, "compressed in the ZIP file, which WACZ forbids"),
        ({"digest": {"hash": "sha256:0"}}, "datapackage.json does not have its digest"),
        ({"resources": []}, "does not have the digest of datapackage.json"),
        ({"index": PLAIN.replace(b"data.warc", b"../etc/passwd")}, "has no place"),
        ({"index": PLAIN.replace(b'"offset": 0', b'"offset": "x"')}, "has no place"),
        ({"index": b"nothing\n"}, "has no place"),
        ({"index": b"x" * 1_100_000}, "too large for an index"),
        ({"index": gzip.compress(PLAIN * 40_000), "name": "indexes/i.cdx.gz"}, "too large for an"),
        ({"index": gzip.compress(PLAIN)[:-9], "name": "indexes/index.cdx.gz"}, "index.cdx.gz"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    path = made(tmp_path / "a.wacz", **wrong)
    with pytest.raises(WaczError, match=said):
        lines_of(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read(place: Path, data: st.DataObject) -> None:
    path = place / "a.wacz"
    damaged = bytearray(made(path, gzip.compress(PLAIN), "indexes/index.cdx.gz").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    length = data.draw(st.just(len(damaged)) | st.integers(0, len(damaged)))
    path.write_bytes(damaged[:length])
    with suppress(WaczError):
        lines_of(path)


def test_what_is_no_wacz_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.wacz"
    path.write_bytes(b"not a ZIP file")
    with pytest.raises(WaczError, match="is not a WACZ file"):
        WaczContent(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", "y")
    with pytest.raises(WaczError, match="it has no datapackage"):
        WaczContent(path)


# What pywb gets


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[SampleCrawl]:
    found = SampleCrawl(tmp_path / "crawl")
    yield found
    found.close()


def records_in(work: Path) -> list[str]:
    """The URLs of the records to which all index lines of a prepared folder point."""
    settings = json.loads((work / "config.yaml").read_text())
    collection = settings["collections"]["crawl"]
    found = []
    for index in sorted(Path(collection["index_paths"]).iterdir()):
        keys = index.read_bytes().splitlines(True)
        assert keys == sorted(keys)
        for key in keys:
            line = json.loads(key.split(b" ", 2)[2])
            paths = [Path(prefix + line["filename"]) for prefix in collection["archive_paths"]]
            path = next(path for path in paths if path.exists())
            with path.open("rb") as file:
                file.seek(int(line["offset"]))
                packed = file.read(int(line["length"]))
            record = next(ArchiveIterator(io.BytesIO(packed)))
            assert record.rec_headers["WARC-Target-URI"] == line["url"]
            found.append(line["url"])
    return found


def test_every_committed_capture_of_a_crawl_is_found(crawl: SampleCrawl, tmp_path: Path) -> None:
    before = content(crawl.folder)
    work = tmp_path / "work"
    work.mkdir()
    prepared = prepare_replay([crawl.folder], work)
    assert sorted(records_in(work)) == sorted(crawl.captured)
    assert prepared.first is not None and prepared.first.url == crawl.captured[0]
    assert (prepared.segments, prepared.removed) == (2, 0)
    assert content(crawl.folder) == before


def test_a_crawl_and_an_archive_are_one_collection(
    crawl: SampleCrawl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, work = tmp_path / "a.wacz", tmp_path / "work"
    create_archive_key(tmp_path / "key.pem")
    arguments = ["-o", str(file), "--sign", str(tmp_path / "key.pem")]
    assert main(["export", str(crawl.folder), "wacz", *arguments]) == 0
    work.mkdir()
    prepared = prepare_replay([file, crawl.folder], work)
    assert sorted(records_in(work)) == sorted([*crawl.captured, *crawl.captured])
    key = WrittenArchive(file).digest["signedData"]["publicKey"]
    assert prepared.keys == {str(file): key}
    assert prepared.first is not None
    assert prepared.first.url == WrittenArchive(file).manifest["mainPageUrl"]
