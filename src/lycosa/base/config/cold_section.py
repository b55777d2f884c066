"""The settings of cold files."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class ColdSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Records of URLs that are not fetched for long, which leave the tables for files."""

    after_s: Annotated[
        float,
        setting(
            "Time since a URL was found and fetched last after which its record goes to a cold"
            " file, if no fetch of it is due for as long; 0 keeps all records in the tables.",
            ge=0,
        ),
    ] = 0.0
    return_after_s: Annotated[
        float,
        setting(
            "Time for which a URL must be cold before a link to it brings it back to be fetched.",
            ge=0,
        ),
    ] = 7776000.0
    least_records: Annotated[
        int,
        setting(
            "Minimum number of records in a cold file; fewer of a partition stay in its table.",
            ge=1,
            le=8192,
        ),
    ] = 1000
