"""How to install an optional part of the program into the same environment.

A command that names the package ``lycosa`` would install whatever an index has under that name. So
a checkout gets its own script, and another installation the packages of the extra themselves, which
its metadata lists.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def install_command(extra: str, installed: Distribution | None = None) -> str:
    """The shell command that installs an extra for this installation (default: the present one)."""
    installed = installed or distribution("lycosa")
    if (checkout := _checkout(installed)) is not None:
        return f"{shlex.quote(str(checkout / 'script' / 'setup'))} {extra}"
    needed = [
        requirement.partition(";")[0].strip()
        for requirement in installed.requires or []
        if (found := _EXTRA.search(requirement)) is not None and found[1] == extra
    ]
    return shlex.join([*_installer(), *needed])


def _installer() -> list[str]:
    """pip of this environment. One that uv made, also for uvx, has none."""
    if importlib.util.find_spec("pip") is None:
        return ["uv", "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install"]


def _checkout(installed: Distribution) -> Path | None:
    """The checkout whose code runs; ``None`` for an installed copy (PEP 610)."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    root = Path(unquote(urlsplit(origin["url"]).path))
    return root if (root / "script" / "setup").is_file() else None
