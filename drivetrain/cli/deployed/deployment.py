"""What the commands share that reach into the account: which pipeline, which account, what is there."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drivetrain.base.errors import UserError

if TYPE_CHECKING:
    from drivetrain.spec.resources import Deployment
    from drivetrain.targets.sagemaker.account import Account
    from drivetrain.targets.sagemaker.deploy.deployed import Deployed as There
    from drivetrain.targets.sagemaker.deploy.desired import Desired

Target = Annotated[
    str | None,
    typer.Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].", show_default=False),
]
DefinitionFile = Annotated[
    Path | None, typer.Option("--definition", "-d", metavar="FILE.json", help="A definition instead of a pipeline.")
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The name of a definition's pipeline  [default: its file's]"),
]
Discard = Annotated[
    list[str] | None,
    typer.Option("--discard", metavar="PLACE", help="Give up what others edited there, or `all`. Repeatable."),
]
Deployed = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE", help="The name of a deployed pipeline, or FILE.py[:FUNCTION].", show_default=False
    ),
]
ExecutionId = Annotated[
    str, typer.Argument(metavar="ID", help="An execution's id, the beginning of it, or `latest`.", show_default=False)
]
ExecutionOption = Annotated[
    str, typer.Option("--execution", "-e", metavar="ID", help="An execution's id, or the beginning of it.")
]
Region = Annotated[
    str | None,
    typer.Option("--region", metavar="REGION", help="Where it is  [default: of the settings, or AWS_REGION]"),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True)
class DeploymentRequest:
    """What was named on the command line, and what is in the account under its name."""

    account: Account
    desired: Desired
    deployed: There | None
    origin: dict[str, Any]
    withheld: tuple[str, ...] = ()
    """Settings that a plan does not keep, since they look like secrets."""


def look(
    target: str | None,
    definition: Path | None,
    name: str | None,
    config: Path | None,
    overrides: Sequence[str] | None,
    *,
    command: str,
) -> DeploymentRequest:
    """Compile what was named and read what is deployed; `command` is the one that asks.

    Raises:
        UserError: it cannot be compiled, or AWS refuses.
    """
    if (target is None) == (definition is None):
        raise UserError(one_of_both(command))
    kept, withheld = without_secrets(overrides or ())
    origin: dict[str, Any] = {
        "target": target,
        "definition": None if definition is None else str(definition),
        "name": name,
        "config": None if config is None else str(config),
        "set": kept,
        "withheld": list(withheld),
    }
    from drivetrain.targets.sagemaker.account import Account
    from drivetrain.targets.sagemaker.deploy import deployed as reading
    from drivetrain.targets.sagemaker.deploy import desired as wishing

    if definition is not None:
        from drivetrain.authoring.settings import Settings, build
        from drivetrain.cli.operands import definition_file, name_of

        raw = definition_file(definition).raw
        place = build(Settings, config, overrides or ()).deployment
        wishing.check_place(place)
        called = name or name_of(definition)
        account = Account(place.region)
        there = reading.read(account, called)
        arn = None if there is None else there.arn
        return DeploymentRequest(
            account, wishing.desired_definition(called, raw, place, account, arn), there, origin, withheld
        )
    from drivetrain.cli.operands import compiled

    assert target is not None
    built = compiled(target, config, overrides)
    wishing.check_place(built.pipeline.deployment)
    account = Account(built.pipeline.deployment.region)
    there = reading.read(account, built.pipeline.name)
    wanted = wishing.desired(built, account, None if there is None else there.arn)
    return DeploymentRequest(account, wanted, there, origin, withheld)


def one_of_both(command: str) -> str:
    """What to say where neither a pipeline nor a definition is given, or both are."""
    return f"Give a pipeline (drivetrain {command} retraining) or a definition (drivetrain {command} -d FILE.json)."


def without_secrets(overrides: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The `key=value` texts that may be kept in a file, and the keys of those that look like secrets."""
    from drivetrain.authoring.plain_yaml import load_yaml
    from drivetrain.targets.sagemaker.document.difference.value_words import without_secrets as masked

    kept: list[str] = []
    withheld: list[str] = []
    for override in overrides:
        key, _, value = override.partition("=")
        try:
            said = load_yaml(value, key)
        except UserError:
            said = value
        place = tuple(key.split("."))
        is_safe = masked(said, place) == said and masked(value, place) == value
        kept.extend([override] if is_safe else [])
        withheld.extend([] if is_safe else [key])
    return kept, tuple(withheld)


def place_of(target: str, config: Path | None, overrides: Sequence[str] | None) -> tuple[str, Deployment]:
    """The name of a pipeline and where it lives. One that is no pipeline here is the name of a deployed one.

    The settings of that one are not known here, so of a file only what all pipelines have is looked at.

    Raises:
        UserError: wrong settings, or a pipeline that cannot be built.
    """
    from drivetrain.cli.operands import is_pipeline

    if is_pipeline(target):
        from drivetrain.authoring.loading import load

        pipeline = load(target, config, overrides or ()).pipeline
        return pipeline.name, pipeline.deployment
    from drivetrain.authoring.settings import Settings, build

    class OfAnyPipeline(Settings, extra="ignore"):
        pass

    build(Settings, overrides=overrides or (), environment={})  # what was typed is no setting of its own
    return target, build(OfAnyPipeline, config, overrides or ()).deployment


def account_of(
    target: str, config: Path | None, overrides: Sequence[str] | None, region: str | None
) -> tuple[Account, str]:
    """The account and the name of a deployed pipeline: in the region of its settings, or the one that is given.

    Raises:
        UserError: wrong settings, or no region.
    """
    from drivetrain.cli.operands import is_pipeline
    from drivetrain.targets.sagemaker.account import Account, checked_region, region_or_default

    if region is not None:
        checked_region(region)
    if is_pipeline(target) or config is not None or overrides:
        name, deployment = place_of(target, config, overrides)
        return Account(region or deployment.region), name
    return Account(region_or_default(region)), target


def follow_to_end(account: Account, arn: str, *, as_json: bool) -> int:
    """Show an execution until it ends, then its report; gives the exit code of a local run that ended so."""
    from drivetrain.cli.deployed.execution_text import shown
    from drivetrain.cli.errors import INTERRUPTED
    from drivetrain.cli.progress.watch import FAILED, new_progress
    from drivetrain.cli.terminal import say
    from drivetrain.targets.sagemaker.deploy.executions.execution_report import report
    from drivetrain.targets.sagemaker.deploy.executions.following import follow

    with new_progress(as_json=as_json) as progress:
        ended = follow(account, arn, progress)
    found = report(account, ended)
    if as_json:
        say(json.dumps({"event": "summary", **found.to_json()}, ensure_ascii=False))  # a line as the events before it
    else:
        say("\n" + shown(found))
    if ended.status == "Stopped":
        return INTERRUPTED
    return 0 if ended.status in ("Succeeded", "CompletedWithFailures") else FAILED


def confirm(question: str, *, yes: bool, instead: str) -> bool:
    """Ask on the terminal; `instead` says what to give where there is none.

    Raises:
        UserError: there is nobody to ask.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(f"There is no terminal to ask on. {instead}")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
