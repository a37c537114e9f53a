"""A deployment is asked for: which pipeline, where it is deployed, and what is to be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.targets.target import DEFAULT, AsksRegistry, find_target

if TYPE_CHECKING:
    from drivetrain.deploying.plan import Origin
    from drivetrain.spec.deployment import Deployment
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.deployer import Deployer


@dataclass(frozen=True)
class DeploymentRequest:
    """The pipeline or definition that the command line names, and the place where it is to be deployed."""

    deployer: Deployer
    wanted: Any
    origin: Origin
    withheld: tuple[str, ...] = ()
    """Settings that a plan does not keep, since they look like secrets."""
    pipeline: Pipeline | None = None
    """None for a definition that came as a file."""
    folder: Path = Path()
    """The folder of the pipeline's file."""
    registry: str | None = None
    """KIND:LOCATION of the registry that its steps ask."""
    evidence: str = ""
    """The place where a comparison keeps the evidence of each night's rows, for people."""


def look(
    target: str | None,
    definition: Path | None,
    name: str | None,
    config: Path | None,
    overrides: Sequence[str] | None,
    *,
    on: str | None = None,
) -> DeploymentRequest:
    """Compile a pipeline, or take a definition, for the target `on`, or of its settings.

    Raises:
        UserError: it cannot be compiled, or the target refuses.
    """
    from drivetrain.deploying.plan import Origin

    kept, withheld = without_secrets(overrides or ())
    origin = Origin(
        target=target,
        definition=None if definition is None else str(definition),
        name=name,
        config=None if config is None else str(config),
        set=tuple(kept),
        withheld=withheld,
        on=on,
    )
    options = options_of(config, overrides, on)
    if definition is not None:
        from drivetrain.authoring.settings import Settings, build
        from drivetrain.operations.operands import definition_file, name_of

        raw = definition_file(definition).raw
        deployment = build(Settings, config, overrides or ()).deployment
        deployer = _connected(on or deployment.target, deployment, None, "", options)
        return DeploymentRequest(
            deployer, deployer.wanted_definition(name or name_of(definition), raw), origin, withheld
        )
    from drivetrain.operations.operands import compiled_for, load_for
    from drivetrain.triggers.looking import refuse_data_that_never_change

    assert target is not None
    loaded, which = load_for(target, config, overrides, on)
    built = compiled_for(loaded, which)
    refuse_data_that_never_change(built.pipeline)  # before anybody is asked
    deployer = _connected(which, built.pipeline.deployment, None, target, options)
    found = find_target(which)
    registry, evidence = None, ""
    if isinstance(found, AsksRegistry):
        registry, evidence = found.registry(built.pipeline.deployment), found.evidence(built.pipeline.deployment)
    return DeploymentRequest(
        deployer, deployer.wanted(built), origin, withheld, built.pipeline, loaded.base, registry, evidence
    )


def options_of(config: Path | None, overrides: Sequence[str] | None, on: str | None = None) -> list[str]:
    """The options by which another command finds the same settings, without secrets."""
    kept, withheld = without_secrets(overrides or ())
    words = [] if on is None else ["--target", on]
    words += [] if config is None else ["-c", str(config)]
    words += [word for each in (*kept, *(f"{key}=..." for key in withheld)) for word in ("--set", each)]
    return words


def _connected(
    on: str, deployment: Deployment | None, region: str | None, operand: str, options: Sequence[str]
) -> Deployer:
    from drivetrain.targets.deployer import find_deploying

    return find_deploying(on).connect(deployment, region=region, operand=operand, options=options)


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
    from drivetrain.operations.operands import is_pipeline

    if is_pipeline(target):
        from drivetrain.authoring.loading import load

        pipeline = load(target, config, overrides or ()).pipeline
        return pipeline.name, pipeline.deployment
    from drivetrain.authoring.settings import Settings, build

    class OfAnyPipeline(Settings, extra="ignore"):
        pass

    build(Settings, overrides=overrides or (), environment={})  # what was typed is no setting of its own
    return target, build(OfAnyPipeline, config, overrides or ()).deployment


def deployer_of(
    target: str,
    config: Path | None,
    overrides: Sequence[str] | None,
    region: str | None = None,
    on: str | None = None,
    *,
    by_settings: bool = False,
) -> tuple[Deployer, str]:
    """The deployer of a deployed pipeline's place, and the pipeline's name: by its settings, or as `region` and `on`
    say.

    Args:
        target: a pipeline, the name of a deployed one, or "" for the place alone.
        by_settings: the settings are needed whole, so that their defaults count where none are given.

    Raises:
        UserError: wrong settings, or nothing says where.
    """
    from drivetrain.operations.operands import is_pipeline

    options = options_of(config, overrides, on)
    if is_pipeline(target) or config is not None or overrides or by_settings:
        name, deployment = place_of(target, config, overrides)
        return _connected(on or deployment.target, deployment, region, target, options), name
    return _connected(on or DEFAULT, None, region, target, options), target


def refuse_in_vain(target: str, config: Path | None, overrides: Sequence[str], *, parameter: str) -> None:
    """
    Args:
        parameter: how a parameter of the pipeline is given instead.

    Raises:
        UserError: a setting that says neither which pipeline is started nor where, which was decided by `apply`.
    """
    from drivetrain.operations.operands import is_pipeline

    if not is_pipeline(target):
        return  # of a deployed one by its name, other settings are not known
    for given in overrides:
        if given.startswith(("deployment.", "deployment=")):
            continue
        others = [each for each in overrides if each is not given]
        try:
            unchanged = place_of(target, config, others) == place_of(target, config, overrides)
        except UserError:
            continue  # the pipeline is not built without it; what else is wrong is said as it is looked for
        if unchanged:
            option = " ".join(options_of(None, [given]))
            raise UserError(
                f"{option}: a deployed pipeline is started as it was applied, and this changes nothing of it. "
                f"Apply it first (drivetrain apply {target} {option}), or give a parameter of the pipeline: "
                f"{parameter}."
            )
