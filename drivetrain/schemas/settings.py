"""The schemas of the YAML files beside a pipeline: its settings, with what is said of each field, and no others; and
NAME.studio.yaml, the edits made in Studio (drivetrain.studio.patch)."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from drivetrain.authoring.settings import Settings
from drivetrain.base.errors import UserError
from drivetrain.schemas import DIALECT, object_of
from drivetrain.spec.deployment import Deployment, block_model
from drivetrain.targets.sagemaker.document.difference import place as places
from drivetrain.targets.target import target_names

# A field of text takes a list or a mapping too, as its JSON (see drivetrain.authoring.settings).
_TEXT = ["string", "object", "array"]
_EDIT = {
    "was": "What the code has there. Without it something is added.",
    "now": "What comes in its place. Without it something is taken out.",
}


def settings_schema(kind: type[Settings]) -> dict[str, Any]:
    """The schema of the settings file of a pipeline that takes `kind`.

    Raises:
        UserError: a field whose values no file can hold.
    """
    try:
        schema = kind.model_json_schema(schema_generator=_Documented)
    except PydanticInvalidForJsonSchema as error:
        raise UserError(f"{kind.__name__} has a field that no settings file can hold: {error.message}.") from None
    return {"$schema": DIALECT, **schema}


class _Documented(GenerateJsonSchema):
    """Takes what is said of a field from the text below it."""

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        kind = cast("type[BaseModel]", schema["cls"])
        if kind is Deployment:
            self._describe_blocks(made)
        said = _said(kind)
        for name, field in kind.model_fields.items():
            described: dict[str, Any] = made["properties"][field.alias or name]
            described.pop("title", None)  # the name once more
            if name in said:
                described.setdefault("description", said[name])
            annotation: Any = field.annotation
            if annotation in (str, str | None):
                for choice in (described, *described.get("anyOf", ())):
                    if choice.get("type") == "string" and not {"enum", "const", "pattern", "format"} & set(choice):
                        choice["type"] = _TEXT
        return made

    def _describe_blocks(self, deployment: dict[str, Any]) -> None:
        """Say what the block of each target holds."""
        blocks = {name: block for name in target_names() if (block := block_model(name)) is not None}
        made = {name: self._model(block) for name, block in blocks.items()}
        deployment["properties"]["targets"] |= {"properties": made, "additionalProperties": False}

    def _model(self, block: type[BaseModel]) -> dict[str, Any]:
        block.model_rebuild()
        return self.generate_inner(block.__pydantic_core_schema__)


def _said(kind: type[BaseModel]) -> dict[str, str]:
    """Field -> the text below it, in the class or one that it inherits from.

    Pydantic would read them for every class that is made (use_attribute_docstrings), which starts of the command line
    would pay for.
    """
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner is BaseModel or not issubclass(owner, BaseModel):
            continue
        try:
            [tree] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        except (OSError, TypeError):  # made where there is no source, such as a prompt
            continue
        body = cast("ast.ClassDef", tree).body
        for line, below in pairwise(body):
            if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
                continue
            if (
                isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                found[line.target.id] = " ".join(inspect.cleandoc(below.value.value).split())
    return found


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
    for member, said in _EDIT.items():
        members[member] = {"description": said}
        members[f"{member}-json"] = {"type": "string", "description": f"{said} As JSON, for what YAML cannot hold."}
    members["like"] = {
        "type": "string",
        "description": "The step of the code to copy. Later edits change the copy.",
    }
    edit = {
        **object_of(("place",), **members),
        "anyOf": [{"required": [member]} for member in members if member != "place"],
        "not": {"anyOf": [{"required": [member, f"{member}-json"]} for member in _EDIT]},
    }
    hashes = "Hashes of what Studio had when it was pulled."
    file = object_of(
        ("pipeline", "edits"),
        pipeline={"type": "string", "description": "Whose edits they are."},
        edits={"type": "array", "items": edit, "description": "Laid on the definition in this order."},
        pulled={"type": "array", "items": {"type": "string"}, "description": hashes},
    )
    return {"$schema": DIALECT, "title": "Edits made in SageMaker Studio", **file}
