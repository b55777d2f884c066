"""The table of derived files against what it speaks of: builders, settings, names, documents."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.sections import StoreSection
from lycosa.state.store import layout
from lycosa.state.store.derived_files import (
    DERIVED,
    DERIVED_KINDS,
    DERIVED_OPTIONS,
    DerivedFile,
    options_of,
    wanted_kinds,
)
from lycosa.state.store.journal import encode_header, encode_journal_frame, read_header
from store_samples import HEADER

ROOT = Path(__file__).parents[2]
each_kind = pytest.mark.parametrize("kind", DERIVED, ids=lambda kind: kind.name)


@each_kind
def test_the_builder_of_each_kind_makes_a_file(kind: DerivedFile, tmp_path: Path) -> None:
    kind.begin(tmp_path / "made", HEADER).close()
    assert (tmp_path / "made").is_file()


@each_kind
def test_the_segment_of_each_file_is_known_by_its_name(kind: DerivedFile) -> None:
    path = Path(layout.file_name(kind.name, "crawl-w000-000001-20260101000000"))
    assert path.parent.name == kind.name
    for name in (path, layout.temporary(path)):
        assert layout.stem_of(name) == "crawl-w000-000001-20260101000000"


def test_each_switch_of_the_settings_is_the_option_of_one_kind() -> None:
    """So that a kind has one line in the settings, and no switch is left without a kind."""
    values = msgspec.structs.asdict(StoreSection())
    switches = [name for name, value in values.items() if isinstance(value, bool)]
    assert sorted(each.option for each in DERIVED if each.option and each.is_setting) == sorted(
        switches
    )


def test_the_settings_decide_which_kinds_a_segment_has() -> None:
    assert wanted_kinds(dict.fromkeys(DERIVED_OPTIONS, True)) == list(DERIVED_KINDS)
    wanted = wanted_kinds(options_of(StoreSection(text=False, links=True)))
    assert "text" not in wanted and "links" in wanted
    assert wanted_kinds({}) == [each.name for each in DERIVED if not each.option]


def test_in_the_journal_each_option_is_a_key_of_its_own(tmp_path: Path) -> None:
    header = msgspec.structs.replace(HEADER, options={"links": False, "text": True})
    line = encode_header(header)
    assert json.loads(line)["links"] is False and json.loads(line)["text"] is True
    (tmp_path / "s.jsonl.zst").write_bytes(encode_journal_frame([line]))
    assert read_header(tmp_path / "s.jsonl.zst") == header


@each_kind
@pytest.mark.parametrize("document", ["docs/start.md", "docs/formats.md"])
def test_the_documents_name_each_folder(document: str, kind: DerivedFile) -> None:
    assert f"`{kind.name}/" in (ROOT / document).read_text("utf-8")


@each_kind
def test_the_page_of_output_files_names_each_option(kind: DerivedFile) -> None:
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    assert not kind.option or not kind.is_setting or f"`store.{kind.option}" in text
