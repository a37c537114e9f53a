"""Calibrate a model on rows that neither its training nor its test has seen: its probabilities, or its intervals.

    python -m drivetrain.training_scripts.calibrate --model build/model --data build/calibration \\
        --output build/calibrated --metrics build/metrics.json --false-negative-cost 5

The model is asked for each row once. What is learnt are one or two numbers and perhaps a threshold; they stand in
model.json, and whatever asks the model applies them (drivetrain/training/calibration.py).

    binary      slope and intercept of the log-odds: J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999
    multiclass  slope = 1 / temperature: C. Guo and others, "On Calibration of Modern Neural Networks", 2017
    regression  the radius of intervals, by split conformal prediction: J. Lei and others, "Distribution-Free Predictive
                Inference for Regression", 2018; of a model that answers low and high: Y. Romano and others,
                "Conformalized Quantile Regression", 2019
"""

from __future__ import annotations

import json
import math
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, warn
from drivetrain.training import plugins
from drivetrain.training.answers import HIGH, LOW
from drivetrain.training.calibration import (
    CALIBRATION,
    COSTS,
    Calibration,
    Floats,
    log_odds,
    log_probabilities,
    sigmoid,
)
from drivetrain.training.calibration_config import CalibrationConfig
from drivetrain.training.command_line import Parser
from drivetrain.training.evaluation.progress import Progress
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.evaluation.subject import AskedFunctions, AskedModel, Count, Subject
from drivetrain.training.input_pipeline.prepared import keys_of
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.parent import die_with_parent
from drivetrain.training.metric import Ints, Metric, Samples, Value
from drivetrain.training.metric_states.intervals import covered
from drivetrain.training.metrics.calibration_error import Metric as CalibrationError
from drivetrain.training.metrics.threshold import Metric as ThresholdMetric
from drivetrain.training.model_folder import (
    CODE_FOLDER,
    FUNCTIONS,
    described_copy,
    framework_of,
    read_description,
    tensors_of,
    threshold_in,
)
from drivetrain.training.process import Process, join_group
from drivetrain.training.task import Task
from drivetrain.training_scripts.evaluate import seen_before

KINDS = ("binary", "multiclass", "regression")
# In the block `calibration`: the threshold of the model before costs chose another one.
OWN_THRESHOLD = "own_threshold"
_APPLIED_BY = Path(CODE_FOLDER, "modules", "drivetrain", "training", "calibration.py")


class Asked(NamedTuple):
    """The answers of a model to the calibration set, in the shapes of `Samples`, and its data as model.json has it."""

    task: Task
    targets: NDArray[Any]
    scores: NDArray[Any] | None
    margins: NDArray[Any] | None
    predicted: NDArray[Any]
    ends: tuple[NDArray[Any], NDArray[Any]] | None
    content_hash: str
    keys: Mapping[str, Any] = {}
    """Hashes of the rows' keys, as their manifest has them."""


def run(model: Path, data: Path, output: Path, process: Process, config: CalibrationConfig) -> dict[str, float]:
    """Write the calibrated model.

    Args:
        model: a model folder. An earlier calibration of it is replaced.
        data: prepared data that nothing else has used.
        output: gets the model folder.

    Returns:
        What was learnt, and what it gains on these rows.

    Raises:
        InputError: the task has nothing to calibrate, or the data is not for it.
    """
    description = read_description(model)
    earlier = description.pop(CALIBRATION, {})
    if OWN_THRESHOLD in earlier:
        description = threshold_in(description, earlier[OWN_THRESHOLD])
    if (model / CODE_FOLDER).is_dir() and not (model / _APPLIED_BY).is_file():
        raise InputError(
            f"{model} was trained by an earlier version, and its {CODE_FOLDER}/ would serve it without a calibration. "
            "Train it again."
        )
    with tempfile.TemporaryDirectory(prefix="drivetrain-calibrate-") as bare:
        described_copy(model, Path(bare), description)
        asked = ask(Path(bare), data, process, config)
    found, numbers = fit(asked, config)
    block: dict[str, Any] = {name: value for name, value in asdict(found).items() if value is not None}
    if found.edge == Calibration.edge:
        del block["edge"]
    if found.costs is not None:
        block[OWN_THRESHOLD] = asked.task.threshold
        description = threshold_in(description, numbers["threshold"])
        block["costs"] = dict(zip(COSTS, found.costs, strict=True))
    description[CALIBRATION] = {**block, **numbers}
    description["data"] = {**description.get("data", {}), "calibrated_on": asked.content_hash}
    description["data"]["calibration_keys"] = asked.keys
    described_copy(model, output, description)
    for name, value in numbers.items():
        print(f"  {name}: {value:,.6g}")
    return numbers


