"""JSON Schemas (2020-12) for editors: of a pipeline's settings file, of definitions, and of the edits made in Studio.

They help while typing: names are completed, mistakes underlined. What decides is `settings.build` for settings,
`drivetrain check` for definitions, and `studio.patch.parse` for edits. Equal code gives equal bytes.
"""

from __future__ import annotations

import json
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def text_of(schema: dict[str, Any]) -> str:
    """The text of a schema's file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def object_of(required: tuple[str, ...], /, **properties: Any) -> dict[str, Any]:
    """The schema of an object with these members and no others."""
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}
