"""Exports that are killed, two at once; the long form is ``script/prove exporting``."""

from __future__ import annotations

from pathlib import Path

from proofs import exporting


def test_every_item_is_there_once_after_kills(tmp_path: Path) -> None:
    assert exporting.prove(tmp_path, short=True)
