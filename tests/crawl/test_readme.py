"""The README's example, as it stands there, on a synthetic web: only the seed's URL and what
loopback needs are put in its place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import lycosa
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

README = Path(__file__).parents[2] / "README.md"


def on_loopback(values: dict[str, object]) -> lycosa.Config:
    """The example's settings, and names and addresses of a web that is not the world's."""
    here = {
        "dns.pins": "*=127.0.0.1",
        "fetch.allow_addresses": "127.0.0.0/8",
        "politeness.delay_s": 0.01,
        "politeness.address_delay_s": 0,
    }
    return lycosa.settings({**values, **here})


def test_the_example_of_the_readme_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    web = SyntheticWeb(WebPlan(hosts=1, pages=30))
    with served(web) as port:
        seed = web.seed_url(port=port)
        code = example.replace("https://example.org/", seed).replace(
            "lycosa.settings(", "on_loopback("
        )
        code = code.replace('"example"', repr(str(tmp_path / "example")))
        names: dict[str, Any] = {"on_loopback": on_loopback}
        exec(compile(code, str(README), "exec"), names)
    report: lycosa.Report = names["report"]
    assert report.end.value == "limit"
    assert report.progress.captures == 20
    summary, *pages = capsys.readouterr().out.splitlines()
    assert summary.startswith("limit 20 captures")
    assert any(each.startswith(f"{seed} ") for each in pages)
    urls, sizes = zip(*((each.split()[0], int(each.split()[-1])) for each in pages), strict=True)
    assert len(set(urls)) == len(pages) > 10 and min(sizes) > 0
    assert any(len(each.split()) > 2 for each in pages), "no page has a title"
