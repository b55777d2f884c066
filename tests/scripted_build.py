"""What makes a renderer without a browser in a process: ``LYCOSA_TEST_RENDERER``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from lycosa.base.config.render_section import RenderSection
from lycosa.synthetic.scripted_renderer import ScriptedRenderer

ENVIRONMENT = {
    "LYCOSA_TEST_RENDERER": "scripted_build:scripted",
    "PYTHONPATH": str(Path(__file__).parent),
}
_ROUND_S = 0.4


def scripted(section: RenderSection, folder: Path) -> ScriptedRenderer:
    """A renderer with a process that stands for its browser: it ends only when it is killed.

    It keeps no pipe of the crawl open: whoever reads one would wait for it, too.
    """
    (folder / "browser").touch()
    subprocess.Popen(
        [sys.executable, "-S", "-c", "import signal; signal.pause()"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return ScriptedRenderer(asyncio.sleep, _ROUND_S)
