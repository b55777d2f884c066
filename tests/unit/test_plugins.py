"""What installed packages register is found once and loaded by name."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from lycosa.base.system.plugins import Plugins, loaded, registered

_ENTRY_POINTS = """
[lycosa.scope_rules]
b = json:loads
a = json.decoder:JSONDecoder.decode [extra]

[lycosa.page_sinks]
sink = json:dumps
"""


def test_registered_objects_are_found_in_the_order_of_their_names_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "brought-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(_ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    found = registered()
    assert found == Plugins(("json.decoder:JSONDecoder.decode", "json:loads"), ("json:dumps",))
    assert loaded(found.rules) == tuple(
        point.load()
        for point in sorted(
            metadata.entry_points(group="lycosa.scope_rules"), key=lambda point: point.name
        )
    )


def test_an_object_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        loaded(("json:nothing_of_the_kind",))
