"""The robots.txt files of synthetic hosts: variants that real sites have.

The decision for each variant (``may_fetch``) by RFC 9309 is written by hand and does not use a
matcher, so that a crawler's matcher is tested against something that cannot have the same errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from lycosa.synthetic.sent_response import Response


class RobotsVariant(Enum):
    """A host's robots.txt; the value is its name in plans."""

    ALLOW = "allow"
    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    SECTION = "section"
    WILDCARD = "wildcard"
    DELAY = "delay"
    CLOSED = "closed"
    OTHER_AGENT = "other-agent"
    BYTE_ORDER_MARK = "byte-order-mark"
    CARRIAGE_RETURNS = "carriage-returns"
    HTML = "html"
    HUGE = "huge"
    EMPTY = "empty"
    REDIRECT = "redirect"
    REDIRECT_LOOP = "redirect-loop"
    REDIRECT_HUB = "redirect-hub"
    SERVER_ERROR = "server-error"
    FLAKY = "flaky"
    SILENT = "silent"
    CLOSES = "closes"

    @property
    def meaning(self) -> str:
        """One line for messages."""
        return _MEANING[self]

    @property
    def is_reachable(self) -> bool:
        """Whether a patient crawler ever gets a response.

        If not, it may fetch nothing (RFC 9309 section 2.3.1.4).
        """
        return self not in (RobotsVariant.SERVER_ERROR, RobotsVariant.SILENT, RobotsVariant.CLOSES)


_MEANING: dict[RobotsVariant, str] = {
    RobotsVariant.ALLOW: "200, everything allowed",
    RobotsVariant.ABSENT: "404: everything allowed (RFC 9309 2.3.1.3)",
    RobotsVariant.FORBIDDEN: "403: everything allowed (RFC 9309 2.3.1.3)",
    RobotsVariant.SECTION: "/shop/ disallowed, except files there whose number ends in 1",
    RobotsVariant.WILDCARD: "pages whose number ends in 7 disallowed by /*7.html$",
    RobotsVariant.DELAY: "everything allowed, Crawl-delay of two seconds",
    RobotsVariant.CLOSED: "everything disallowed",
    RobotsVariant.OTHER_AGENT: "another crawler is shut out, all others from /docs/ only",
    RobotsVariant.BYTE_ORDER_MARK: "begins with a byte order mark, /blog/ disallowed",
    RobotsVariant.CARRIAGE_RETURNS: "lines end in CR alone, /blog/ disallowed",
    RobotsVariant.HTML: "200 with an HTML page: no rules, everything allowed",
    RobotsVariant.HUGE: "600 KB; /wiki/ disallowed in the first group, comments after it",
    RobotsVariant.EMPTY: "200 without a byte: everything allowed",
    RobotsVariant.REDIRECT: "redirects twice to a file that disallows /help/",
    RobotsVariant.REDIRECT_HUB: (
        "redirects to a file for this host on another host, sometimes via a third one, that"
        " disallows /help/"
    ),
    RobotsVariant.REDIRECT_LOOP: "redirects endlessly: counts as absent (RFC 9309 2.3.1.2)",
    RobotsVariant.SERVER_ERROR: "500 always: nothing may be fetched",
    RobotsVariant.FLAKY: "503 at the first request, then /team/ disallowed",
    RobotsVariant.SILENT: "never answers: nothing may be fetched",
    RobotsVariant.CLOSES: "closes the connection without a byte: nothing may be fetched",
}

_SECTION = "User-agent: *\nDisallow: /{}/\n"
_TEXTS: dict[RobotsVariant, str] = {
    RobotsVariant.ALLOW: "User-agent: *\nDisallow:\n",
    RobotsVariant.SECTION: "# shop\nUser-agent: *\nDisallow: /shop/\nAllow: /shop/*1.html$\n",
    RobotsVariant.WILDCARD: "User-agent: *\nDisallow: /*7.html$\n",
    RobotsVariant.DELAY: "User-agent: *\nCrawl-delay: 2\nDisallow:\n",
    RobotsVariant.CLOSED: "User-agent: *\nDisallow: /\n",
    RobotsVariant.OTHER_AGENT: (
        "User-agent: otherbot\nDisallow: /\n\nUser-agent: *\nDisallow: /docs/\n"
    ),
    RobotsVariant.BYTE_ORDER_MARK: "\ufeff" + _SECTION.format("blog"),
    RobotsVariant.CARRIAGE_RETURNS: _SECTION.format("blog").replace("\n", "\r"),
    RobotsVariant.HTML: (
        "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body><p>Nothing"
        " here.</p></body></html>\n"
    ),
    RobotsVariant.HUGE: (
        _SECTION.format("wiki")
        + "# there is nothing to see in this line of sixty bytes or so\n" * 10_000
    ),
    RobotsVariant.EMPTY: "",
    RobotsVariant.REDIRECT: _SECTION.format("help"),
    RobotsVariant.REDIRECT_HUB: _SECTION.format("help"),
    RobotsVariant.FLAKY: _SECTION.format("team"),
}


