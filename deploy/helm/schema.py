"""Writes the schema of the chart's values: ``python deploy/helm/schema.py`` (needs PyYAML).

Helm refuses values that the schema does not have. Without it a misspelled value is ignored, and the
installation has the default in its place. The types are those of the defaults in ``values.yaml``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).with_name("lycosa")
FILE = CHART / "values.schema.json"

# Their keys are those of Kubernetes, of librdkafka, or names that the operator chooses.
_OPEN = {"annotations", "environment", "labels", "podSecurityContext", "resources", "security"}
_OPEN |= {"affinity", "nodeSelector"}
_TYPES = {bool: "boolean", int: "integer", str: "string", list: "array"}


def _schema(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {"type": _TYPES[type(value)]}
    if name in _OPEN:
        return {"type": "object"}
    parts = {key: _schema(each, key) for key, each in value.items()}
    return {"type": "object", "additionalProperties": False, "properties": parts}


def schema_text() -> str:
    """The schema of the present ``values.yaml``."""
    schema = _schema(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))
    schema["properties"]["global"] = {"type": "object"}  # Helm adds it to a chart inside another
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), "utf-8")
