"""Judge how sure the difference of two reports in a metric is, from their rows or replicates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from drivetrain.data.arrow import numpy
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.intervals import Estimate, of_mean, of_replicates, of_share
from drivetrain.decision.row_forms import Average, Mean, Ranking, Share
from drivetrain.decision.rows import Paired, Rows, WonLost, paired, won_lost

FEWEST_ROWS = 200
"""A mean of losses or errors needs so many rows; so does what rows say nothing of,"""
FEWEST_OUTCOMES = 10
"""a share or a class so many rows that it is measured on, and a mean or a ranking so many on which the models differ: a
ranking of either side."""
FEWEST_KEYS = 15
"""The least number of keys of equal size for an interval, if rows share keys."""


class Evidence(NamedTuple):
    """An estimate, or a clause that says why it is missing: "" if there is no data for it."""

    estimate: Estimate | None
    why_none: str = ""
    counts: WonLost | None = None
    """Rows on which the candidate alone is right, and on which the champion alone is, for a share of the same rows."""


def evidence(candidate: Evaluation, champion: Evaluation, metric: str, name: str) -> Evidence:
    """Collect the evidence on the difference of a metric on a slice, "" for all rows."""
    ours, theirs = candidate.evidence, champion.evidence
    if ours is not None and theirs is not None and metric in ours.forms and metric in theirs.forms:
        return _by_rows(ours, theirs, metric, name)
    group, other = candidate.groups[name], champion.groups[name]
    drawn, drawn_too = group.replicates.get(metric), other.replicates.get(metric)
    if drawn is None or drawn_too is None:
        return Evidence(None)
    units = group.num_samples if group.num_keys is None else group.num_keys
    if group.num_keys is not None and units < FEWEST_KEYS:
        return Evidence(None, _few("keys", units, FEWEST_KEYS))
    if group.num_samples < FEWEST_ROWS:
        return Evidence(None, _few("samples", group.num_samples, FEWEST_ROWS))
    value = group.metrics[metric].value - other.metrics[metric].value
    found = of_replicates(value, drawn, drawn_too, units)
    return Evidence(found, "" if found else "too few replicates define it, or they do not vary")


def _by_rows(ours: Rows, theirs: Rows, metric: str, name: str) -> Evidence:
    units = paired(ours, theirs, metric, name, by_keys=ours.keyed)
    if units is None:
        return Evidence(None, "the rows do not define it")
    rows = int(units.sizes.sum())
    shared = len(units.sizes) < rows
    keys = rows**2 / float((units.sizes.astype(float) ** 2).sum()) if rows else 0.0
    counts = won_lost(ours, theirs, metric, name)
    if shared and keys < FEWEST_KEYS:
        return Evidence(None, _few("keys", keys, FEWEST_KEYS), counts)
    form = ours.forms[metric]
    fewest = FEWEST_ROWS if isinstance(form, Mean) else FEWEST_OUTCOMES
    if rows < fewest:
        return Evidence(None, _few("samples", rows, fewest), counts)
    if counts is not None and not shared:
        return Evidence(of_share(*counts), "", counts)
    most = 0.0
    if isinstance(form, Mean | Ranking):
        if few := _few_differ(ours, theirs, metric, name):
            return Evidence(None, few)
    else:
        most = _most(ours, theirs, metric, name, units, counts)
    value = float(units.differences.mean())
    found = of_mean(value, units.differences, most, keys - 1 if shared else None)
    if found is not None and isinstance(form, Mean):
        found = replace(found, of_errors=True)
    return Evidence(found, "" if found else "too few samples: all are right, or all are wrong", counts)


def _few_differ(ours: Rows, theirs: Rows, metric: str, name: str) -> str:
    """Why rows say too little of a mean or a ranking; "" where they say enough."""
    np = numpy()
    inside, positive = ours.members(name), ours.positive(metric, name)
    sides = [inside] if positive is None else [inside & positive, inside & ~positive]
    differ = 0
    for side in sides:
        there = int(side.sum())
        if there < FEWEST_OUTCOMES:
            return _few("samples on one side", there, FEWEST_OUTCOMES)
        own: list[Any] = []
        for rows in (ours, theirs):
            values = rows.values(metric, name)
            assert values is not None, "they are paired"
            # Where a row lies among those of the other side; of a mean, its own value.
            whole = float(values[inside].mean())
            own.append(whole + (values[side] - whole) * (there / int(inside.sum())))
        differ += int((np.abs(own[0] - own[1]) > 1e-12 * np.abs(own[0])).sum())
    return "" if differ >= FEWEST_OUTCOMES else _few("samples on which the models differ", differ, FEWEST_OUTCOMES)


def _most(ours: Rows, theirs: Rows, metric: str, name: str, units: Paired, counts: WonLost | None) -> float:
    """The most that one unit can change a share, or an average of shares: a key changes as many rows as it has."""
    np = numpy()
    inside = int(ours.members(name).sum())
    if counts is not None:
        widest = inside / counts.of
    else:
        both = [said for rows in (ours, theirs) if (said := rows.said(metric, name)) is not None]
        widest = max(float(np.ptp(said.changes)) for said in both)
        form = ours.forms[metric]
        if isinstance(form, Average) and all(isinstance(part, Share | Ranking) for part in form.parts):
            # One more row of a small class, all of whose rows may be right so far.
            parts = [part for said in both for part in said.rests]
            widest = max(widest, *(inside * part.weight / max(len(part.rows), 1) for part in parts))
    usual = math.sqrt(float((units.sizes.astype(float) ** 2).mean()))
    return widest * usual * len(units.sizes) / inside


def _few(things: str, there: float, needed: int) -> str:
    return f"too few {things}: {math.floor(there)}, and {needed} are needed"
