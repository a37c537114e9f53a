"""`drivetrain pull`: bring into the code what was edited in Studio."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Option
from drivetrain.cli.deployed.deployment import DefinitionFile, Name, Target
from drivetrain.cli.options import Config, Json, Set, refuse_both
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.studio.merge import Merged, Side
    from drivetrain.studio.pulling import Sides

app = App()

CONFLICTS = 1


@app.command()
def pull(
    target: Target = None,
    definition: DefinitionFile = None,
    name: Name = None,
    config: Config = None,
    set_: Set = None,
    take_studio: Annotated[
        list[str] | None,
        Option(metavar="PLACE", help="Resolve conflicts at or below PLACE with Studio's value. Repeatable."),
    ] = None,
    take_code: Annotated[
        list[str] | None,
        Option(metavar="PLACE", help="Keep the code at and below PLACE, against conflicts and edits. Repeatable."),
    ] = None,
    give_up: Annotated[
        list[str] | None,
        Option(
            metavar="PLACE",
            help="Remove edits from the file: the one at PLACE, those below it, or `all`.",
        ),
    ] = None,
    adopt: Annotated[
        bool, Option("--adopt", help="Take over a pipeline of other origin: differences become edits.")
    ] = False,
    region: Annotated[
        str | None,
        Option("--region", metavar="REGION", help="With --adopt: the region of a pipeline that has no code here."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the edits, and write nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Bring edits that were made in Studio into the code.

    It merges what apply wrote last, the code, and what is deployed. The edits go to a file beside the pipeline,
    NAME.studio.yaml, for you to review and to keep in git: every compile applies it to the definition. A definition
    that is deployed from its own file is changed in that file. If code and Studio changed the same thing in different
    ways, nothing is written, and you choose. With --adopt, a deployed pipeline without code here is written to
    NAME.json; the next apply of that file makes it yours.

    \b
    Examples:
      drivetrain pull retraining -c production.yaml
      drivetrain pull retraining --take-studio steps.train.Arguments
      drivetrain pull digits.py --dry-run
      drivetrain pull retraining --give-up steps.train.Arguments
      drivetrain pull -d exported.json -c production.yaml
      drivetrain pull nightly --adopt -c production.yaml
    """
    from drivetrain.operations.operands import is_pipeline
    from drivetrain.studio.suggestions import suggest

    if give_up:
        if target is None or take_studio or take_code or adopt or dry_run:
            raise UserError("--give-up changes the file with the edits of a pipeline; give nothing but the pipeline.")
        _give_up(target, config, set_ or (), give_up, as_json=as_json)
        return 0
    take = _choices(take_studio or (), take_code or ())
    if region is not None and (target is None or not adopt or is_pipeline(target)):
        raise UserError(
            "--region is for a pipeline without code here, with --adopt. For others the settings name the region (-c)."
        )
    refuse_both(target, definition, "pull")
    if target is not None and name is not None:
        raise UserError(
            "--name is for a definition (-d FILE.json). A pipeline with code has the name that its code gives."
        )
    if target is not None and adopt and not is_pipeline(target):
        if take:
            raise UserError(f"--take-studio and --take-code need a pipeline with code here; {target!r} has none.")
        _write_deployed(target, config, set_ or (), region, dry_run=dry_run, as_json=as_json)
        return 0
    if target is not None:
        sides = _of_pipeline(target, config, set_ or (), adopt=adopt)
    else:
        assert definition is not None
        sides = _of_definition(definition, name, config, set_, adopt=adopt)
    merged = sides.merged(take)
    written = bool(merged.edits) and not (merged.conflicts or dry_run)
    if written:
        sides.keep(merged)
    told = suggest(target, config, set_ or (), merged.edits) if target is not None and merged.edits else ()
    if as_json:
        said = _as_json(merged, sides, written=written)
        say_json({**said, "suggestions": [suggestion.to_json() for suggestion in told]})
    else:
        say("\n".join(_lines(merged, sides, written=written, again=target or f"-d {definition}")))
        if told and not merged.conflicts:
            say("These are settings, too; written there, the file need not hold them:")
            say("\n".join(f"    {suggestion}" for suggestion in told))
        if sides.beside:
            say("\n".join(sides.beside))
    return CONFLICTS if merged.conflicts else 0


def _choices(of_studio: Iterable[str], of_code: Iterable[str]) -> dict[str, Side]:
    """Place -> whose value is taken there.

    Raises:
        UserError: a place is given to both.
    """
    studio: dict[str, Side] = dict.fromkeys(of_studio, "studio")
    code: dict[str, Side] = dict.fromkeys(of_code, "code")
    if (both := next((place for place in code if place in studio), None)) is not None:
        raise UserError(f"{both} is given to both --take-studio and --take-code. Choose one.")
    return studio | code


