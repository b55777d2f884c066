"""Which captures user code gets: the same decision in a crawl and in an extraction."""

from __future__ import annotations

from lycosa.base.model.fetched import FetchKind


def is_extracted(
    kind: FetchKind, status: int, url: str, original_url: str, may_use: bool | None
) -> bool:
    """Whether a capture is given to user code, if that wants its URL.

    ``original_url`` is that of an earlier capture with the same body, empty without one. A page
    that is as it was before has no new rows: the earlier capture has them. A body that another URL
    had is given, because rows may depend on the URL. What the purpose of the crawl may not use
    (``may_use`` is false) is not.
    """
    return kind is FetchKind.PAGE and status == 200 and original_url != url and may_use is not False
