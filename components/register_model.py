"""Register a model: a new version of its group, unless the same content is registered already.

    python -m drivetrain.components.register_model --model build/model --evaluation build/metrics --group digits
    python -m drivetrain.components.register_model --model build/model --report build/report \\
        --decision build/decision --group digits --registry mlflow:http://mlflow:5000

SageMaker and the local runner register by a step of their own kind; this program serves every other target, every
other registry, and a plain shell. The content is the files inside, wherever they lie and however they are packed, so a
step that is killed and repeated finds the version that it made.

In a pipeline, a step is given the model's place and the run beside it, for its own copy of the model goes with it:

    step(register_model, model=trained["model"], artifact=trained["model"], group="digits",
         registry="mlflow:http://mlflow:5000", execution=execution("PipelineExecutionArn"))
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, cast

from drivetrain.base.errors import InputError
from drivetrain.steps import METRICS_FILE, Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion

CARD_FILE, CARD_PAGE = "card.json", "card.md"
_OF_THE_JOB = Path("/opt/ml")


class Registered(NamedTuple):
    """The version's number, and 1 when this run made it, 0 when it was there."""

    version: int
    created: int


@component(cached=False)
def register_model(
    model: Input,
    evaluation: Input | None = None,
    report: Input | None = None,
    decision: Input | None = None,
    card: Output | None = None,
    baselines: Input | None = None,
    *,
    group: str,
    registry: str = "auto",
    approval: Literal["PendingManualApproval", "Approved", "Rejected"] = "PendingManualApproval",
    execution: str | None = None,
    artifact: str = "",
    image: str = "",
    instance_types: str = "",
    quality: str = "",
    data_check: str = "",
    against_decision: str = "",
) -> Registered:
    """Register a model's content as a version of a group.

    Args:
        model: the model's folder, or the model.tar.gz (or the folder with it) that a training step handed on.
        evaluation: the folder with metrics.json, whose numbers are kept with the version, nested ones by path.
        report: evaluate's report, whose numbers are kept where no metrics.json is given, and its data with them.
        decision: compare's decision, which is kept with the version.
        card: gets the model card, as card.json and, for people, card.md.
        baselines: check_data's report, whose statistics and constraints are the version's baselines.
        group: the model's name, to which versions belong.
        registry: KIND:LOCATION, such as local:.drivetrain/ledger.db; auto is what $DRIVETRAIN_REGISTRY names, or else
            local.
        approval: the status of a new version; one that is there keeps its own.
        execution: the run that made the model; in a pipeline execution("PipelineExecutionArn").
        artifact: the URI where the model lies, such as s3://bucket/model.tar.gz, in a pipeline the output that is given
            as model; without one its path here, which only the local registry takes.
        image: the URI of the container image that serves the model.
        instance_types: where it may be deployed, such as "ml.m5.large, ml.c5.xlarge".
        quality: the URI of the report, or of its model_quality.json, which SageMaker shows; later candidates are
            compared with the answers that the report keeps. The local registry takes the report's path here.
        data_check: the URI of check_data's report. The local registry takes the path of baselines here.
        against_decision: why the model is registered, where the decision speaks against it; it is kept.

    Raises:
        InputError: an empty or damaged model, an evaluation without numbers, a report or decision of another model, a
            decision that speaks against it, an illegal group, a training image, an unknown registry, or one that cannot
            be reached or refuses; baselines without their files.
    """
    from drivetrain.registry import registration
    from drivetrain.registry.approving import approval_at_registration, checked_registration
    from drivetrain.registry.content_hash import files_in, hash_of_files
    from drivetrain.registry.intact import known
    from drivetrain.registry.model_package import is_training_image
    from drivetrain.registry.registry import checked_group, open_registry
    from drivetrain.registry.report_hash import MODEL_QUALITY_FILE

    checked_group(group)  # before gigabytes are read
    if is_training_image(image):
        raise InputError(
            f"image is {image!r}, which is a training image by its name: it has no server, so no endpoint of this "
            "version would start. Give an image that serves, such as pytorch-inference, or none."
        )
    opened = open_registry(registry)
    artifact = artifact or _place(model, registry)
    if not quality and report is not None and _stays(report.absolute(), registry):
        quality = (report if report.is_dir() else report.parent).absolute().as_uri()
    if baselines is not None:
        data_check = data_check or _baselines(baselines, registry)
    if quality and not quality.endswith(".json"):
        quality = f"{quality.rstrip('/')}/{MODEL_QUALITY_FILE}"
    metrics = None if evaluation is None else read_metrics(evaluation)
    measured = None if report is None else registration.read_evaluation(report)
    decided = None if decision is None else registration.read_decision(decision)
    files = files_in(model, whole=True)
    content_hash = hash_of_files(files)
    evidence = registration.Evidence(registration.describe(model), measured, decided)
    registration.checked_evidence(evidence, files)
    evidence = checked_registration(opened, group, content_hash, evidence, against=against_decision)
    if metrics is None and measured is not None:
        metrics = registration.metrics_of(measured)
    record = registration.model_record(
        files,
        evidence,
        metrics or {},
        artifact=artifact,
        image=image,
        instance_types=[name.strip() for name in instance_types.split(",") if name.strip()],
        quality=quality,
        data_check=data_check,
    )
    before = known(opened, group, content_hash)
    status = approval_at_registration(opened, group, approval)
    version, created = opened.register(
        group, content_hash, record, metrics=metrics, execution=execution, approval=status
    )
    made = opened.version(group, version) if card is not None or before is not None else None
    if card is not None and made is not None:
        _write_card(card, made)
    said = "new" if created else "already registered"
    if before is not None and made is not None and before.artifact != made.artifact:
        said += "; its files were damaged, and it names the new ones now"
    print(f"{group} version {version} ({said})", flush=True)
    return Registered(version, int(created))