def ask(model: Path, data: Path, process: Process, config: CalibrationConfig) -> Asked:
    """Ask a model for all rows.

    Raises:
        InputError: its task has nothing to calibrate; it was trained on this data.
    """
    settings = Settings(batch_size=config.batch_size, threads=config.threads, bootstrap=0, worst=0)
    of_functions = framework_of(model) == FUNCTIONS
    subject: Subject = (AskedFunctions if of_functions else AskedModel)(model, data, process, settings)
    task, dataset = subject.task, subject.dataset
    if task.kind not in KINDS or (task.kind == "regression" and task.num_classes > 1):
        what = "of several numbers a row" if task.kind == "regression" else task.kind
        raise InputError(f"this model is {what}; a calibration is for {', '.join(KINDS)} (one number a row).")
    if config.costs is not None and task.kind != "binary":
        raise InputError(f"costs choose the threshold of two classes, and this model is {task.kind}. Leave them out.")
    seen = seen_before(dataset, subject.trained_on)
    if seen.get("trained_on"):
        raise InputError(
            f"the model was trained on {data}, where its answers are too good. Give rows that it has not seen: the "
            "output `calibration` of prepare_data(calibration_percent=10)."
        )
    if keys := seen.get("shared_keys", {}).get("keys"):
        warn(f"{keys:,} keys of {data} are in the training data, too: what is learnt there is too good for new rows")
    found: list[tuple[Samples, Mapping[str, NDArray[Any]]]] = []

    def keep(rows: Ints, samples: Samples) -> None:
        found.append((samples, subject.kept(rows)))

    progress = Progress(len(dataset), shows=process.is_main)
    with subject.count(Count(slices=(), bootstrap=None, exact=False, on_batch=keep, progress=progress)):
        progress.end()

    def whole(name: str) -> Any:
        parts = [getattr(samples, name) for samples, _ in found]
        return None if parts[0] is None else np.concatenate(parts)

    kept = [more for _, more in found]
    ends = (np.concatenate([more[name] for more in kept]) for name in (LOW, HIGH)) if LOW in kept[0] else None
    if task.ranked_by == "raw scores" and task.kind == "multiclass":
        raise InputError("the model's numbers only rank its classes; a calibration needs probabilities of several.")
    return Asked(
        task,
        whole("targets"),
        None if task.ranked_by == "raw scores" else whole("scores"),
        whole("margins"),
        whole("predicted"),
        None if ends is None else tuple[Any, Any](ends),
        dataset.content_hash,
        keys_of(dataset.reader),
    )


