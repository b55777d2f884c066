"""Readers: what a crawl wrote is read without complaint by the programs that others read archives with.

``warcio check`` and ``fastwarc check`` on every WARC; every CDXJ line against the record that it points to; pywb replays ten pages, body
for body; DuckDB answers a query written for Common Crawl's index. pywb is under the GPL and never a dependency: the proof
installs it into an environment of its own, or uses the one named by ``PROVE_PYWB``, and says so when there is none.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import duckdb
from fastwarc.warc import ArchiveIterator

from nginx_site import NginxSite, free_port, write_tree
from proofs.completeness import link_documentation
from proofs.crawls import FAST, crawl, lycosa
from proofs.outputs import Outputs

# As in the examples of Common Crawl's cc-index-table: pages by domain and language.
COMMON_CRAWL_QUERY = """
SELECT url_host_registered_domain, url_host_tld, content_languages, COUNT(*) AS n_pages,
       SUM(warc_record_length) AS bytes, MIN(warc_record_offset) AS first_offset, MAX(fetch_time) AS latest
FROM ccindex
WHERE subset = 'warc' AND fetch_status = 200 AND content_mime_detected = 'text/html' AND url_path LIKE '%.html'
GROUP BY url_host_registered_domain, url_host_tld, content_languages
ORDER BY n_pages DESC
"""


def check_warcs(outputs: Outputs) -> str:
    """Both checkers on every file; gives a line of the report."""
    for path in outputs.warcs:
        for command in (["warcio", "check", "-v", str(path)], ["fastwarc", "check", str(path)]):
            done = subprocess.run(
                [str(Path(sys.executable).parent / command[0]), *command[1:]], capture_output=True, text=True, check=False
            )
            said = done.stdout + done.stderr
            assert done.returncode == 0, f"{' '.join(command)}: {said[-2000:]}"
            assert "fail" not in said.lower().replace("0 failed", ""), said[-2000:]
    return f"warcio check and fastwarc check: {len(outputs.warcs)} WARC files without complaint"


def check_cdxj(outputs: Outputs) -> str:
    """Every line's offset is the start of a record with its URL, and its length the record's; gives a line of the report."""
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
    return f"CDXJ: {len(outputs.lines)} lines, each with one whole record of its URL, status and payload digest at its offset"


def ask_duckdb(outputs: Outputs) -> str:
    """A query for Common Crawl's columns, by DuckDB itself and by ``lycosa sql``; gives a line of the report."""
    query = COMMON_CRAWL_QUERY.replace("ccindex", f"read_parquet('{outputs.folder}/pages/*.parquet')")
    theirs = duckdb.sql(query).fetchall()
    done = lycosa("sql", str(outputs.folder), COMMON_CRAWL_QUERY, "--json")
    assert done.code == 0, done
    ours: list[dict[str, Any]] = json.loads(done.out)
    assert theirs and [row["n_pages"] for row in ours] == [row[3] for row in theirs], (ours, theirs)
    return f"DuckDB and lycosa sql: {sum(row[3] for row in theirs)} pages in {len(theirs)} groups of the Common Crawl query"


def pywb_programs(work: Path, may_install: bool) -> Path | None:
    """The folder with pywb's programs, or ``None``."""
    given = os.environ.get("PROVE_PYWB")
    if given or not may_install:
        return Path(given) / "bin" if given else None
    environment = work / "pywb-environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    installed = subprocess.run(
        [str(environment / "bin" / "pip"), "install", "-q", "pywb", "setuptools<81"], check=False, capture_output=True
    )
    return environment / "bin" if installed.returncode == 0 else None


def replay(outputs: Outputs, programs: Path, work: Path, site: NginxSite, pages: int = 10) -> str:
    """pywb serves the crawl as it is; ten pages asked for without rewriting are the server's own bytes. Gives a line of the report."""
    collection = work / "pywb"
    collection.mkdir()
    folder = outputs.folder.resolve()
    settings = {"collections": {"crawl": {"index_paths": f"{folder}/cdxj/", "archive_paths": f"{folder}/"}}}
    (collection / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    port = free_port(["127.0.0.1"])
    with (work / "pywb.out").open("wb") as out:
        wayback = subprocess.Popen([str(programs / "wayback"), "-p", str(port), "-b", "127.0.0.1"], cwd=collection, stdout=out, stderr=out)
        try:
            chosen = random.Random(5).sample(sorted(outputs.pages()), pages)
            for url in chosen:
                archived = _get_when_up(f"http://127.0.0.1:{port}/crawl/id_/{url}", wayback)
                with urllib.request.urlopen(url) as live:
                    assert archived == live.read(), f"pywb gives another body for {url}"
        finally:
            wayback.terminate()
            wayback.wait(10)
    return f"pywb: {len(chosen)} pages replayed, each body as the server sends it"


def _get_when_up(url: str, server: subprocess.Popen[bytes]) -> bytes:
    """Asks until the server listens; it needs some seconds to start."""
    for _ in range(150):
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                body: bytes = answer.read()
                return body
        except ConnectionError:
            pass  # not yet
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
        try:
            server.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"pywb did not answer {url}")


def prove(work: Path, short: bool) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    root = work / "site"
    if short or link_documentation(root, ("pg", "python")):
        write_tree(root, 150, seed=5)
    with NginxSite(work / "nginx", root, extra="gzip on;") as site:
        done = crawl(work / "crawl", f"{site.base}/", *FAST, "--set", "store.segment_bytes=2000000", "--max-pages", "3000")
        assert done.code in (0, 3), done
        outputs = Outputs(work / "crawl")
        assert not outputs.disagreements(), outputs.disagreements()[:10]
        report = [check_warcs(outputs), check_cdxj(outputs), ask_duckdb(outputs)]
        programs = pywb_programs(work, may_install=not short)
        report.append(replay(outputs, programs, work, site) if programs is not None else "pywb: not there, nothing replayed")
    return report
