"""No file of published vectors is forgotten: each is read by a test of this folder, which prints
its row.
"""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data"
WHOLE_FOLDERS = (
    "http/compressed",
    "structured-fields",
    "warc",
)  # whose files are taken as they are found
NO_VECTORS = {"SOURCES.md", "reserved.bin"}
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="the conformance vectors are not beside the checkout"
    ),
]


def test_every_file_of_vectors_is_named_by_a_test() -> None:
    tests = "".join(
        path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py"))
    )
    files = sorted(
        path for path in DATA.rglob("*") if path.is_file() and path.name not in NO_VECTORS
    )
    assert files
    assert [
        path
        for path in files
        if path.parent.relative_to(DATA).as_posix() not in WHOLE_FOLDERS and path.name not in tests
    ] == []
