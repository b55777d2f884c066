"""The text of an RSS or Atom feed: the titles and texts of its entries, as of a page of news."""

from __future__ import annotations

import html
from datetime import UTC, datetime

import turbohtml
from turbohtml import Markdown

from lycosa.base.model.page_content import Heading, PageContent
from lycosa.base.urls.identity import InvalidUrl, resolve
from lycosa.stages.parse.element_readers import RawPage
from lycosa.stages.parse.html import fold_lines, render_text
from lycosa.stages.parse.syndication_feed import Feed, FeedEntry

_MARKDOWN = Markdown(lists=Markdown.Lists(bullets="-"))
_MAX_HEADINGS = 500


def add_feed_text(page: RawPage, feed: Feed, base: str, max_text: int) -> None:
    """Set the visible text and the content; references in the feed are relative to ``base``.

    Entries come in the order of the feed, up to about ``max_text`` characters.
    """
    texts: list[str] = []
    markdown: list[str] = []
    size = 0
    for entry in feed.entries:
        if size >= max_text:
            break
        text, marked = _entry_texts(entry, base)
        texts.append(text)
        markdown.append(marked)
        size += len(text)
    page.text = "\n".join(filter(None, texts))
    newest = max((entry.date for entry in feed.entries), default=0)
    titles = [entry.title for entry in feed.entries if entry.title]
    page.content = PageContent(
        main=(0, len(page.text)) if page.text else (),
        markdown="\n\n".join(filter(None, markdown))[:max_text],
        headings=tuple(Heading(2, title) for title in titles[:_MAX_HEADINGS]),
        modified=datetime.fromtimestamp(newest, UTC).isoformat() if newest else "",
    )


def _entry_texts(entry: FeedEntry, base: str) -> tuple[str, str]:
    """Title and text of an entry, as plain text and as Markdown."""
    title, markup = entry.title, entry.markup
    link = _absolute(entry.link, base)
    heading = f"## [{title}]({link})" if link else f"## {title}"
    if "<" not in markup:
        text = marked = fold_lines(html.unescape(markup))
    else:
        tree = turbohtml.parse(markup)
        for element in tree.select("script,style"):
            element.decompose()
        if tree.root is not None:
            tree.root.rewrite_links(lambda raw: _absolute(raw, link or base))
        marked = tree.to_markdown(_MARKDOWN).strip()
        text = render_text(tree)
    return (
        "\n".join(filter(None, (title, text))),
        "\n\n".join(filter(None, (heading if title else "", marked))),
    )


def _absolute(raw: str, base: str) -> str:
    """The absolute form of a reference; unchanged when it has none."""
    try:
        return resolve(raw.strip(), base)
    except InvalidUrl:
        return raw
