"""A site whose pages need much more than their HTML to look right: fonts, style sheets that come
late and from other style sheets, images that load when they are scrolled to, frames, a second host.

Files are written into a folder for nginx. Every page has pictures of its own, so a replay that shows
another page's picture differs. Nothing of it needs a script to be found, but ``onload`` attributes
swap two style sheets in, as pages do to show text before their styles.
"""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

_WORDS = (
    "archive basin cedar delta ember fjord granite harbour ivory juniper lagoon marble nettle ochre"
    " pebble quartz river saffron tundra umber valley willow yarrow zinc"
)
WORDS = _WORDS.split()

TYPES = (
    "types { text/html html htm; text/css css; application/javascript js; image/png png;"
    " image/svg+xml svg; image/x-icon ico; font/ttf ttf; application/manifest+json webmanifest;"
    " text/plain txt; }"
)
SETTINGS = (
    TYPES
    + " default_type application/octet-stream; add_header Access-Control-Allow-Origin *;"
    + " gzip on; gzip_types text/css application/javascript image/svg+xml; gzip_min_length 300;"
    + " location = /moved.png { return 302 /pictures/moved-target.png; }"
)
"""Of each server: types, fonts for other origins, compression, a picture that has moved."""


def system_fonts() -> list[Path]:
    """Two TrueType fonts of this machine that look unlike the default ones; fewer if it lacks."""
    try:
        listed = subprocess.run(
            ["fc-list", "--format", "%{file}\n"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return []
    paths = sorted(Path(line) for line in listed.stdout.splitlines() if line.endswith(".ttf"))
    wanted = [p for p in paths if "Mono" in p.name and "Bold" in p.name]
    wanted += [p for p in paths if "Condensed" in p.name and "Italic" in p.name]
    return [*wanted, *paths][:2] if len(paths) > 1 else []


def png(seed: int, width: int = 160, height: int = 90) -> bytes:
    """A picture of stripes and a block whose colours and places depend on the seed."""
    chance = random.Random(seed)
    colours = [bytes(chance.randrange(256) for _ in range(3)) for _ in range(6)]
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            rows += colours[(x // 20 + y // 15 * (1 + seed % 3)) % 6]

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(rows)))
        + chunk(b"IEND", b"")
    )


def write_site(root: Path, other: Path, other_base: str, pages: int, fonts: Sequence[Path]) -> None:
    """Write the site into ``root``, and what the second host has into ``other``.

    ``other_base`` is the URL of the second host without a slash at the end.
    """
    for folder in ("pages", "pictures", "styles", "frames"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (other / "fonts").mkdir(parents=True, exist_ok=True)
    (other / "pictures").mkdir(exist_ok=True)
    _write_styles(root / "styles", other, other_base, fonts)
    (root / "robots.txt").write_text("User-agent: *\nDisallow:\n")
    (root / "favicon.ico").write_bytes(png(7, 16, 16))
    (root / "pictures" / "moved-target.png").write_bytes(png(8))
    (root / "pictures" / "signs.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><symbol id="star" viewBox="0 0 10 10">'
        '<path fill="#b03060" d="M5 0l1.5 3.5L10 4 7.5 6.5 8 10 5 8 2 10l.5-3.5L0 4l3.5-.5z"/>'
        "</symbol></svg>"
    )
    for number in range(pages):
        for at, name in enumerate(("first", "lazy", "wide", "back")):
            picture = png(100 + number * 10 + at)
            (root / "pictures" / f"{number}-{name}.png").write_bytes(picture)
        (other / "pictures" / f"{number}.png").write_bytes(png(100 + number * 10 + 9))
        (root / "frames" / f"{number}.html").write_text(
            "<!DOCTYPE html><link rel=stylesheet href=/styles/main.css>"
            f"<p class=framed>Frame {number} of {WORDS[number % len(WORDS)]}"
        )
        path = root / ("index.html" if number == 0 else f"pages/{number}.html")
        path.write_text(_page(number, pages, other_base), "utf-8")


def _write_styles(styles: Path, other: Path, other_base: str, fonts: Sequence[Path]) -> None:
    for name, font in zip(("text.ttf", "head.ttf"), fonts, strict=True):
        (other / "fonts" / name).write_bytes(font.read_bytes())
    (styles / "main.css").write_text(
        "@import 'base.css';\n@import url(\"layout.css\") screen;\n"
        f"@font-face {{ font-family: 'Site Text'; src: url({other_base}/fonts/text.ttf) }}\n"
        f"@font-face {{ font-family: 'Site Head'; src: url('{other_base}/fonts/head.ttf')"
        " format('truetype') }\n"
        "body { font-family: 'Site Text', serif } h1, h2 { font-family: 'Site Head', serif }\n"
    )
    (styles / "base.css").write_text(
        "@import url(colours.css);\n"
        "body { margin: 0; font-size: 15px; line-height: 1.5 } img { display: block }\n"
    )
    (styles / "colours.css").write_text(
        "body { background: #fdf8ee url(../pictures/ground.png) repeat-x; color: #223 }\n"
        "h1 { color: #704020 } .framed { background: #cde; padding: 1em }\n"
    )
    (styles.parent / "pictures" / "ground.png").write_bytes(png(11, 40, 12))
    (styles / "layout.css").write_text(
        "main { width: 720px; margin: 30px auto } .far { margin-top: 1300px }\n"
        ".marked { background: image-set(url('../pictures/mark.png') 1x, url(../pictures/mark2.png)"
        " 2x) no-repeat; min-height: 60px; padding-left: 180px }\n"
    )
    for name, seed in (("mark.png", 12), ("mark2.png", 13), ("late.png", 14)):
        (styles.parent / "pictures" / name).write_bytes(png(seed, 160, 60))
    (styles / "late.css").write_text(
        ".late { border: 12px solid #386; background: url(/pictures/late.png); height: 70px }\n"
    )
    (styles / "later.css").write_text(".later { color: #a11; font-weight: bold }\n")
    (styles / "last.css").write_text("footer { background: #234; color: #fff; padding: 20px }\n")


def _page(number: int, pages: int, other_base: str) -> str:
    chance = random.Random(number)
    text = " ".join(chance.choices(WORDS, k=90))
    links = [(number + 1) % pages, (number * 3 + 1) % pages, chance.randrange(pages)]
    anchors = " ".join(
        f'<a href="{"/" if each == 0 else f"/pages/{each}.html"}">page {each}</a>' for each in links
    )
    moved = "<img src=/moved.png alt=moved>" if number % 5 == 0 else ""
    missing = "<img src=/pictures/missing.png alt=missing width=50>" if number == 3 else ""
    return f"""<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Page {number}</title>
<link rel="icon" href="/favicon.ico"><link rel="stylesheet" href="/styles/main.css">
<link rel="stylesheet" href="/styles/late.css" media="print" onload="this.media='all'">
<link rel="preload" href="/styles/later.css" as="style" onload="this.rel='stylesheet'">
<style>.own {{ background: url(/pictures/{number}-back.png); height: 90px }}</style></head>
<body><main><h1>Page {number}: {chance.choice(WORDS)} — Größe</h1>
<img src="/pictures/{number}-first.png" alt="first">{moved}{missing}
<p class="later">{text}</p><div class="late"></div><div class="own"></div>
<p class="marked">{chance.choice(WORDS)} <svg width="40" height="40"><use href="/pictures/signs.svg#star"/></svg></p>
<picture><source srcset="/pictures/{number}-wide.png 1x"><img src="/pictures/{number}-first.png" alt=""></picture>
<p style="background:url({other_base}/pictures/{number}.png);height:90px">{anchors}</p>
<h2 class="far">Far below</h2>
<img src="/pictures/{number}-lazy.png" alt="lazy" width="160" height="90" loading="lazy">
<iframe src="/frames/{number}.html" width="300" height="90" loading="lazy"></iframe>
<p>{" ".join(chance.choices(WORDS, k=60))}</p></main>
<link rel="stylesheet" href="/styles/last.css"><footer>{chance.choice(WORDS)} {number}</footer>
</body></html>"""
