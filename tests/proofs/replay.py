"""Replay: a site of 200 pages with fonts, late style sheets and lazy images is crawled with its
requisites, and real Chromium shows it from the archive as it did from the server.

The server is stopped before anything is replayed. Shown is, for the crawl folder and for the WACZ
file made of it: every request of the browser is answered by pywb, with the status that the server
gave; and each picture of a page equals that of the server's. **Metric**: the share of pixels of
which a channel differs by more than 8 of 255, at the top of the page and at its end, the larger one.
**Threshold**: 0.001 for each page. That the metric sees what is missing is shown by pages of which
one style sheet, font or picture is blocked: each differs by more than the threshold.

``wacz validate`` accepts the file, signed too. Each line of its index replays with its status and
body. A second crawl that has only revisits for what is unchanged replays with the first, in which
the bodies are.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from free_ports import free_port
from nginx_site import NginxSite
from pictured import Look, Viewer, picturing_browser, viewer
from proofs.crawls import FAST, LYCOSA, crawl, environment, lycosa
from proofs.wayback import pywb_programs
from whole_site import SETTINGS, system_fonts, write_site

THRESHOLD = 0.001
SITE, OTHER = "127.0.0.1", "127.0.0.2"
_BLOCKED = ("styles/late.css", "fonts/text.ttf", "lazy.png", "styles/colours.css")


@contextmanager
def replaying(*arguments: str, programs: Path) -> Iterator[str]:
    """``lycosa replay`` while the block runs; gives where the collection is."""
    port = free_port(["127.0.0.1"])
    process = subprocess.Popen(
        [*LYCOSA, "replay", *arguments, "--pywb", str(programs), "--port", str(port), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(None),
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, f"lycosa replay ended with {process.wait()}"
            text += line
        assert json.loads(text)["address"].startswith(f"http://replay.localhost:{port}/crawl/")
        yield f"http://replay.localhost:{port}/crawl/"
    finally:
        process.terminate()
        assert process.wait(30) == 0


class Archive:
    """The captures by which replays are judged: those that the index of a WACZ has."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as file:
            text = gzip.decompress(file.read("indexes/index.cdx.gz")).decode()
            lists = [name for name in file.namelist() if name.startswith("pages/")]
            rows = [json.loads(each) for name in lists for each in file.read(name).splitlines()]
        self.pages = [row for row in rows if "url" in row]
        self.lines: list[dict[str, Any]] = []
        for line in text.splitlines():
            _, stamp, fields = line.split(" ", 2)
            self.lines.append({"stamp": stamp, **json.loads(fields)})
        self.statuses: dict[str, set[int]] = {}
        for each in self.lines:
            self.statuses.setdefault(each["url"], set()).add(int(each["status"]))

    def joined(self, later: Archive) -> Archive:
        """This archive and a later one as one collection."""
        both = copy(self)
        both.lines = self.lines + later.lines
        both.statuses = {
            url: self.statuses.get(url, set()) | later.statuses.get(url, set())
            for url in self.statuses | later.statuses
        }
        return both

    def stamp_of(self, url: str) -> str:
        """When a URL was first captured."""
        return min(each["stamp"] for each in self.lines if each["url"] == url)


def replay_lines(archive: Archive, collection: str) -> str:
    """Each line of the index gives its status and the body that its digest is of."""
    place, shown = urlsplit(collection), Counter[str]()
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    for each in archive.lines:
        connection.request(
            "GET",
            f"{place.path}{each['stamp']}id_/{each['url']}",
            headers={"Accept-Encoding": "gzip, br, zstd, deflate", "Host": place.netloc},
        )
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == int(each["status"]), (each, answer.status)
        digest = hashlib.sha1(body, usedforsecurity=False).digest()
        assert f"sha1:{base64.b32encode(digest).decode()}" == each["digest"], each
        shown["revisits" if each["mime"] == "warc/revisit" else "responses"] += 1
    connection.close()
    return (
        f"{sum(shown.values())} lines of the index replayed, each body by its digest: {dict(shown)}"
    )


def judge_requests(seen: Viewer, archive: Archive, collection: str) -> str:
    """Every request went to pywb, and every answer has the status of the capture."""
    place, shown, own = urlsplit(collection), Counter[int](), 0
    assert not seen.requests.failed, seen.requests.failed[:5]
    for url, status in seen.requests.answered:
        parts = urlsplit(url)
        if parts.scheme in ("data", "blob"):
            continue
        assert parts.netloc == place.netloc, f"asked elsewhere: {url}"
        stamp, mark, original = url.removeprefix(collection).partition("/http")
        if not url.startswith(collection) or not mark or not stamp[:1].isdigit():
            own += 1  # pywb's own scripts and banner
            continue
        original = f"http{original}"
        known = archive.statuses.get(original.partition("#")[0])
        assert known, f"not in the archive: {original} ({status})"
        # pywb answers a time that is not exact with a redirect to the nearest capture
        assert status in known | {307}, (original, status, known)
        shown[status] += 1
    assert shown[200], "the browser asked for nothing"
    said = ", ".join(f"{number} with {status}" for status, number in sorted(shown.items()))
    return f"{sum(shown.values())} requests answered from the archive ({said}), {own} of pywb's own"


def compare(
    seen: Viewer, archive: Archive, collection: str, looks: dict[str, Look]
) -> tuple[str, float]:
    """Each page looks as it did at the server; gives a line of the report."""
    shares = {}
    for url, wanted in looks.items():
        found = seen.look_at_replay(f"{collection}{archive.stamp_of(url)}/{url}")
        shares[url] = seen.difference(wanted, found)
    worst = max(shares, key=lambda url: shares[url])
    assert shares[worst] <= THRESHOLD, (worst, shares[worst])
    same = sum(not share for share in shares.values())
    return (
        f"{len(shares)} pages pictured twice: {same} equal in each pixel, the worst"
        f" differs in {100 * shares[worst]:.4f} % (threshold {100 * THRESHOLD} %)"
    ), shares[worst]


