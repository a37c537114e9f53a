"""The schema of NAME.studio.yaml, the edits made in Studio (drivetrain.studio.patch)."""

from __future__ import annotations

from typing import Any

from drivetrain.schemas import DIALECT, object_of
from drivetrain.targets.sagemaker.document.difference import place as places

_SAID = {
    "was": "What the code has there. Without it something is added.",
    "now": "What comes in its place. Without it something is taken out.",
}


def patch_schema() -> dict[str, Any]:
    """The schema of the file that `drivetrain pull` writes."""
    members: dict[str, Any] = {
        "place": {
            "type": "string",
            "description": "Where in the definition, by names.",
            "pattern": rf"^({'|'.join(places.ROOTS)})[.\[]",
            "examples": ["steps.train.Arguments.ResourceConfig.InstanceType", "parameters.MinAccuracy.DefaultValue"],
        }
    }
    for member, said in _SAID.items():
        members[member] = {"description": said}
        members[f"{member}-json"] = {"type": "string", "description": f"{said} As JSON, for what YAML cannot hold."}
    members["like"] = {
        "type": "string",
        "description": "The step of the code to copy. Later edits change the copy.",
    }
    edit = {
        **object_of(("place",), **members),
        "anyOf": [{"required": [member]} for member in members if member != "place"],
        "not": {"anyOf": [{"required": [member, f"{member}-json"]} for member in _SAID]},
    }
    hashes = "Hashes of what Studio had when it was pulled."
    file = object_of(
        ("pipeline", "edits"),
        pipeline={"type": "string", "description": "Whose edits they are."},
        edits={"type": "array", "items": edit, "description": "Laid on the definition in this order."},
        pulled={"type": "array", "items": {"type": "string"}, "description": hashes},
    )
    return {"$schema": DIALECT, "title": "Edits made in SageMaker Studio", **file}
