"""RegisterModel: a version in the registry of this machine, the same one for the same content.

The response has the shape of DescribeModelPackage.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from drivetrain.components.content_hash import files_in, hash_of_files
from drivetrain.components.errors import InputError
from drivetrain.pipelines.definition.document import StepNode
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local import jobs
from drivetrain.pipelines.targets.local.context import Plan, StepContext
from drivetrain.pipelines.targets.local.ledger.writer import ArtifactEntry, full_ledger_errors
from drivetrain.pipelines.targets.local.outcomes import StepResult
from drivetrain.pipelines.targets.local.storage import channels
from drivetrain.pipelines.targets.local.storage.channels import entries, member, text
from drivetrain.pipelines.targets.local.storage.objects import StoredObject, sha256_of


def check(step: StepNode, plan: Plan) -> list[str]:
    problems: list[str] = []
    where = f"step {step.name!r}"
    if "ModelPackageGroupName" not in plan.arguments:
        problems.append(f"{where} has no ModelPackageGroupName: versions are kept in groups.")
    uris = [container.get("ModelDataUrl") for container in _containers(plan.arguments)]
    if not any(uris):
        problems.append(f"{where}: no container of its InferenceSpecification has a ModelDataUrl to register.")
    for uri in uris:
        if uri is not None:
            problems += jobs.uri_problems(f"{where}: ModelDataUrl", uri)
        known = text(uri)
        if known is not None and not problems and not plan.is_written(known) and not plan.store.exists(known):
            problems.append(channels.missing(f"{where}: ModelDataUrl", known, plan.store))
    return problems


def run(context: StepContext) -> StepResult:
    from drivetrain.components.registries.local import LocalRegistry

    arguments = context.arguments
    group = str(arguments["ModelPackageGroupName"])
    models = [str(c["ModelDataUrl"]) for c in _containers(arguments) if c.get("ModelDataUrl")]
    read: list[ArtifactEntry] = []
    contents: dict[str, str] = {}
    for number, uri in enumerate(models):
        objects = context.store.find(uri)
        if not objects:
            raise UserError(channels.missing(f"step {context.step.name!r}: ModelDataUrl", uri, context.store))
        entry, found = _read_model(context, f"model-{number}" if number else "model", uri, objects)
        read.append(entry)
        # Of several containers each keeps its own names.
        contents |= {f"{number}/{name}" if len(models) > 1 else name: checksum for name, checksum in found.items()}
    approval = str(arguments.get("ModelApprovalStatus") or "PendingManualApproval")
    registry = LocalRegistry(context.home.ledger, region=context.facts.region)
    metrics = _metrics(context)
    with full_ledger_errors(context.home.ledger):
        version, created = registry.register(
            group,
            hash_of_files(contents),
            context.ledger.masking(arguments),
            metrics=metrics,
            execution=context.facts.id,
            approval=approval,
        )
    known = registry.version(group, version)
    response = {
        **arguments,
        "ModelPackageName": f"{group}/{version}",
        "ModelPackageGroupName": group,
        "ModelPackageVersion": version,
        "ModelPackageArn": known.arn,
        "ModelPackageStatus": "Completed",
        "ModelApprovalStatus": known.status,
        "CreationTime": time.time(),
    }
    note = "" if created else " (the same content was registered before)"
    return StepResult(response=response, value=f"{group} version {version}{note}", inputs=tuple(read))


def _containers(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return entries(member(arguments, "InferenceSpecification") or {}, "Containers")


def _read_model(
    context: StepContext, name: str, uri: str, objects: list[StoredObject]
) -> tuple[ArtifactEntry, dict[str, str]]:
    """The model as an input, and name -> SHA-256 of the files in it.

    A tar's own bytes say when and by whom it was packed, so what counts is what is inside.
    """
    hashed = {
        item.name: context.ledger.checksum(item.uri, item.bytes, item.mtime_ns) or sha256_of(item.path)
        for item in objects
    }
    about = context.store.contents(objects, hashed)
    entry = ArtifactEntry(
        flow="input",
        name=name,
        uri=uri,
        digest=about.digest,
        stamp=about.stamp,
        files=about.files,
        bytes=about.bytes,
    )
    if len(objects) == 1 and objects[0].name.endswith((".tar.gz", ".tgz")):
        try:
            return entry, files_in(objects[0].path)
        except InputError as error:
            raise UserError(str(error)) from error
    return entry, hashed


def _metrics(context: StepContext) -> dict[str, float]:
    """The numbers of the model quality report, by path (`regression_metrics.mse.value`)."""
    quality = member(member(context.arguments, "ModelMetrics") or {}, "ModelQuality") or {}
    uri = text((member(quality, "Statistics") or {}).get("S3Uri"))
    if uri is None:
        return {}
    path = context.store.path(uri)
    if not path.is_file():
        raise UserError(channels.missing("ModelMetrics.ModelQuality.Statistics", uri, context.store))
    try:
        report = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"the metrics at {uri} are not JSON: {error}.") from error
    return dict(_numbers("", report))


def _numbers(prefix: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _numbers(f"{prefix}.{key}" if prefix else key, item)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        yield prefix, value
