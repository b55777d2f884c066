"""What installed packages register is active only when the settings name it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lycosa.base.config.sections import ExtensionSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.code_failure import PROGRAM, name_of_code
from lycosa.base.system.plugins import (
    InstalledExtension,
    Plugins,
    active_plugins,
    inactive_lines,
    installed_extensions,
    loaded,
)
from lycosa.processes.program_run import importable_name

_ENTRY_POINTS = """
[lycosa.scope_rules]
b = json:loads
a = json.decoder:JSONDecoder.decode [extra]

[lycosa.page_sinks]
sink = json:dumps
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[InstalledExtension]:
    package = tmp_path / "brought-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(_ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    return installed_extensions()


def test_what_is_installed_is_not_active_and_a_line_says_how_to_activate_it(
    found: list[InstalledExtension],
) -> None:
    assert active_plugins(ExtensionSection(), found) == Plugins()
    assert inactive_lines(ExtensionSection(rules=("a",)), found) == [
        "installed, but not active: b (brought 1.0) in lycosa.scope_rules; to activate it, add"
        " --set extensions.rules=b",
        "installed, but not active: sink (brought 1.0) in lycosa.page_sinks; to activate it, add"
        " --set extensions.sinks=sink",
    ]


def test_what_settings_name_is_active_in_their_order(found: list[InstalledExtension]) -> None:
    section = ExtensionSection(rules=("b", "brought/a"), sinks=("sink",))
    plugins = active_plugins(section, found)
    assert plugins == Plugins(("json:loads", "json.decoder:JSONDecoder.decode"), ("json:dumps",))
    assert [each.__qualname__ for each in loaded(plugins.rules)] == ["loads", "JSONDecoder.decode"]


def test_a_name_that_is_not_installed_or_not_clear_is_refused(
    found: list[InstalledExtension],
) -> None:
    section = ExtensionSection(rules=("sink",), sinks=("json:dumps",))
    with pytest.raises(SettingsError) as refused:
        active_plugins(section, found)
    said = str(refused.value)
    assert "extensions.rules: no installed package has 'sink'" in said
    assert "installed: a (brought 1.0), b (brought 1.0)" in said and "'json:dumps'" in said
    other = InstalledExtension("sinks", "sink", "json:load", "another", "2")
    with pytest.raises(SettingsError, match="name another/sink or brought/sink"):
        active_plugins(ExtensionSection(sinks=("sink",)), [other, *found])
    named = active_plugins(ExtensionSection(sinks=("another/sink",)), [other, *found])
    assert named.sinks == ("json:load",)


def test_an_object_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        loaded(("json:nothing_of_the_kind",))


def test_a_function_of_a_program_is_loaded_from_its_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "program.py"
    file.write_text("def rule(found):\n    return None\nassert __name__ != '__main__'\n")
    try:
        (rule,) = loaded((f"{file}:rule",))
        assert rule(None) is None and name_of_code(rule) == "__main__:rule"
    finally:
        del sys.modules[PROGRAM]


def test_rules_that_workers_cannot_import_are_refused() -> None:
    with pytest.raises(ValueError, match=r"several workers import the rule .*<lambda> by"):
        importable_name(lambda found: None)
    assert importable_name(a_rule) == f"{__name__}:a_rule"


def a_rule(found: object) -> None:
    return None
