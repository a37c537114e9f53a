"""Evaluate a trained model on prepared data, on any number of processes and hosts.

    python -m drivetrain.training_scripts.evaluate --model build/model --data build/test --metrics build/metrics.json
    python -m drivetrain.training_scripts.launch --processes 2 drivetrain.training_scripts.evaluate \\
        --model build/model --data build/test --metrics build/metrics.json --report build/report --slices site

The file gets one flat JSON object: num_samples, loss, the metrics, and those of single classes (accuracy_class_3). The
report gets all that there is to say of them: docs/evaluation.md.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError, warn
from drivetrain.base.formatting import UNHEALTHY
from drivetrain.data.key_sample import KeySample
from drivetrain.registry.report_hash import PARTS, REPORT_HASH, report_hash
from drivetrain.training import plugins
from drivetrain.training.evaluation import document, files, model_quality, plots, table
from drivetrain.training.evaluation.fairness import with_fairness
from drivetrain.training.evaluation.predictions import Predictions
from drivetrain.training.evaluation.progress import Progress
from drivetrain.training.evaluation.search import search_rows, sentences
from drivetrain.training.evaluation.settings import Settings, parser
from drivetrain.training.evaluation.subject import (
    AskedFunctions,
    AskedModel,
    Count,
    GivenAnswers,
    Subject,
    costs_of,
    slice_columns,
)
from drivetrain.training.evaluation.suspects import suspects
from drivetrain.training.evaluation.worst import Worst
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.prepared import MANIFEST_FILE, PreparedData, keys_of
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.launch.processes.parent import die_with_parent
from drivetrain.training.metric import Ints, Metric, Samples
from drivetrain.training.metric_states.result import Bootstrap, Evaluation
from drivetrain.training.model_folder import FUNCTIONS, framework_of, tensors_of
from drivetrain.training.process import Process, join_group

# Decoded rows that are kept in memory; if there are more, only those in use.
MOST_HELD_ROWS = 2_000_000
# A model that takes all samples for one class is reported for at least so many samples, and at most this share of it.
LEAST_SAMPLES, MOST_OF_ONE = 20, 0.75
WHERE = "Free some room there, or give another place."


def run(
    model_folder: Path | None,
    data: Path,
    process: Process,
    *,
    answers: Path | None = None,
    batch_size: int = 256,
    settings: Settings | None = None,
    report: Path | None = None,
    model_hash: str = "",
) -> dict[str, float]:
    """Evaluate a model folder, or answers, on a folder of data, on all processes; the first one writes the report.

    Args:
        model_folder: the model to ask; not needed where there are answers.
        answers: a table of a model's answers to this data (drivetrain/training/answers), in place of asking it.
        settings: all that can be asked for; by default the metrics of the task, with `batch_size`.
        report: the folder for evaluation.json and what goes with it; None for the numbers alone.
        model_hash: the name of the model's content, for the report.

    Returns:
        What metrics.json holds, on every rank.

    Raises:
        InputError: a folder that is not what it should be, a setting that cannot be, or a model whose outputs are not
            finite.
    """
    settings = settings or Settings(batch_size=batch_size)
    if settings.predictions and report is None:
        raise InputError("predictions=True needs a folder to write them to. Give --report.")
    subject: Subject
    if answers is not None:
        subject = GivenAnswers(answers, data, process, settings)
    elif model_folder is not None and framework_of(model_folder) == FUNCTIONS:
        subject = AskedFunctions(model_folder, data, process, settings)
    elif model_folder is not None:
        subject = AskedModel(model_folder, data, process, settings)
    else:
        raise InputError("neither a model nor answers are given. Give one of them.")
    dataset, metrics = subject.dataset, subject.metrics
    if settings.find_slices and not (subject.has_losses and (data / MANIFEST_FILE).is_file()):
        raise InputError("find_slices=True needs prepared data, and answers that have a loss. Leave it out.")
    slices = slice_columns(dataset.reader, settings.sliced_by)
    progress = Progress(len(dataset), shows=process.is_main)
    if report is not None and process.is_main:
        with files.writable(report, WHERE):
            files.clear(report)
    with ExitStack() as stack:
        stack.callback(progress.clear)
        predictions = stack.enter_context(Predictions(report, process, subject.task)) if settings.predictions else None
        # (The first rank alone may have a report.)
        has_worst = settings.worst and subject.has_losses
        worst = Worst(settings.worst, process, subject.image, dataset) if has_worst else None

        def keep(rows: Ints, samples: Samples) -> None:
            if worst is not None:
                worst.add(rows, samples)
            if predictions is not None:
                keys = dataset.reader.read(rows, [dataset.key])[dataset.key] if dataset.key else None
                predictions.add(int(rows[0]), samples, keys, subject.kept(rows))

        counted = Count(
            slices=slices,
            bootstrap=_bootstrap(settings, dataset),
            exact=settings.mode == "exact",
            on_batch=keep if predictions or worst else None,
            progress=progress,
        )
        result = stack.enter_context(subject.count(counted))
        said = progress.end()
        if settings.scoring:
            refuse_undefined(result, metrics)
        if predictions is not None:
            predictions.write()
        worst_samples = worst.merged() if worst is not None else None
    result, notes = with_fairness(result, settings.groups)
    found_slices = None
    if settings.find_slices and result.rows is not None:
        found = search_rows(result.rows, data, settings.confidence)
        notes += sentences(found)
        found_slices = {**found._asdict(), "found": [asdict(each) for each in found.found]}
    if process.is_main:
        content = document.document(
            result,
            settings,
            data={
                **{"content_hash": dataset.content_hash, "rows": len(dataset), "key": dataset.key},
                **seen_before(dataset, subject.trained_on),
            },
            model={"content_hash": model_hash or None, **subject.model},
            loss=subject.loss,
            notes=[*notes, *_about(result, subject)],
            found_slices=found_slices,
            costs=costs_of(metrics),
            processes=process.local_world_size,
            hosts=process.world_size // process.local_world_size,
        )
        say(content, said)
        if guesses := one_class(result):
            warn(UNHEALTHY + guesses)
        if report is not None:
            with files.writable(report, WHERE):
                wrong = suspects(report, subject.task, dataset.key) if settings.predictions else None
                write_report(report, content, result, worst_samples, wrong)
    return document.numbers(result, metrics)


def seen_before(dataset: Dataset, trained_on: Mapping[str, Any]) -> dict[str, Any]:
    """Find what the model knows of the data from its training (drivetrain/decision/seen.py).

    Args:
        trained_on: what model.json says of the training data.
    """
    found: dict[str, Any] = {}
    if trained_on.get("content_hash"):
        found["trained_on"] = trained_on["content_hash"] == dataset.content_hash
    if trained_on.get("calibrated_on") == dataset.content_hash:
        found["calibrated_on"] = True
    here = keys_of(dataset.reader)
    for name, to in (("keys", "shared_keys"), ("calibration_keys", "shared_calibration_keys")):
        if here and (keys := trained_on.get(name)):
            ours, theirs = KeySample.read(here, MANIFEST_FILE), KeySample.read(keys, "model.json")
            if (shared := ours.shared(theirs)) is not None:
                found[to] = shared._asdict()
    prepared = getattr(dataset.reader, "data", None)
    if isinstance(prepared, PreparedData) and prepared.leakage:
        found["leakage"] = prepared.leakage
    return found


def _about(result: Evaluation, subject: Subject) -> Iterator[str]:
    """Sentences on what metrics are of, where their names do not say it."""
    names = [name for name in ("precision", "recall", "f1") if name in result.whole.metrics]
    if subject.task.kind == "binary" and names:
        one = subject.task.class_names[1] if subject.task.class_names else "1"
        yield f"{', '.join(names)}: of class {one}."
    if subject.task.calibration is not None and subject.task.kind != "regression" and not subject.loss:
        yield "loss is the recipe's own, of the outputs before the calibration; log_loss is of the calibrated ones."


def _bootstrap(settings: Settings, dataset: Dataset) -> Bootstrap | None:
    if not settings.bootstrap:
        return None
    return Bootstrap(
        replicates=settings.bootstrap,
        seed=settings.seed,
        confidence=settings.confidence,
        key=dataset.key or "",
    )


def refuse_undefined(result: Evaluation, metrics: Mapping[str, Metric]) -> None:
    """
    Raises:
        InputError: a metric was requested by name, and the samples leave a value of it undefined, other than those of
            single classes.
    """
    defined = {document.owner(name, metrics) for name in result.whole.metrics}
    for name, why in result.whole.undefined.items():
        owner = document.owner(name, metrics)
        # (That a single class has no value of its own is said in the report.)
        if owner is not None and (owner not in defined or "_class_" not in name):
            raise InputError(
                f"{name} is not defined by this data: {why}. Leave {owner} out of scoring, or give data that defines "
                "it. (What nobody asks for by name, scoring left empty, is reported as undefined.)"
            )


def one_class(result: Evaluation) -> str:
    """The fault of a model that takes all samples for one class though most are of others; empty if it does
    not. (Of a class with nearly all samples it is no fault.)"""
    matrix, task = result.curves.get("confusion_matrix"), result.task
    if matrix is None or task.kind not in ("multiclass", "binary") or len(matrix["columns"]) != task.num_classes:
        return ""  # (of many classes some are put together)
    cells = np.array(matrix["cells"], dtype=np.int64).reshape(len(matrix["rows"]), len(matrix["columns"]))
    total, taken = int(cells.sum()), np.flatnonzero(cells.sum(axis=0))
    right = int(cells[taken[0], taken[0]]) if len(taken) == 1 else total
    if total < LEAST_SAMPLES or right > MOST_OF_ONE * total:
        return ""
    return (
        f"all {total} samples are taken for class {matrix['columns'][taken[0]]}, and {right} are of it. The model has "
        "learnt nothing: look at the health of its training, and lower its learning_rate."
    )


def say(content: Mapping[str, Any], speed: str) -> None:
    """The table for people."""
    coverage, collectives = content["coverage"], content["collectives"]
    for line in table.lines(content):
        print(line)
    left_out = (content.get("rows") or {}).get("left_out", ())
    if left_out:
        print(
            f"  {len(left_out):,} metric{'s' * (len(left_out) > 1)} ({', '.join(left_out[:3])}"
            f"{', ...' * (len(left_out) > 3)}): what each row says was too large to keep, comparisons go by replicates"
        )
    print(
        f"  {coverage['counted']:,} of {coverage['rows']:,} samples counted, each once; "
        f"{collectives} collective{'s' * (collectives != 1)} for the metrics; {speed}",
        flush=True,
    )


def write_report(
    report: Path,
    content: Mapping[str, Any],
    result: Evaluation,
    worst: Mapping[str, Any] | None = None,
    wrong: Mapping[str, Any] | None = None,
) -> None:
    """All files but the predictions; evaluation.json, which tells that the others are whole, and names them by their
    hashes, comes last."""
    bootstrap = document.replicates(result)
    if bootstrap is not None:
        files.write_json(report / files.BOOTSTRAP_FILE, bootstrap)
    if result.rows is not None:
        files.write_arrays(report / files.ROWS_FILE, result.rows.arrays)
    files.write_json(report / files.CURVES_FILE, result.curves)
    for name, found in ((files.WORST_FILE, worst), (files.SUSPECTS_FILE, wrong)):
        if found is not None:
            files.write_json(report / name, found)
    quality = model_quality.model_quality(content, bootstrap, result.curves)
    files.write_json(report / files.MODEL_QUALITY_FILE, quality)
    for name, picture in plots.pictures(result.curves, content["metrics"]).items():
        files.write_text(report / files.PLOTS_FOLDER / name, picture)
    named = {**content, PARTS: files.parts(report)}
    files.write_json(report / files.EVALUATION_FILE, {**named, REPORT_HASH: report_hash(named)})


def main() -> None:
    die_with_parent(signal.SIGKILL)

    def program() -> None:
        given: dict[str, Any] = vars(parser(__doc__).parse_args())
        folders = {name: given.pop(name) for name in ("model", "answers", "data", "metrics", "report", "model_hash")}
        settings = Settings(**given)
        plugins.forget_current_folder()  # the model says which recipe it is of
        asked = folders["model"] if folders["answers"] is None else None
        with join_group(framework=tensors_of(asked) if asked else "") as process:
            if process.is_main:
                with files.writable(folders["metrics"], WHERE):
                    files.check(folders["metrics"])
            numbers = run(
                asked,
                folders["data"],
                process,
                answers=folders["answers"],
                settings=settings,
                report=folders["report"],
                model_hash=folders["model_hash"],
            )
        if process.is_main:
            with files.writable(folders["metrics"], WHERE):
                files.write_json(folders["metrics"], numbers)

    run_rank(program)


if __name__ == "__main__":
    main()
