"""A web of many hosts, so that every worker has work: made pages of 53 KB with 190 links, a fifth
of which lead to other hosts.

A host is an address of the loopback network. All pages differ. They are compressed beforehand, as
the cache in front of a site has them, so that the server costs little.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

from bench.site import Nginx

_LINKS = 190
_TREE = 5  # of them lead down, so that every page is reachable
_ELSEWHERE = 10  # of them leave the crawl
_OTHER_HOSTS = 35
_WORDS = 2300
_PARTS = 40


def make_hosts(root: Path, hosts: list[str], pages: int, base: str, seed: int = 1) -> int:
    """Writes ``pages`` pages for each host, plain and compressed. ``base``: a host's URL with
    ``{}`` for its name. Gives the mean size.
    """
    chance = random.Random(seed)
    words = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 11)))
        for _ in range(20_000)
    ]
    total = 0
    for host in hosts:
        folder = root / host
        folder.mkdir(parents=True)
        for number in range(pages):
            body = _page(
                chance,
                words,
                number,
                pages,
                [base.format(other) for other in hosts if other != host],
            ).encode()
            total += len(body)
            (folder / _name(number)).write_bytes(body)
            (folder / f"{_name(number)}.gz").write_bytes(gzip.compress(body, 5))
    (root / "port").write_text(base.rpartition(":")[2])
    return total // (pages * len(hosts))


def _page(
    chance: random.Random, words: list[str], number: int, pages: int, others: list[str]
) -> str:
    near = [min(_TREE * number + step, pages - 1) for step in range(1, _TREE + 1)]
    near += chance.choices(range(pages), k=_LINKS - _TREE - _ELSEWHERE - _OTHER_HOSTS)
    links = [f"/{_name(target)}" for target in near]
    links += [
        f"{chance.choice(others)}/{_name(chance.randrange(pages))}" for _ in range(_OTHER_HOSTS)
    ]
    links += [f"https://other{chance.randrange(10_000)}.example/" for _ in range(_ELSEWHERE)]
    items = [
        f'<li class="item"><a href="{link}"'
        f' title="Page"><code>{chance.choice(words)}</code></a></li>'
        for link in links
    ]
    parts = []
    for part in range(_PARTS):
        text = " ".join(chance.choices(words, k=_WORDS // _PARTS))
        parts.append(
            f'<section id="s{part}"'
            f' class="section"><h2>{words[part]}</h2><p>{text}</p><ul>{"".join(items[part::_PARTS])}</ul></section>'
        )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta'
        f' charset="utf-8"><title>{number}</title></head><body>{"".join(parts)}</body></html>'
    )


def _name(number: int) -> str:
    return f"page-{number}.html" if number else "index.html"


class ManyHosts(Nginx):
    """One nginx with one process for all hosts; with ``tls`` its certificate, which it makes, is
    ``certificate``.
    """

    def __init__(self, root: Path, folder: Path, hosts: list[str], tls: bool) -> None:
        super().__init__(root, folder, tls=tls)
        self._hosts = hosts
        port = root / "port"  # of the links in pages that an earlier run made
        self.port = int(port.read_text()) if port.exists() else self.port

    @property
    def base(self) -> str:
        """A host's URL, with ``{}`` for its name."""
        return f"http{'s' if self._tls else ''}://{{}}:{self.port}"

    def _text(self) -> str:
        server = f"listen 0.0.0.0:{self.port}{self._secured(self._hosts)} root {self._root}/$host;"
        return self._configuration("gzip_static on;", server, "$host")
