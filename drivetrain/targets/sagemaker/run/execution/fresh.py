"""Refuse --fresh for a training that would begin with kept checkpoints, since its definition has no parameter Fresh."""

from __future__ import annotations

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in
from drivetrain.run_store.objects import ObjectStore
from drivetrain.steps import FRESH_VARIABLE
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope, resolve_known


def refuse_kept_checkpoints(definition: Definition, scope: ExecutionScope, store: ObjectStore) -> None:
    """Refuse a training that would be given the checkpoints of an earlier run: one that is not told to start anew.

    Raises:
        UserError: there are such checkpoints.
    """
    for step in definition.walk():
        if step.type != "Training" or FRESH_VARIABLE in object_in(step.arguments, "Environment"):
            continue
        uri = resolve_known(object_in(step.arguments, "CheckpointConfig").get("S3Uri"), scope)
        if not isinstance(uri, str):
            continue
        store.hold(uri)
        if count := len(store.find(uri.rstrip("/") + "/")):
            raise UserError(
                f"--fresh: step {step.name!r} would begin with {count} files that an earlier run kept as checkpoints "
                f"in {uri}, for this definition has no parameter Fresh by which a training starts anew. Remove "
                f"{store.path(uri)}, or compile the pipeline again."
            )
