"""Readers: what a crawl wrote is read without complaint by the programs that others read archives
with.

``warcio check`` and ``fastwarc check`` on every WARC; every CDXJ line against the record that it
points to; pywb replays ten pages of documentation and all of a site that has every form of answer,
body for body; DuckDB answers a query written for Common Crawl's index.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import trustme
from fastwarc.warc import ArchiveIterator

from archive_site import BODY_LIMIT, ArchiveSite, archive_site
from free_ports import free_port
from nginx_site import NginxSite, write_tree
from proofs.completeness import link_documentation
from proofs.crawls import FAST, crawl, lycosa
from proofs.outputs import Outputs, Stored
from proofs.wayback import Wayback, pywb_programs

# As in the examples of Common Crawl's cc-index-table: pages by domain and language.
COMMON_CRAWL_QUERY = """
SELECT url_host_registered_domain, url_host_tld, content_languages, COUNT(*) AS n_pages,
       SUM(warc_record_length) AS bytes, MIN(warc_record_offset) AS first_offset, MAX(fetch_time) AS latest
FROM ccindex
WHERE subset = 'warc' AND fetch_status = 200 AND content_mime_detected = 'text/html' AND url_path LIKE '%.html'
GROUP BY url_host_registered_domain, url_host_tld, content_languages
ORDER BY n_pages DESC
"""


# warcio knows the interface of brotlicffi only, and fails on Google's package beside it
# (webrecorder/warcio#73).
_WARCIO = (
    "from warcio.bufferedreaders import BufferedReader as B; B.DECOMPRESSORS.pop('br', None); from"
    " warcio.cli import main; main()"
)


def check_warcs(outputs: Outputs) -> str:
    """Both checkers on every file; gives a line of the report."""
    fastwarc = str(Path(sys.executable).parent / "fastwarc")
    for path in outputs.warcs:
        for command in (
            [sys.executable, "-c", _WARCIO, "check", "-v", str(path)],
            [fastwarc, "check", str(path)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            said = done.stdout + done.stderr
            assert done.returncode == 0, f"{' '.join(command)}: {said[-2000:]}"
            assert "fail" not in said.lower().replace("0 failed", ""), said[-2000:]
    return f"warcio check and fastwarc check: {len(outputs.warcs)} WARC files without complaint"


def check_cdxj(outputs: Outputs) -> str:
    """Every line's offset is the start of a record with its URL, and its length the record's;
    gives a line of the report.
    """
    for line in outputs.lines:
        with (outputs.folder / line["filename"]).open("rb") as file:
            file.seek(int(line["offset"]))
            member = file.read(int(line["length"]))
        records = 0
        for record in ArchiveIterator(io.BytesIO(member), parse_http=True):
            records += 1
            assert record.headers["WARC-Target-URI"] == line["url"], line
            assert record.headers["WARC-Payload-Digest"] == f"sha1:{line['digest']}", line
            assert str(record.http_headers.status_code) == line["status"], line
            if record.headers["WARC-Type"] == "response":
                digest = hashlib.sha1(record.reader.read(), usedforsecurity=False).digest()
                assert base64.b32encode(digest).decode() == line["digest"], line
        assert records == 1, line
    return (
        f"CDXJ: {len(outputs.lines)} lines, each with one whole record of its URL, status and"
        " payload digest at its offset"
    )


def ask_duckdb(outputs: Outputs) -> str:
    """A query for Common Crawl's columns, by DuckDB itself and by ``lycosa sql``; gives a line
    of the report.
    """
    query = COMMON_CRAWL_QUERY.replace(
        "ccindex", f"read_parquet('{outputs.folder}/pages/*.parquet')"
    )
    theirs = duckdb.sql(query).fetchall()
    done = lycosa("sql", str(outputs.folder), COMMON_CRAWL_QUERY, "--json")
    assert done.code == 0, done
    ours: list[dict[str, Any]] = json.loads(done.out)
    assert theirs and [row["n_pages"] for row in ours] == [row[3] for row in theirs], (ours, theirs)
    return (
        f"DuckDB and lycosa sql: {sum(row[3] for row in theirs)} pages in {len(theirs)} groups of"
        " the Common Crawl query"
    )


def replay(outputs: Outputs, programs: Path, work: Path, site: NginxSite, pages: int = 10) -> str:
    """pywb serves the crawl as it is; ten pages asked for without rewriting are the server's own
    bytes. Gives a line of the report.
    """
    chosen = random.Random(5).sample(sorted(outputs.pages()), pages)
    with Wayback(outputs.folder, programs, work / "pywb") as wayback:
        for url in chosen:
            with urllib.request.urlopen(
                urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
            ) as live:
                assert wayback.replay(url) == (
                    200,
                    live.read(),
                ), f"pywb shows something else for {url}"
    return f"pywb: {len(chosen)} pages replayed, each body as the server sends it"


def every_form(work: Path, programs: Path | None) -> list[str]:
    """A site with every framing, coding and odd URL, on four addresses, crawled by two workers and
    three times over by two runs, with TLS and HTTP/2 beside it; then every line of the index
    replayed. Gives lines of the report.
    """
    folder = work / "forms"
    options = [
        *FAST,
        "--set",
        f"fetch.body_bytes={BODY_LIMIT}",
        "--set",
        "fetch.spool_bytes=100000",
        "--set",
        "fetch.verify_tls=false",
    ]
    options += [
        "--set",
        "refetch.first_s=1",
        "--set",
        "refetch.min_s=1",
        "--set",
        "refetch.max_s=1",
        "--workers",
        "2",
    ]
    with (
        archive_site("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4") as site,
        _secure_site(work) as secure,
    ):
        pages = 4 * (len(site.answers) + 1)
        for times, seeds in ((2, [*site.seeds, secure]), (3, [])):
            done = crawl(folder, *seeds, *options, "--max-pages", str(times * pages))
            assert done.code == 3, done
    outputs = Outputs(folder)
    assert not outputs.disagreements(), outputs.disagreements()[:10]
    revisits = Counter(row["revisit_profile"] for row in outputs.rows if row["revisit_profile"])
    protocols = Counter(row["protocol"] for row in outputs.rows)
    assert len(revisits) == 2 and len(protocols) == 3, (revisits, protocols)
    report = [
        f"every form: {len(outputs.rows)} captures, {dict(revisits)}, {dict(protocols)}",
        check_warcs(outputs),
        check_cdxj(outputs),
    ]
    if programs is not None:
        report += [check_index(outputs, programs), replay_all(outputs, programs, work, site)]
    return report


def check_index(outputs: Outputs, programs: Path) -> str:
    """Our lines are those that cdxj-indexer makes of the same files, but for visits without change,
    which have none here, and for answers without a type, which have ``unk`` for one. Gives a line
    of the report.
    """
    if not (programs / "cdxj-indexer").exists():
        return "cdxj-indexer: not there, nothing compared"
    command = [str(programs / "cdxj-indexer"), *map(str, outputs.warcs)]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [
        line
        for path in sorted((outputs.folder / "cdxj").glob("*.cdxj"))
        for line in path.read_text().splitlines()
    ]
    wanted = {line for line in map(_comparable, theirs) if '"304"' not in line}
    assert {_comparable(line) for line in ours} == wanted
    return (
        f"cdxj-indexer: {len(ours)} lines have the same key, time, URL, type, status, digest and"
        " place as ours"
    )


def _comparable(line: str) -> str:
    key, time, text = line.split(" ", 2)
    entry = json.loads(text)
    digest = entry.get("digest", "").removeprefix("sha1:")
    told = [
        entry["url"],
        entry.get("mime", "unk"),
        entry["status"],
        digest,
        entry["offset"],
        entry["length"],
    ]
    return json.dumps([key, time, *told, Path(entry["filename"]).name])


def replay_all(outputs: Outputs, programs: Path, work: Path, site: ArchiveSite) -> str:
    """Every line of the index at its time, and every URL at its newest, is what the site said
    then. Gives a line of the report.
    """
    replayed, unchanged = 0, outputs.unchanged()
    shown_at: dict[str, list[datetime]] = {}
    for row in outputs.rows:
        if Stored(row["url"], row["warc_filename"], row["warc_record_offset"]) not in unchanged:
            shown_at.setdefault(row["url"], []).append(row["fetch_time"])
    said = {
        url: [each for each in exchanges if each.status != 304]
        for url, exchanges in site.exchanges.items()
    }
    with Wayback(outputs.folder, programs, work / "pywb-forms") as wayback:
        for url, exchanges in said.items():
            stamps = sorted(
                row["fetch_time"]
                for row in outputs.rows
                if row["url"] == url and row["revisit_profile"] != "server-not-modified"
            )
            assert len(stamps) == len(exchanges), url
            for stamp, exchange in [*zip(stamps, exchanges, strict=True), (None, exchanges[-1])]:
                shown = wayback.replay(url, f"{stamp:%Y%m%d%H%M%S}" if stamp else "")
                assert shown == (
                    exchange.status,
                    exchange.payload[:BODY_LIMIT],
                ), f"pywb shows something else for {url} at {stamp}"
                replayed += 1
        for row in outputs.rows:
            if (
                row["url"] not in said
                and Stored(row["url"], row["warc_filename"], row["warc_record_offset"])
                not in unchanged
            ):
                shown = wayback.replay(row["url"], f"{row['fetch_time']:%Y%m%d%H%M%S}")
                digest = base64.b32encode(
                    hashlib.sha1(shown.body, usedforsecurity=False).digest()
                ).decode()
                assert (shown.status, digest) == (
                    row["fetch_status"],
                    row["content_digest"],
                ), f"pywb shows something else for {row['url']}"
                replayed += 1
    return (
        f"pywb: {replayed} of {replayed} replays are what the sites said, HTTP/2 and revisits of"
        " both profiles among them"
    )


@contextmanager
def _secure_site(work: Path) -> Iterator[str]:
    """nginx with TLS and HTTP/2; gives its front page."""
    root, port, certificate = work / "secure", free_port(["127.0.0.1"]), work / "secure.pem"
    write_tree(root, 10, seed=6)
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(certificate)
    )
    extra = (
        f"gzip on; listen 127.0.0.1:{port} ssl http2; ssl_certificate {certificate};"
        f" ssl_certificate_key {certificate};"
    )
    with NginxSite(work / "nginx-secure", root, extra=extra):
        yield f"https://127.0.0.1:{port}/"


def prove(work: Path, short: bool) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    root = work / "site"
    if short or link_documentation(root, ("pg", "python")):
        write_tree(root, 60 if short else 150, seed=5)
    with NginxSite(work / "nginx", root, extra="gzip on;") as site:
        done = crawl(
            work / "crawl",
            f"{site.base}/",
            *FAST,
            "--set",
            "store.segment_bytes=2000000",
            "--max-pages",
            "3000",
        )
        assert done.code in (0, 3), done
        outputs = Outputs(work / "crawl")
        assert not outputs.disagreements(), outputs.disagreements()[:10]
        report = [check_warcs(outputs), check_cdxj(outputs), ask_duckdb(outputs)]
        programs = pywb_programs(work, may_install=not short)
        report.append(
            replay(outputs, programs, work, site)
            if programs is not None
            else "pywb: not there, nothing replayed"
        )
    return report + every_form(work, programs)
