"""Write shapes.json from the installed botocore: `make shapes`, after an upgrade of boto3.

    python -m drivetrain.targets.sagemaker.document.service.extract_shapes

Loading botocore's own service model costs 0.4 s and 30 MB; what compile needs of it is the 2 % that this keeps: the
shapes that a step's Arguments and a step's properties can reach, without their documentation. The result is the same
to the byte for the same botocore, one shape a line, so that an upgrade reads as a diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drivetrain.targets.sagemaker.document.graph import reached
from drivetrain.targets.sagemaker.document.step_types import STEP_TYPES

FILE = Path(__file__).with_name("shapes.json")

# Step type -> the call that the service makes for it. Pipeline and Execution are no steps; their limits are wanted.
CREATE: dict[str, str] = {
    **{each.name: each.creates for each in STEP_TYPES.values() if each.creates},
    "Pipeline": "CreatePipeline",
    "Execution": "StartPipelineExecution",
}
# Step type -> the calls whose answers a later step can read.
DESCRIBE = {each.name: each.describes for each in STEP_TYPES.values() if each.describes}
KEPT = ("type", "required", "enum", "pattern", "min", "max")
READ = frozenset((*KEPT, "members", "member", "key", "value"))
# What says nothing about a value's form. Anything else (a tagged union, a document) must be taught to shapes.py first.
IGNORED = frozenset(("documentation", "box", "sensitive", "exception"))


def extract(model: Mapping[str, Any], botocore_version: str) -> dict[str, Any]:
    """The part of a service model (service-2.json) that checking a definition needs.

    Raises:
        NotImplementedError: the model says something of a shape that shapes.py would not check.
    """
    operations, shapes = model["operations"], model["shapes"]
    requests = {step: operations[call]["input"]["shape"] for step, call in sorted(CREATE.items())}
    responses = {
        step: [operations[call]["output"]["shape"] for call in calls] for step, calls in sorted(DESCRIBE.items())
    }
    roots = [*requests.values(), *(shape for answers in responses.values() for shape in answers)]
    reachable = {*roots, *reached(roots, lambda name: _members(shapes[name]))}
    return {
        "botocore": botocore_version,
        "api": model["metadata"]["apiVersion"],
        "requests": requests,
        "responses": responses,
        "shapes": {name: _compact(shapes[name]) for name in sorted(reachable)},
    }


def _members(shape: Mapping[str, Any]) -> Iterator[str]:
    for member in shape.get("members", {}).values():
        yield member["shape"]
    for role in ("member", "key", "value"):
        if role in shape:
            yield shape[role]["shape"]


def _compact(shape: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(shape) - READ - IGNORED
    if unknown:
        raise NotImplementedError(f"a shape has {sorted(unknown)}, which shapes.py does not check yet")
    compact: dict[str, Any] = {key: shape[key] for key in KEPT if key in shape}
    if "members" in shape:
        compact["members"] = {name: member["shape"] for name, member in shape["members"].items()}
    for role in ("member", "key", "value"):
        if role in shape:
            compact[role] = shape[role]["shape"]
    return compact


def render(extracted: Mapping[str, Any]) -> str:
    """The text of shapes.json: one shape a line."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))

    parts = [f"{line(key)}:{line(value)}" for key, value in extracted.items() if key != "shapes"]
    lines = ",\n".join(f"{line(name)}:{line(shape)}" for name, shape in extracted["shapes"].items())
    return "{" + ",\n".join(parts) + ',\n"shapes":{\n' + lines + "\n}}\n"


def from_installed_botocore() -> str:
    """The text of shapes.json for the botocore of this environment."""
    import botocore  # type: ignore[reportMissingTypeStubs]
    from botocore.loaders import Loader  # type: ignore[reportMissingTypeStubs]

    loader: Any = Loader()
    return render(extract(loader.load_service_model("sagemaker", "service-2"), str(botocore.__version__)))


def main() -> None:
    text = from_installed_botocore()
    FILE.write_text(text, encoding="utf-8")
    print(f"{FILE.name}: {len(text):,} characters, {len(json.loads(text)['shapes'])} shapes")


if __name__ == "__main__":
    main()
