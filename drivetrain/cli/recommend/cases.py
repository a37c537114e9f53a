"""The cases for `drivetrain recommend`: recipes and machines, from its options or from a pipeline's training steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text
from drivetrain.base.json_options import parse_options
from drivetrain.catalog.instances import LOCAL, get_instance
from drivetrain.catalog.strategies import TORCH, all_strategies, framework_of_recipe, recipe_file
from drivetrain.cli.recommend.wanted import Wanted
from drivetrain.recommend.choice import Recommendation, recommend
from drivetrain.recommend.facts import Facts, FactsError, new_file
from drivetrain.recommend.facts_places import beside, look_up
from drivetrain.recommend.profile import measure, merged
from drivetrain.recommend.sizing import Sizing

# Options that are fields of a case by the same name.
_OF_CASES = ("recipe", "hosts", "processes", "global_batch", "precision", "accumulation", "activation_checkpointing")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One table: a recipe with options, and the machines."""

    title: str
    recipe: str
    recipe_options: dict[str, Any]
    folder: Path
    instance: str
    hosts: int
    processes: int
    global_batch: int
    precision: str
    accumulation: int
    activation_checkpointing: bool

    def plan(self, facts: Facts) -> Sizing:
        return Sizing(
            facts=facts,
            instance=get_instance(self.instance),
            hosts=self.hosts,
            processes=self.processes,
            global_batch=self.global_batch,
            precision=self.precision,
            accumulation=self.accumulation,
            activation_checkpointing=self.activation_checkpointing,
        )


def cases_of(wanted: Wanted, config: Path | None, set_: Sequence[str] | None) -> list[Case]:
    """The cases that the options of the command name.

    Raises:
        UserError: neither a recipe nor a pipeline with a training; values that cannot be.
    """
    if wanted.target is not None:
        bases = list(_from_pipeline(wanted, wanted.target, config, set_))
    elif wanted.recipe is not None:
        if config is not None or set_:
            raise UserError("--config and --set are settings of a pipeline. Give one: drivetrain recommend PIPELINE.")
        bases = [_default_case(wanted.recipe)]
    else:
        raise UserError(
            "Give a recipe (drivetrain recommend --recipe digits_cnn) or a pipeline (drivetrain recommend retraining)."
        )
    found: list[Case] = []
    for base in bases:
        for instance in wanted.instance or (base.instance,):
            get_instance(instance)
            found.append(replace(base, **_given(wanted), instance=instance))
    return found


def _given(wanted: Wanted) -> dict[str, Any]:
    given = {name: value for name in _OF_CASES if (value := getattr(wanted, name)) is not None}
    if wanted.recipe_options is not None:
        given["recipe_options"] = parse_options(wanted.recipe_options, "--recipe-options")
    return given


def _from_pipeline(wanted: Wanted, target: str, config: Path | None, set_: Sequence[str] | None) -> Iterable[Case]:
    from drivetrain.authoring.loading import load
    from drivetrain.spec.steps import TRAIN, TrainingStep, flatten
    from drivetrain.spec.trainings import ways

    loaded = load(target, config, set_ or ())
    steps = [step for step in flatten(loaded.pipeline.steps) if isinstance(step, TrainingStep)]
    steps = [step for step in steps if step.program.target == TRAIN]
    if not steps:
        raise UserError(
            f"{target} has no step of drivetrain's train component. Give --recipe instead; for train_table --rows and "
            "--columns of its data."
        )
    for step in steps:
        training = next(ways(step, loaded.pipeline.parameters))
        if (recipe := wanted.recipe or training.text("recipe")) is None:
            raise UserError(f"{training.where}: the recipe is known to the run alone. Give it: --recipe NAME.")
        base = _default_case(recipe)
        yield replace(
            base,
            title=f"step {step.name}",
            folder=loaded.source or loaded.base,
            recipe_options=parse_options(training.text("recipe_options") or "{}", "recipe_options"),
            instance=training.text("instance_type") or base.instance,
            hosts=training.number("hosts") or base.hosts,
            processes=(training.number("processes") or step.cluster.processes or 0) if not wanted.instance else 0,
            global_batch=training.number("global_batch") or base.global_batch,
            precision=training.text("precision") or base.precision,
            accumulation=training.number("accumulation") or base.accumulation,
            activation_checkpointing=bool(training.values["activation_checkpointing"]),
        )


def _default_case(recipe: str) -> Case:
    return Case(
        title="",
        recipe=recipe,
        recipe_options={},
        folder=Path.cwd(),
        instance=LOCAL,
        hosts=1,
        processes=0,
        global_batch=32,
        precision="fp32",
        accumulation=1,
        activation_checkpointing=False,
    )


def write_facts(cases: Sequence[Case], write_speed: Path | None) -> list[Path]:
    """Measure each recipe and keep what was found beside the pipeline; returns the files written.

    Raises:
        UserError: a recipe that cannot be measured; a disk's speed for several instance types.
    """
    each_once = {f"{case.folder} {case.recipe} {case.recipe_options}": case for case in cases}.values()
    if write_speed is not None and len(instances := {case.instance for case in cases}) > 1:
        raise UserError(
            f"--write-speed measures the disk of this machine, but there are {len(instances)} instance types. Give the "
            "one that this is: --instance TYPE."
        )
    written: dict[Path, None] = {}
    for case in each_once:
        measured = measure(case.recipe, case.recipe_options, case.folder, write_speed)
        path = beside(case.recipe, case.folder)
        write_text(path, merged(path, measured, case.instance).text())
        written[path] = None
    return list(written)


def recommendations(cases: Iterable[Case]) -> list[tuple[Case, Recommendation]]:
    """The table of each case; a recipe without facts, or with stale ones, is measured now."""
    strategies = all_strategies(framework=TORCH)
    measured: dict[str, Facts] = {}
    found: list[tuple[Case, Recommendation]] = []
    for case in cases:
        key = f"{case.folder} {case.recipe} {case.recipe_options}"
        if key not in measured:
            measured[key] = _facts(case)
        found.append((case, recommend(case.plan(measured[key]), strategies)))
    return found


def _facts(case: Case) -> Facts:
    source = recipe_file(case.recipe, case.folder)
    own = framework_of_recipe(source) if source is not None else TORCH
    if own != TORCH:
        raise UserError(
            f"recipe {case.recipe!r} is of {own}, and only recipes of torch can be measured. Name one of its "
            f"strategies in the pipeline: {', '.join(all_strategies(framework=own)) or 'it has none'}."
        )
    try:
        return look_up(case.recipe, case.recipe_options, case.folder)
    except FactsError as error:
        print(f"Measuring recipe {case.recipe} ({str(error).partition('. Measure it')[0]}).", file=sys.stderr)
    facts = new_file(measure(case.recipe, case.recipe_options, case.folder)).find(case.recipe_options)
    assert facts is not None
    return facts
