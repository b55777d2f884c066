"""Made pages of the size that today's web has: a fifth of the bytes is text, the rest is markup,
styles, scripts and their data.

Real pages repeat themselves: classes, nested boxes, fields of inlined data. So do these: 200 KB
come as 46 KB by gzip, as those of real sites do; they have 700 links, of which every fourteenth
leaves the site. They are compressed beforehand, as the cache in front of a site has them, so that
the server costs little.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

_TREE = 5  # links that lead down, so that every page is reachable
_BLOCK_BYTES = 4000  # about, of one block
_LINKS_A_BLOCK = 14


def make_large_site(root: Path, pages: int, size_kb: int, seed: int = 1) -> None:
    """Writes ``pages`` pages of about ``size_kb`` thousand bytes, plain and compressed."""
    chance = random.Random(seed)
    words = _words(chance)
    root.mkdir(parents=True)
    for number in range(pages):
        body = _page(chance, words, number, pages, size_kb * 1000 // _BLOCK_BYTES).encode()
        path = root / _name(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(body)
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(body, 6))


class _Words:
    """A vocabulary in which few words are frequent, as in languages."""

    def __init__(self, chance: random.Random, words: list[str]) -> None:
        self._chance, self._words = chance, words

    def some(self, count: int) -> str:
        """So many words, the most frequent ones most often."""
        last = len(self._words) - 1
        return " ".join(self._words[int(last * self._chance.random() ** 3)] for _ in range(count))


def _words(chance: random.Random) -> _Words:
    return _Words(
        chance,
        [
            "".join(chance.choices("etaoinshrdlucmfwypvbgk", k=chance.randint(2, 10)))
            for _ in range(8000)
        ],
    )


def _page(chance: random.Random, words: _Words, number: int, pages: int, blocks: int) -> str:
    down = [min(_TREE * number + step, pages - 1) for step in range(1, _TREE + 1)]
    parts = [_block(chance, words, pages, at, down if at == 0 else []) for at in range(blocks)]
    head = (
        f'<meta charset="utf-8"><title>Page {number}: {words.some(6)}</title><meta'
        f' name="description" content="{words.some(20)}">'
    )
    head += (
        f'<link rel="canonical" href="/{_name(number)}"><link rel="stylesheet"'
        f' href="/site.css"><style>{_styles(blocks * 2)}</style>'
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head>{head}</head><body'
        f' class="page">{"".join(parts)}</body></html>'
    )


def _block(chance: random.Random, words: _Words, pages: int, at: int, down: list[int]) -> str:
    """A teaser as portals have them: boxes in boxes, an image, a paragraph, a list of links, and
    the data that a script would show.
    """
    targets = [*down, *(chance.randrange(pages) for _ in range(_LINKS_A_BLOCK - len(down)))]
    urls = [f"/{_name(target)}" for target in targets]
    urls[-1] = f"https://other{chance.randrange(10_000)}.example/{at}"
    items = "".join(
        f'<li class="nav__item nav__item--level-2"><a class="nav__link" href="{url}"'
        f' title="{words.some(2)}"><span>{words.some(2)}</span></a></li>'
        for url in urls
    )
    data = json.dumps(
        [
            {
                "id": chance.randrange(10**9),
                "type": "teaser",
                "title": words.some(3),
                "visible": True,
            }
            for _ in range(5)
        ]
    )
    picture = (
        f'<img class="teaser__image" loading="lazy" src="/img/{at}.jpg" alt="{words.some(4)}"'
        ' width="640" height="360">'
    )
    return (
        f'<section class="grid grid--wide" id="s{at}"><div class="grid__row"><div class="grid__cell'
        ' grid__cell--6">'
        f'<article class="teaser"><div class="teaser__media">{picture}</div><h2'
        f' class="teaser__title">{words.some(5)}</h2>'
        f'<p class="teaser__text">{words.some(110)}</p></article></div>'
        f'<div class="grid__cell grid__cell--3"><ul class="nav nav--side">{items}</ul></div></div>'
        f"<script>window.__data=(window.__data||[]).concat({data})</script></section>"
    )


def _styles(rules: int) -> str:
    return "".join(
        f".grid__cell--{at}{{flex:0 0"
        f" {at % 12 * 8.33:.2f}%;max-width:{at % 12 * 8.33:.2f}%;padding:0 {at}px}}"
        for at in range(rules)
    )


def _name(number: int) -> str:
    return f"{number % 97}/page-{number}.html" if number else "index.html"