def _all(path: str) -> bool:
    return True


def _none(path: str) -> bool:
    return path == "/robots.txt"


def _not_in(section: str) -> Callable[[str], bool]:
    return lambda path: not path.startswith(f"/{section}/")


_VERDICTS: dict[RobotsVariant, Callable[[str], bool]] = {
    RobotsVariant.SECTION: lambda path: not path.startswith("/shop/") or path.endswith("1.html"),
    RobotsVariant.WILDCARD: lambda path: not path.endswith("7.html"),
    RobotsVariant.CLOSED: _none,
    RobotsVariant.OTHER_AGENT: _not_in("docs"),
    RobotsVariant.BYTE_ORDER_MARK: _not_in("blog"),
    RobotsVariant.CARRIAGE_RETURNS: _not_in("blog"),
    RobotsVariant.HUGE: _not_in("wiki"),
    RobotsVariant.REDIRECT: _not_in("help"),
    RobotsVariant.REDIRECT_HUB: _not_in("help"),
    RobotsVariant.SERVER_ERROR: _none,
    RobotsVariant.FLAKY: _not_in("team"),
    RobotsVariant.SILENT: _none,
    RobotsVariant.CLOSES: _none,
}


def may_fetch(variant: RobotsVariant, path: str) -> bool:
    """Whether a crawler without a group for its name may fetch a path on a host with this file.

    ``path`` includes the query.
    """
    return _VERDICTS.get(variant, _all)(path)


_STATUS = {RobotsVariant.ABSENT: 404, RobotsVariant.FORBIDDEN: 403, RobotsVariant.SERVER_ERROR: 500}
_WIRE = {RobotsVariant.SILENT: "never-answers", RobotsVariant.CLOSES: "closes-at-once"}
_HOPS = re.compile(r"/robots-moved-(\d)\.txt")
_KEPT = re.compile(r"/robots-(of|by)-(\d+)\.txt")


def robots_answer(
    variant: RobotsVariant, path: str, earlier: int, sitemap: str, elsewhere: str = ""
) -> Response | None:
    """The response for ``/robots.txt`` or its new location, ``None`` for other paths.

    ``earlier`` counts earlier requests of it; ``elsewhere`` is the location of a file on another
    host.
    """
    if path == "/robots.txt" and variant is RobotsVariant.REDIRECT_HUB and elsewhere:
        return _redirect(elsewhere)
    moved = _HOPS.fullmatch(path)
    if path != "/robots.txt" and not moved:
        return None
    if variant is RobotsVariant.REDIRECT_LOOP:
        return _redirect("/robots.txt")
    if variant is RobotsVariant.REDIRECT and not (moved and moved[1] == "2"):
        return _redirect("/robots-moved-2.txt" if moved else "/robots-moved-1.txt")
    if moved and variant is not RobotsVariant.REDIRECT:
        return None
    if variant is RobotsVariant.FLAKY and earlier == 0:
        return _text(503, "Try again later.\n")
    if variant in _STATUS:
        return _text(_STATUS[variant], "No robots.txt here.\n")
    text = _TEXTS.get(variant, "")
    if sitemap and has_sitemap_line(variant):
        text += f"\nSitemap: {sitemap}\n"
    kind = "text/html" if variant is RobotsVariant.HTML else "text/plain"
    return Response(200, [("Content-Type", kind)], text.encode(), behaviour=_WIRE.get(variant, ""))


def kept_for_another(path: str, next_origin: str) -> Response | None:
    """The response of a hub for the file of another host, ``None`` for other paths.

    At ``/robots-of-N.txt`` the file, at ``/robots-by-N.txt`` a redirect to the hub ``next_origin``.
    """
    kept = _KEPT.fullmatch(path)
    if kept is None:
        return None
    if kept[1] == "by":
        return _redirect(f"{next_origin}/robots-of-{kept[2]}.txt")
    return _text(200, _TEXTS[RobotsVariant.REDIRECT_HUB])


def has_sitemap_line(variant: RobotsVariant) -> bool:
    """Whether the file can have a Sitemap line that is read.

    ``HUGE`` has it beyond 500 KiB, which need not be read.
    """
    silent = (
        RobotsVariant.HTML,
        RobotsVariant.EMPTY,
        RobotsVariant.HUGE,
        RobotsVariant.REDIRECT_LOOP,
        RobotsVariant.REDIRECT_HUB,
    )
    return variant.is_reachable and variant not in silent and variant not in _STATUS


def _redirect(path: str) -> Response:
    return Response(302, [("Location", path), ("Content-Type", "text/plain")], b"Elsewhere.\n")


def _text(status: int, text: str) -> Response:
    return Response(status, [("Content-Type", "text/plain")], text.encode())
