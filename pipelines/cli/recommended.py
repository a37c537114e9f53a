"""What `drivetrain recommend` gathers and says."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.recommend.choice import Recommendation, Row, recommend
from drivetrain.pipelines.recommend.facts import Facts, FactsError, new_file
from drivetrain.pipelines.recommend.facts_places import beside, look_up
from drivetrain.pipelines.recommend.instances import GIB, LOCAL, get_instance
from drivetrain.pipelines.recommend.json_options import parse_options
from drivetrain.pipelines.recommend.measuring import measure, merged
from drivetrain.pipelines.recommend.memory import HEADROOM
from drivetrain.pipelines.recommend.plan import Plan
from drivetrain.pipelines.recommend.strategies import all_strategies

MIB = 1024**2
_COLUMNS = (
    *("strategy", "layout", "param.", "grad.", "optim.", "activ.", "buffers", "working", "total", "fits"),
    *("sent", "time", "bubble", "note"),
)


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

    def plan(self, facts: Facts) -> Plan:
        return Plan(
            facts=facts,
            instance=get_instance(self.instance),
            hosts=self.hosts,
            processes=self.processes,
            global_batch=self.global_batch,
            precision=self.precision,
            accumulation=self.accumulation,
            activation_checkpointing=self.activation_checkpointing,
        )


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The options of the command; None is what was not given."""

    target: str | None
    recipe: str | None
    recipe_options: str | None
    instances: tuple[str, ...]
    hosts: int | None
    processes: int | None
    global_batch: int | None
    precision: str | None
    accumulation: int | None
    activation_checkpointing: bool | None

    def cases(self, config: Path | None, set_: Sequence[str] | None) -> list[Case]:
        """
        Raises:
            UserError: neither a recipe nor a pipeline with a training; values that cannot be.
        """
        if self.target is not None:
            bases = list(self._from_pipeline(self.target, config, set_))
        elif self.recipe is not None:
            if config is not None or set_:
                raise UserError(
                    "--config and --set are settings of a pipeline. Give one: drivetrain recommend PIPELINE."
                )
            bases = [_default_case(self.recipe)]
        else:
            raise UserError(
                "Give a recipe (drivetrain recommend --recipe digits_cnn) or a pipeline (drivetrain recommend "
                "retraining)."
            )
        found: list[Case] = []
        for base in bases:
            for instance in self.instances or (base.instance,):
                get_instance(instance)
                found.append(replace(base, **self._given(), instance=instance))
        return found

    def _given(self) -> dict[str, Any]:
        names = (
            "recipe",
            "hosts",
            "processes",
            "global_batch",
            "precision",
            "accumulation",
            "activation_checkpointing",
        )
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.recipe_options is not None:
            given["recipe_options"] = parse_options(self.recipe_options, "--recipe-options")
        return given

    def _from_pipeline(self, target: str, config: Path | None, set_: Sequence[str] | None) -> Iterable[Case]:
        from drivetrain.pipelines.loading import load
        from drivetrain.pipelines.spec.steps import TrainingStep, flatten
        from drivetrain.pipelines.spec.trainings import TRAIN, ways

        loaded = load(target, config, set_ or ())
        steps = [step for step in flatten(loaded.pipeline.steps) if isinstance(step, TrainingStep)]
        steps = [step for step in steps if step.program.target == TRAIN]
        if not steps:
            raise UserError(f"{target} has no step of drivetrain's train component. Give --recipe instead.")
        for step in steps:
            training = next(ways(step, loaded.pipeline.parameters))
            if (recipe := self.recipe or training.text("recipe")) is None:
                raise UserError(f"{training.where}: the recipe is known to the run alone. Give it: --recipe NAME.")
            base = _default_case(recipe)
            yield replace(
                base,
                title=f"step {step.name}",
                folder=loaded.source or loaded.base,
                recipe_options=parse_options(training.text("recipe_options") or "{}", "recipe_options"),
                instance=training.text("instance_type") or base.instance,
                hosts=training.number("hosts") or base.hosts,
                processes=(training.number("processes") or step.cluster.processes or 0) if not self.instances else 0,
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


def write_facts(cases: Iterable[Case], write_speed: Path | None) -> list[Path]:
    """Measure each recipe and keep what was found beside the pipeline; returns the files written."""
    from drivetrain.pipelines.cli.files import write_text

    written: dict[Path, None] = {}
    for case in _each_recipe(cases):
        measured = measure(case.recipe, case.recipe_options, case.folder, write_speed)
        path = beside(case.recipe, case.folder)
        write_text(path, merged(path, measured, case.instance).text())
        written[path] = None
    return list(written)


def recommendations(cases: Iterable[Case]) -> list[tuple[Case, Recommendation]]:
    """The table of each case; a recipe without facts, or with stale ones, is measured now."""
    strategies = all_strategies()
    measured: dict[str, Facts] = {}
    found: list[tuple[Case, Recommendation]] = []
    for case in cases:
        key = f"{case.folder} {case.recipe} {case.recipe_options}"
        if key not in measured:
            measured[key] = _facts(case)
        found.append((case, recommend(case.plan(measured[key]), strategies)))
    return found


def _facts(case: Case) -> Facts:
    try:
        return look_up(case.recipe, case.recipe_options, case.folder)
    except FactsError as error:
        print(f"Measuring recipe {case.recipe} ({str(error).partition('. Measure it')[0]}).", file=sys.stderr)
    facts = new_file(measure(case.recipe, case.recipe_options, case.folder)).find(case.recipe_options)
    assert facts is not None
    return facts


def _each_recipe(cases: Iterable[Case]) -> list[Case]:
    return list({f"{case.folder} {case.recipe} {case.recipe_options} {case.instance}": case for case in cases}.values())


def say_recommendations(found: Sequence[tuple[Case, Recommendation]], *, as_json: bool) -> None:
    """A table for each case, or all of them as JSON."""
    from drivetrain.pipelines.cli.terminal import paint, say, say_json, table

    if as_json:
        say_json([_as_json(case, made) for case, made in found])
        return
    for place, (case, made) in enumerate(found):
        plan, facts = made.plan, made.plan.facts
        unit, name = (GIB, "GiB") if plan.usable_memory >= 4 * GIB and _largest(made) >= GIB else (MIB, "MiB")
        whose = "GPU" if plan.instance.gpus else "process"
        if place:
            say()
        options = f" {case.recipe_options}" if case.recipe_options else ""
        say(
            paint(f"{case.title + ': ' if case.title else ''}{case.recipe}{options}", "bold")
            + f", {facts.num_parameters:,} parameters, global batch {plan.global_batch}, {plan.precision}"
        )
        say(f"on {plan.hosts} x {plan.instance.name} ({plan.instance.described()}), {plan.world.described()}")
        say()
        memory = plan.instance.memory_of_a_process(plan.world.processes)
        rows = [_cells(row, unit) for row in made.rows]
        styles = [[_style(made, row, column) for column in _COLUMNS] for row in made.rows]
        say(table(_COLUMNS, rows, styles=styles))
        say()
        say(paint(_explained(name, whose, memory / unit, plan.usable_memory / unit), "dim"))
        if made.choice is None:
            say(paint(made.reason[:1].upper() + made.reason[1:], "Failed"))
        else:
            say(f"Choice: {made.reason}")


def _explained(unit: str, whose: str, memory: float, usable: float) -> str:
    return (
        f"Estimates. Memory in {unit} a {whose}; of {memory:,.1f} it may fill {usable:,.1f} ({HEADROOM:.0%} stay free)."
        f" Sent by one {whose} in a step, and the time of it at the links' peak rates, nothing overlapped."
    )


def _cells(row: Row, unit: int) -> list[str]:
    if row.candidate is None or row.memory is None:
        return [row.strategy, *[""] * (len(_COLUMNS) - 2), row.note]
    memory = row.memory
    sizes = (memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.buffers, memory.working)
    layout = " x ".join(f"{name} {degree}" for name, degree in row.candidate.degrees.items())
    pipelined = row.candidate.degree("stage") > 1
    notes = [f"{row.candidate.micro_batches} micro-batches"] if pipelined else []
    notes += ["crosses hosts"] if any(each.between_hosts for each in row.traffic) else []
    return [
        row.strategy,
        layout or "whole",
        *(f"{size / unit:,.1f}" for size in (*sizes, memory.total)),
        "yes" if row.fits else "no",
        _bytes(row.sent_bytes) if row.traffic else "-",
        _seconds(row.seconds) if row.traffic else "-",
        f"{row.bubble:.0%}" if pipelined else "-",
        ", ".join(notes),
    ]


def _style(made: Recommendation, row: Row, column: str) -> str:
    if made.choice is not None and row.strategy == made.choice.strategy:
        return "bold"
    if row.candidate is None:
        return "dim"
    return "Failed" if column == "fits" and not row.fits else ""


def _largest(made: Recommendation) -> int:
    return max((row.memory.total for row in made.rows if row.memory), default=0)


def _bytes(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:.0f} B"


def _seconds(seconds: float) -> str:
    return (
        f"{seconds:,.1f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.2g} ms"
        if seconds < 0.01
        else f"{seconds * 1e3:.0f} ms"
    )


def _as_json(case: Case, made: Recommendation) -> dict[str, Any]:
    plan = made.plan
    return {
        "step": case.title.removeprefix("step ") or None,
        "recipe": case.recipe,
        "recipe_options": case.recipe_options,
        "instance": plan.instance.name,
        "hosts": plan.hosts,
        "processes": plan.world.processes,
        "global_batch": plan.global_batch,
        "precision": plan.precision,
        "memory_bytes": plan.instance.memory_of_a_process(plan.world.processes),
        "usable_bytes": plan.usable_memory,
        "estimates": True,
        "choice": made.choice.strategy if made.choice else None,
        "strategy_options": dict(made.options),
        "reason": made.reason,
        "strategies": [_row_as_json(row) for row in made.rows],
    }


def _row_as_json(row: Row) -> dict[str, Any]:
    from dataclasses import asdict

    if row.candidate is None or row.memory is None:
        return {"strategy": row.strategy, "possible": False, "note": row.note}
    return {
        "strategy": row.strategy,
        "possible": True,
        "degrees": dict(row.candidate.degrees),
        "micro_batches": row.candidate.micro_batches,
        "memory_bytes": {**asdict(row.memory), "total": row.memory.total},
        "traffic": [asdict(each) for each in row.traffic],
        "sent_bytes": row.sent_bytes,
        "communication_seconds": row.seconds,
        "bubble": row.bubble,
        "fits": row.fits,
    }
