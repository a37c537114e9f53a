"""Read an evaluation from its folder: evaluation.json and curves.json.

The files may be of a later version, made by another program, or torn: unknown parts are left out, and a file that
cannot be read at all is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.base.formatting import count, number
from drivetrain.base.json_text import as_list, as_object, list_in, object_in
from drivetrain.telling.content.plotted import Plotted, ThresholdFacts, plotted, threshold_facts
from drivetrain.telling.content.suspects import SUSPECTS_FILE, SuspectFacts, suspect_facts
from drivetrain.telling.content.untrusted_json import (
    UnreadableError,
    drawable,
    finite,
    objects,
    read_object,
    text,
    texts,
    whole,
)
from drivetrain.telling.content.worst import WORST_FILE, WorstSample, worst_samples

EVALUATION_FILE = "evaluation.json"
CURVES_FILE = "curves.json"
# Upper bounds per page; entries beyond them are only counted.
MAX_METRICS = 5_000
MAX_SLICES = 1_000
MAX_UNDEFINED = 1_000
MAX_SETTING = 2_000

_PER_CLASS = re.compile(r"^(.+?)_class_(.+)$")
# What people ask for first.
_FIRST = ("accuracy", "balanced_accuracy", "f1_macro", "f1", "auroc", "auroc_macro", "r2", "mae", "rmse", "loss")


def class_of(name: str) -> tuple[str, str] | None:
    """`f1_class_3` -> (`f1`, `3`); None where a number is not one class's."""
    match = _PER_CLASS.match(name)
    return (match[1], match[2]) if match else None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A metric's value; the true one lies at most `bound` away, and its confidence interval is [low, high]."""

    name: str
    value: float
    bound: float = 0.0
    low: float | None = None
    high: float | None = None
    no_interval: str = ""
    """The reason for no interval, as a clause."""
    unless: str = ""
    """The condition of the interval, as a clause."""
    higher_is_better: bool | None = None
    advice: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def per_class(self) -> tuple[str, str] | None:
        """As of `class_of`."""
        return class_of(self.name)

    @property
    def is_drawable(self) -> bool:
        """True if a picture can have it and its interval."""
        return all(drawable(end) is not None for end in (self.value, *(self.interval or ())))


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The metrics of the samples whose `column` has `value`."""

    column: str
    value: str
    num_samples: int | None
    measures: Mapping[str, Measure]
    undefined: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class EvaluationFacts:
    """One evaluation. `problem` says why there is nothing (or nothing more) to show, as a clause about a file."""

    step: str
    problem: str = ""
    num_samples: int | None = None
    kind: str = ""
    class_names: tuple[str, ...] = ()
    measures: Mapping[str, Measure] = field(default_factory=dict[str, Measure])
    undefined: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    num_slices: int = 0
    """How many there are in the file."""
    curves: tuple[Plotted, ...] = ()
    confidence: float | None = None
    replicates: int | None = None
    resampled_by: str = ""
    rows: int | None = None
    counted: int | None = None
    collectives: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    model: Mapping[str, str] = field(default_factory=dict[str, str])
    threshold: ThresholdFacts | None = None
    worst: tuple[WorstSample, ...] = ()
    """Those with the largest losses."""
    worst_key: str = ""
    """The column that names them."""
    suspects: SuspectFacts = field(default_factory=SuspectFacts)

    @property
    def has_sliders(self) -> bool:
        """True if the page can choose a threshold for other costs."""
        return self.threshold is not None and bool(self.threshold.corners)

    def overall(self) -> list[Measure]:
        """The metrics that are not one class's, in the order of `ranked`."""
        return ranked(one for one in self.measures.values() if one.per_class is None)

    def by_class(self) -> dict[str, dict[str, Measure]]:
        """Measure -> class -> its metric."""
        found: dict[str, dict[str, Measure]] = {}
        for one in self.measures.values():
            if (split := one.per_class) is not None:
                found.setdefault(split[0], {})[split[1]] = one
        return found

    def class_name(self, number: str) -> str:
        """The name of a class, where classes have names."""
        named = number.isascii() and number.isdigit() and len(number) < 7 and int(number) < len(self.class_names)
        return self.class_names[int(number)] if named else number


def ranked(found: Iterable[Measure]) -> list[Measure]:
    """Those first that people ask for first, and the number of samples last."""
    order = {name: place for place, name in enumerate(_FIRST)}
    last = {"num_samples": len(order) + 1}
    return sorted(found, key=lambda one: order.get(one.name, last.get(one.name, len(order))))


def read_evaluation(step: str, folder: Path) -> EvaluationFacts | None:
    """Read what an evaluation wrote into `folder`; None if there is no evaluation of ours."""
    try:
        found = read_object(folder / EVALUATION_FILE)
    except UnreadableError as error:
        return EvaluationFacts(step=step, problem=f"{EVALUATION_FILE} {error}")
    # Others give this name to files of other shapes; ours have said their format from the first one on.
    if found is None or whole(found.get("format")) is None or not isinstance(found.get("metrics"), dict):
        return None
    beside: dict[str, dict[str, Any]] = {}
    problem = ""
    for name in (CURVES_FILE, WORST_FILE, SUSPECTS_FILE):
        try:
            beside[name] = read_object(folder / name) or {}
        except UnreadableError as error:
            problem = f"{name} {error}"
    facts = evaluation(step, found, beside.get(CURVES_FILE, {}), problem, beside.get(WORST_FILE, {}))
    return replace(facts, suspects=suspect_facts(beside.get(SUSPECTS_FILE, {})))


