"""The page for owners of sites: who crawls, why, from where, and how to stop it.

It is one HTML file without scripts or other files. The examples for robots.txt are values here, and
tests read them with the parser of the crawl, so that the page promises what the crawler does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}pre{background:#f2f2f2;padding:.75rem;overflow-x:auto}"
    "h2{margin-top:2rem}a{color:#0b57a4}"
)


class PageFacts(NamedTuple):
    """What the page says. ``contact`` is a URL or an e-mail address; delays are in seconds."""

    site: str
    product: str
    contact: str
    purposes: Sequence[str]
    prefixes: Sequence[str]
    delay_s: float
    max_crawl_delay_s: float
    is_signed: bool


class RobotsExample(NamedTuple):
    """An example for robots.txt, and what it does."""

    meaning: str
    text: str


def robots_examples(product: str, max_crawl_delay_s: float) -> list[RobotsExample]:
    """Examples for the crawler of this name, whose longest Crawl-delay is given."""
    pause_s = f"{min(20.0, max_crawl_delay_s):.3g}"
    return [
        RobotsExample("Keep the crawler out:", f"User-agent: {product}\nDisallow: /\n"),
        RobotsExample("Keep it out of a folder:", f"User-agent: {product}\nDisallow: /private/\n"),
        RobotsExample(
            "Let it fetch one folder only:",
            f"User-agent: {product}\nAllow: /public/\nDisallow: /\n",
        ),
        RobotsExample(
            f"Slow it down to one request in {pause_s} seconds:",
            f"User-agent: {product}\nCrawl-delay: {pause_s}\n",
        ),
    ]


def owner_page(facts: PageFacts) -> str:
    """The page as HTML. All values are escaped."""
    title = escape(f"About the crawler {facts.product}")
    body = "\n".join((*_introduction(facts), *_control(facts), *_proof(facts)))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _introduction(facts: PageFacts) -> Iterator[str]:
    contact = facts.contact
    target = contact if "://" in contact else f"mailto:{contact.removeprefix('mailto:')}"
    yield (
        f"<p>Requests whose <code>User-Agent</code> begins with <code>{escape(facts.product)}/"
        "</code> and names this page come from our web crawler.</p>"
    )
    if facts.purposes:
        purposes = "".join(f"<li>{escape(each)}</li>" for each in facts.purposes)
        yield f"<p>What we use the pages for:</p>\n<ul>{purposes}</ul>"
    yield (
        f'<p>Contact: <a href="{escape(target)}">{escape(contact.removeprefix("mailto:"))}</a>.'
        " Please send the name of your site, and some lines of its access log.</p>"
    )


def _control(facts: PageFacts) -> Iterator[str]:
    yield "<h2>Slow it down, or keep it out</h2>"
    yield (
        "<p>The crawler reads <code>/robots.txt</code> before anything else on a host, and again"
        " after at most 24 hours. It obeys it as RFC 9309 says, for the product token"
        f" <code>{escape(facts.product)}</code>, else for <code>*</code>.</p>"
    )
    for example in robots_examples(facts.product, facts.max_crawl_delay_s):
        yield f"<p>{escape(example.meaning)}</p>\n<pre>{escape(example.text)}</pre>"
    yield (
        "<p>A host gets one request at a time, and a pause of at least"
        f" {_seconds(facts.delay_s)} between two requests. A <code>Crawl-delay</code> of up to"
        f" {_seconds(facts.max_crawl_delay_s)} is kept; a longer one counts as that. An answer with"
        " status 429 or 503 stops the requests to the host for the time in <code>Retry-After</code>"
        ", or for a growing time without it.</p>"
    )


def _proof(facts: PageFacts) -> Iterator[str]:
    yield "<h2>Is it really our crawler?</h2>"
    yield "<p>Anyone can send our <code>User-Agent</code>. You can check a request:</p>\n<ul>"
    if facts.is_signed:
        yield (
            "<li>Requests are signed (HTTP message signatures, RFC 9421; Web Bot Auth). The public"
            ' keys: <a href="/.well-known/http-message-signatures-directory">'
            f"{escape(facts.site)}/.well-known/http-message-signatures-directory</a></li>"
        )
    if facts.prefixes:
        ranges = ", ".join(f"<code>{escape(each)}</code>" for each in facts.prefixes)
        yield (
            f"<li>Requests come from these addresses: {ranges}. For programs:"
            ' <a href="/crawlerips.json">crawlerips.json</a></li>'
        )
    yield "<li>Or ask us.</li>\n</ul>"


def _seconds(value: float) -> str:
    return f"{value:.3g} second" + ("" if value == 1 else "s")
