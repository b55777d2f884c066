"""From raw references to outlinks: resolved, canonical, deduplicated and hashed.

References that are no URLs are counted by reason.
"""

from __future__ import annotations

from urllib.parse import quote

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, hash8, hash8_all, hosts_of, resolve
from lycosa.stages.parse.element_readers import RawLink
from lycosa.stages.parse.sitemap import Sitemap, change_interval_s


class Outlinks:
    """Collects the outlinks of one document.

    When two references have the same canonical URL, the stronger kind provides the anchor.
    ``refused`` counts distinct raw references by ``Reason`` number. At most ``max_links`` outlinks
    are kept, the first ones.
    """

    def __init__(
        self, canonicalizer: Canonicalizer, base: str, max_links: int, charset: str = "utf-8"
    ) -> None:
        self._canonicalizer = canonicalizer
        self._base = base
        self._max_links = max_links
        self._query_charset = None if charset.startswith("utf") else charset
        self._found: dict[str, RawLink] = {}
        self.refused: dict[int, int] = {}

    def __contains__(self, url: str) -> bool:
        """Whether a canonical URL was found."""
        return url in self._found

    def add_reference(self, raw: str, found: RawLink) -> str | None:
        """Add one reference.

        Returns its canonical URL, or ``None`` when it is refused or beyond ``max_links``.
        """
        if self._query_charset and not raw.isascii():
            raw = with_encoded_query(raw, self._query_charset)
        try:
            url = self._canonicalizer.canonical(raw, self._base)
        except InvalidUrl as error:
            self.refused[error.reason] = self.refused.get(error.reason, 0) + 1
            return None
        known = self._found.get(url)
        if known is None:
            if len(self._found) >= self._max_links:
                return None
            self._found[url] = found
        elif found.kind < known.kind:
            self._found[url] = RawLink(
                found.kind, found.anchor or known.anchor, found.nofollow and known.nofollow
            )
        else:
            known.anchor = known.anchor or (found.anchor if found.kind == known.kind else "")
            known.nofollow = known.nofollow and found.nofollow
        return url

    def links(self) -> list[Link]:
        """The outlinks in the order in which they were found."""
        hosts = hosts_of(self._found)
        known = {host: hash8(host) for host in set(hosts)}
        return [
            Link(url, known[host], url8, found.kind, found.anchor, found.nofollow)
            for (url, found), host, url8 in zip(
                self._found.items(), hosts, hash8_all(self._found), strict=True
            )
        ]


def add_listed(
    outlinks: Outlinks, sitemap: Sitemap, hints: dict[str, tuple[int, float]]
) -> dict[str, int]:
    """Add the entries of a sitemap, then related links, which must not displace entries.

    Adds what the entries say to ``hints`` and returns the seconds between changes, by URL.
    """
    changes: dict[str, int] = {}
    kind = LinkKind.SITEMAP_FILE if sitemap.is_index else LinkKind.SITEMAP
    for entry in sitemap.entries:
        url = outlinks.add_reference(entry.loc, RawLink(kind, entry.title))
        if url and (entry.lastmod or entry.priority >= 0):
            hints[url] = (entry.lastmod, entry.priority)
        if url and (change_s := change_interval_s(entry.changefreq)):
            changes[url] = change_s
    for entry in sitemap.entries:
        for alternate in entry.alternates:
            outlinks.add_reference(alternate, RawLink(LinkKind.ALTERNATE))
    for entry in sitemap.entries:
        for image in entry.images:
            outlinks.add_reference(image, RawLink(LinkKind.IMG))
        for medium in entry.media:
            outlinks.add_reference(medium, RawLink(LinkKind.MEDIA))
    return changes


def base_of(document_url: str, base: str | None) -> str:
    """The base URL of a document's references.

    Source: HTML standard 4.2.3, "set the frozen base URL".
    """
    if base is None:
        return document_url
    try:
        href = resolve(base.strip(" \t\n\f\r"), document_url)
    except InvalidUrl:
        return document_url
    return document_url if href.startswith(("data:", "javascript:")) else href


def with_encoded_query(raw: str, charset: str) -> str:
    """Percent-encode the query in the page's charset, as browsers do.

    Source: URL standard, "query state".
    """
    head, mark, query = raw.partition("?")
    if not mark or query.isascii():
        return raw
    try:
        return (
            head
            + mark
            + quote(
                query.encode(charset, "xmlcharrefreplace"), safe="!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~ "
            )
        )
    except LookupError:  # a charset of the Encoding standard for which Python has no encoder
        return raw
