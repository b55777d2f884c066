"""Code that someone planted never runs: in a crawl folder, its settings, or the current directory.

Each planted module would leave a file when it is imported.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from clusters import LYCOSA
from lycosa.base.config.live_settings import LIVE, check_live
from lycosa.base.config.sources import SettingsError
from lycosa.cli.main import main
from lycosa.state.folder.names import settings_path
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

WEB = SyntheticWeb(WebPlan(hosts=1, pages=6, distribution="fixed"))
FLAGS = [
    *("--delay", "0s", "--contact", "test@example.org", "--max-pages", "4"),
    *("--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8"),
    *("--set", "politeness.adaptive_factor=0", "--set", "politeness.address_delay_s=0"),
    *("--set", "parse.language=false"),
]
READING = (
    ("status", "DIR"),
    ("status", "DIR", "--json"),
    ("explain", "DIR", "URL"),
    ("audit", "DIR"),
    ("reparse", "DIR"),
    ("export", "DIR", "pages"),
    ("export", "DIR", "urls"),
    ("sql", "DIR", "SELECT count(*) FROM pages"),
    ("feed", "pages", "DIR"),
    ("changes", "DIR"),
    ("policy", "show", "DIR"),
    ("policy", "set", "DIR", "* daily"),
    ("dlq", "list", "DIR"),
    ("extension", "list", "DIR"),
    ("extension", "digest", "shop.py:products"),
    ("config", "--dir", "DIR"),
)


class Planted(NamedTuple):
    """A crawl with planted code; ``ran`` exists if any of it was imported."""

    folder: Path
    url: str
    code: str
    ran: Path


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    place = tmp_path_factory.mktemp("planted")
    folder, ran = place / "crawl", place / "RAN"
    with served(WEB) as port:
        url = WEB.seed_url(port=port)
        assert main(["crawl", url, "--dir", str(folder), *FLAGS]) == 0 or True
        source = f"open({str(ran)!r}, 'a').write(__name__ + chr(10))\ndef products(page): ...\n"
        (place / "shop.py").write_text(source)
        # as whoever can write into the folder would do it
        digest = _digest(place / "shop.py")
        (folder / "code").mkdir()
        for name in (f"{digest}.py", "__init__.py", "shop.py", "products.py"):
            (folder / "code" / name).write_text(source)
        (folder / "shop.py").write_text(source)
        records = [{"name": "shop:products", "digest": digest, "given": "./shop.py:products"}]
        (folder / "code.json").write_text(json.dumps({"records": records}))
        settings = json.loads(settings_path(folder).read_text())
        settings["extensions"]["code"] = ["./shop.py:products"]
        settings["extensions"]["allow"] = [digest]
        settings_path(folder).write_text(json.dumps(settings))
        yield Planted(folder, url, digest, ran)


def _digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_commands_that_read_never_import_it(
    planted: Planted, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(planted.folder.parent)
    monkeypatch.syspath_prepend(".")
    words = {"DIR": str(planted.folder), "URL": planted.url}
    code = main([words.get(each, each) for each in command])
    assert code in (0, 1, 6), f"{command} ended with {code}"
    assert not planted.ran.exists(), planted.ran.read_text()


def test_a_crawl_that_had_extensions_is_not_resumed_without_naming_them(
    planted: Planted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(planted.folder.parent)
    assert main(["crawl", "--dir", str(planted.folder), *FLAGS]) == 2
    said = capsys.readouterr().err
    assert "--extension ./shop.py:products" in said and "--set extensions.code=" in said
    assert not planted.ran.exists()


def test_it_is_resumed_without_them_when_that_is_said(planted: Planted) -> None:
    command = [*LYCOSA, "crawl", "--dir", str(planted.folder), *FLAGS, "--set", "extensions.code="]
    done = subprocess.run(command, cwd=planted.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    assert not planted.ran.exists()
    settings = json.loads(settings_path(planted.folder).read_text())
    assert settings["extensions"]["code"] == settings["extensions"]["allow"] == []
    assert json.loads((planted.folder / "code.json").read_text())["records"][-1]["digest"] == ""


def test_live_settings_cannot_name_code() -> None:
    assert not [key for key in LIVE if key.startswith("extensions.")]
    for key, value in (
        ("extensions.code", '["./x.py:a"]'),
        ("extensions.allow", f'["{"a" * 64}"]'),
    ):
        with pytest.raises(SettingsError, match="cannot change while the crawl runs"):
            check_live({key: value})
