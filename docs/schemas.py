"""Writes the JSON Schemas of the feeds into ``schemas/``: ``python docs/schemas.py``.

They are generated from the structs of ``lycosa.store.feed_rows``. A test compares the files with
what this script would write.
"""

from __future__ import annotations

import json
from pathlib import Path

from lycosa.store.feed_rows import FEEDS, feed_schema

FOLDER = Path(__file__).parent / "schemas"


def schema_files() -> dict[str, str]:
    """The text of each file by its name."""
    return {f"{feed}.json": json.dumps(feed_schema(feed), indent=2) + "\n" for feed in FEEDS}


if __name__ == "__main__":
    for name, text in schema_files().items():
        (FOLDER / name).write_text(text, "utf-8")
