"""What a site states about the use of one page, as of one fetch.

The statements of robots.txt are those of the file by which the URL was allowed, those of headers
come with the answer, and those of markup with the document. A 304 has new headers and the
robots.txt of its time, but no document: the markup is that of the body that did not change, so
its statements are kept in the URL's record (``History.markup``).
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.base.model.fetched import Fetched
from lycosa.base.preferences.page_statements import header_statements, price_header
from lycosa.base.preferences.preference_model import (
    NOTHING_STATED,
    Preferences,
    Statement,
    gather_preferences,
)

_PAYMENT_REQUIRED = 402


def page_preferences(
    fetched: Fetched, origin: Sequence[Statement], markup: Sequence[Statement], product: str
) -> Preferences:
    """All that is stated about an answer.

    ``origin`` are the statements of files about the origin, ``markup`` those of the document.
    """
    headers = fetched.headers()
    price = price_header(headers) if fetched.status == _PAYMENT_REQUIRED else ""
    stated = (*origin, *header_statements(headers, product), *markup)
    # nearly always: no statement costs nothing further
    return gather_preferences(stated, price=price) if stated or price else NOTHING_STATED
