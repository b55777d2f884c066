"""From a response body to its content: the parse stage as one pure function of bytes.

The order is fixed: content decoding within limits, media type, the reader for that type, then
everything that is common to all types (links in headers, canonical form, directives, language,
fingerprint). A body that could not be decoded completely, or is larger than the limit, is read as
far as possible and keeps its reason. Any bytes give a ``Parsed``; an internal error gives
``INTERNAL`` with its name.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import msgspec
import turbohtml

from lycosa.base.config.sections import LinkRule, ParseSection
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import MAX_SITEMAP_BYTES, as_sent
from lycosa.base.model.parsed import Directives, Parsed, ParseInput
from lycosa.base.model.remark import Remark, distinct
from lycosa.base.preferences.page_statements import markup_statements
from lycosa.base.preferences.preference_model import Statement
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import Decoded, decode_content
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, is_own_path
from lycosa.base.urls.link_header import parse_link_header
from lycosa.stages.parse.charset import decode_text
from lycosa.stages.parse.content_reader import ContentReader
from lycosa.stages.parse.directives import read_directives
from lycosa.stages.parse.element_readers import RawLink, RawPage
from lycosa.stages.parse.extra_links import all_guesses, guesses_in_script, read_extra
from lycosa.stages.parse.feed_text import add_feed_text
from lycosa.stages.parse.file_reader import content_of_file
from lycosa.stages.parse.fingerprint import simhash
from lycosa.stages.parse.html import fold_lines, read_html
from lycosa.stages.parse.language import LanguageGuesser, primary_subtag
from lycosa.stages.parse.markup_values import link_kind, parse_refresh, srcset_urls
from lycosa.stages.parse.media_type import (
    Shape,
    file_type,
    is_gzip_file,
    media_type_of,
    read_spooled,
    sniff,
)
from lycosa.stages.parse.outlinks import Outlinks, add_listed, base_of
from lycosa.stages.parse.sitemap import (
    Sitemap,
    has_url_line,
    looks_like_text_sitemap,
    read_sitemap,
    read_text_sitemap,
)
from lycosa.stages.parse.syndication_feed import read_feed

_FEED = (ListingKind.NONE, ListingKind.FEED)
_MAX_DESCRIPTION = 2000
_DIGEST_BYTES = 8  # of `History.text_digest`
_GZIP_LAYERS = 2
_BROKEN_OFF = frozenset({Reason.DECODE_FAILED, Reason.DECODE_LIMIT})
_MIN_PART = 1 << 16  # bytes; a page below twice this size is not halved for lack of memory
# the C code of the HTML parser sometimes raises SystemError when it runs out of memory
_NO_MEMORY = (MemoryError, SystemError)


class _Reads(NamedTuple):
    """What is read beyond text and links (``ParserConfig``)."""

    content: bool
    files: bool
    requisites: bool
    scripts: bool


class DocumentParser:
    """Parses documents one after the other. Keeps only the language model between them."""

    def __init__(
        self,
        section: ParseSection,
        canonicalizer: Canonicalizer,
        product: str,
        reads_content: bool = False,
        reads_files: bool = False,
        reads_requisites: bool = False,
        judges_scripts: bool = False,
    ) -> None:
        self._section = section
        self._canonicalizer = canonicalizer
        self._product = product
        self._reads = _Reads(reads_content, reads_files, reads_requisites, judges_scripts)
        self._languages = LanguageGuesser()

    def parse(self, document: ParseInput) -> Parsed:
        """The content of a document. Never raises because of it."""
        started = time.process_time()
        reading = _Reading(
            self._section,
            self._canonicalizer,
            self._product,
            self._languages,
            document,
            self._reads,
        )
        try:
            return reading.result(started)
        except MemoryError:
            # The limit of the address space of this process. It is a fact about the document, not
            # about the child, which continues.
            failure = Remark(Reason.PARSE_KILLED, "out of memory")
        # one document must never end a crawl, and the error is recorded with it
        except Exception as error:
            failure = Remark(Reason.INTERNAL, f"{type(error).__name__}: {error}"[:500])
        # The failure is the reason, because it decides whether the body is parsed again.
        remarks = (failure, *reading.remarks)
        return Parsed(
            reason=failure.reason,
            detail=failure.detail,
            elapsed_s=time.process_time() - started,
            remarks=remarks if len(remarks) > 1 else (),
        )


class _Reading:
    """One document in the course of being read."""

    def __init__(
        self,
        section: ParseSection,
        canonicalizer: Canonicalizer,
        product: str,
        languages: LanguageGuesser,
        document: ParseInput,
        reads: _Reads,
    ) -> None:
        self._section = section
        self._canonicalizer = canonicalizer
        self._product = product
        self._languages = languages
        self._document = document
        self._reads = reads
        self._reader: ContentReader | None = None
        self.remarks: list[Remark] = []
        self._hint = ""  # a detail without a reason
        self._is_cut = False
        self._outlinks: Outlinks | None = None
        self._changes: dict[str, int] = {}
        self._is_feed = False
        self._content: bytes | None = None  # of a body that had a content encoding, if whole
        self._guesses: list[str] = []
        self._file_bytes = 0  # of a body in a file

    def result(self, started: float) -> Parsed:
        media_type = media_type_of(self._document.headers)
        supplied = media_type.essence if media_type else ""
        label = media_type.parameters.get("charset") if media_type else None
        body = self._decoded(supplied)
        is_sitemap = self._document.is_sitemap
        if is_gzip_file("" if is_sitemap else supplied, body):
            body, supplied = self._unpacked(body), ""
        essence, shape = sniff(supplied, body)
        if is_sitemap and shape is Shape.NONE:
            essence, shape = sniff("", body)  # ignore a wrong type from the server
        if shape is Shape.HTML or (shape is Shape.TEXT and not is_sitemap):
            body = self._cut(
                body, self._section.max_bytes, f"more than {self._section.max_bytes} bytes"
            )
            return self._part(essence, shape, body, label, started)
        return self._whole(essence, shape, body, label, started)

    def _whole(
        self, essence: str, shape: Shape, body: bytes, label: str | None, started: float
    ) -> Parsed:
        page, sitemap, hints = self._read(essence, shape, body, label)
        return self._parsed(essence, shape, page, sitemap, hints, len(body), started)

    def _part(
        self, essence: str, shape: Shape, body: bytes, label: str | None, started: float
    ) -> Parsed:
        """Read a page, halving it until the memory suffices.

        Only on the last try of the document; before that, the error is raised.
        """
        noted = len(self.remarks)
        while True:
            try:
                return self._whole(essence, shape, body, label, started)
            except _NO_MEMORY:
                # Before the last try the document gets another one, alone in a child.
                if not self._document.is_last_try or len(body) < 2 * _MIN_PART:
                    raise
            # what the next, smaller part repeats
            self._outlinks, self._changes = None, {}
            del self.remarks[noted:]
            body = self._cut(
                body, len(body) // 2, f"no memory for more than {len(body) // 2} bytes"
            )

    def _cut(self, body: bytes, size: int, detail: str) -> bytes:
        """The first ``size`` bytes.

        A tag that the cut goes through is dropped, as the HTML standard drops an unfinished tag.
        """
        if len(body) <= size:
            return body
        self._is_cut = True
        self._note(Reason.BODY_TRUNCATED, detail)
        return body[:size]

    def _note(self, reason: Reason, detail: str = "") -> None:
        """Note a remark after those that there are; the first is the reason of the parse."""
        if reason is not Reason.NONE:
            self.remarks.append(Remark(reason, detail))

    def _decoded(self, supplied: str) -> bytes:
        document = self._document
        body = document.body
        encodings = [value for name, value in document.headers if name == "content-encoding"]
        if document.spool:
            body, self._file_bytes = read_spooled(document.spool, supplied, bool(encodings))
        may_be_sitemap = document.is_sitemap or "xml" in supplied or "gzip" in supplied
        limit = (
            max(self._section.max_bytes, MAX_SITEMAP_BYTES)
            if may_be_sitemap
            else self._section.max_bytes
        )
        decoded = decode_content(body, encodings, limit, self._section.max_ratio)
        self._note_decoded(decoded)
        if encodings and len(decoded.body) <= limit and not (self.remarks or document.is_cut):
            self._content = decoded.body
        is_long = len(decoded.body) > limit
        self._is_cut = is_long or any(each.reason is Reason.DECODE_LIMIT for each in self.remarks)
        if is_long:
            self._note(Reason.BODY_TRUNCATED, f"more than {limit} bytes")
        return decoded.body[:limit]

    def _note_decoded(self, decoded: Decoded) -> None:
        self._note(decoded.reason, decoded.detail)
        for reason, detail in decoded.more:
            self._note(reason, detail)
        if decoded.reason is Reason.NONE:
            self._hint = self._hint or decoded.detail

    def _unpacked(self, body: bytes) -> bytes:
        """The content of a gzip file.

        A gzip file inside it is unpacked too, because some servers compress their ``.xml.gz``
        again.
        """
        for _ in range(_GZIP_LAYERS):
            if not body.startswith(b"\x1f\x8b\x08"):
                break
            decoded = decode_content(body, "gzip", MAX_SITEMAP_BYTES, self._section.max_ratio)
            self._note_decoded(decoded)
            self._is_cut = self._is_cut or decoded.reason is Reason.DECODE_LIMIT
            body = decoded.body
        return body

    def _read(
        self, essence: str, shape: Shape, body: bytes, label: str | None
    ) -> tuple[RawPage, Sitemap | None, dict[str, tuple[int, float]]]:
        if shape is Shape.HTML:
            reads_more = self._reads.content or self._section.links is not LinkRule.A
            read_more = partial(self._read_more, body) if reads_more else None
            most = self._section.max_links
            reads = self._reads
            page = read_html(body, label, most, read_more, reads.requisites, reads.scripts)
            return page, None, {}
        if shape is Shape.TEXT:
            text, charset = decode_text(body, label)
            if has_url_line(text) if self._document.is_sitemap else looks_like_text_sitemap(text):
                return RawPage(charset), read_text_sitemap(text, is_cut=self._ends_early), {}
            return RawPage(charset, text=fold_lines(text)), None, {}
        if shape is Shape.SITEMAP:
            return RawPage(label.lower() if label else ""), read_sitemap(body, label), {}
        if shape is Shape.FEED:
            return self._read_feed(body, label)
        if self._reads.files and (file := file_type(essence, self._document.url)):
            read_content = self._read_content if self._reads.content else None
            page, remark = content_of_file(body, file, self._section, read_content)
            self._is_cut = self._is_cut or remark.reason is Reason.BODY_TRUNCATED
            self._note(remark.reason, remark.detail)
            return page, None, {}
        reads_loads = self._reads.requisites or self._reads.scripts
        if reads_loads and (loaded := self._read_requisite(essence, body, label)):
            return loaded, None, {}
        if body:
            self._note(Reason.CONTENT_TYPE)
        return RawPage(""), None, {}

    def _read_more(self, body: bytes, tree: turbohtml.Document, page: RawPage) -> None:
        if self._section.links is not LinkRule.A:
            self._guesses = read_extra(tree, page, body, self._section.links)
        if self._reads.content:
            self._read_content(tree, page)

    def _read_requisite(self, essence: str, body: bytes, label: str | None) -> RawPage | None:
        # Here, because a child of a crawl without requisites needs no tokenizer of style sheets.
        from lycosa.stages.parse.requisite_files import SCRIPTS, read_requisite_file

        if self._section.links is LinkRule.ALL and essence in SCRIPTS:
            self._guesses = guesses_in_script(decode_text(body, label)[0])
        most = self._section.max_links
        page, is_cut = read_requisite_file(essence, self._document.url, body, label, most)
        self._is_cut = self._is_cut or is_cut
        self._note(Reason.BODY_TRUNCATED if is_cut else Reason.NONE, "a style sheet")
        return page

    def _read_content(self, tree: turbohtml.Document, page: RawPage) -> None:
        base = base_of(self._document.url, page.base)
        self._reader = ContentReader(base, self._section.max_text)
        page.content = self._reader.read(tree)

    @property
    def _ends_early(self) -> bool:
        """Whether the end of the document is missing.

        It was not received or unpacked completely, or it is too long.
        """
        return (
            self._document.is_cut
            or self._is_cut
            or any(each.reason in _BROKEN_OFF for each in self.remarks)
        )

    def _read_feed(
        self, body: bytes, label: str | None
    ) -> tuple[RawPage, None, dict[str, tuple[int, float]]]:
        feed = read_feed(body, label)
        self._is_feed = True
        page = RawPage(label.lower() if label else "", title=feed.title, language=feed.language)
        page.metas.append(("description", feed.description))
        hints: dict[str, tuple[int, float]] = {}
        if feed.link:
            # the site that the feed belongs to
            self._links_of(page).add_reference(
                feed.link, RawLink(LinkKind.ALTERNATE, feed.title[:200])
            )
        for entry in feed.entries:
            url = self._links_of(page).add_reference(
                entry.link, RawLink(LinkKind.FEED, entry.title)
            )
            if url and entry.date:
                hints[url] = (entry.date, -1.0)
        add_feed_text(page, feed, self._document.url, self._section.max_text)
        return page, None, hints

    def _links_of(self, page: RawPage) -> Outlinks:
        if self._outlinks is None:
            base = base_of(self._document.url, page.base)
            self._outlinks = Outlinks(
                self._canonicalizer, base, self._section.max_links, page.charset
            )
        return self._outlinks

    def _parsed(
        self,
        essence: str,
        shape: Shape,
        page: RawPage,
        sitemap: Sitemap | None,
        hints: dict[str, tuple[int, float]],
        decoded_bytes: int,
        started: float,
    ) -> Parsed:
        canonical = self._add_links(page, sitemap, hints)
        outlinks = self._links_of(page)
        # Cut before language and fingerprint, so that both depend on what is stored and can be
        # computed again.
        text = page.text[: self._section.max_text]
        language, certainty = self._language(page.language, text)
        content = page.content if self._reads.content else None
        if content is not None:
            places = self._reader.places(text) if self._reader else content.places_in(text)
            content = msgspec.structs.replace(content, main=places, certainty=round(certainty, 3))
        if page.looks_scripted and not self.remarks:
            self._note(Reason.LOOKS_SCRIPTED)
        remarks = distinct(self.remarks)
        first = remarks[0] if remarks else Remark(Reason.NONE, self._hint)
        return Parsed(
            reason=first.reason,
            detail=first.detail,
            media_type=essence,
            charset=page.charset,
            title=page.title,
            description=" ".join(_first(page.metas, "description").split())[:_MAX_DESCRIPTION],
            canonical=canonical,
            language=language,
            text=text,
            simhash=simhash(text),
            directives=self._directives(page),
            links=outlinks.links(),
            refused_links=outlinks.refused,
            decoded_bytes=max(decoded_bytes, self._file_bytes),
            elapsed_s=time.process_time() - started,
            hints=hints,
            is_sitemap_index=sitemap is not None and sitemap.is_index,
            changes=self._changes,
            is_sitemap=sitemap is not None,
            is_cut=self._is_cut,
            remarks=remarks if len(remarks) > 1 else (),
            statements=self._statements(page),
            content=content,
            listing=sitemap.kind if sitemap is not None else _FEED[self._is_feed],
            content_digest=self._content_digest() if not text else b"",
            script_need=page.script_need,
        )

    def _content_digest(self) -> bytes:
        """The digest of the content without its encoding, if that was one and is whole."""
        if self._content is None:
            return b""
        return hashlib.sha1(self._content, usedforsecurity=False).digest()[:_DIGEST_BYTES]

    def _statements(self, page: RawPage) -> tuple[Statement, ...]:
        """What the markup says about the use of the page; headers are read with the answer."""
        if not page.metas and not page.licenses:
            return ()
        base = base_of(self._document.url, page.base) if page.licenses else ""
        return markup_statements(
            page.metas, [self._canonical(each, base) for each in page.licenses], self._product
        )

    def _add_links(
        self, page: RawPage, sitemap: Sitemap | None, hints: dict[str, tuple[int, float]]
    ) -> str:
        """Add all links of markup, headers and sitemap.

        Returns the canonical URL that the page declares, or the empty string.
        """
        outlinks = self._links_of(page)
        canonical = self._add_header_links(outlinks)
        for raw, found in page.links.items():
            outlinks.add_reference(raw, found)
        if page.canonical is not None:
            canonical = (
                self._canonical(page.canonical, base_of(self._document.url, page.base)) or canonical
            )
        if sitemap is not None:
            self._changes = add_listed(outlinks, sitemap, hints)
        elif self._section.links is LinkRule.ALL:
            self._add_guesses(outlinks, page)
        return canonical

    def _add_guesses(self, outlinks: Outlinks, page: RawPage) -> None:
        """Add what looks like a URL of the same host and has no query, after all links.

        A guess says nothing about a URL that is a link, or that a form is sent to.
        """
        base = base_of(self._document.url, page.base)
        for raw in all_guesses(self._guesses, page.text[: self._section.max_text]):
            url = self._canonical(raw, base)
            if url and url not in outlinks and is_own_path(url, self._document.url):
                outlinks.add_reference(url, RawLink(LinkKind.SPECULATIVE))

    def _add_header_links(self, outlinks: Outlinks) -> str:
        canonical = ""
        for name, value in self._document.headers:
            if name == "link":
                for target, relations, loaded_as, imagesrcset, _ in parse_link_header(
                    as_sent(value)
                ):
                    kind = link_kind(relations, loaded_as)
                    if kind is LinkKind.CANONICAL:
                        canonical = canonical or self._canonical(target, self._document.url)
                    if kind is not None and (
                        target or kind is LinkKind.CANONICAL or not imagesrcset
                    ):
                        outlinks.add_reference(
                            self._absolute(target), RawLink(kind, nofollow="nofollow" in relations)
                        )
                    for url in srcset_urls(imagesrcset) if "preload" in relations else ():
                        outlinks.add_reference(self._absolute(url), RawLink(LinkKind.IMG))
            elif name == "content-location" and self._section.links is not LinkRule.A:
                # RFC 9110 section 8.7: the resource of which this answer is a representation
                outlinks.add_reference(self._absolute(as_sent(value)), RawLink(LinkKind.DOCUMENT))
            elif name == "refresh" and (refresh := parse_refresh(as_sent(value))) and refresh[1]:
                outlinks.add_reference(self._absolute(refresh[1]), RawLink(LinkKind.REFRESH))
        return canonical

    def _absolute(self, target: str) -> str:
        """Resolve a target in a header relative to the document, ignoring ``<base>``.

        Source: RFC 8288 section 3.2.
        """
        return self._canonical(target, self._document.url) or target

    def _canonical(self, raw: str, base: str) -> str:
        try:
            return self._canonicalizer.canonical(raw, base)
        except InvalidUrl:
            return ""

    def _language(self, hint: str, text: str) -> tuple[str, float]:
        if self._section.language:
            return self._languages.guess(text, hint)
        return primary_subtag(hint), -1.0

    def _directives(self, page: RawPage) -> Directives:
        return read_directives(
            page.metas,
            (value for name, value in self._document.headers if name == "x-robots-tag"),
            self._product,
        )


def _first(pairs: Iterable[tuple[str, str]], name: str) -> str:
    return next((value for key, value in pairs if key == name), "")
