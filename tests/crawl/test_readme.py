"""The README's example, as it stands there, on a synthetic web: only the seed's URL and what loopback needs are put in its place."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import lycosa
from lycosa.config import DnsSection, FetchSection
from lycosa.synthetic import SyntheticServer, SyntheticWeb, WebPlan

README = Path(__file__).parents[2] / "README.md"


@contextmanager
def served(web: SyntheticWeb) -> Iterator[int]:
    """The web on a loop of its own, because the example blocks as programs do. Gives the port."""
    loop = asyncio.new_event_loop()
    server = SyntheticServer(web, pace=0)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield server.port
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def on_loopback(**sections: Any) -> lycosa.Config:
    """The example's settings, and names and addresses of a web that is not the world's."""
    here = {"dns": DnsSection(pins=("*=127.0.0.1",)), "fetch": FetchSection(allow_addresses=("127.0.0.0/8",))}
    config = lycosa.Config(**sections, **here)
    quick = msgspec.structs.replace(config.politeness, delay_s=0.01, address_delay_s=0.0)
    return msgspec.structs.replace(config, politeness=quick)


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    web = SyntheticWeb(WebPlan(hosts=1, pages=30))
    with served(web) as port:
        seed = web.seed_url(port=port)
        code = example.replace("https://example.org/", seed).replace("lycosa.Config(", "on_loopback(")
        code = code.replace('folder="example"', f"folder={str(tmp_path / 'example')!r}")
        names: dict[str, Any] = {"on_loopback": on_loopback}
        exec(compile(code, str(README), "exec"), names)
    report: lycosa.Report = names["report"]
    assert report.end.value == "limit"
    assert report.progress.captures == 20
    assert len(names["titles"]) == 20 and seed in names["titles"]
    assert any(names["titles"].values())