def evaluation(
    step: str,
    found: Mapping[str, Any],
    curves: Mapping[str, Any],
    problem: str = "",
    worst: Mapping[str, Any] | None = None,
) -> EvaluationFacts:
    """The facts in the content of an evaluation.json, and of the curves.json and worst.json beside it."""
    task, bootstrap, coverage = (object_in(found, name) for name in ("task", "bootstrap", "coverage"))
    class_names = tuple(text(name) for name in list_in(task, "class_names"))
    return EvaluationFacts(
        step=step,
        problem=problem,
        num_samples=whole(found.get("num_samples")),
        kind=text(task.get("kind")),
        class_names=class_names,
        measures=measures(object_in(found, "metrics")),
        undefined=texts(object_in(found, "undefined"), MAX_UNDEFINED),
        notes=tuple(map(text, list_in(found, "notes")[:MAX_UNDEFINED])),
        slices=tuple(_slices(found.get("slices"))),
        num_slices=len(list_in(found, "slices")),
        curves=tuple(plotted(curves)),
        confidence=finite(bootstrap.get("confidence")),
        replicates=whole(bootstrap.get("replicates")),
        resampled_by=text(bootstrap.get("by")),
        rows=whole(coverage.get("rows")),
        counted=whole(coverage.get("counted")),
        collectives=whole(found.get("collectives")),
        settings=_plain(object_in(found, "settings")),
        data=_plain(object_in(found, "data")),
        model=_plain(object_in(found, "model")),
        threshold=threshold_facts(curves),
        worst=tuple(worst_samples(worst or {}, class_names)),
        worst_key=text((worst or {}).get("key")),
    )


def measures(found: Mapping[str, Any]) -> dict[str, Measure]:
    """Metrics by name: objects with a value, or plain numbers. Those without a finite value are left out."""
    measured = (_measure(text(name), entry) for name, entry in list(found.items())[:MAX_METRICS])
    return {one.name: one for one in measured if one is not None and one.name}


def _measure(name: str, entry: object) -> Measure | None:
    given: dict[str, Any] = as_object(entry) or {"value": entry}
    value = finite(given.get("value"))
    if value is None:
        return None
    better = given.get("higher_is_better")
    low, high = finite(given.get("low")), finite(given.get("high"))
    if low is None or high is None or low > high:
        low = high = None
    return Measure(
        name=name,
        value=value,
        bound=max(finite(given.get("bound")) or 0.0, 0.0),
        low=low,
        high=high,
        no_interval=text(given.get("no_interval")),
        unless=text(given.get("unless")),
        higher_is_better=better if isinstance(better, bool) else None,
        advice=text(given.get("advice")),
    )


def _slices(found: object) -> Iterator[Slice]:
    for entry in objects(found, MAX_SLICES):
        yield Slice(
            column=text(entry.get("column")),
            value=text(entry.get("value")),
            num_samples=whole(entry.get("num_samples")),
            measures=measures(object_in(entry, "metrics")),
            undefined=texts(object_in(entry, "undefined"), MAX_UNDEFINED),
        )


def _plain(found: Mapping[str, Any]) -> dict[str, str]:
    """Settings as texts; a list is written with commas."""
    flat = {name: ", ".join(map(text, as_list(value))) or value for name, value in found.items()}
    return texts(flat, 100, MAX_SETTING)


def worst_slices(slices: Iterable[Slice], overall: Measure) -> list[tuple[Slice, Measure]]:
    """The slices in which a metric is defined, those first that lie farthest on the wrong side of the overall value
    (where neither side is wrong: farthest away)."""
    found = [(one, one.measures[overall.name]) for one in slices if overall.name in one.measures]

    def gap(pair: tuple[Slice, Measure]) -> float:
        difference = pair[1].value - overall.value
        if overall.higher_is_better is None:
            return -abs(difference)
        return difference if overall.higher_is_better else -difference

    return sorted(found, key=gap)


def value_words(measure: Measure) -> str:
    """`0.9987 ± 2.1e-06`."""
    return number(measure.value) + (f" ± {number(measure.bound)}" if measure.bound else "")


def interval_words(measure: Measure) -> str:
    """`0.9639 to 0.9917`, `too few samples`; empty where none was asked for."""
    if measure.low is None or measure.high is None:
        return measure.no_interval.partition(":")[0]
    return f"{number(measure.low)} to {number(measure.high)}"


def how(found: EvaluationFacts) -> str:
    """`360 samples, each counted once, in 1 collective; 95 % intervals, exact or from 200 bootstrap replicates.`"""
    parts: list[str] = []
    if found.num_samples is not None:
        counted = ""
        if found.rows is not None and found.counted is not None:
            proven = found.rows == found.counted
            counted = ", each counted once" if proven else f" of {found.rows:,}, {found.counted:,} counted"
        parts.append(count(found.num_samples, "sample") + counted)
    ran = [count(found.collectives, "collective") + " for the metrics"] if found.collectives is not None else []
    if (processes := found.settings.get("processes")) is not None:
        strategy = found.settings.get("strategy", "")
        ran.append(f"{processes} process{'' if processes == '1' else 'es'}{f' ({strategy})' if strategy else ''}")
    if ran:
        parts.append(" on ".join(ran))
    if found.replicates:
        share = f"{found.confidence * 100:.4g} % " if found.confidence is not None else ""
        by = f" by {found.resampled_by}" if found.resampled_by else ""
        parts.append(f"{share}intervals, exact or from {count(found.replicates, 'bootstrap replicate')}{by}")
    if unless := next((one.unless for one in found.measures.values() if one.unless), ""):
        parts.append(f"those of means hold {unless}")
    if mode := found.settings.get("mode"):
        parts.append(f"curves in {mode} mode")
    if recipe := found.model.get("recipe"):
        step = found.model.get("step")
        parts.append(f"model {recipe}{f' of step {step}' if step else ''}")
    return "; ".join(parts) + "." if parts else ""
