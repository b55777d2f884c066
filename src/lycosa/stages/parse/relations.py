"""The kind of a ``<link>`` element or ``Link`` header, by its relations.

Sources: HTML standard 4.6.7; IANA's registry of link relations.
"""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.base.model.discovered import LinkKind

_ICONS = (
    "icon",
    "apple-touch-icon",
    "apple-touch-icon-precomposed",
    "apple-touch-startup-image",
    "mask-icon",
    "fluid-icon",
)
_STYLES = frozenset({"stylesheet", "manifest", *_ICONS})
_NOT_A_RESOURCE = frozenset({"preconnect", "dns-prefetch", "profile"})
_RELATIONS = {
    "canonical": LinkKind.CANONICAL,
    "next": LinkKind.NEXT,
    "prev": LinkKind.PREV,
    "previous": LinkKind.PREV,
    "alternate": LinkKind.ALTERNATE,
}
_SCRIPTS = (
    "script",
    "worker",
    "sharedworker",
    "serviceworker",
    "audioworklet",
    "paintworklet",
    "json",
)
# By destination (Fetch standard 2.2.5). Other destinations, and none, are needed by the page too.
_PRELOADED = {
    "image": LinkKind.IMG,
    "style": LinkKind.STYLE,
    "font": LinkKind.STYLE,
} | dict.fromkeys(_SCRIPTS, LinkKind.SCRIPT)


def link_kind(relations: Sequence[str], loaded_as: str = "") -> LinkKind | None:
    """The kind of a link with these relations (in lower case).

    ``None`` when it names no resource (preconnect). ``loaded_as`` is the ``as`` of a preload.
    Resources for a page that may follow (prefetch, prerender) are ``OTHER``, as is any other
    relation that does not affect the appearance of the page.
    """
    if not _STYLES.isdisjoint(relations):
        return LinkKind.STYLE  # "alternate stylesheet" is a style sheet
    for relation in relations:
        if relation in _RELATIONS:
            return _RELATIONS[relation]
    if "modulepreload" in relations:
        return LinkKind.SCRIPT
    if "preload" in relations:
        return _PRELOADED.get(loaded_as.strip().lower(), LinkKind.MEDIA)
    return None if _NOT_A_RESOURCE.issuperset(relations) else LinkKind.OTHER
