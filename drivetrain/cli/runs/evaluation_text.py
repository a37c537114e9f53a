"""Evaluations and decisions, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drivetrain.base.formatting import count, number, printable
from drivetrain.telling.content.decision import DecisionFacts, sentence
from drivetrain.telling.content.evaluation import (
    EvaluationFacts,
    Measure,
    how,
    interval_words,
    value_words,
    worst_slices,
)
from drivetrain.telling.content.findings import natural
from drivetrain.telling.terminal import paint, table

MAX_SHOWN = 4
MAX_ROWS = 60
MAX_WHY = 6
_STYLES = {"good": "Succeeded", "warn": "Interrupted", "bad": "Failed", "reused": "Cached"}


def evaluation_lines(found: EvaluationFacts) -> list[str]:
    """The main metrics with their intervals, and the slice that is farthest behind: at the end of a run."""
    step = paint(printable(found.step), "bold")
    if found.problem and not found.measures:
        return [f"{step}: cannot be shown, its {found.problem}"]
    overall = found.overall()
    shown = ", ".join(with_interval(one) for one in overall[:MAX_SHOWN])
    more = f", {len(overall) - MAX_SHOWN} more" if len(overall) > MAX_SHOWN else ""
    samples = "" if found.num_samples is None else f" on {count(found.num_samples, 'sample')}"
    lines = [f"{step}: {shown or 'nothing measured'}{more}{samples}"]
    lines += [f"  {printable(one.name)}: {printable(one.advice)}" for one in overall[:MAX_SHOWN] if one.advice]
    ranked = worst_slices(found.slices, overall[0]) if overall else []
    if ranked:
        one, measure = ranked[0]
        samples = "" if one.num_samples is None else f", {count(one.num_samples, 'sample')}"
        lines.append(f"  worst of {count(len(ranked), 'slice')}: {printable(f'{one.column}={one.value}')} "
                     f"{with_interval(measure)}{samples}")  # fmt: skip
    return lines


def decision_lines(found: DecisionFacts) -> list[str]:
    """The verdict with its reasons; without reasons, what can be said of it in a sentence."""
    said = found.title if found.why else sentence(found)
    told = paint(printable(said), _STYLES.get(found.tone, ""))
    more = [f"  and {len(found.why) - MAX_WHY} more reasons"] if len(found.why) > MAX_WHY else []
    return [
        f"{paint(printable(found.step), 'bold')}: {told}" if found.step else told,
        *(f"  {printable(line)}" for line in found.why[:MAX_WHY]),
        *more,
    ]


def with_interval(measure: Measure) -> str:
    """`accuracy 0.9806 (0.9639 to 0.9917)`."""
    between = interval_words(measure)
    return f"{printable(measure.name)} {value_words(measure)}" + (f" ({between})" if between else "")


def evaluation_text(found: EvaluationFacts) -> str:
    """All of an evaluation: metrics, classes, slices, what is not defined."""
    if found.problem and not found.measures:
        return f"{printable(found.step)}: cannot be shown, its {found.problem}"
    blocks = [printable(how(found)), metrics_table(found.overall(), found.confidence)]
    blocks += [block for block in (_classes(found), _slices(found)) if block]
    if found.undefined:
        entries = list(found.undefined.items())
        lines = [f"  {printable(name)}: {printable(why)}" for name, why in entries[:MAX_ROWS]]
        more = [f"  and {len(entries) - MAX_ROWS:,} more"] if len(entries) > MAX_ROWS else []
        blocks.append("\n".join([paint("not defined on these samples", "bold"), *lines, *more]))
    return "\n\n".join(block for block in blocks if block)


def metrics_table(found: Sequence[Measure], confidence: float | None = None) -> str:
    """A row a metric; columns that would be empty are left out."""
    if not found:
        return ""
    share = "interval" if confidence is None else f"{confidence * 100:.4g} % interval"
    columns = [
        ("metric", [one.name for one in found], "bold"),
        ("value", [value_words(one) for one in found], ""),
        (share, [interval_words(one) for one in found], ""),
        ("better", ["" if one.higher_is_better is None else "higher" if one.higher_is_better else "lower"
                    for one in found], "dim"),
        ("advice", [one.advice for one in found], ""),
    ]  # fmt: skip
    kept = [column for column in columns if any(column[1])]
    rows = [list(row) for row in zip(*(cells for _, cells, _ in kept), strict=True)]
    return table([name for name, _, _ in kept], rows, styles=[[style for _, _, style in kept]] * len(rows))


def _classes(found: EvaluationFacts) -> str:
    """A row a class, a column a metric."""
    by_class = found.by_class()
    names = list(by_class)[:8]
    classes = sorted({each for name in names for each in by_class[name]}, key=natural)
    rows = [
        [
            found.class_name(each),
            *(value_words(one) if one is not None else "–" for one in (by_class[name].get(each) for name in names)),
        ]
        for each in classes[:MAX_ROWS]
    ]
    return _with_rest(table(["class", *names], rows), len(classes)) if rows else ""


def _slices(found: EvaluationFacts) -> str:
    """A row a slice with the first metrics, the worst first."""
    measured = {name for one in found.slices for name in one.measures}
    overall = [one for one in found.overall() if one.name in measured][:MAX_SHOWN]
    if not overall:
        return ""
    ranked = [one for one, _ in worst_slices(found.slices, overall[0])]
    ranked += [one for one in found.slices if overall[0].name not in one.measures]
    rows = [
        [
            f"{one.column}={one.value}",
            "–" if one.num_samples is None else f"{one.num_samples:,}",
            *(
                (value_words(measure) + (f" ({interval_words(measure)})" if measure.interval else ""))
                if (measure := one.measures.get(whole.name)) is not None
                else "–"
                for whole in overall
            ),
        ]
        for one in ranked[:MAX_ROWS]
    ]
    return _with_rest(table(["slice", "samples", *(one.name for one in overall)], rows), found.num_slices)


def _with_rest(text: str, there: int) -> str:
    return text + (f"\n… {there - MAX_ROWS:,} more (--json has them)" if there > MAX_ROWS else "")


def per_class_lines(found: Mapping[str, float]) -> Iterable[str]:
    """`f1_class_*: 0.9459 (class 6) to 0.9983 (class 3)` for each metric that there is of every class."""
    groups: dict[str, list[tuple[float, str]]] = {}
    for name, value in found.items():
        measure, cut, each = name.partition("_class_")
        if cut:
            groups.setdefault(measure, []).append((value, each))
    for measure, values in groups.items():
        (low, worst), (high, best) = min(values), max(values)
        yield (
            f"{measure} of {count(len(values), 'class', 'classes')}: {number(low)} ({worst}) to {number(high)} ({best})"
        )


def as_json(found: EvaluationFacts | DecisionFacts) -> dict[str, Any]:
    """The facts for scripts, without the points of curves."""
    from dataclasses import asdict, replace

    return asdict(replace(found, curves=()) if isinstance(found, EvaluationFacts) else found)
