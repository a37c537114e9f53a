"""Steps that a pipeline's function writes and no pipeline has: they would not run, and nobody would notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from drivetrain.base.call_site import place_of_function
from drivetrain.base.errors import SpecError, at_place
from drivetrain.spec.pipeline import Pipeline
from drivetrain.spec.steps import BaseStep, ConditionStep, JobStep, RegisterStep, flatten

_SHOWN = 5


def refuse_left_out(built: Pipeline, written: Iterable[Any], author: Callable[..., Any]) -> None:
    """
    Args:
        built: what the function returned.
        written: the steps and the pipelines that it wrote, in order.

    Raises:
        SpecError: an empty list of steps, or a step that stands in none of the pipelines.
    """
    pipelines = [built, *(one for one in written if isinstance(one, Pipeline))]
    kept = [step for pipeline in pipelines for step in flatten(pipeline.steps)]
    names = {name for step in kept for name in (step.name, *getattr(step, "parts", ()))}
    # A copy under another name shares its program with the step that it was made from.
    copied = {id(step.program) for step in kept if isinstance(step, JobStep)}
    missing: dict[str, Any] = {
        one.name: one
        for one in written
        if isinstance(one, BaseStep)
        and one.name not in names
        and not (isinstance(one, JobStep) and id(one.program) in copied)
    }
    within = {step.name for one in missing.values() for step in flatten((one,))[1:]}
    outer = [one for one in missing.values() if one.name not in within] or [*missing.values()]
    if outer:
        many = len(outer) > 1
        told = "; ".join(
            _told(one) + (f" ({one.place})" if number and one.place else "")
            for number, one in enumerate(outer[:_SHOWN])
        )
        more = f"; {len(outer) - _SHOWN} more" if len(outer) > _SHOWN else ""
        text = (
            f"Pipeline {built.name!r}: {told}{more} {'are' if many else 'is'} not in Pipeline(steps=...) and would not "
            f"run. {_where(kept)}Add {'them' if many else 'it'} there, or write {'them' if many else 'it'} only where "
            f"{'they are' if many else 'it is'} added."
        )
        raise at_place(SpecError(text), outer[0].place)
    if not built.steps and "steps" in built.model_fields_set:
        text = f"Pipeline {built.name!r} has no steps. Give Pipeline(steps=[...]) what step(...) returns."
        raise at_place(SpecError(text), place_of_function(author))


def _where(kept: list[Any]) -> str:
    """The place of a step that a condition is to guard: added beside the condition, it would run without it."""
    condition = next((step.name for step in kept if isinstance(step, ConditionStep)), None)
    return f"What the condition {condition!r} is to allow belongs into its then=[...]. Else: " if condition else ""


def _told(step: Any) -> str:
    kinds = {ConditionStep: "the condition", RegisterStep: "the registration"}
    kind = next((word for each, word in kinds.items() if isinstance(step, each)), "step")
    inner = [each.name for each in flatten((step,))[1:]]
    return f"{kind} {step.name!r}" + (f" (with {', '.join(inner)})" if inner else "")