def _check_has_studio(on: str) -> None:
    """
    Raises:
        UserError: the pipeline is for a target whose pipelines nobody edits in Studio.
    """
    from drivetrain.targets.target import DEFAULT, find_target

    if on != DEFAULT:
        raise UserError(
            f"{find_target(on).TITLE} has no Studio whose edits could be pulled. `drivetrain plan` shows what others "
            "changed in the pipeline; `drivetrain apply --discard all` overwrites it."
        )


def _give_up(target: str, config: Path | None, set_: Sequence[str], names: list[str], *, as_json: bool) -> None:
    """Take edits out of the file beside the pipeline; no account is asked."""
    from drivetrain.authoring.loading import load
    from drivetrain.studio import patch as patches
    from drivetrain.targets.sagemaker.document.difference.change_words import describe_all
    from drivetrain.targets.sagemaker.document.difference.value_words import masked

    loaded = load(target, config, set_)
    file = loaded.edits
    if not file.exists():
        raise UserError(f"There is no {file}, so no edit can be given up. `drivetrain pull` writes it.")
    patch, gone = patches.read(file, loaded.pipeline.name).without(names)
    patch.write(file)
    if as_json:
        say_json({"given_up": [masked(edit).to_json() for edit in gone], "file": str(file)})
    else:
        say("\n".join(["Given up:", *(f"    {line}" for line in describe_all(gone)), f"Wrote {file}."]))


def _of_pipeline(target: str, config: Path | None, overrides: Sequence[str], *, adopt: bool) -> Sides:
    from drivetrain.authoring.loading import load
    from drivetrain.studio.pulling import sides_of

    loaded = load(target, config, overrides)
    _check_has_studio(loaded.pipeline.deployment.target)
    return sides_of(loaded, target, adopt=adopt)


def _of_definition(
    file: Path, name: str | None, config: Path | None, overrides: list[str] | None, *, adopt: bool
) -> Sides:
    from drivetrain.authoring.settings import Settings, build
    from drivetrain.operations.operands import definition_file, name_of
    from drivetrain.studio.pulling import sides_of_definition

    read = definition_file(file)
    deployment = build(Settings, config, overrides or ()).deployment
    return sides_of_definition(name or name_of(file), read, file, deployment, adopt=adopt)


def _write_deployed(
    name: str, config: Path | None, overrides: Sequence[str], region: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Write what is deployed under that name to NAME.json in the current folder, of a pipeline that no code here makes.

    Nothing is changed in the account: the pipeline is ours once that file is applied.

    Raises:
        UserError: no such pipeline, one that AWS manages, a target without Studio, or the file is there already.
    """
    from drivetrain.base.files import write_text
    from drivetrain.operations.deployment import deployer_of, options_of
    from drivetrain.operations.operands import name_of
    from drivetrain.targets.sagemaker.account import is_of_aws
    from drivetrain.targets.sagemaker.deploy.deployed import OWNER, read_tags
    from drivetrain.targets.sagemaker.deploy.deployer import SageMaker
    from drivetrain.targets.sagemaker.deploy.listing import fetch
    from drivetrain.targets.sagemaker.document.document import read, write

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


def _lines(merged: Merged, sides: Sides, *, written: bool, again: str) -> list[str]:
    from drivetrain.targets.sagemaker.document.difference.change_words import describe_all

    if merged.conflicts:
        return [
            "Code and Studio changed the same things in different ways; nothing was written:",
            *(f"    {conflict}" for conflict in merged.conflicts),
            "For each, give --take-studio PLACE or --take-code PLACE (and apply with --discard PLACE for the code's).",
        ]
    if not merged.edits and sides.applied is None:
        how = f"drivetrain apply {again} --discard all"
        return [f"Nothing to pull: nothing was edited that was not taken over. What the code changes since: {how}"]
    if not merged.edits:
        return ["Nothing to pull: the pipeline holds no edit that the code does not have."]
    lines = ["Edited in Studio:", *(f"    {line}" for line in describe_all(merged.edits))]
    if written:
        lines.append(f"Wrote {sides.file}: review it and keep it in git. Then: drivetrain plan {again}")
    return lines


def _as_json(merged: Merged, sides: Sides, *, written: bool) -> dict[str, Any]:
    from drivetrain.targets.sagemaker.document.difference.value_words import masked

    return {
        "edits": [masked(edit).to_json() for edit in merged.edits],
        "conflicts": [conflict.to_json() for conflict in merged.conflicts],
        "file": str(sides.file) if written else None,
        "beside": list(sides.beside[1:]),
    }
