"""Writes the JSON Schemas of feeds and log into ``schemas/``: ``python docs/schemas.py``.

They are generated from the structs of ``lycosa.state.store.feed_rows`` and
``lycosa.base.logs.log_records``. A test compares the files with what this script would write.
"""

from __future__ import annotations

import json
from pathlib import Path

from lycosa.base.logs.log_records import log_schema
from lycosa.state.store.feed_rows import FEEDS, feed_schema

FOLDER = Path(__file__).parent / "schemas"


def schema_files() -> dict[str, str]:
    """The text of each file by its name."""
    schemas = {feed: feed_schema(feed) for feed in FEEDS}
    schemas |= {f"log-{kind}": log_schema(kind) for kind in ("fetch", "event")}
    return {f"{name}.json": json.dumps(each, indent=2) + "\n" for name, each in schemas.items()}


if __name__ == "__main__":
    for name, text in schema_files().items():
        (FOLDER / name).write_text(text, "utf-8")
