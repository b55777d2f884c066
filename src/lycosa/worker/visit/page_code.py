"""Gives pages to user code before they are stored, and keeps what it answers within bounds.

The answer is taken as that of a stranger: links are made canonical and hashed here, and rows were
checked against the columns. A page whose code changes while it is with it is given to the new code.
If it cannot be, because the code changed once more or just before the page is stored, it has no
items, and a failure. So has a page that could not be parsed. Such pages can be extracted later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.compatibility import LATE_FIELDS
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.known_code import KnownCode
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.preferences.preference_model import Preferences
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, hash8, host_of
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED
from lycosa.stages.parse.media_type import file_type
from lycosa.state.store.journal_rows import Extractor
from lycosa.worker.extension_failures import ExtensionFailures
from lycosa.worker.extensions import CodeCaller
from lycosa.worker.visit.examined_body import ExaminedBody

_MAX_ANCHOR = 200
_TIMES_ASKED = 2  # about a page whose code changes


class PageCode:
    """One per worker. ``formats`` are those in force."""

    def __init__(
        self,
        caller: CodeCaller,
        canonical: CanonicalSection,
        formats: int,
        failures: ExtensionFailures,
    ) -> None:
        self.caller, self._failures = caller, failures
        self._canonicalizer = Canonicalizer(canonical)
        self._has_late_fields = formats >= LATE_FIELDS
        self.rows: dict[str, int] = {}
        """Rows that were answered, by extractor."""

    async def examine(
        self,
        fetched: Fetched,
        body: ExaminedBody,
        parsed: Parsed,
        stated: Preferences,
        is_rendered: bool = False,
    ) -> ExaminedBody:
        """The body with what user code says of it. One that ``is_rendered`` is no fetched one."""
        for _ in range(_TIMES_ASKED):
            codes, generation = self.caller.wanted(fetched.url), self.caller.generation
            if not codes or parsed.reason in NOT_PARSED:
                break
            given = _given(fetched, parsed, stated, is_rendered)
            answer = await self.caller.answer(given, codes)
            if generation == self.caller.generation:
                return self._answered(body, parsed, answer, generation)
        body = msgspec.structs.replace(body, generation=generation)
        if not codes:
            return body
        if parsed.reason in NOT_PARSED:
            return self._without_items(body, fetched.url, "NotParsed", parsed.reason.label)
        return self.in_force(body, fetched.url)

    def in_force(self, body: ExaminedBody, url: str) -> ExaminedBody:
        """The body without items of code that is not called any more."""
        if body.generation == self.caller.generation:
            return body
        why = "its code changed before the page was stored"
        return self._without_items(body, url, "Replaced", why)

    def _answered(
        self, body: ExaminedBody, parsed: Parsed, answer: ExtensionAnswer, generation: int
    ) -> ExaminedBody:
        for name, rows in answer.items.items():
            self.rows[name] = self.rows.get(name, 0) + len(rows)
        links = self._links(answer.links, parsed)
        return msgspec.structs.replace(
            body,
            parsed=msgspec.structs.replace(parsed, links=[*parsed.links, *links])
            if links
            else parsed,
            items=answer.items,
            scores=answer.scores if self._has_late_fields else {},
            generation=generation,
            remarks=(*body.remarks, *self._failures.note_all(answer.failures)),
        )

    def _without_items(self, body: ExaminedBody, url: str, error: str, why: str) -> ExaminedBody:
        """The body with a failure of each code that wants it, instead of items."""
        failures = [
            CodeFailure("extension", self.caller.codes[number].name, error, why)
            for number in self.caller.wanted(url)
        ]
        remarks = (*body.remarks, *self._failures.note_all(failures))
        return msgspec.structs.replace(body, items={}, remarks=remarks)

    def _links(self, given: Sequence[Link], parsed: Parsed) -> list[Link]:
        """The links that user code added; of formats 1 as ordinary ones."""
        if not given:
            return []
        kind = LinkKind.CODE if self._has_late_fields else LinkKind.A
        known = {link.url for link in parsed.links}
        found: dict[str, Link] = {}
        for each in given:
            try:
                url = self._canonicalizer.canonical(each.url)
            except InvalidUrl:
                continue  # the child makes canonical URLs, unless user code changed it
            if url not in known and url not in found:
                anchor = each.anchor[:_MAX_ANCHOR]
                found[url] = Link(url, hash8(host_of(url)), hash8(url), kind, anchor, each.nofollow)
        return list(found.values())


def extractors_of(codes: Sequence[KnownCode]) -> tuple[Extractor, ...]:
    """The extractors of these codes, as the header of a segment names them."""
    return tuple(Extractor.of(schema, code.digest) for code in codes for schema in code.schemas)


def _given(
    fetched: Fetched, parsed: Parsed, stated: Preferences, is_rendered: bool
) -> GivenDocument:
    headers = fetched.headers()
    is_file = bool(file_type(parsed.media_type, fetched.url))
    return GivenDocument(
        fetched.url,
        fetched.status,
        headers,
        fetched.started,
        parsed.media_type,
        parsed.charset,
        parsed.language,
        stated,
        fetched.body,
        fetched.spool,
        [value for name, value in headers if name == "content-encoding"],
        parsed.links,
        bool(fetched.truncated),
        parsed.text if is_file else None,
        parsed.title if is_file else "",
        is_rendered,
    )
