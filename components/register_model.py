"""Register a model: a new version of its group, unless the same content is registered already.

    python -m drivetrain.components.register_model --model build/model --evaluation build/metrics --group digits

SageMaker and the local runner register by a step of their own kind; this program serves every other target, and a
plain shell. The content is the files inside, wherever they lie and however they are packed, so a step that is killed
and repeated finds the version that it made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, cast

from drivetrain.components.content_hash import content_hash
from drivetrain.components.declaration import METRICS_FILE, Input, component
from drivetrain.components.errors import InputError


class Registered(NamedTuple):
    """The version's number, and 1 when this run made it, 0 when it was there."""

    version: int
    created: int


@component
def register_model(
    model: Input,
    evaluation: Input | None = None,
    *,
    group: str,
    registry: str = "local",
    approval: Literal["PendingManualApproval", "Approved", "Rejected"] = "PendingManualApproval",
    execution: str | None = None,
) -> Registered:
    """Register a model's content as a version of a group.

    Args:
        model: the model's folder, or the model.tar.gz (or the folder with it) that a training step handed on.
        evaluation: the folder with metrics.json, whose numbers are kept with the version.
        group: the model's name, to which versions belong.
        registry: KIND:LOCATION, such as local:.drivetrain/ledger.db.
        approval: the status of a new version; one that is there keeps its own.
        execution: the run that made the model.

    Raises:
        InputError: an empty or damaged model, an evaluation without numbers, an illegal group, an unknown registry or
            one that cannot be written.
    """
    from drivetrain.components.registries import checked_group, open_registry

    checked_group(group)  # before gigabytes are read
    opened = open_registry(registry)
    metrics = None if evaluation is None else read_metrics(evaluation)
    version, created = opened.register(
        group,
        content_hash(model),
        {
            "ModelPackageGroupName": group,
            "ModelApprovalStatus": approval,
            "SourceUri": model.absolute().as_uri(),
        },
        metrics=metrics,
        execution=execution,
        approval=approval,
    )
    print(f"{group} version {version} ({'new' if created else 'already registered'})", flush=True)
    return Registered(version, int(created))


def read_metrics(path: Path) -> dict[str, float]:
    """The numbers in a metrics.json, or in that of a folder.

    Raises:
        InputError: no such file, or one that is no flat JSON object of finite numbers.
    """
    file = path / METRICS_FILE if path.is_dir() else path
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise InputError(
            f"{path} has no {METRICS_FILE}. Give the output `metrics` of a step that returns numbers."
        ) from None
    except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON are ValueErrors
        raise InputError(f"{file} is not a JSON file of numbers: {error}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{file} is not a JSON object. Allowed: names and numbers.")
    for name, value in cast("dict[str, object]", content).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{file}: {name!r} is {value!r:.60}. Allowed: numbers.")
    return cast("dict[str, float]", content)


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no finite number")


if __name__ == "__main__":
    register_model.main()
