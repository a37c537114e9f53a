"""Watch what an approved version serves: drift of its inputs and predictions, and its quality once labels arrive.

    python -m drivetrain.components.check_served --data build/train --predictions build/predictions \\
        --labels labels.csv --report build/report --metrics build/metrics --group churn

A drift or a drop is a finding, kept with the registry of the group: told once, again after some days or with more
columns while it is open, and closed when a look no longer sees it or another version is approved. The same look again
changes nothing.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError, warn
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.data.late_labels import LateLabels
    from drivetrain.data.manifest import Manifest
    from drivetrain.decision.served_check import Promised
    from drivetrain.decision.served_quality import Quality

_KEY = "key"
_MOST_BAD = 0.05


class ServedChecked(TypedDict):
    """The numbers that a pipeline can decide on: 1 is yes, 0 no. `metric` and `promised` are there where labels are."""

    drift: int
    drifted_columns: int
    quality_drop: int
    rows: int
    labelled_share: float
    verdict: str
    why: str
    metric: NotRequired[float]
    promised: NotRequired[float]


@component(needs=("pyarrow", "numpy", "boto3"), cached=False)
def check_served(
    data: Input,
    report: Output,
    predictions: Input | None = None,
    labels: Input | None = None,
    *,
    group: str,
    registry: str = "auto",
    rules: str = "{}",
    day: str = "",
    metric: str = "",
    label: str = "",
    max_drop: Annotated[float, Bounds(0)] = 0.0,
    min_labels: Annotated[int, Bounds(20)] = 200,
    warnings_a_year: Annotated[float, Bounds(above=0)] = 1.0,
    looks_a_year: Annotated[float, Bounds(1)] = 365.0,
    remind_days: Annotated[float, Bounds(above=0)] = 7.0,
) -> ServedChecked:
    """Watch what an approved version serves.

    Args:
        data: the rows that were served, as the train set of prepare_data with validation_percent=0 and test_percent=0.
        report: gets served_check.json and served_check.md.
        predictions: the output of batch_predict over these rows; not needed where they have a column `predicted`, as
            those of read_capture have.
        labels: those that have arrived: a set of prepare_data, or a table with the key of the rows and the label.
        group: the model's name in the registry, which names the approved version and keeps the findings.
        registry: KIND:LOCATION, or auto for the registry of the platform.
        rules: a rules file as JSON; its part drift says from which size on a column has drifted (a tenth of its rows
            where it says nothing). A column with an accepted alarm passes.
        day: of the rows, as 2026-11-30; unless given today, in UTC.
        metric: what labelled rows are measured by; unless given that by which the version was approved.
        label: the column of the label; needed where a table has more than the key and one other.
        max_drop: how much worse the metric may be than promised, in its own unit.
        min_labels: fewer labelled rows are not judged.
        warnings_a_year: false drops to expect, for a model as good as promised less `max_drop`.
        looks_a_year: how often the pipeline runs.
        remind_days: after so many days a finding that is still open is told again.

    Raises:
        InputError: no version is approved; files of other rows, or without what is needed; rules of another form; a
            registry or an event bus that refuses.
    """
    from drivetrain.data.manifest import Manifest
    from drivetrain.data.profile import profile_of
    from drivetrain.decision.data_nights import answered_columns, day_of, training_set_of
    from drivetrain.decision.data_rules import night_rules
    from drivetrain.decision.served_check import Look, drift_of_served, predictions_of, promised_of, write
    from drivetrain.decision.served_findings import DATA_DRIFT, QUALITY_DROP
    from drivetrain.decision.served_kept import keep_look
    from drivetrain.decision.served_quality import labels_of, promised_by
    from drivetrain.registry.registry import checked_group, open_registry

    checked_group(group)
    gates, on = night_rules(rules).gates, day_of(day, "day")
    if on > datetime.now(UTC).date() + timedelta(days=1):
        raise InputError(f"day is {on}, which lies in the future. Give the day of the rows, or leave it out.")
    opened = open_registry(registry)
    version = opened.champion(group)
    if version is None:
        raise InputError(f"no version of {group} is approved: drivetrain models approve {group} VERSION")
    manifest = Manifest.read(data, checksums=False)
    profile = profile_of(data, manifest=manifest)
    answers = _answers(data, manifest, predictions)
    notes: list[str] = []
    doubts: list[str] = []
    found = quality = moved = unread = None
    labelled = 0
    with tempfile.TemporaryDirectory(prefix="drivetrain-served-") as room:
        promised = promised_of(version, Path(room) / "promised", opened.objects)
        if isinstance(promised, str):
            if labels is not None:
                raise InputError(f"labels have nothing to be held against: version {version.version}: {promised}.")
            notes.append(f"Predictions are not judged: {promised}.")
        elif answers is not None:
            found = predictions_of(answers, promised)
        if isinstance(found, str):
            notes.append(f"Predictions are not judged: {found}.")
            found = None
        if labels is not None and not isinstance(promised, str):
            metric = metric or str((version.decision or {}).get("metric") or "")
            promised_by(promised.evaluation, metric)  # before anything is read
            try:
                arrived, is_labelled = _arrived(labels, answers, manifest, label, promised)
            except InputError as error:  # the drift is kept before it ends the step
                unread = error
            else:
                labelled = len(arrived.keys)
                notes.append(f"{arrived.sentence(profile.rows)}.")
                moved = None if found is None else found.labels_moved(is_labelled)
                if arrived.unlike:
                    doubts.append(arrived.unlike)
                if arrived.bad > _MOST_BAD * arrived.rows:
                    doubts.append(
                        f"Quality is not judged: {arrived.bad:,} of {arrived.rows:,} labels are none of the "
                        f"task, such as {arrived.example!r:.40}. Allowed are {labels_of(promised.task)}"
                    )
                elif labelled:
                    quality = _quality(
                        *(arrived, answers, is_labelled, promised, metric, Path(room)),
                        level=min(warnings_a_year / looks_a_year, 0.5),
                        max_drop=max_drop,
                        min_labels=min_labels,
                    )
    drifted, more = drift_of_served(
        version.version,
        profile,
        training_set_of(opened, group, version),
        gates,
        answered_columns(opened, group, version),
        found,
    )
    look = Look(
        group=group,
        version=version.version,
        day=on.isoformat(),
        rows=profile.rows,
        content_hash=manifest.content_hash,
        drifted=drifted,
        quality=quality,
        labelled=labelled,
        labels_moved=moved,
        notes=[*more, *notes, *(f"{each}." for each in doubts)],
    )
    looks, untold = keep_look(opened, version, look, remind_days)
    look = replace(look, notes=[*look.notes, untold] if untold else look.notes)
    write(look, looks, report)
    if unread is not None:
        raise unread
    print(f"served rows: {look.verdict}: {look.why[0] if look.why else 'nothing is judged.'}", flush=True)
    for line in (*look.seen.values(), *doubts):
        if line:
            warn(line)
    numbers: ServedChecked = {
        "drift": int(bool(look.seen.get(DATA_DRIFT))),
        "drifted_columns": len(look.columns),
        "quality_drop": int(bool(look.seen.get(QUALITY_DROP))),
        "rows": profile.rows,
        "labelled_share": labelled / profile.rows if profile.rows else 0.0,
        "verdict": look.verdict,
        "why": " ".join(look.why)[:1000],
    }
    if quality is not None and quality.measured is not None:
        numbers["metric"], numbers["promised"] = quality.measured.value, quality.promised.value
    return numbers


def _answers(data: Path, manifest: Manifest, predictions: Path | None) -> Any:
    """The table of answers to the served rows; None where there are none."""
    import json

    from drivetrain.data.late_labels import read_rows
    from drivetrain.data.manifest import MANIFEST_FILE
    from drivetrain.decision.served_predictions import is_answer

    if predictions is None:
        names = [column.name for column in manifest.schema if is_answer(column.name)]
        keys = [] if manifest.key is None else [manifest.key]
        return read_rows(data, [*keys, *names], manifest) if names else None
    made: dict[str, Any] = json.loads((predictions / MANIFEST_FILE).read_bytes())
    if made.get("predictions", {}).get("data") != manifest.content_hash:
        raise InputError(
            f"{predictions} has no predictions of {data}. Give the output of batch_predict over these rows."
        )
    return read_rows(
        predictions, [each["name"] for each in made["schema"] if each["name"] == _KEY or is_answer(each["name"])]
    )


def _arrived(labels: Path, answers: Any, manifest: Manifest, label: str, promised: Promised) -> tuple[LateLabels, Any]:
    """The labels of served rows, and a mask of the rows that have one."""
    from drivetrain.data.arrow import arrow
    from drivetrain.data.late_labels import read_labels
    from drivetrain.decision.served_quality import understood

    if answers is None or manifest.key is None:
        raise InputError(
            "labels are joined to predictions by key. Give predictions, the output of batch_predict, over rows that "
            "prepare_data was given a key of."
        )
    served = _keys(answers, manifest.key)
    found = read_labels(
        labels,
        served,
        key=manifest.key,
        label=label,
        understood=lambda given: understood(given, promised.task),
    )
    return found, arrow().compute.is_in(served, value_set=found.keys).to_numpy(zero_copy_only=False)


def _keys(answers: Any, key: str) -> Any:
    """The keys of the served rows, as texts."""
    return answers.column(_KEY if _KEY in answers.column_names else key).cast("string").combine_chunks()


def _quality(
    labels: LateLabels,
    answers: Any,
    is_labelled: Any,
    promised: Promised,
    metric: str,
    room: Path,
    **limits: Any,
) -> Quality:
    """Measure the answers to labelled rows as evaluate does."""
    import json

    from drivetrain.components.evaluate import evaluate
    from drivetrain.components.prepare_data import prepare_data
    from drivetrain.data.arrow import arrow
    from drivetrain.decision.evaluation import EVALUATION_FILE, read_evaluation
    from drivetrain.decision.served_predictions import is_answer
    from drivetrain.decision.served_quality import judged_quality

    pa = arrow()
    raw, table = room / "labels.parquet", room / "answers" / "predictions"
    pa.parquet.write_table(pa.table({_KEY: labels.keys, "label": labels.labels}), raw)
    sets: dict[str, Any] = {side: room / side for side in ("train", "validation", "test")}
    prepare_data(raw=raw, **sets, key=_KEY, label="label", validation_percent=0, test_percent=0, on_leakage="ignore")
    rows = answers.filter(pa.array(is_labelled))
    columns = {name: rows.column(name) for name in rows.column_names if is_answer(name)}
    table.mkdir(parents=True)
    pa.parquet.write_table(pa.table({**columns, _KEY: _keys(rows, labels.key)}), table / "part-00000.parquet")
    # Beside the table, as in a report: by it the classes have their names.
    (table.parent / EVALUATION_FILE).write_text(json.dumps({"task": promised.task}), encoding="utf-8")
    settings = promised.evaluation.settings
    evaluate(
        None,
        sets["train"],
        room / "report",
        answers=table,
        task=promised.task_name,
        scoring=str(settings.get("metrics", "")),
        mode=str(settings.get("mode", "histogram")),
    )
    return judged_quality(read_evaluation(room / "report"), promised.evaluation, metric, **limits)


if __name__ == "__main__":
    check_served.main()
