"""What a page says, apart from what surrounds it: main content, metadata, structured data."""

from __future__ import annotations

import msgspec


class Heading(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A heading of the main content: ``level`` 1 to 6."""

    level: int
    text: str


class Alternate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The same page in another language: ``language`` as in hreflang, and the absolute URL."""

    language: str
    url: str


class PageContent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The content of a page.

    ``main`` says where the main content is in the visible text of the page, without navigation and
    other boilerplate: begin and end of each run of lines, in characters (see ``main_text``).
    ``markdown`` is the same with headings, lists, tables, emphasis and absolute links (CommonMark,
    tables as in GitHub's), cut at ``parse.max_text``. Both are empty when nothing reads as
    content. ``headings`` are those of the main content. ``author``, ``published`` and
    ``modified`` are as the page gives them; dates are ISO 8601. ``structured`` is JSON: an object
    with ``json_ld``, ``microdata`` and ``opengraph``; empty without any, and when it is longer than
    64 KB. ``certainty`` is that of the language of the text, in [0, 1]; -1 when the text did not
    decide.
    """

    main: tuple[int, ...] = ()
    markdown: str = ""
    headings: tuple[Heading, ...] = ()
    author: str = ""
    published: str = ""
    modified: str = ""
    structured: str = ""
    alternates: tuple[Alternate, ...] = ()
    certainty: float = -1.0

    def places_in(self, text: str) -> tuple[int, ...]:
        """The places of the main content as far as they are in a text that was cut."""
        places = [min(each, len(text)) for each in self.main]
        while places and places[-2] == places[-1]:
            del places[-2:]
        return tuple(places)

    def main_text(self, text: str) -> str:
        """The main content of a page with this visible text: a line for each block."""
        if not text:  # it was not stored
            return ""
        places = iter(self.main)
        return "\n".join([text[begin:end] for begin, end in zip(places, places, strict=True)])


NO_CONTENT = PageContent()
