"""The settings of deduplication against earlier crawls."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class EarlierSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Earlier crawls, whose bodies are not stored again (docs/earlier-crawls.md)."""

    archives: Annotated[
        tuple[str, ...],
        setting(
            "Crawl folders, CDXJ files and folders of these, at most 64: a body that they have is"
            " stored as a revisit of their record."
        ),
    ] = ()
    warcs: Annotated[
        tuple[str, ...],
        setting(
            "Folders in which the WARC files of these indexes are, or in their warc/ or archive/;"
            " those of a crawl folder, and files next to an index, are found without it."
        ),
    ] = ()
    check_every: Annotated[
        int,
        setting(
            "One of so many bodies that an archive has is compared with the archive's, byte by"
            " byte; 0 compares none.",
            ge=0,
        ),
    ] = 100
    outbackcdx: Annotated[
        str,
        setting(
            "URL of a collection of OutbackCDX that is asked for earlier captures of each page, as"
            " http://cdx.example:8080/web; empty asks none."
        ),
    ] = ""
    push: Annotated[
        str,
        setting(
            "URL of a collection of OutbackCDX that gets the index lines of each segment when it"
            " is closed; empty pushes none."
        ),
    ] = ""
    timeout_s: Annotated[float, setting("Time for one question to OutbackCDX.", gt=0, le=60)] = 2.0
    allow_addresses: Annotated[
        tuple[str, ...],
        setting(
            "Special-purpose address ranges (CIDR) at which these services may be, as 10.0.0.0/8;"
            " without them only public addresses."
        ),
    ] = ()
