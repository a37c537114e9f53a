"""Steps that are not run: what they would give comes from a file of the user's (`--stub STEP=outputs.json`).

The file is a JSON object. Its keys replace those of the response that the resolved arguments make, and what a step of
its type always says (`described` in step_types/), so that `{"ModelName": "m-1"}` is enough for a Model step, and
nothing for one whose answer no other step reads. Four keys mean more:

    "OutputFolders": {"train": "local/folder", "s3://bucket/key": "local/file"}
        copied to the URI of the output of that name (`model` is the model.tar.gz of a training, or of the best one of
        a tuning, `output` what a transform writes), or to the URI itself
    "PropertyFiles": {"Report": {"accuracy": 0.98}}
        the content of the step's property files
    "OutputParameters": {"name": "value"}
        what a Lambda or Callback step gives back
    "Return": [1, 2]
        what the function of a @step gives back
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import as_object, object_in
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.expressions import Get, references
from drivetrain.targets.sagemaker.run.execution.context import StepResult
from drivetrain.targets.sagemaker.run.execution.scope import STUBBED_FILES, output_uri
from drivetrain.targets.sagemaker.run.jobs import remote_function
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication, entries, member
from drivetrain.targets.sagemaker.run.step_types import find

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext

FOLDERS = "OutputFolders"
RETURN = "Return"
# Types of steps that read what others wrote, the members of their arguments that name it, and those in which the same
# members name what is written.
_READ = ("S3Uri", "ModelDataUrl")
_READERS = {
    **dict.fromkeys(("Processing", "Training", "Tuning", "Model", "Transform"), _READ),
    "RegisterModel": _READ[1:],
}
_NOT_READ = ("S3Output", "CheckpointConfig")


def check(step: StepNode, plan: RunPlan) -> list[str]:
    """List the problems of a step's stub, before anything starts."""
    stub: Any = plan.options.stubs[step.name]

    where = f"--stub {step.name}"
    if getattr(find(step.type), "INLINE", False):
        return [
            f"{where}: a {step.type} step decides at once, and nothing stands for it. Allowed: steps that it reads."
        ]
    if not isinstance(stub, dict):
        return [f"{where}: given {stub!r:.60}. Allowed: a JSON object."]
    given = cast("dict[str, Any]", stub)
    problems: list[str] = []
    for name in object_in(given, STUBBED_FILES):
        if name not in step.property_files:
            problems.append(f"{where}: no property file {name!r}. {did_you_mean(name, step.property_files)}")
    if RETURN in given and not remote_function.is_one(plan.arguments):
        problems.append(f"{where}: {RETURN} is for a Python function (@step), and the step is not one.")
    home = Home(plan.store.root.parent)
    runs = home.runs.resolve()
    for name, path in object_in(given, FOLDERS).items():
        if not Path(str(path)).exists():
            problems.append(f"{where}: {path}, given for output {name!r}, does not exist.")
        elif runs.is_relative_to(Path(str(path)).resolve()):
            problems.append(
                f"{where}: {path}, given for output {name!r}, holds the home {home.root}, into which it would be "
                "copied. Give a folder without it, or a home elsewhere (--home)."
            )
    return problems


def gives(step: StepNode, stub: Any, path: Sequence[str | int]) -> bool:
    """Return True if a step with this stub may have the value at `path` that others read of it. Only what a type's
    `described` says is taken on trust."""
    given = as_object(stub)
    if path[0] == "OutputParameters" and len(path) > 1:
        return path[1] in object_in(given, "OutputParameters")
    if path[0] in given or path[0] in step.arguments:
        return True
    module = find(step.type)
    return getattr(module, "described", None) is not None and not set(path) & set(getattr(module, "ONLY_RUNS_SAY", ()))


def gives_file(step: StepNode, stub: Any, name: str) -> bool:
    """Return True if a step with this stub may have a property file: by its content, or in a folder of outputs."""
    given = as_object(stub)
    if name in object_in(given, STUBBED_FILES):
        return True
    file = step.property_files.get(name)
    folders = object_in(given, FOLDERS)
    return any(output.startswith("s3://") for output in folders) or (file is not None and file.output_name in folders)


def lacking(reader: StepNode, get: Get, source: StepNode, stub: Any) -> str | None:
    """The output of a stubbed step that another step reads and the stub does not bring, as `OutputFolders` names it.
    A stub that says where its output lies is taken at its word."""
    if reader.type not in _READERS or not isinstance(stub, dict) or get.path[0] in stub:
        return None
    output = _output_at(source, get.path)
    if not output or brings(cast("dict[str, Any]", stub), output):
        return None
    return output if get in _read(reader.arguments, _READERS[reader.type]) else None


