"""Whether this machine permits the sandbox of Chromium, which some containers do not."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

from lycosa.stages.render.browser_process import NoBrowser, find_browser

_NOBODY = 65534
# The interpreter may be one that only its owner can start, so it changes the user itself.
_TRY = """
import ctypes, os, sys
if user := int(sys.argv[1]):
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)  # CLONE_NEWUSER
"""


@cache
def permits_sandbox() -> bool:
    """Whether the user that a browser gets may make a user namespace."""
    user = _NOBODY if os.geteuid() == 0 else 0
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _TRY, str(user)], cwd="/")
    return done.returncode == 0


def sandbox_options() -> list[str]:
    """Options of a crawl that renders: the container is the sandbox where there is no other."""
    return [] if permits_sandbox() else ["--set", "render.container_sandbox=true"]


def has_browser() -> bool:
    try:
        return bool(find_browser(""))
    except NoBrowser:
        return False
