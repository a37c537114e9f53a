"""That a component of Drivetrain is given an output which holds what it reads: found before anything runs. What a
component of the user's own writes into its folders is not known, so only its numbers are refused."""

from __future__ import annotations

from drivetrain.base.errors import SpecError, at_place
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import (
    BATCH_PREDICT,
    CALIBRATE,
    CHECK_DATA,
    CHECK_SERVED,
    COMPARE,
    DESCRIBE_MODEL,
    EVALUATE,
    MAKE_MODELS_OF_FUNCTIONS,
    REGISTER_MODEL,
    TRAIN_TABLE,
)
from drivetrain.spec.steps import TRAIN, JobStep
from drivetrain.spec.values import OutputRef
from drivetrain.steps import METRICS_OUTPUT

_PREPARE_DATA = "drivetrain.components.prepare_data:prepare_data"
_CALIBRATION = "calibration"
_NUMBERS, _REPORT, _DECISION, _DATA, _MODEL = "numbers", "an evaluation's report", "a decision", "data", "a model"
_HOLDS = {
    (EVALUATE, "report"): _REPORT,
    (COMPARE, "decision"): _DECISION,
    **{(target, "model"): _MODEL for target in (TRAIN, CALIBRATE, *MAKE_MODELS_OF_FUNCTIONS)},
    **{
        (f"drivetrain.components.{component}:{component}", output): _DATA
        for component, outputs in {
            "prepare_data": ("train", "validation", "test", _CALIBRATION),
            "transform_data": ("output",),
            "read_source": ("output",),
            "batch_predict": ("output",),
        }.items()
        for output in outputs
    },
}
# What each input reads, and what gives it.
_READS = {
    (COMPARE, "evaluation"): (_REPORT, "the output `report` of drivetrain.components.evaluate"),
    (COMPARE, "model"): (_MODEL, "the output `model` of a training step"),
    (COMPARE, "data"): (_DATA, "the data that evaluate measured on"),
    (EVALUATE, "model"): (_MODEL, "the output `model` of a training step"),
    (EVALUATE, "data"): (_DATA, "prepared data"),
    (BATCH_PREDICT, "model"): (_MODEL, "the output `model` of a training step"),
    (BATCH_PREDICT, "data"): (_DATA, "the rows to predict"),
    (CALIBRATE, "trained"): (_MODEL, "the output `model` of a training step"),
    (CALIBRATE, "data"): (_DATA, "the output `calibration` of prepare_data"),
    (REGISTER_MODEL, "report"): (_REPORT, "the output `report` of drivetrain.components.evaluate"),
    (REGISTER_MODEL, "decision"): (_DECISION, "the output `decision` of drivetrain.components.compare"),
    (DESCRIBE_MODEL, "data"): (_DATA, "prepared data"),
    **{(CHECK_DATA, name): (_DATA, "prepared data") for name in ("train", "validation", "test", _CALIBRATION)},
    (CHECK_SERVED, "data"): (_DATA, "prepared data"),
    (CHECK_SERVED, "predictions"): (_DATA, "the output of batch_predict over the same rows"),
    **{(target, name): (_DATA, "prepared data") for target in (TRAIN, TRAIN_TABLE) for name in ("train", "validation")},
}


def refuse_wrong_kinds(graph: Graph) -> None:
    """
    Raises:
        SpecError: an input of a shipped component is an output that surely holds something else, or nothing, at the
            step's line.
    """
    for step in (each for each in graph.steps if isinstance(each, JobStep)):
        for name, value in step.inputs.items():
            reads = _READS.get((step.program.target, name))
            made = graph.by_name.get(value.step) if isinstance(value, OutputRef) else None
            if reads is None or not isinstance(made, JobStep) or not isinstance(value, OutputRef):
                continue
            target = made.program.target
            if (target, value.output) == (_PREPARE_DATA, _CALIBRATION) and not any(
                name.startswith(_CALIBRATION) for name in made.parameters
            ):
                text = (
                    f"Step {step.name!r}: {name} is the calibration set of step {made.name!r}, which makes none. Give "
                    f"{made.name!r} calibration_percent=10 (of a split by time, calibration_from)."
                )
                raise at_place(SpecError(text), step.place)
            numbers = value.output == METRICS_OUTPUT and value.output not in made.outputs
            held = _NUMBERS if numbers else _HOLDS.get((target, value.output))
            if held is None or held == reads[0]:
                continue
            component = step.program.target.partition(":")[2]
            text = (
                f"Step {step.name!r}: {name} is the output {value.output!r} of step {made.name!r}, which holds {held}. "
                f"{component} takes {reads[1]}."
            )
            if numbers and not target.startswith("drivetrain.") and reads[0] == _REPORT:
                own = target.partition(":")[2]
                text += (
                    f" Your own {own}() writes none. Decide by its numbers: scores = step({own}, ...), and then "
                    "when(scores.metric('NAME') >= FLOOR, then=[...])"
                )
                text += "." if component == "compare" else "; register(..., metrics=scores) keeps them."
            raise at_place(SpecError(text), step.place)
