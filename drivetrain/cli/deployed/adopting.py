"""`drivetrain pull NAME --adopt`, of a pipeline that no code here makes: its definition becomes a file.

Nothing is changed in the account: the pipeline is ours once that file is applied.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from drivetrain.base.errors import UserError


def write_deployed(
    name: str, config: Path | None, overrides: Sequence[str], region: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Write what is deployed under that name to NAME.json in the current folder.

    Raises:
        UserError: no such pipeline, one that AWS manages, a target without Studio, or the file is there already.
    """
    from drivetrain.base.files import write_text
    from drivetrain.operations.deployment import deployer_of, options_of
    from drivetrain.operations.operands import name_of
    from drivetrain.targets.sagemaker.account import is_of_aws
    from drivetrain.targets.sagemaker.deploy.deployed import OWNER, read_tags
    from drivetrain.targets.sagemaker.deploy.deployer import SageMaker
    from drivetrain.targets.sagemaker.deploy.fetching import fetch
    from drivetrain.targets.sagemaker.document.document import read, write
    from drivetrain.telling.terminal import say, say_json

    deployer, _ = deployer_of(name, config, overrides, region)
    if not isinstance(deployer, SageMaker):
        raise UserError("--adopt takes over pipelines of SageMaker, and the settings name another target.")
    there, where = fetch(name, deployer.place)
    if is_of_aws(there.arn):
        raise UserError(f"Pipeline {name!r} is managed by AWS ({there.arn}): it can be neither pulled nor changed.")
    file = Path(f"{there.name}.json")
    options = options_of(config, overrides) or ["-c", "SETTINGS.yaml"]
    named = [] if name_of(file) == there.name else ["--name", there.name]
    if file.exists():
        again = shlex.join(["-d", str(file), *named, *options])
        raise UserError(f"{file} is there already. Bring what is deployed into it: drivetrain pull {again} --adopt")
    definition = read(there.text, f"pipeline {there.name!r} in {where}")
    owner = read_tags(deployer.account, there.name, there.arn).get(OWNER)
    if (config is not None or overrides) and owner == deployer.owner.tag:
        owner = None  # it is this project's
    if not dry_run:
        write_text(file, write(definition))
    if as_json:
        say_json({"pipeline_arn": there.arn, "owner": owner, "file": None if dry_run else str(file)})
        return
    # Its owner's tag is what apply asks about; without one, apply says what it would change, and asks.
    apply = shlex.join(["-d", str(file), *named, *options, *([] if owner is None else ["--adopt"])])
    told = "Would write" if dry_run else "Wrote"
    lines = [f"{told} {file}: pipeline {there.name!r} as it is in {where}. Nothing is changed there."]
    lines += [] if owner is None else [f"It is deployed by: {owner}. Ask them first; they lose it."]
    say(
        "\n".join([*lines, f"See what would make it yours: drivetrain plan {apply}", f"Then: drivetrain apply {apply}"])
    )