def brings(stub: Mapping[str, Any], output: str) -> bool:
    """Return True if a stub may bring an output. A path that it gives for an s3:// URI may hold any."""
    folders = object_in(stub, FOLDERS)
    return output in folders or any(name.startswith("s3://") for name in folders)


def uris_brought(step: StepNode, stub: Mapping[str, Any], arguments: Mapping[str, Any], uris: list[str]) -> list[str]:
    """Keep the URIs to which a step's stub may bring something, of `uris` that the step writes."""
    folders = object_in(stub, FOLDERS)
    if step.type != "Processing" or "ProcessingOutputConfig" in stub or any(map(_is_object, folders)):
        return uris if folders or "ProcessingOutputConfig" in stub else []
    return [uri for name in folders if (uri := output_uri(arguments, name)) is not None]


def _output_at(step: StepNode, path: Sequence[str | int]) -> str | None:
    """The output whose place a path in the step's answer tells."""
    match tuple(path):
        case ("ModelArtifacts", "S3ModelArtifacts"):
            return "model"
        case ("BestTrainingJob", "TrainingJobName") | ("TrainingJobSummaries", 0, "TrainingJobName"):
            return "model"  # the SDK joins its URI from the job's name (get_top_model_s3_uri)
        case ("TransformOutput", "S3OutputPath"):
            return "output"
        case ("ProcessingOutputConfig", "Outputs", str(name), "S3Output", "S3Uri"):
            return name
        case ("ProcessingOutputConfig", "Outputs", int(number), "S3Output", "S3Uri"):
            outputs = entries(object_in(step.arguments, "ProcessingOutputConfig"), "Outputs")
            return str(outputs[number].get("OutputName")) if number < len(outputs) else None
        case _:
            return None


def _read(node: Any, members: Sequence[str]) -> Iterator[Get]:
    """The references in these members, which name data that a step reads."""
    if isinstance(node, dict):
        for key, value in cast("dict[str, Any]", node).items():
            if key in members:
                yield from references(value)
            elif key not in _NOT_READ:
                yield from _read(value, members)
    elif isinstance(node, list):
        for item in cast("list[Any]", node):
            yield from _read(item, members)


def run(context: StepContext) -> StepResult:
    """The stub's answer, with its folders copied to where the step's outputs would be."""
    import shutil

    stub = context.options.stubs[context.step.name]
    module = find(context.step.type)
    described = getattr(module, "described", None)
    response: dict[str, Any] = {**context.arguments, **(described(context) if described is not None else {})}
    response |= {key: value for key, value in stub.items() if key not in (FOLDERS, RETURN)}

    publication = Publication(context.folder)
    for output, path in object_in(stub, FOLDERS).items():
        source, staged = Path(str(path)), publication.stage()
        uri = _destination(context, response, output)
        try:
            if source.is_dir():
                shutil.copytree(source, staged, copy_function=shutil.copyfile)
                for folder, _, _ in os.walk(staged):
                    os.chmod(folder, 0o700)  # not as the stub's is
            else:
                shutil.copyfile(source, staged)
        except shutil.Error as error:
            problems: Any = error.args[0]  # a list of (source, target, why), or the only reason
            first = cast("list[Any]", problems)[0] if isinstance(problems, list) else (source, None, problems)
            raise UserError(f"--stub {context.step.name}: {first[0]} cannot be copied: {first[2]}") from None
        if source.is_file() and not _is_object(output):
            # The output is a folder, and the file lies in it under its own name.
            uri = f"{uri.rstrip('/')}/{source.name}"
        publication.add(output, uri, staged)
    if RETURN in stub:
        staged = publication.stage()
        staged.write_text(json.dumps({RETURN: stub[RETURN], "Exception": None}), encoding="utf-8")
        publication.add("return", remote_function.result_uri(response), staged)
    return StepResult(response=response, value="stubbed", publication=publication)


def _destination(context: StepContext, response: Mapping[str, Any], output: str) -> str:
    if output.startswith("s3://"):
        return output
    if output == "model" and "ModelArtifacts" in response:
        return str(response["ModelArtifacts"]["S3ModelArtifacts"])
    if output == "model" and "BestTrainingJob" in response:
        from drivetrain.targets.sagemaker.run.step_types.tuning import best_model

        if (found := best_model(response)) is not None:
            return found
    if output == "output" and member(response, "TransformOutput") is not None:
        return str(response["TransformOutput"]["S3OutputPath"])
    uri = output_uri(response, output)
    if uri is None:
        raise UserError(
            f"--stub {context.step.name}: the step has no output {output!r}. Name one of its outputs, `model` of a "
            "training or tuning job, `output` of a transform, or an s3:// URI."
        )
    return uri


def _is_object(output: str) -> bool:
    return output == "model" or output.startswith("s3://")
