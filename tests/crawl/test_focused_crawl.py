"""The example of a focused crawl, against a crawl without it, on a site of which a sixth is about
the topic.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import msgspec

import lycosa
from judging import are_balanced, quick_config, stored_rows
from lycosa.base.config.sections import Config, FrontierSection, LimitSection
from lycosa.synthetic import Response
from scripted import HTML, scripted_crawl

EXAMPLE = Path(__file__).parents[2] / "examples" / "focused.py"
SITE = "http://a.test/"
PAGES, TOPICAL, FETCHED = 2400, 400, 200  # those below TOPICAL are about the topic
_ABOUT = ("spiders", "web", "silk", "prey", "venom", "burrow")
_OTHER = ("council", "bridge", "river", "engineer", "spring", "budget")


def sentence(number: int) -> str:
    """A text that is like no other."""
    chance = random.Random(number)
    words = [
        f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{chance.choice('nrst')}ing"
        for _ in range(60)
    ]
    for place in range(0, 60, 6):
        words[place] = chance.choice(_ABOUT if number < TOPICAL else _OTHER)
    return f"{' '.join(words)}."


def site() -> dict[str, Response]:
    """Pages link to ten others; four of five links of a page stay with its subject."""
    chance = random.Random(7)
    answers = {}
    for number in range(PAGES):
        links = []
        for _ in range(10):
            is_about = (number < TOPICAL) == (chance.random() < 0.8)
            links.append(
                chance.randrange(TOPICAL) if is_about else chance.randrange(TOPICAL, PAGES)
            )
        anchors = " ".join(f"<a href=/{each}>page {each}</a>" for each in links)
        body = f"<title>{number}</title><nav>{anchors}</nav><article><h1>{number}</h1><p>{sentence(number)}</p></article>"
        answers[f"{SITE}{number}"] = Response(200, [HTML], body.encode(), 0.05)
    seeds = " ".join(f"<a href=/{each}>page {each}</a>" for each in (0, *range(500, 506)))
    answers[SITE] = Response(200, [HTML], f"<p>{seeds}".encode(), 0.05)
    return answers


def config() -> Config:
    return quick_config(
        limits=LimitSection(max_pages=FETCHED), frontier=FrontierSection(partitions=1)
    )


def share(folder: Path, *code: str) -> float:
    """The share of the pages that a crawl fetched which are about the topic."""
    crawl, _ = scripted_crawl(folder, site(), config())
    crawl.code = code
    crawl.run([SITE])
    assert are_balanced(crawl)
    numbers = [
        int(row.url.removeprefix(SITE)) for row in stored_rows(folder) if row.url[-1].isdigit()
    ]
    assert len(numbers) > FETCHED // 2
    return sum(number < TOPICAL for number in numbers) / len(numbers)


def test_pages_about_the_topic_come_first(tmp_path: Path) -> None:
    plain = share(tmp_path / "plain")
    focused = share(tmp_path / "focused", f"{EXAMPLE}:focus")
    # Of the links of a page about the topic four in five lead to another one.
    assert focused > max(0.7, plain + 0.2), (plain, focused)
    rows = {row.url: row.items["corpus"] for row in stored_rows(tmp_path / "focused") if row.items}
    kept = [int(url.removeprefix(SITE)) for url, found in rows.items() if found]
    assert kept and max(kept) < TOPICAL


def test_known_texts_are_left_out(tmp_path: Path) -> None:
    known = subprocess.run(
        [sys.executable, EXAMPLE],
        input=msgspec.json.encode({"text": "  WOLF spiders hunt\n prey with silk. "}),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    folded = hashlib.blake2b(b"wolf spiders hunt prey with silk.", digest_size=8)
    assert known.decode().split() == [folded.hexdigest()]
    (tmp_path / "known.txt").write_bytes(known)
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import focused, lycosa\n"
            "for text in ('Wolf spiders hunt prey with silk.', 'Wolf spiders hunt prey in silk.'):\n"
            "    print(len(list(focused.corpus(lycosa.document(\n"
            "        f'<article><p>{text}</p></article>'.encode(), url='http://a.test/')))))",
        ],
        env={
            "KNOWN_TEXTS": str(tmp_path / "known.txt"),
            "PYTHONPATH": f"{EXAMPLE.parent}:{Path(lycosa.__file__).parents[1]}",
        },
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    assert found.split() == [b"0", b"1"]
