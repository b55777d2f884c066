"""The settings of own hosts: their exact names, and where their secret is."""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.base.config.profile_texts import read_secret_place
from lycosa.base.config.scope_sections import CanonicalSection
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl


def check_own_hosts(names: Sequence[str]) -> None:
    """Raise ``ValueError`` for what is no host as URLs of the crawl name it."""
    for name in names:
        try:
            known = Canonicalizer(CanonicalSection()).host_named(name)
        except InvalidUrl as error:
            raise ValueError(f"{name!r} is no host: {error}") from None
        if known != name:
            raise ValueError(
                f"{name!r} is not written as URLs have it; write {known!r}: a name in lower case,"
                " with the port if it is not that of the scheme, and no path or pattern"
            )


def check_own_secret(text: str) -> None:
    """Raise ``ValueError`` for anything but the place of a secret."""
    if text:
        read_secret_place(text)
