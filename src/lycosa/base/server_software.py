"""What software makes the answers of a host, as far as its headers say.

Whether dates are right is decided by programs more than by people, so hosts are distinguished by
the product names in ``Server``, and in ``X-Generator`` or ``X-Powered-By`` where one is sent (RFC
9110 section 10.2.4). Versions and comments are left out: they divide hosts that behave alike.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MOST = 32  # characters of a name
_NAME = re.compile(r"[a-z][a-z_.-]*[a-z]|[a-z]")


@lru_cache(1024)
def software_of(server: str, generator: str = "") -> str:
    """The names, in lower case: ``nginx``, ``apache wordpress``; empty when nothing is known."""
    return " ".join(name for name in (_product(server), _product(generator)) if name)


def _product(value: str) -> str:
    found = _NAME.match(value[:_MOST].strip().lower())
    return found[0] if found else ""