def fit(asked: Asked, config: CalibrationConfig) -> tuple[Calibration, dict[str, float]]:
    """The calibration, and numbers about it.

    Raises:
        InputError: too few rows, or rows that say nothing.
    """
    targets, numbers = asked.targets, {"rows": float(len(asked.targets))}
    if asked.task.kind == "regression":
        target, predicted = targets[:, 0].astype(np.float64), asked.predicted[:, 0].astype(np.float64)
        low, high = asked.ends or (predicted, predicted)
        errors = np.maximum(low - target, target - high)
        radius = conformal_radius(errors, config.coverage)
        num_held, step = (errors <= radius).sum(), float(np.spacing(abs(radius)))
        while True:
            found = Calibration(radius=radius)
            ends = found.ends(predicted, asked.ends)
            assert ends is not None
            measures = covered(*ends, target)
            if measures["coverage"].sum() >= num_held:
                break
            # 0.8 + (3.4 - 0.8) < 3.4: an end is rounded, and may leave out the row that it was made of.
            radius, step = radius + step, 2 * step
        if asked.ends is not None:
            before = covered(low.astype(np.float64), high.astype(np.float64), target)
            numbers |= {f"{name}_before": float(values.mean()) for name, values in before.items()}
        numbers |= {name: float(values.mean()) for name, values in measures.items()}
        return found, {**numbers, "coverage_promised": config.coverage}
    edge = edge_of(asked.scores) if asked.margins is None and asked.scores is not None else Calibration.edge
    if asked.task.kind == "multiclass":
        logits = log_probabilities(asked.scores, asked.margins, edge)
        found = Calibration(slope=inverse_temperature(logits, targets), edge=edge)
    else:
        slope, intercept = platt(log_odds(asked.scores, asked.margins, edge), targets == 1)
        found = Calibration(slope=slope, intercept=intercept, costs=config.costs, edge=edge)
    scores, _ = found.probabilities(asked.task.kind, asked.scores, asked.margins)
    for end, each in (("_before", asked.scores), ("", scores)):
        if each is not None:
            numbers[f"log_loss{end}"] = _log_loss(each, targets)
            samples = Samples(targets=targets, scores=each, predicted=asked.predicted)
            numbers[f"calibration_error{end}"] = _measured(CalibrationError(), asked.task, samples)[""].value
    if found.costs is not None:
        numbers |= cheapest(scores, targets, found.costs, config.confidence)
    return found, numbers


def edge_of(scores: NDArray[Any]) -> float:
    """The distance from 0 and 1 that scores keep. Where some are exactly 0 or 1 (a forest whose trees all agree), it is
    half of the smallest distance of the others, and at least 1 / (2 (n + 1)): n rows do not say more.

    Args:
        scores: shape [n] or [n, C].
    """
    away = np.minimum(scores, 1 - scores).astype(np.float64)
    if away.min() > 0:
        return Calibration.edge
    return max(0.5 / (len(scores) + 1), away[away > 0].min(initial=0.5) / 2 if (away > 0).any() else 0.0)


