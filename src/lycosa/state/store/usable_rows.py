"""The row of a capture as the outputs of a crawl with a purpose may have it.

A capture whose site refuses the purpose keeps its row in every table: that it was fetched, when,
with which status, and what its site stated are facts about the crawl. Its content is left out:
text, title, description, main content, items of user code, the anchors of its links, and what its
scripts said when it was rendered.
"""

from __future__ import annotations

import msgspec

from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.state.store.journal_rows import JournalRow

CONTENT_FIELDS = ("title", "description", "text", "content")
"""Fields of a row with words of the page; the anchors in ``links`` are further ones."""


def usable_row(row: JournalRow, policy: UsePolicy) -> JournalRow:
    """The row, without content if the policy does not allow its use."""
    if policy.allows(row.preferences):
        return row
    links = row.links
    if links.urls:
        links = msgspec.structs.replace(links, anchors=[""] * len(links.urls))
    render = row.render
    if render is not None:
        render = msgspec.structs.replace(render, console=(), errors=())
    return msgspec.structs.replace(
        row, title="", description="", text="", links=links, items={}, content=None, render=render
    )
