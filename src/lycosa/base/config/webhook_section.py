"""The settings of webhooks."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lycosa.base.config.setting import setting


class WebhookSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """URLs that get the list of pages that are new, changed, gone or back (docs/exporters.md)."""

    urls: Annotated[
        tuple[str, ...],
        setting("https URLs that get what changed, each all of it, in order; at most 16."),
    ] = ()
    secret_file: Annotated[
        str,
        setting(
            "File with the secret that requests are signed with: `whsec_` and base64, or at least"
            " 24 characters of text. In a settings file it is relative to that file's folder."
        ),
    ] = ""
    kinds: Annotated[
        tuple[str, ...],
        setting("Only these changes: new, changed, gone, back; empty sends all."),
    ] = ()
    batch: Annotated[int, setting("Maximum number of changes in a request.", ge=1, le=1000)] = 100
    timeout_s: Annotated[float, setting("Time for one request.", gt=0, le=300)] = 15.0
    max_wait_s: Annotated[
        float,
        setting("Longest wait after a failure; the first is 1 s, each further one twice it.", ge=1),
    ] = 3600.0
    allow_addresses: Annotated[
        tuple[str, ...],
        setting(
            "Special-purpose address ranges (CIDR) that requests may go to, as 10.0.0.0/8; without"
            " them only public addresses."
        ),
    ] = ()
    allow_http: Annotated[
        bool,
        setting("Allow http URLs of loopback addresses, for tests and programs on this machine."),
    ] = False
