"""The statements of a page's markup in the short form that is kept in the URL's record.

A server that answers 304 says that the document did not change, so what its markup stated still
holds. There is a record for each URL, so a page cannot make it long.
"""

from __future__ import annotations

from lycosa.base.preferences.preference_model import Preferences, PreferenceSource, Statement

MOST_KEPT = 8
MOST_CHARACTERS = 200
_MARKUP = frozenset(
    {PreferenceSource.ROBOTS_META, PreferenceSource.TDM_META, PreferenceSource.LICENSE_MARKUP}
)


def markup_of(preferences: Preferences) -> tuple[Statement, ...]:
    """The statements of markup among those of a capture, within the limits of a record.

    A text that is too long is cut; the address of a licence is then left out, because a part of it
    would be another address. Where there are too many, the last one has every "no" of the rest.
    """
    if not preferences.statements:
        return ()
    found = [
        Statement(each.source, each.text[:MOST_CHARACTERS], 0, each.answers)
        for each in preferences.statements
        if each.source in _MARKUP and (each.answers or len(each.text) <= MOST_CHARACTERS)
    ]
    if len(found) <= MOST_KEPT:
        return tuple(found)
    last, rest = found[MOST_KEPT - 1], found[MOST_KEPT - 1 :]
    denied = {use: False for each in rest for use, allowed in each.answers.items() if not allowed}
    return (*found[: MOST_KEPT - 1], Statement(last.source, last.text, 0, denied))
