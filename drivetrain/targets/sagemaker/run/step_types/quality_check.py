"""QualityCheck: our own engine in place of Model Monitor's container, with files of the same form.

A baseline is what the step is supplied with, else that of the group's newest approved version. The response has the
shape of QualityCheckStepMetadata.
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-quality-clarify-baseline-lifecycle.html
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in, parsed_object, text_in
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import STAGE, entries
from drivetrain.targets.sagemaker.run.step_types import _absent, processing

_PROGRAM = Path(__file__).parents[1] / "jobs" / "quality_program.py"
_MODEL_QUALITY = "MODEL_QUALITY"
_FORMATS = ("csv", "json", "parquet")
_SCRIPTS = ("record_preprocessor_script", "post_analytics_processor_script")
_VIOLATIONS = "constraint_violations.json"
_FILES = {"Statistics": "statistics.json", "Constraints": "constraints.json"}

written = processing.written
described = _absent.check_job(*_FILES.items())


def check(step: StepNode, plan: RunPlan) -> list[str]:
    given, where = object_in(plan.arguments, "Environment"), f"step {step.name!r}"
    problems = [
        f"{where}: {name} runs in Model Monitor's own container. Give the step's results with --stub "
        f"{step.name}=outputs.json."
        for name in _SCRIPTS
        if given.get(name)
    ]
    problems += [
        f"{where}: its Environment has no {name}. Allowed: the variables of Model Monitor's container."
        for name in ("dataset_format", "dataset_source", "output_path")
        if not given.get(name)
    ]
    form = given.get("dataset_format")
    if isinstance(form, str) and not {*(parsed_object(form) or [""])} <= {*_FORMATS}:
        problems.append(f"{where}: dataset_format is {form!r:.80}. Allowed: an object with csv, json or parquet.")
    for what in _FILES:
        if supplied := plan.raw.get(f"SuppliedBaseline{what}"):
            problems += jobs.input_problems(f"{where}: SuppliedBaseline{what}", supplied, plan)
    return problems + processing.check(step, replace(plan, arguments=_job(plan.arguments, {}, fails=True)))


def run(context: StepContext) -> StepResult:
    fields = context.fields
    found = _baseline(context)
    skips, registers = (_is_true(fields.get(name)) for name in ("SkipCheck", "RegisterNewBaseline"))
    if not skips and "Constraints" not in found:
        raise UserError(
            f"step {context.step.name!r} has no baseline to check against. Give SuppliedBaselineConstraints, a "
            "ModelPackageGroupName with an approved version that has one, or SkipCheck true for the first run."
        )
    fails = fields.get("FailOnViolation") is None or _is_true(fields["FailOnViolation"])
    arguments = _job(context.arguments, {} if skips else found, fails=fails)
    result = processing.run(replace(context, arguments=arguments))
    response = described(context)
    if not registers:
        response |= {f"BaselineUsedForDriftCheck{what}": uri for what, uri in found.items()}
    report = next(context.folder.glob(f"{STAGE}/*/{_VIOLATIONS}"), None)
    if report and (parsed_object(report.read_text(encoding="utf-8")) or {}).get("violations"):
        response["ViolationReport"] = f"{written(arguments)[0].rstrip('/')}/{_VIOLATIONS}"
    return replace(result, response=response)


def _job(arguments: Mapping[str, Any], baseline: Mapping[str, str], *, fails: bool) -> dict[str, Any]:
    """The arguments of the processing job that does it here."""
    program = [sys.executable, "-P", str(_PROGRAM), "/opt/ml"]
    app = {**object_in(arguments, "AppSpecification"), "ContainerEntrypoint": program, "ContainerArguments": None}
    inputs = [
        {"InputName": what, "S3Input": {"S3Uri": uri, "LocalPath": f"/opt/ml/processing/baseline/{what}"}}
        for what, uri in baseline.items()
    ]
    environment = {**object_in(arguments, "Environment"), "DRIVETRAIN_FAIL_ON_VIOLATION": "yes" if fails else "no"}
    return {
        **arguments,
        "AppSpecification": app,
        "Environment": environment,
        "ProcessingInputs": [*entries(arguments, "ProcessingInputs"), *inputs],
    }


def _baseline(context: StepContext) -> dict[str, str]:
    """The places of the baseline's files, by Statistics and Constraints; nothing where there is none."""
    supplied = {what: uri for what in _FILES if (uri := context.fields.get(f"SuppliedBaseline{what}"))}
    group = context.fields.get("ModelPackageGroupName")
    if supplied or not group:
        return supplied
    from drivetrain.registry.backends.local import LocalRegistry
    from drivetrain.registry.package_mapping import request_of

    approved = LocalRegistry(context.home.ledger, region=context.facts.region).champion(str(group))
    package = {} if approved is None else request_of(approved.record)
    kind = "ModelQuality" if context.fields.get("CheckType") == _MODEL_QUALITY else "ModelDataQuality"
    files = object_in(object_in(package, "DriftCheckBaselines"), kind)
    return {what: uri for what in _FILES if (uri := text_in(object_in(files, what), "S3Uri"))}


def _is_true(value: Any) -> bool:
    """A parameter's value may be a text."""
    return value is True or str(value).lower() == "true"
