"""The usage of a host or a site so far."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Captures, body bytes, seconds spent fetching, URLs discovered.

    For a site also the hosts visited under ``budgets.site_hosts``, and the licences that others
    named on its hosts; for a host the requisites on other hosts that its pages brought, while
    ``budgets.host_requisites`` limits them.
    """

    captures: int = 0
    bytes: int = 0
    time_s: float = 0.0
    discovered: int = 0
    hosts: int = 0
    licenses: int = 0
    requisites: int = 0