def platt(margins: Floats, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and intercept of the log-odds, by Newton's method on Platt's smoothed targets (H.-T. Lin, C.-J. Lin,
    R. Weng, "A Note on Platt's Probabilistic Outputs for Support Vector Machines", 2007).

    Args:
        margins: shape [n].
        positive: rows of class 1, shape [n].

    Raises:
        InputError: rows of one class, or scores that do not tell the classes apart.
    """
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        raise InputError(f"the calibration set has {ones:,} rows of class 1 and {zeros:,} of class 0. Both are needed.")
    wanted = np.where(positive, (ones + 1) / (ones + 2), 1 / (zeros + 2))
    middle, scale = margins.mean(), margins.std()
    design = np.stack([(margins - middle) / (scale or 1.0), np.ones(len(margins))], axis=1)

    def loss(at: NDArray[Any]) -> float:
        moved = design @ at
        return float((np.logaddexp(0, moved) - wanted * moved).sum())

    at: NDArray[Any] = np.array([1.0, 0.0])
    for _ in range(100):
        given = sigmoid(design @ at)
        gradient = design.T @ (given - wanted)
        hessian = (design * (given * (1 - given))[:, None]).T @ design + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size, here = 1.0, loss(at)
        while loss(at - size * step) > here and size > 1e-10:
            size /= 2
        at = at - size * step
        if np.abs(size * step).max() < 1e-10:
            break
    slope = float(at[0] / (scale or 1.0))
    if not slope > 0 or not scale:
        raise InputError(
            "on the calibration set rows of class 1 have no higher scores than those of class 0, so there is nothing "
            "to calibrate. Look at the model's AUROC, and at which class is class 1."
        )
    return slope, float(at[1] - slope * middle)


def inverse_temperature(logits: Floats, targets: Ints) -> float:
    """The factor of the logits at which the log loss is least, by bisection of its derivative.

    It stays 1 where any larger one is better: all rows are right then, and do not say how sure to be.

    Args:
        logits: logarithms of the probabilities, shape [n, C].
        targets: shape [n].

    Raises:
        InputError: the probabilities are no better than equal ones.
    """
    wanted = logits[np.arange(len(targets)), targets]

    def derivative(slope: float) -> float:
        given, _ = Calibration(slope=slope).probabilities("multiclass", np.exp(logits), None)
        return float(((given * logits).sum(axis=1) - wanted).sum())

    low, high = math.log(1e-3), math.log(1e3)
    if derivative(math.exp(low)) >= 0:
        raise InputError("on the calibration set the probabilities say nothing of the classes. Look at the model.")
    if derivative(math.exp(high)) <= 0:
        warn("the model is right on every row of the calibration set, which says nothing of its errors: temperature 1")
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if derivative(math.exp(middle)) < 0 else (low, middle)
    return math.exp((low + high) / 2)


def conformal_radius(errors: Floats, coverage: float) -> float:
    """The ceil((n + 1) * coverage)-th smallest error.

    Args:
        errors: how far each target lies outside of its interval, negative inside; shape [n].

    Raises:
        InputError: too few rows for this coverage.
    """
    share, num_rows = Fraction(str(coverage)), len(errors)
    place = math.ceil((num_rows + 1) * share)
    if place > num_rows:
        needed = math.ceil(share / (1 - share))
        raise InputError(
            f"a coverage of {coverage:g} needs at least {needed:,} rows, and the calibration set has {num_rows:,}. "
            "Raise calibration_percent, or lower coverage."
        )
    return float(np.sort(errors.astype(np.float64))[place - 1])


def cheapest(scores: Floats, targets: Ints, costs: tuple[float, float], confidence: float) -> dict[str, float]:
    """The threshold with the least cost, as the metric `threshold` chooses it, and the interval of that cost."""
    metric, task = ThresholdMetric(false_positive_cost=costs[0], false_negative_cost=costs[1]), Task("binary", 2)
    values = _measured(metric, task, Samples(targets=targets, scores=scores))
    cost = values["cost"]
    assert cost.limits is not None
    low, high = cost.limits(confidence)
    return {
        "threshold": values[""].value,
        "threshold_cost": cost.value,
        "threshold_cost_low": max(low, 0.0),
        "threshold_cost_high": min(high, max(costs)),
    }


def _measured(metric: Metric, task: Task, samples: Samples) -> Mapping[str, Value]:
    counted: dict[str, Ints] = {}
    for name, tally in metric.tallies(task).items():
        counts = tally.count(samples)
        counted[name] = np.zeros(tally.size, np.int64)
        np.add.at(counted[name], counts.cells, 1 if counts.amounts is None else counts.amounts)
    return metric.compute(task, counted)


def _log_loss(scores: NDArray[Any], targets: Ints) -> float:
    wide = scores.astype(np.float64)
    own = np.where(targets == 1, wide, 1 - wide) if wide.ndim == 1 else wide[np.arange(len(targets)), targets]
    return float(-np.log(np.maximum(own, np.finfo(np.float64).eps)).mean())


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        parser = Parser(
            program="drivetrain.training_scripts.calibrate",
            description=__doc__,
            usage="--model FOLDER --data FOLDER --output FOLDER --metrics FILE [OPTION ...]",
        )
        for name, words in (
            ("model", "a model folder"),
            ("data", "rows that nothing else has used"),
            ("output", "gets the calibrated model"),
            ("metrics", "the JSON file of numbers to write"),
        ):
            parser.add_argument(f"--{name}", type=Path, required=True, metavar="PATH", help=words)
        parser.add_fields(CalibrationConfig)
        given: dict[str, Any] = vars(parser.parse_args())
        folders = {name: given.pop(name) for name in ("model", "data", "output", "metrics")}
        config = CalibrationConfig(**given)
        plugins.forget_current_folder()  # the model says which recipe it is of
        with join_group(framework=tensors_of(folders["model"])) as process:
            numbers = run(folders["model"], folders["data"], folders["output"], process, config)
        folders["metrics"].write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")

    run_rank(program)


if __name__ == "__main__":
    main()