def what_lacks_is_seen(seen: Viewer, looks: dict[str, Look]) -> str:
    """The metric sees each kind of requisite that is blocked: it is not blind."""
    url, shares = next(iter(looks)), []
    for part in _BLOCKED:
        seen.block(part)
        shares.append(seen.difference(looks[url], seen.look(url)))
        seen.unblock()
    assert min(shares) > THRESHOLD, dict(zip(_BLOCKED, shares, strict=True))
    said = ", ".join(f"{part} {100 * s:.2f} %" for part, s in zip(_BLOCKED, shares, strict=True))
    return f"with one file blocked a page differs: {said}"


def validate(path: Path, programs: Path) -> str:
    """``wacz validate`` accepts the file."""
    done = subprocess.run(
        [str(programs / "wacz"), "validate", "-f", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "is valid" in done.stdout, done.stdout + done.stderr
    return f"wacz validate: {path.name} is valid"


def _crawl(folder: Path, base: str, *options: str) -> None:
    done = crawl(folder, f"{base}/", *FAST, "--requisites", *options)
    assert done.code == 0, done


def _second_crawl(work: Path, base: str, urls: list[str]) -> Path:
    """Change the text of every tenth page and crawl again, with the first crawl known by a CDXJ
    file.
    """
    for url in urls[::10]:
        path = work / SITE / (urlsplit(url).path.lstrip("/") or "index.html")
        path.write_text(path.read_text().replace("Far below", "Changed since"))
    lines = [line for path in (work / "crawl" / "cdxj").iterdir() for line in path.open("rb")]
    index = work / "first.cdxj"
    index.write_bytes(b"".join(sorted(lines)))
    warcs = f"earlier.warcs={work / 'crawl'}"
    _crawl(work / "second", base, "--earlier", str(index), "--set", warcs)
    return work / "second"


def _export(folder: Path, target: Path, *options: str) -> dict[str, Any]:
    done = lycosa("export", str(folder), "wacz", "--output", str(target), "--json", *options)
    assert done.code == 0, done
    report: dict[str, Any] = json.loads(done.out)
    return report


def prove(work: Path, short: bool, pages: int = 0) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    programs, fonts = pywb_programs(work, may_install=not short), system_fonts()
    if programs is None or len(fonts) < 2:
        return ["pywb or fonts: not there, nothing replayed"]
    pages = pages or (12 if short else 200)
    folder, archive_file, key = work / "crawl", work / "crawl.wacz", work / "key.pem"
    own = {address: f"root {work / address}; {SETTINGS}" for address in (SITE, OTHER)}
    nginx = NginxSite(work / "nginx", work / SITE, (SITE, OTHER, "127.0.0.3"), own=own)
    lines: list[str] = []
    with picturing_browser() as browser:
        with nginx as site:
            bases = {address: f"http://{address}:{site.port}" for address in (SITE, OTHER)}
            write_site(work / SITE, work / OTHER, bases[OTHER], pages, fonts)
            _crawl(folder, bases[SITE])
            lycosa("identity", "new", str(key), "--archives")
            report = _export(folder, archive_file, "--sign", str(key))
            archive = Archive(archive_file)
            urls = [each["url"] for each in archive.pages]
            assert len(urls) == pages, (len(urls), pages)
            with viewer(browser) as seen:
                looks = {url: seen.look(url) for url in urls}
                again = max(seen.difference(looks[url], seen.look(url)) for url in urls[:5])
                assert again == 0, f"the server's own pages differ between two looks: {again}"
                lines.append(what_lacks_is_seen(seen, looks))
            second = _second_crawl(work, bases[SITE], urls)
            with viewer(browser) as seen:
                # those that changed, and as many others
                new_looks = {url: seen.look(url) for url in [*urls[::10], *urls[1::10]]}
        lines.append(
            f"{report['captures']} captures of {pages} pages, {report['size'] / 1e6:.1f} MB,"
            f" signed; {report['pages']} entries in the page lists"
        )
        lines.append(validate(archive_file, programs))
        for place in (folder, archive_file):
            with replaying(str(place), programs=programs) as collection, viewer(browser) as seen:
                said, _ = compare(seen, archive, collection, looks)
                lines += [f"{place.name}: {said}"]
                lines += [f"{place.name}: {judge_requests(seen, archive, collection)}"]
                lines += [f"{place.name}: {replay_lines(archive, collection)}"]
        report = _export(second, work / "second.wacz")
        later = Archive(work / "second.wacz")
        lines.append(
            f"second crawl: {report['captures']} captures, {report['elsewhere']} of them revisits"
            f" of the first, {report['size'] / 1e6:.1f} MB"
        )
        assert report["elsewhere"] > report["captures"] / 2, report
        lines.append(validate(work / "second.wacz", programs))
        for name, places in (
            ("both crawls", (second, folder)),
            ("both archives", (work / "second.wacz", archive_file)),
        ):
            with (
                replaying(*map(str, places), programs=programs) as collection,
                viewer(browser) as seen,
            ):
                both = archive.joined(later)
                lines += [f"{name}: {compare(seen, later, collection, new_looks)[0]}"]
                lines += [f"{name}: {judge_requests(seen, both, collection)}"]
                lines += [f"{name}: {replay_lines(both, collection)}"]
    return lines
