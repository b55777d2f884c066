"""``Last-Modified`` as evidence: for a host where it proved right, it says for how long nothing
changed. So does the ``lastmod`` of a sitemap for a page that it announced, where its signals proved
right (``signal_belief``).

Two fetches of a page with the header tell whether it was right: when the content differs, the date
must be a later one, and when it does not, the same. A date in the future, or before that of the
fetch before, is wrong. A 304 tells nothing, because the server decided by the same date.

For a trusted host the date adds to what the fetches saw. At the first fetch, the page has not
changed since it. At a fetch that found a change, the page changed between the last fetch and the
date, and not since.
"""

from __future__ import annotations

from lycosa.base.model.source_truth import SourceTruth
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.signal_belief import is_trusted

_TOLERANCE_S = 5.0  # clocks of servers differ by seconds
_LEAST_S = 3600.0  # a shorter time says little


def http_date(value: str) -> float:
    """Seconds since 1970 of a date in a header (RFC 9110, section 5.6.7); 0 when it is none."""
    from email.utils import parsedate_to_datetime  # slow to import, and few programs need it

    try:
        return max(parsedate_to_datetime(value[:100]).timestamp(), 0.0) if value else 0.0
    except (ValueError, TypeError, OverflowError):  # what a server sent is no date
        return 0.0


def was_right(old: History, meaning: Meaning, value: str, changed: bool, now: float) -> bool | None:
    """Whether the header of a fetch agrees with what the fetch found; ``None``: nothing to compare.

    ``old`` is the record before the fetch, ``changed`` whether its content differs.
    """
    if meaning is not Meaning.FETCHED or not (old.fetches and old.last_modified and value):
        return None
    before, date = http_date(old.last_modified), http_date(value)
    if not before or not date:
        return None
    if date > now + _TOLERANCE_S:
        return False
    return date > before if changed else date == before


def unchanged_since(truth: SourceTruth, value: str, old: History, now: float) -> float:
    """Since when the page has not changed, by a header that is trusted; 0 when it says nothing.

    In seconds since 1970, later than the fetch before.
    """
    return listed_since(truth, http_date(value), old, now) if value else 0.0


def listed_since(truth: SourceTruth, date: float, old: History, now: float) -> float:
    """The same by a date that a sitemap gave for the page, in seconds since 1970."""
    is_between = old.fetched_at < date <= now - _LEAST_S
    return date if is_between and is_trusted(truth) else 0.0
