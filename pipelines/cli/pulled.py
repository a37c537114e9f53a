"""What `pull` merges: what apply wrote last, what the code says, what is deployed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.pipelines.errors import UserError


@dataclass(frozen=True)
class Both:
    """The three definitions; `alone` is the code without the file of earlier edits, `code` with it."""

    name: str
    file: Path
    """Where the edits are kept."""
    applied: dict[str, Any] | None
    alone: dict[str, Any]
    code: dict[str, Any]
    deployed: dict[str, Any]


def read_both(target: str, config: Path | None, overrides: Sequence[str] | None, *, adopt: bool) -> Both:
    """Compile a pipeline and read what is deployed under its name.

    Args:
        adopt: take a pipeline that apply did not make: whatever differs from the code is an edit.

    Raises:
        UserError: nothing is deployed, or it is not ours and `adopt` is not given; as `compiled`.
    """
    from drivetrain.pipelines.loading import load
    from drivetrain.pipelines.studio import file_of
    from drivetrain.pipelines.studio.patch import read
    from drivetrain.pipelines.targets.sagemaker.compile import compile_pipeline
    from drivetrain.pipelines.targets.sagemaker.deploying import deployed as reading
    from drivetrain.pipelines.targets.sagemaker.deploying.account import Account
    from drivetrain.pipelines.targets.sagemaker.deploying.desired import check_bucket

    loaded = load(target, config, overrides or ())
    pipeline = loaded.pipeline
    check_bucket(pipeline.deployment)
    alone = dict(compile_pipeline(pipeline, loaded.source, loaded.base).definition)
    file = file_of(pipeline.name, loaded.source or Path.cwd())
    code = read(file).apply(alone) if file.exists() else alone
    account = Account(pipeline.deployment.region)
    there = reading.read(account, pipeline.name)
    if there is None:
        raise UserError(
            f"There is no pipeline {pipeline.name!r} in account {account.number}, {account.region}, so there is "
            f"nothing to pull. Deploy it: drivetrain apply {target}"
        )
    if adopt:
        return Both(pipeline.name, file, code, alone, code, there.definition)
    applied = reading.base_of(account, there, pipeline.deployment.root)
    if applied is None:
        raise UserError(
            f"Pipeline {pipeline.name!r} was not made by `drivetrain apply`, so nobody can say what was edited. Take "
            "it over as it is, everything that differs from the code as an edit: --adopt"
        )
    return Both(pipeline.name, file, applied, alone, code, there.definition)
