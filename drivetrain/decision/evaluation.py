"""Read the files of a report folder that a decision needs: evaluation.json and two others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError
from drivetrain.decision.rows import ROWS_FILE, Rows, check_shares, read_rows
from drivetrain.decision.seen import seen
from drivetrain.registry.report_hash import EVALUATION_FORMAT, checked_report

EVALUATION_FILE = "evaluation.json"
ALL = ""
"""The name of the whole test set among the groups."""

Replicates = tuple[float | None, ...]
"""A metric's value in each bootstrap replicate; None where the replicate does not define it."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A metric's value, how far at most the true one lies from it, its interval, and which way is better."""

    value: float
    bound: float = 0.0
    low: float | None = None
    high: float | None = None
    higher_is_better: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Group:
    """The whole test set, or a slice of it."""

    num_samples: int
    metrics: Mapping[str, Measured]
    undefined: Mapping[str, str] = field(default_factory=dict[str, str])
    """Metric -> why its samples do not define it."""
    replicates: Mapping[str, Replicates] = field(default_factory=dict[str, Replicates])
    bounds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Metric -> how far at most its value in any replicate may lie from the true one; 0 where it is not named."""
    num_keys: float | None = None
    """As how many keys of equal size the samples vary, where they share keys."""


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How the replicates were drawn. With equal ones, on equal data, evaluations are paired replicate by replicate."""

    replicates: int
    seed: int
    by: str
    """The key by which a sample is drawn: a column, or `row`."""
    confidence: float = 0.95
    """The confidence of the evaluation's own intervals."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A model's numbers on a test set. `groups` holds the whole under "" and slices under `column=value`."""

    source: str
    """The place where it was read, for messages."""
    groups: Mapping[str, Group]
    data_hash: str
    rows: int
    key: str | None
    model_hash: str
    settings: Mapping[str, Any]
    resampling: Resampling | None
    evidence: Rows | None = field(default=None, compare=False, repr=False)
    """The evidence of each row on each metric; None without a bootstrap, and where an earlier version wrote the
    report."""
    report_hash: str = ""
    """The hash of all that the report says (drivetrain/registry/report_hash.py)."""
    loss: str = ""
    """The name of the loss of answers in a table; "" if the model was asked, whose loss is that of its recipe."""
    seen: tuple[str, ...] = ()
    """The model's knowledge of the test set from its training, a sentence each."""

    @property
    def whole(self) -> Group:
        return self.groups[ALL]


def read_evaluation(folder: Path) -> Evaluation:
    """The evaluation in a report folder.

    Raises:
        InputError: it is missing or damaged, or this version does not know its format.
    """
    file = folder / EVALUATION_FILE if folder.is_dir() else folder
    found = _read(file, "Give the output `report` of evaluate.")
    if "format" not in found:
        raise InputError(
            f"{file} is no report of drivetrain's evaluate: it has no format. Give the output `report` of evaluate; "
            "for numbers of your own use when(scores.metric('accuracy') >= 0.9)."
        )
    if found["format"] != EVALUATION_FORMAT:
        raise InputError(
            f"{file} has format {found['format']!r}; this version of drivetrain decides on format "
            f"{EVALUATION_FORMAT}. Evaluate the model again."
        )
    try:
        return _evaluation(file, found)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{file} is no evaluation: {reason}. Evaluate again.") from None


