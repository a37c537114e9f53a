"""A recommendation as a table for people, or as JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from drivetrain.catalog.instances import GIB
from drivetrain.cli.recommend.cases import Case
from drivetrain.recommend.choice import Recommendation, Row
from drivetrain.recommend.facts import Facts
from drivetrain.recommend.sizing import HEADROOM
from drivetrain.telling.terminal import paint, say, say_json, table

MIB = 1024**2
_COLUMNS = (
    *("strategy", "layout", "param.", "grad.", "optim.", "activ.", "buffers", "working", "total", "fits"),
    *("sent", "time", "bubble", "note"),
)


def say_recommendations(found: Sequence[tuple[Case, Recommendation]], *, as_json: bool) -> None:
    """A table for each case, or all of them as JSON."""
    if as_json:
        say_json([_as_json(case, made) for case, made in found])
        return
    for place, (case, made) in enumerate(found):
        plan, facts = made.plan, made.plan.facts
        largest = max((row.memory.total for row in made.rows if row.memory), default=0)
        unit, name = (GIB, "GiB") if plan.usable_memory >= 4 * GIB and largest >= GIB else (MIB, "MiB")
        whose = "GPU" if plan.instance.gpus else "process"
        if place:
            say()
        options = f" {case.recipe_options}" if case.recipe_options else ""
        say(
            paint(f"{case.title + ': ' if case.title else ''}{case.recipe}{options}", "bold")
            + f", {facts.num_parameters:,} parameters, {_sample(facts)}, "
            + f"global batch {plan.global_batch}, {plan.precision}"
        )
        say(f"on {plan.hosts} x {plan.instance.name} ({plan.instance.described()}), {plan.world.described()}")
        say()
        memory = plan.instance.memory_of_a_process(plan.world.processes)
        possible = [row for row in made.rows if row.candidate is not None]
        styles = [[_style(made, row, column) for column in _COLUMNS] for row in possible]
        say(table(_COLUMNS, [_cells(row, unit) for row in possible], styles=styles))
        for row in made.rows:
            if row.candidate is None:
                say(paint(f"not {row.strategy}: {row.note}", "dim"))
        say()
        say(
            paint(
                _explained(name, whose, memory / unit, plan.usable_memory / unit) + _ATTENTION[facts.attention], "dim"
            )
        )
        if made.choice is None:
            say(paint(made.reason[:1].upper() + made.reason[1:], "Failed"))
        else:
            say(f"Choice: {made.reason}")


_ATTENTION = {
    "": "",
    "flash": " Attention: torch's flash kernels are assumed, which keep no matrix of positions x positions.",
    "math": " Attention: it is assumed to keep its matrix of positions x positions, as with dropout inside of it.",
}


def _explained(unit: str, whose: str, memory: float, usable: float) -> str:
    return (
        f"Estimates. Memory in {unit} a {whose}; it may fill {usable:,.1f} of {memory:,.1f} ({HEADROOM:.0%} stay free)."
        f" Sent by one {whose} in a step, and the time of it at the links' peak rates, nothing overlapped."
    )


def _cells(row: Row, unit: int) -> list[str]:
    assert row.candidate is not None and row.memory is not None
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
    return "Failed" if column == "fits" and not row.fits else ""


def _bytes(count: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count:.0f} B"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.1f} s"
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"


def _sample(facts: Facts) -> str:
    """How large a sample was when its activations were measured."""
    size = f"{facts.input_bytes_per_sample:,} bytes a sample"
    return f"sequences of {facts.sequence_length}, {size}" if facts.sequence_length else size


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
        "sequence_length": plan.facts.sequence_length,
        "attention": plan.facts.attention or None,
        "input_bytes_per_sample": plan.facts.input_bytes_per_sample,
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
