"""The verdict on a night's data as files: data_check.json for machines, data_check.md for people, and in model_monitor/
the three files of SageMaker Model Monitor.

(https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-byoc-constraints.html)
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.data.arrow import numpy
from drivetrain.decision.data_bounds import power
from drivetrain.decision.data_check import (
    FAILED,
    NAMES,
    PASSED,
    WARNED,
    Checked,
    Drifted,
    distances,
    most_moved,
    replay,
)
from drivetrain.decision.formatting import count
from drivetrain.decision.model_monitor import constraints, finite, statistics

if TYPE_CHECKING:
    from drivetrain.data.profile import Profile

DATA_CHECK_FILE, DATA_CHECK_PAGE, MODEL_MONITOR = "data_check.json", "data_check.md", "model_monitor"
FORMAT = 1
MAX_COLUMNS, MAX_PICTURES, MAX_NIGHTS = 60, 12, 120
_SHIFT = 6.0


@dataclass(frozen=True, kw_only=True)
class About:
    """The place of a verdict."""

    group: str
    registry: str
    quarantined_rows: int = 0


def write(checked: Checked, profile: Profile, folder: Path, about: About) -> None:
    """Write all files into a folder, which is made where it is missing."""
    monitor = folder / MODEL_MONITOR
    monitor.mkdir(parents=True, exist_ok=True)
    found = record(checked, about)
    (folder / DATA_CHECK_PAGE).write_text(_page(found), encoding="utf-8")
    for name, content in (
        ("statistics", statistics(profile)),
        ("constraints", constraints(profile)),
        ("constraint_violations", {"violations": list(_violations(checked))}),
    ):
        _write(monitor / f"{name}.json", content)
    _write(folder / DATA_CHECK_FILE, found)


def record(checked: Checked, about: About) -> dict[str, Any]:
    """The content of data_check.json (docs/data_checks.md describes it)."""
    night, alarms = checked.night, {alarm.column: alarm for alarm in checked.alarms}
    return {
        "format": FORMAT,
        "verdict": checked.verdict,
        "why": list(checked.why),
        "group": about.group,
        "registry": about.registry,
        "night": night.day.isoformat(),
        "rows": night.rows,
        "content_hash": night.content_hash,
        "nights": len(checked.before.days),
        "quarantined_rows": about.quarantined_rows,
        "alarms": [
            {
                "column": name,
                "verdict": FAILED if name in checked.failed else WARNED,
                "sentence": sentence,
                "since": alarms[name].since.isoformat() if name in alarms else night.day.isoformat(),
            }
            for name, sentence in checked.warned.items()
        ],
        "map": _map(checked),
        "statistics": _judged(checked),
        "drift": None if checked.drifted is None else drift_record(checked.drifted),
        "distributions": [] if checked.drifted is None else list(distributions(checked.drifted, checked.warned)),
        "method": list(_method(checked)),
    }


def _map(checked: Checked) -> dict[str, Any]:
    """The columns that lie furthest away tonight, by night."""
    np = numpy()
    apart = distances(checked)[-MAX_NIGHTS:]
    order = np.argsort(-np.nan_to_num(apart[-1], nan=-1.0), kind="stable")[:MAX_COLUMNS]
    days = [*checked.before.days, checked.night.day][-MAX_NIGHTS:]
    return {
        "days": [day.isoformat() for day in days],
        "columns": [
            {
                "column": (name := checked.before.columns[place] or "rows"),
                "verdict": FAILED if name in checked.failed else WARNED if name in checked.warned else PASSED,
                "distances": [finite(round(value, 2)) for value in apart[:, place].tolist()],
            }
            for place in map(int, order)
            if not math.isnan(apart[-1, place])
        ],
    }


def _judged(checked: Checked) -> dict[str, list[Any]]:
    """Every number that was judged, as the columns of a table."""
    np, verdicts = numpy(), checked.verdicts
    at = np.nonzero(~np.isnan(verdicts.sd))
    verdict = np.where(verdicts.failed, FAILED, np.where(verdicts.warned, WARNED, PASSED))
    found: dict[str, list[Any]] = {
        "column": [checked.before.columns[column] for column in at[1].tolist()],
        "statistic": [NAMES[statistic] for statistic in at[0].tolist()],
        "verdict": verdict[at].tolist(),
    }
    for name in ("value", "expected", "low", "high", "least", "most", "distance"):
        found[name] = list(map(finite, getattr(verdicts, name)[at].tolist()))
    return found


def drift_record(drifted: Drifted) -> dict[str, Any]:
    """Every size that was measured, as the columns of a table."""
    return {
        "version": drifted.version,
        "rows": drifted.rows,
        "columns": list(drifted.sides.columns),
        **{
            measure: {end: list(map(finite, getattr(effect, end).tolist())) for end in ("estimate", "low", "high")}
            for measure, effect in drifted.effects.items()
        },
        "missing": list(drifted.sides.missing),
        "added": list(drifted.sides.added),
    }


def distributions(drifted: Drifted, warned: Collection[str]) -> Iterator[dict[str, Any]]:
    """The values of the columns with an alarm first, then of those that moved most."""
    sides = drifted.sides
    order = sorted(most_moved(drifted), key=lambda place: sides.columns[place] not in warned)
    for place in order[:MAX_PICTURES]:
        name = sides.columns[place]
        if name not in sides.bins:
            continue
        width = len(sides.bins[name])
        shares = {
            which: side.counts[place, :width] / max(float(side.counts[place].sum()), 1.0)
            for which, side in (("tonight", sides.batch), ("other", sides.baseline))
        }
        yield {
            "column": name,
            "names": list(sides.bins[name]),
            "other_name": f"version {drifted.version}",
            **{which: [round(value, 6) for value in values.tolist()] for which, values in shares.items()},
        }


def _method(checked: Checked) -> Iterator[str]:
    np, settings, verdicts = numpy(), checked.settings, checked.verdicts
    judged = int((~np.isnan(verdicts.sd)).sum())
    if judged:
        yield (
            f"{count(judged, 'statistic')} of {count(len(checked.before.columns), 'column')} have bounds by Student's "
            f"t, so that {settings.warnings_a_year:g} false warnings a year are expected of all together, for "
            "nights that vary independently and like normal numbers."
        )
        chance = power(verdicts, _SHIFT)
        yield (
            f"A statistic that moves by {_SHIFT:g} standard deviations of its nights is seen the first night with a "
            f"probability of {100 * float(np.nanmean(chance)):.0f} %."
        )
        yield from filter(None, [replay(checked)])
    if checked.drifted:
        yield (
            f"Against the training set of version {checked.drifted.version} ({checked.drifted.rows:,} rows) "
            "differences have intervals that hold for all columns together with 95 %. A gate is passed where the whole "
            "interval passes it."
        )


def _page(found: dict[str, Any]) -> str:
    first, *rest = found["why"] or [""]
    lines = [f"# Data {found['verdict']}: {first}", "", f"Night {found['night']}, {found['rows']:,} rows, "
             f"{count(found['nights'], 'accepted night')} before it."]  # fmt: skip
    lines += ["", *(f"- {line}" for line in rest)] if rest else []
    return "\n".join([*lines, "", *found["method"], ""])


def _violations(checked: Checked) -> Iterator[dict[str, Any]]:
    sides = checked.drifted.sides if checked.drifted else None
    gone = {name for name, is_gone in zip(checked.before.columns, checked.verdicts.gone, strict=True) if is_gone}
    for name, sentence in checked.warned.items():
        if name in gone or (sides and name in sides.missing):
            kind = "missing_column_check"
        elif sentence.startswith("share of empty cells"):
            kind = "completeness_check"
        else:
            kind = "baseline_drift_check"
        yield {"feature_name": name, "constraint_check_type": kind, "description": sentence}
    for name in sides.added if sides else ():
        yield {
            "feature_name": name,
            "constraint_check_type": "extra_column_check",
            "description": f"{name} is not in the training set",
        }


def _write(path: Path, content: Any) -> None:
    # (With an indent Python's own encoder writes: of 1,000 columns it takes ten times as long.)
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
