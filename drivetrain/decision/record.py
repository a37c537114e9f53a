"""The decision on file: decision.json for machines, decision.md for people."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drivetrain.decision.absolute_errors import quantiles_of
from drivetrain.decision.deciding import Champion, Decision
from drivetrain.decision.differences import Difference, Interval
from drivetrain.decision.evaluation import Evaluation, Group
from drivetrain.decision.limits import Floor, Regression
from drivetrain.decision.page import About, page
from drivetrain.decision.standing import standing_record
from drivetrain.registry.report_hash import DECISION_HASH, hash_beside

DECISION_FILE = "decision.json"
DECISION_PAGE = "decision.md"
FORMAT = 1
_DIRECTION = "higher_is_better"


def write(decision: Decision, folder: Path, about: About) -> None:
    """Write both files into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record(decision, about), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / DECISION_PAGE).write_text(page(decision, about), encoding="utf-8")
    (folder / DECISION_FILE).write_text(text, encoding="utf-8")


def record(decision: Decision, about: About) -> dict[str, Any]:
    """The content of decision.json."""
    champion, candidate, policy = decision.champion, decision.candidate, decision.policy
    primary = candidate.whole.metrics[policy.metric]
    found: dict[str, Any] = {
        "format": FORMAT,
        "verdict": decision.verdict,
        "why": list(decision.why),
        "group": about.group,
        "registry": about.registry,
        "candidate": {"content_hash": about.candidate_hash, "metrics": _metrics(candidate.whole)},
        "champion": None
        if champion is None
        else {
            "version": champion.version,
            "content_hash": champion.content_hash,
            "metrics": {} if champion.evaluation is None else _metrics(champion.evaluation.whole),
        },
        "metric": policy.metric,
        "higher_is_better": primary.higher_is_better,
        "rule": {
            "name": policy.rule,
            "margin": policy.margin,
            "confidence": policy.confidence,
            "horizon": policy.horizon,
            "nights": policy.nights,
            "lines": policy.lines,
            "level": policy.level if decision.standing is None else decision.standing.level,
            "budget_rule": policy.budget_rule,
            "margin_from": policy.margin_from,
        },
        "comparison": decision.comparison,
        "line": standing_record(decision.standing),
        "difference": None if decision.difference is None else _difference(decision.difference),
        "anchor": None if decision.anchor is None else _anchor(decision.anchor, decision.anchor_difference),
        "floors": [_on_slice(floor) for floor in decision.floors],
        "regressions": [_regression(loss) for loss in decision.regressions],
        "differences": [
            {"metric": each.metric, "slice": each.slice or None, **_difference(each)} for each in decision.differences
        ],
        **({"absolute_error": errors} if (errors := [asdict(one) for one in quantiles_of(decision)]) else {}),
        "data": {
            "content_hash": candidate.data_hash,
            "rows": candidate.rows,
            "slices": [{"name": name, "samples": each.num_samples} for name, each in candidate.groups.items() if name],
        },
        "report": candidate.report_hash,
        "seen": list(candidate.seen),
        "bootstrap": _bootstrap(candidate),
        "already_registered": None if decision.registered is None else decision.registered.version,
    }
    return {**found, DECISION_HASH: hash_beside(found, DECISION_HASH)}


def _on_slice(limit: Floor | Regression) -> dict[str, Any]:
    return {**asdict(limit), "slice": limit.slice or None}


def _regression(loss: Regression) -> dict[str, Any]:
    return {name: value for name, value in _on_slice(loss).items() if name != "untested" or value}


def _metrics(group: Group) -> dict[str, dict[str, Any]]:
    """In the words of evaluation.json."""
    return {
        name: {field: value for field, value in asdict(each).items() if value is not None or field == _DIRECTION}
        for name, each in group.metrics.items()
    }


def _anchor(anchor: Champion, difference: Difference | None) -> dict[str, Any]:
    """The best approved version, where it is not the champion."""
    return {
        "version": anchor.version,
        "content_hash": anchor.content_hash,
        "difference": None if difference is None else _difference(difference),
    }


def _difference(difference: Difference) -> dict[str, Any]:
    interval = difference.interval
    return {
        "value": difference.value,
        "bound": difference.bound,
        **(dict.fromkeys(Interval._fields) if interval is None else interval._asdict()),
        **({"unless": difference.unless} if difference.unless else {}),
        **({"no_interval": difference.why_none} if difference.why_none else {}),
        **({} if difference.counts is None else {"counts": difference.counts._asdict()}),
    }


def _bootstrap(candidate: Evaluation) -> dict[str, Any] | None:
    drawn = candidate.resampling
    return None if drawn is None else {"replicates": drawn.replicates, "seed": drawn.seed, "by": drawn.by}
