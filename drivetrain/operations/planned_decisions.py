"""Forecast what the comparisons of a pipeline will be able to show, before anything is trained.

    for line in notes(pipeline, folder, "sagemaker:eu-west-1"):
        print(line)

How many rows a slice has is known of a prepared test set on this machine, or from the decision on the newest registered
version; where neither is there, that is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from drivetrain.base.errors import InputError, UserError
from drivetrain.data.manifest import MANIFEST_FILE, Manifest
from drivetrain.decision.evaluation import ALL
from drivetrain.decision.formatting import count, number, percent, place
from drivetrain.decision.nights import SPENT
from drivetrain.decision.noninferiority import CHANGED, could_rule_out, passes
from drivetrain.decision.policy import Limit, Policy
from drivetrain.registry.registry import AbsentError, open_registry
from drivetrain.spec.resources import COMPARE
from drivetrain.spec.steps import JobStep, flatten

if TYPE_CHECKING:
    from drivetrain.spec.pipeline import Pipeline


POLICY = ("metric", "rule", "margin", "confidence", "horizon", "budgets", "budget_rule", "nights", "lines")
_MOST = 5


class TestRows(NamedTuple):
    """How many rows the whole test set ("") and its slices have, and from where that is known."""

    rows: Mapping[str, int]
    source: str
    shown: Mapping[tuple[str, str], tuple[float, int | None]]
    """Metric and slice -> the loss that the last decision says can be ruled out, and by how many rows."""


def notes(pipeline: Pipeline, folder: Path, registry: str | None, evidence: str = "") -> list[str]:
    """The notes to show before a run: how often the test rows find a better model, which loss each budget's rows can
    rule out, and which budgets are smaller than that.

    Args:
        folder: from which relative paths of the pipeline count.
        registry: KIND:LOCATION of the registry that `auto` stands for; None without one.
        evidence: where it is kept what the rows of each night say.
    """
    found: list[str] = []
    steps = flatten(pipeline.steps)
    # The columns by which an evaluation slices, as far as they are known now.
    sliced = [step.parameters["slices"] for step in steps if isinstance(step, JobStep) and "slices" in step.parameters]
    columns = {each.strip() for text in sliced if isinstance(text, str) for each in text.split(",")}
    for step in steps:
        if isinstance(step, JobStep) and step.program.target == COMPARE:
            found += [f"{step.name}: {line}" for line in _of_step(step, columns, folder, registry, evidence)]
    return found


def _of_step(step: JobStep, columns: set[str], folder: Path, registry: str | None, evidence: str) -> Iterator[str]:
    given = {name: step.parameters[name] for name in POLICY if name in step.parameters}
    if not all(isinstance(value, str | int | float) for value in given.values()):
        yield "its conditions are known when it is started, so what its rows can show is not known now."
        return
    try:
        conditions = Policy(**cast("dict[str, Any]", given))
        known = _local_rows(step, columns, folder) or _registered_rows(step, registry)
    except (InputError, UserError) as error:
        if given.get("budgets", "{}") != "{}":
            yield f"which losses its slices can show is not known: {error}"
        return
    if evidence and conditions.pools:
        yield f"what the rows of each night say is kept in {evidence}."
    if known is not None:
        yield from _found(conditions, known)
    if not conditions.budget_limits:
        return
    if known is None:
        yield (
            "which losses its slices can show is not known: the test set is not on this machine, and no version with "
            "a decision is registered yet."
        )
        return
    yield from _shown(conditions, known)


def _found(conditions: Policy, known: TestRows) -> Iterator[str]:
    """How often so many rows find a better model."""
    rows = known.rows.get(ALL)
    if rows is None or rows < 1 or conditions.rule != "better" or not _is_share(conditions.metric):
        return
    level = level_within(conditions)
    within = f"within {NIGHTS} nights" if conditions.pools else "by a comparison"
    enough = rows_that_find(level)
    more = "" if rows >= enough else f"; {enough:,} rows find it in 90 %"
    yield (
        f"{count(rows, 'test row')} ({known.source}) find a gain of two points of {conditions.metric} (5 % of the rows "
        f"won, 3 % lost) {within} in {percent(round(share_found(rows, level), 2))} of cases{more}."
    )


def _shown(conditions: Policy, known: TestRows) -> Iterator[str]:
    level = 1 - conditions.confidence
    told: list[str] = []
    unknown: list[str] = []
    all_pass, few = 1.0, 0
    for limit in conditions.budget_limits:
        for name in _slices(limit, known):
            where = place(limit.metric, name)
            could, rows = known.shown.get((limit.metric, name), (None, None))
            if _is_share(limit.metric):
                rows = known.rows.get(name)
            if could is None and rows is not None:
                could = could_rule_out(rows, level)
            if could is None:
                unknown.append(where)
                continue
            all_pass *= passes(limit.amount, could, level)
            few += could > limit.amount
            of = "" if rows is None else f" ({count(rows, 'row')})"
            told.append(f"{where}{of} {number(could)}, budget {number(limit.amount)}")
    more = f"; and {len(told) - _MOST} more" if len(told) > _MOST else ""
    if told:
        yield f"losses that can be ruled out on the test set ({known.source}): {'; '.join(told[:_MOST])}{more}."
    every = len(told) + len(unknown)
    if few and conditions.budget_rule == "proven":
        yield (
            f"warning: {count(few, 'budget')} of {every} can hardly be proven. "
            f"{'Of those that are known all' if unknown else 'All'} hold in "
            f"{percent(round(all_pass, 3))} of cases for two models that are equally good (and differ on "
            f"{percent(CHANGED)} of the rows). Give more test rows, larger budgets, or budgets on fewer slices."
        )
    elif few:
        yield (
            f"warning: {count(few, 'budget')} of {every} may be exceeded unnoticed: so few rows show only greater "
            "losses. Give more test rows or larger budgets; budget_rule='proven' keeps the champion then."
        )
    if unknown:
        more = ", ..." if unknown[_MOST:] else ""
        yield f"what can be ruled out is not known for {', '.join(unknown[:_MOST])}{more}."


def _is_share(metric: str) -> bool:
    """True if a metric is a share of all rows of a slice. For other metrics the number of rows that count is
    unknown."""
    return metric == "accuracy" or metric.startswith("top_")


def _slices(limit: Limit, known: TestRows) -> list[str]:
    if "*" not in limit.slice:
        return [limit.slice]
    column = limit.slice.removesuffix("*")
    return [name for name in known.rows if name != ALL and name.startswith(column)] or [limit.slice]


def _local_rows(step: JobStep, columns: set[str], folder: Path) -> TestRows | None:
    """Read the numbers of rows from a prepared folder on this machine; None without one."""
    given = step.inputs.get("data")
    if not isinstance(given, str) or ("://" in given and not given.startswith("file://")):
        return None
    there = folder / (unquote(urlsplit(given).path) if given.startswith("file://") else given)
    if not (there / MANIFEST_FILE).is_file():
        return None
    manifest = Manifest.read(there, checksums=False)
    rows = {ALL: manifest.rows}
    for column, statistics in manifest.statistics.items():
        for each in (statistics.get("values") or ()) if column in columns else ():
            rows[f"{column}={each['value']}"] = int(each["rows"])
    return TestRows(rows, given, {})


def _registered_rows(step: JobStep, registry: str | None) -> TestRows | None:
    """Read the numbers of rows from the decision on the newest registered version; None without one."""
    named, group = step.parameters.get("registry", "auto"), step.parameters.get("group")
    url = registry if named == "auto" else named
    if not isinstance(url, str) or not isinstance(group, str):
        return None
    try:
        version = open_registry(url).version(group)
    except AbsentError:
        return None
    decision: Mapping[str, Any] = version.decision or {}
    data = decision.get("data")
    if not isinstance(data, Mapping) or "slices" not in data:
        return None
    said = cast("Mapping[str, Any]", data)
    shown = {
        (str(each["metric"]), str(each["slice"] or ALL)): (float(each["could_rule_out"]), each.get("samples"))
        for each in decision.get("regressions", ())
        if each.get("could_rule_out") is not None and math.isfinite(each["could_rule_out"])
    }
    rows = {ALL: int(said["rows"]), **{str(each["name"]): int(each["samples"]) for each in said["slices"]}}
    return TestRows(rows, f"that of version {version.version} of {group}", shown)


# How often the comparisons find a model that is truly better.
WON, LOST = 0.05, 0.03
"""The shares of rows that the better model of the example has right alone, and wrong alone: two points of accuracy."""
NIGHTS = 14
_SURE = 0.9


def level_within(policy: Policy) -> float:
    """The error rate that a candidate's line, or a single comparison, has spent after `NIGHTS` nights."""
    if not policy.pools:
        return policy.level

    return (1 - policy.confidence) / policy.lines * SPENT[NIGHTS]


def share_found(rows: int, level: float) -> float:
    """How often the better model is found where each night has the same rows, and the same errors on them: the worst
    case. New rows, and trainings that vary, find more."""
    return NormalDist().cdf((WON - LOST) / _deviation(rows) - NormalDist().inv_cdf(1 - level))


def rows_that_find(level: float) -> int:
    """The rows that find it in nine of ten cases."""
    reach = NormalDist().inv_cdf(_SURE) + NormalDist().inv_cdf(1 - level)
    return math.ceil((reach * _deviation(1) / (WON - LOST)) ** 2)


def _deviation(rows: int) -> float:
    return math.sqrt((WON + LOST - (WON - LOST) ** 2) / rows)