def _evaluation(file: Path, found: Mapping[str, Any]) -> Evaluation:
    data, model, bootstrap = found["data"], found["model"], found.get("bootstrap")
    report_hash = checked_report(found, file, *(() if bootstrap is None else (str(bootstrap["file"]), ROWS_FILE)))
    resampling: Resampling | None = None
    drawn: dict[str, _Drawn] = {}
    if bootstrap is not None:
        resampling = Resampling(
            replicates=int(bootstrap["replicates"]),
            seed=int(bootstrap["seed"]),
            by=str(bootstrap.get("by", "row")),
            confidence=_finite(bootstrap.get("confidence", 0.95)),
        )
        drawn = _drawn(file.parent / str(bootstrap["file"]), resampling.replicates)
    groups = {ALL: _group(found, drawn.get(ALL, _NONE))}
    for entry in found.get("slices", ()):
        name = f"{entry['column']}={entry['value']}"
        groups[name] = _group(entry, drawn.get(name, _NONE))
    for group in groups.values() if any(one.bounds is None for one in drawn.values()) else ():
        binned = [metric for metric, one in group.metrics.items() if one.bound]
        if binned:
            raise InputError(
                f"{file.parent} says {binned[0]} to within {group.metrics[binned[0]].bound:g}, but not how exact its "
                "bootstrap replicates are: an earlier version of drivetrain wrote it. Evaluate the model again."
            )
    evidence = read_rows(file.parent)
    if evidence is not None:
        check_shares(evidence, {name: each.value for name, each in groups[ALL].metrics.items()})
    return Evaluation(
        source=str(file),
        groups=groups,
        data_hash=str(data.get("content_hash") or ""),
        rows=int(data["rows"]),
        key=data.get("key"),
        model_hash=str(model.get("content_hash") or ""),
        settings=dict(found.get("settings", {})),
        resampling=resampling,
        evidence=evidence,
        report_hash=report_hash,
        loss=str(found.get("loss", "")),
        seen=tuple(seen(data)),
    )


def _group(entry: Mapping[str, Any], drawn: _Drawn) -> Group:
    return Group(
        num_samples=int(entry["num_samples"]),
        metrics={
            str(name): Measured(
                value=_finite(each["value"]),
                bound=_finite(each.get("bound", 0.0)),
                low=None if each.get("low") is None else _finite(each["low"]),
                high=None if each.get("high") is None else _finite(each["high"]),
                higher_is_better=each.get("higher_is_better"),
            )
            for name, each in entry["metrics"].items()
        },
        undefined={str(name): str(why) for name, why in entry.get("undefined", {}).items()},
        replicates=drawn.replicates,
        bounds=drawn.bounds or {},
        num_keys=None if entry.get("num_keys") is None else _finite(entry["num_keys"]),
    )


class _Drawn(NamedTuple):
    """A group's replicates, and their bounds: None where an earlier version did not write any."""

    replicates: Mapping[str, Replicates]
    bounds: Mapping[str, float] | None


_NONE = _Drawn({}, {})


def _drawn(file: Path, count: int) -> dict[str, _Drawn]:
    """Read the replicates of the whole test set first, then of the slices."""
    found = _read(file, "Evaluate again.")
    try:
        parts: list[tuple[str, Mapping[str, Any]]] = [(ALL, found)]
        parts += [(f"{each['column']}={each['value']}", each) for each in found.get("slices", ())]
        read = {
            name: _Drawn(
                {str(metric): _values(metric, values, count) for metric, values in part["metrics"].items()},
                {str(metric): _bound(metric, each) for metric, each in part["bounds"].items()}
                if "bounds" in part
                else None,
            )
            for name, part in parts
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{file} holds no bootstrap replicates: {reason}. Evaluate again.") from None
    return read


def _values(metric: str, values: Iterable[Any], count: int) -> Replicates:
    found = tuple(None if value is None else _finite(value) for value in values)
    if len(found) != count:
        raise ValueError(f"{metric} has {len(found)} of {count} replicates")
    return found


def _bound(metric: str, value: Any) -> float:
    found = _finite(value)
    if found < 0:
        raise ValueError(f"{metric} has the bound {value}")
    return found


def _finite(value: Any) -> float:
    if not is_number(value):
        raise ValueError(f"{value!r:.40} is no finite number")
    return float(value)


def _read(file: Path, advice: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(file.read_bytes(), parse_constant=_refuse)
    except FileNotFoundError:
        raise InputError(f"{file.parent} has no {file.name}. {advice}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON: {error}. {advice}") from None
    if not isinstance(found, dict):
        raise InputError(f"{file} is not a JSON object. {advice}")
    return cast("dict[str, Any]", found)


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no finite number")
