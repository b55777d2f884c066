"""The floor: what fetching and parsing alone cost with the libraries that Lycosa uses, in one
process.

``python -m bench.crawlers.floor URL_COLUMNS`` fetches the URLs of a file one after the other with
libcurl, over a kept connection if the server keeps it, undoes gzip with isal, builds the tree with
turbohtml and reads the ``href`` of every link. Nothing is resolved, remembered or stored.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pycurl
import turbohtml
from isal import isal_zlib


def run(urls: list[str]) -> tuple[int, int]:
    """Pages and links."""
    curl = pycurl.Curl()
    chunks: list[bytes] = []
    curl.setopt(pycurl.WRITEFUNCTION, chunks.append)
    curl.setopt(pycurl.HTTPHEADER, ["Accept-Encoding: gzip"])
    curl.setopt(pycurl.BUFFERSIZE, 131_072)
    if ca_file := os.environ.get("SSL_CERT_FILE"):
        curl.setopt(pycurl.CAINFO, ca_file)
    pages = links = 0
    for url in urls:
        chunks.clear()
        curl.setopt(pycurl.URL, url)
        curl.perform()
        body = b"".join(chunks)
        if body[:2] == b"\x1f\x8b":
            body = isal_zlib.decompress(body, 31)
        tree = turbohtml.parse(body, detect_encoding=True, positions=False)
        pages += curl.getinfo(pycurl.RESPONSE_CODE) == 200
        links += sum(element.attr("href") is not None for element in tree.select("a[href]"))
    return pages, links


if __name__ == "__main__":
    print("{} pages, {} links".format(*run(Path(sys.argv[1]).read_text().split())))
