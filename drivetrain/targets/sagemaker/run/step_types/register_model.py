"""RegisterModel: a version in the registry of this machine, the same one for the same content.

What the definition says of it is kept: properties, sections of the model card. What stands in files that it names is
added: the evaluation beside the model quality report, and the decision record (drivetrain/registry/registration.py).
The response has the shape of DescribeModelPackage.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import InputError, UserError
from drivetrain.base.json_text import object_in, text_in
from drivetrain.registry import model_package, registration
from drivetrain.registry.approving import approval_at_registration, checked_registration
from drivetrain.registry.content_hash import files_in, hash_of_files
from drivetrain.registry.model_card import as_package_card
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.report_hash import checked_report
from drivetrain.run_store.objects import StoredObject, artifact, missing, sha256_of
from drivetrain.run_store.schema import ArtifactEntry, full_ledger_errors
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import entries

_STATISTICS = "ModelMetrics.ModelQuality.Statistics"


def check(step: StepNode, plan: RunPlan) -> list[str]:
    problems: list[str] = []
    where = f"step {step.name!r}"
    if "ModelPackageGroupName" not in plan.arguments:
        problems.append(f"{where} has no ModelPackageGroupName: versions are kept in groups.")
    uris = [container.get("ModelDataUrl") for container in _containers(plan.arguments)]
    if not any(uris):
        problems.append(f"{where}: no container of its InferenceSpecification has a ModelDataUrl to register.")
    for uri in uris:
        if uri is not None:
            problems += jobs.input_problems(f"{where}: ModelDataUrl", uri, plan)
    if (quality := _quality(plan.arguments)) is not None:
        problems += jobs.input_problems(f"{where}: {_STATISTICS}", quality, plan)
    return problems


def run(context: StepContext) -> StepResult:
    from drivetrain.registry.backends.local import LocalRegistry

    arguments = context.arguments
    group = str(arguments["ModelPackageGroupName"])
    models = [str(c["ModelDataUrl"]) for c in _containers(arguments) if c.get("ModelDataUrl")]
    read: list[ArtifactEntry] = []
    contents: dict[str, str] = {}
    for number, uri in enumerate(models):
        objects = context.store.find(uri)
        if not objects:
            raise UserError(missing(f"step {context.step.name!r}: ModelDataUrl", uri, context.store))
        entry, found = _read_model(context, f"model-{number}" if number else "model", uri, objects)
        read.append(entry)
        # Of several containers each keeps its own names.
        contents |= {f"{number}/{name}" if len(models) > 1 else name: checksum for name, checksum in found.items()}
    approval = str(arguments.get("ModelApprovalStatus") or "PendingManualApproval")
    registry = LocalRegistry(context.home.ledger, region=context.facts.region)
    content_hash = hash_of_files(contents)
    try:
        evidence = _evidence(context, read)
        if len(models) == 1:
            _check_same(context, content_hash)
            registration.checked_evidence(evidence, contents)
        against = model_package.properties(arguments).get(model_package.AGAINST, "")
        evidence = checked_registration(registry, group, content_hash, evidence, against=against)
        metrics = registration.metrics_of(evidence.evaluation) if evidence.evaluation else _metrics(context)
        package = {**arguments, **_described(arguments, contents, evidence, metrics, artifact=models[0])}
    except InputError as error:
        raise UserError(f"step {context.step.name!r}: {error}") from error
    before = registry.find(group, content_hash)
    with full_ledger_errors(context.home.ledger):
        version, created = registry.register(
            group,
            content_hash,
            record_of(context.ledger.masking(package)),
            metrics=metrics,
            execution=context.facts.id,
            approval=approval_at_registration(registry, group, approval),
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
    if before is not None and before.artifact != known.artifact:
        note = " (the same content was registered before; its files were damaged, and it names the new ones now)"
    return StepResult(response=response, value=f"{group} version {version}{note}", inputs=tuple(read))


def _evidence(context: StepContext, models: list[ArtifactEntry]) -> registration.Evidence:
    """Read model.json, and the evaluation and the decision that the definition names."""
    description = None
    for item in context.store.find(str(models[0].uri)):
        if item.name.endswith((".tar.gz", ".tgz")):
            description = registration.describe(item.path)
        elif item.name == registration.DESCRIPTION_FILE:
            description = registration.read_json(item.path, item.path.name, "")
    quality = _quality(context.arguments)
    evaluation = None
    if quality is not None and quality.endswith(".json"):
        beside = f"{quality.rpartition('/')[0]}/{registration.EVALUATION_FILE}"
        if (path := context.store.path(beside)).is_file():
            found = registration.read_json(path, path.name, "Give the report of an evaluation.")
            if registration.is_evaluation(found):
                checked_report(evaluation := found, path)
    decision = None
    record = model_package.properties(context.arguments).get(model_package.DECISION_URI)
    if record is not None and record.startswith("s3://"):
        path = context.store.path(record)
        if not path.is_file():
            raise UserError(missing(f"step {context.step.name!r}: {model_package.DECISION_URI}", record, context.store))
        decision = registration.read_decision(path)
    return registration.Evidence(description, evaluation, decision)


def _check_same(context: StepContext, content_hash: str) -> None:
    said = model_package.content_hash(context.arguments)
    if said and said != content_hash:
        raise InputError(
            f"its {model_package.CONTENT_HASH} is {said[:12]}…, but the files to register are {content_hash[:12]}…. "
            "Compare the model that is to be registered."
        )


def _described(
    arguments: Mapping[str, Any],
    files: Mapping[str, str],
    evidence: registration.Evidence,
    metrics: Mapping[str, float],
    *,
    artifact: str,
) -> dict[str, Any]:
    """Properties and card: what the files say, and over it what the definition says."""
    lineage = registration.lineage_of(files, evidence)
    made = registration.properties_of(hash_of_files(files), lineage, evidence.decision)
    properties = {**made, **model_package.properties(arguments)}
    card: dict[str, Any] = registration.card_of(artifact, evidence, metrics)
    card = _laid_over(card, model_package.card(arguments) or {})
    return {"CustomerMetadataProperties": properties, "ModelCard": as_package_card(card)}


def _quality(arguments: Mapping[str, Any]) -> str | None:
    """The URI of the model quality report."""
    quality = object_in(object_in(arguments, "ModelMetrics"), "ModelQuality")
    return text_in(object_in(quality, "Statistics"), "S3Uri")


def _containers(arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return entries(object_in(arguments, "InferenceSpecification"), "Containers")


def _read_model(
    context: StepContext, name: str, uri: str, objects: list[StoredObject]
) -> tuple[ArtifactEntry, dict[str, str]]:
    """The model as an input, and name -> SHA-256 of the files in it.

    A tar's own bytes say when and by whom it was packed, so what counts is what is inside.
    """
    hashed = {item.name: context.ledger.checksum(item) or sha256_of(item.path) for item in objects}
    entry = artifact("input", name, uri, objects, hashed)
    if len(objects) == 1 and objects[0].name.endswith((".tar.gz", ".tgz")):
        try:
            return entry, files_in(objects[0].path, whole=True)
        except InputError as error:
            raise UserError(str(error)) from error
    return entry, hashed


def _metrics(context: StepContext) -> dict[str, float]:
    """The numbers of the model quality report, by path (`regression_metrics.mse.value`)."""
    uri = _quality(context.arguments)
    if uri is None:
        return {}
    path = context.store.path(uri)
    if not path.is_file():
        raise UserError(missing(_STATISTICS, uri, context.store))
    try:
        report = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"the metrics at {uri} are not JSON: {error}.") from error
    numbers = registration.numbers_of(cast("dict[str, Any]", report)) if isinstance(report, dict) else {}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _laid_over(card: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The card with what is given: of sections that are lists both, of objects field by field, else what is given."""
    made = dict(card)
    for section, content in given.items():
        found = made.get(section)
        if isinstance(found, list) and isinstance(content, list):
            made[section] = [*cast("list[Any]", found), *cast("list[Any]", content)]
        else:
            made[section] = _fields_over(found, content)
    return made


def _fields_over(found: Any, given: Any) -> Any:
    if not (isinstance(found, Mapping) and isinstance(given, Mapping)):
        return given
    old, new = cast("Mapping[str, Any]", found), cast("Mapping[str, Any]", given)
    return {**old, **{name: _fields_over(old.get(name), value) for name, value in new.items()}}