def _baselines(report: Path, registry: str) -> str:
    """The URI of a report of check_data that lies in a folder; "" for one that goes with its job."""
    from drivetrain.registry.model_package import BASELINES, MONITOR

    for file in BASELINES.values():
        if not (report / MONITOR / file).is_file():
            raise InputError(f"{report} has no {MONITOR}/{file}. Give the output `report` of check_data.")
    return report.absolute().as_uri() if _stays(report.absolute(), registry) else ""


def _stays(path: Path, registry: str) -> bool:
    """Return True where others who ask the registry find a path: on this machine, in a folder that stays."""
    from drivetrain.registry.artifacts import OBJECT_STORE
    from drivetrain.registry.registry import kind_of

    in_a_job = path.is_relative_to(_OF_THE_JOB) or OBJECT_STORE in os.environ
    return kind_of(registry) == "local" and not in_a_job


def _place(model: Path, registry: str) -> str:
    """The model's path here as a URI, where others find it by that: on this machine, in a folder that stays."""
    from drivetrain.registry.registry import kind_of

    path, kind = model.absolute(), kind_of(registry)
    if _stays(path, registry):
        return path.as_uri()
    why = "which goes with the job" if kind == "local" else f"where nobody finds it who asks the registry {kind}"
    raise InputError(
        f"the model lies at {path}, {why}. Give artifact its URI, such as s3://bucket/model.tar.gz; in a pipeline the "
        "output that is given as model: artifact=trained['model']."
    )


def _write_card(folder: Path, version: ModelVersion) -> None:
    from drivetrain.registry.card_sections import as_markdown

    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(version.card or {}, indent=1, ensure_ascii=False) + "\n"
    (folder / CARD_FILE).write_text(content, encoding="utf-8")
    (folder / CARD_PAGE).write_text(as_markdown(version), encoding="utf-8")


def read_metrics(path: Path) -> dict[str, float]:
    """The numbers in a metrics.json, or in that of a folder; what stands beside them, such as texts, is left out.

    Raises:
        InputError: no such file, or one that is no JSON object, or has a number that is not finite.
    """
    from drivetrain.registry.registration import numbers_of

    file = path / METRICS_FILE if path.is_dir() else path
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse)
        numbers = numbers_of(cast("dict[str, Any]", content)) if isinstance(content, dict) else None
    except FileNotFoundError:
        raise InputError(
            f"{path} has no {METRICS_FILE}. Give the output `metrics` of a step that returns numbers."
        ) from None
    except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON are ValueErrors
        raise InputError(f"{file} is not a JSON file of numbers: {error}.") from None
    if numbers is None:
        raise InputError(f"{file} is not a JSON object. Allowed: names and numbers.")
    return numbers


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no finite number")


if __name__ == "__main__":
    register_model.main()
