"""The facts of a run, read from the ledger, the registry beside it and the folders of the run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.formatting import duration, printable
from drivetrain.base.json_text import list_in, object_in
from drivetrain.run_store.home import why_not_resumed
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reasons import is_bad_input, known_paths
from drivetrain.telling.content import CheckpointFacts, Curve, ModelFacts, RunFacts, SavedState
from drivetrain.telling.content.findings import findings, measured_by
from drivetrain.telling.content.given import changed_since_last, commands_of, settings
from drivetrain.telling.dag import Dag, Node

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import MetricRow, StepRun
    from drivetrain.run_store.reader import Ledger
    from drivetrain.targets.sagemaker.document.document import Definition
    from drivetrain.telling.content.goodput import JobTimes
    from drivetrain.telling.content.health import HealthFacts
    from drivetrain.telling.content.spot_savings import Prices
    from drivetrain.telling.content.tuning import TuningFacts

DEFINITION_FILE = "definition.json"
ENVIRONMENT_FILE = "environment.json"
REPORT_FILE = "report.html"
_EARLY_STOP = re.compile(r"^(early stopping: .{1,400})$", re.MULTILINE)


def run_facts(ledger: Ledger, execution: str) -> RunFacts:
    """Everything that is told of one execution: its id, its name, the beginning of its id, or `latest`.

    Raises:
        UserError: there is no such execution.
    """
    run = ledger.run(execution)
    steps = tuple(
        replace(step, why=tuple(map(known_paths, step.why)), settings=settings(step.arguments)) for step in run.steps
    )
    definition = _definition(ledger.home, run.id)
    # What a cached step gave is that of the execution from which it was taken.
    made_by = {step.name: step.cache_of or run.id for step in steps}
    artifacts = tuple(read for step, id in made_by.items() for read in ledger.artifacts(id, step))
    job_times = tuple(times for step in steps if (times := _job_times(ledger.home, step)) is not None)
    of_jobs = {times.step: times for times in job_times}
    return RunFacts(
        **vars(replace(run, steps=steps)),
        codes={step.name: found for step in steps if (found := _code_hash(step))},
        dag=_dag(steps, definition),
        curves=tuple(
            curve
            for step in steps
            if step.type == "Training"
            for curve in _curves(ledger, made_by[step.name], step.name, of_jobs.get(step.name))
        ),
        ended_early={
            step.name: told for step in steps if (told := _early_stop(ledger, made_by[step.name], step)) is not None
        },
        job_times=job_times,
        goes_on_from={step.name: saved for step in steps if (saved := _goes_on_from(ledger.home, step)) is not None},
        checkpoints=tuple(_checkpoints(ledger.home, steps)),
        tunings=tuple(_tunings(ledger.home, steps, made_by)),
        measured=tuple(measured_by(ledger.home, steps, definition)),
        healths=_healths(ledger, steps, made_by),
        **findings(ledger.home, artifacts, _left(ledger.home, steps)),
        read_by_conditions=_read_by_conditions(definition),
        artifacts=artifacts,
        models=tuple(_models(ledger.home, steps)),
        changed=changed_since_last(
            ledger, run, {step.name: step.settings for step in steps if step.parent is None and step.settings}
        ),
        commands=commands_of(ledger, run),
        environment=_environment(ledger.home, run.id),
        trackers=_trackers(ledger.home, run.id),
        can_go_on=why_not_resumed(ledger.home.run(run.id)) is None,
        written=time.time(),
    )


def _dag(steps: Iterable[StepRun], definition: Definition | None) -> Dag:
    # The steps of a ForEach's iterations are told of in the table; in the picture it stands for them.
    nodes = [Node(s.name, s.type, s.title, s.shown_status, note(s)) for s in steps if s.parent is None]
    if definition is None:
        return Dag(tuple(nodes), ())
    from drivetrain.telling.content.from_definition import dag_of

    return dag_of(definition, {node.name: node for node in nodes})


def _read_by_conditions(definition: Definition | None) -> frozenset[str]:
    from drivetrain.telling.content.from_definition import read_by_conditions

    return frozenset() if definition is None else read_by_conditions(definition)


def note(step: StepRun) -> str:
    """A few words on a step's card: what came out (without remarks in brackets), else how long it took. From what a
    training started is said in the table."""
    if step.unhealthy:
        return step.unhealthy.partition(". ")[0].partition(" at step ")[0]
    if step.outcome:
        value = step.outcome.partition(" (")[0]
        group, found, number = value.rpartition(" version ")
        return f"version {number}" if group and found and step.type == "RegisterModel" else value
    return duration(step.seconds) if step.status in ("Succeeded", "Failed", "Stopped", "Interrupted") else ""


def _definition(home: Home, execution: str) -> Definition | None:
    """The definition that was run, as it lies in the run's folder; None when it is not there any more."""
    from drivetrain.targets.sagemaker.document.document import read

    path = home.run(execution) / DEFINITION_FILE
    try:
        return read(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None


def _curves(ledger: Ledger, execution: str, step: str, times: JobTimes | None) -> list[Curve]:
    """Those of the last attempt, and of the ones before with whose training it went on; seconds since their start."""
    from drivetrain.telling.content.goodput import started_after

    later = {} if times is None else started_after(times)
    found: dict[str, list[MetricRow]] = {}
    for row in ledger.metrics(execution, step, since=min(later, default=None)):
        found.setdefault(row.name, []).append(row)
    curves: list[Curve] = []
    for name, rows in found.items():
        positions = tuple(row.position for row in rows if row.position is not None)
        curves.append(
            Curve(
                step=step,
                name=name,
                points=tuple((row.seconds + later.get(row.attempt, 0.0), row.value) for row in rows),
                positions=positions if len(positions) == len(rows) else (),
            )
        )
    return curves


def _early_stop(ledger: Ledger, execution: str, step: StepRun) -> str | None:
    """The reason in a training's log why it ended before its last epoch."""
    if step.type != "Training" or step.status not in ("Succeeded", "Cached"):
        return None
    from drivetrain.base.masking import without_secrets
    from drivetrain.telling.content.logs import tail

    attempts = step.attempts if execution == step.execution else ledger.step(execution, step.name).attempts
    for log in sorted(ledger.home.logs(execution, step.name, max(attempts, 1)).glob("*.log")):
        found = _EARLY_STOP.findall(tail(log))
        if found:
            return printable(without_secrets(found[-1]))
    return None


def _job_times(home: Home, row: StepRun) -> JobTimes | None:
    # What another execution's training went through is told on its page.
    if row.type != "Training" or row.status in ("Waiting", "Cached", "NotExecuted"):
        return None
    from drivetrain.targets.sagemaker.run.interruption_simulation import journal
    from drivetrain.telling.content.job_times import job_times

    response = row.response
    if not response:  # it has not succeeded (yet), but has been at work
        told = journal.told(home.run(row.execution) / row.name)
        response = {"Drivetrain": told} if told else {}
    return job_times(row.name, row.arguments, response)


def _goes_on_from(home: Home, step: StepRun) -> SavedState | None:
    # What was refused is not begun, wherever its checkpoints lie.
    if step.status not in ("Failed", "Stopped", "Interrupted") or is_bad_input(step.reason):
        return None
    from drivetrain.telling.content.saved_state import newest_checkpoint

    return newest_checkpoint(home, step)


def _checkpoints(home: Home, steps: Iterable[StepRun]) -> Iterator[CheckpointFacts]:
    for step in steps:
        if step.type == "Training" and step.checkpoints_uri is not None:
            from drivetrain.telling.content.saved_state import checkpoints_of

            yield from checkpoints_of(home, step)


def _healths(ledger: Ledger, rows: Sequence[StepRun], made_by: Mapping[str, str]) -> tuple[HealthFacts, ...]:
    if not any(row.type == "Training" for row in rows):
        return ()
    from drivetrain.telling.content.health import healths_of

    return healths_of(ledger, rows, made_by)


def _trackers(home: Home, execution: str) -> dict[str, str]:
    if not home.trackers(execution).exists():
        return {}
    from drivetrain.run_store.told import links_of

    return links_of(home, execution)


def _tunings(home: Home, rows: Iterable[StepRun], made_by: Mapping[str, str]) -> Iterator[TuningFacts]:
    for row in rows:
        if row.type != "Tuning":
            continue
        from drivetrain.telling.content.tuning import tuning_facts

        found = tuning_facts(row.name, row.arguments, row.response, home.run(made_by[row.name]) / row.name)
        if found is not None:
            yield found


def _models(home: Home, rows: Iterable[StepRun]) -> Iterator[ModelFacts]:
    for row in rows:
        arn = row.response.get("ModelPackageArn")
        if row.type != "RegisterModel" or row.status != "Succeeded" or not isinstance(arn, str):
            continue
        from drivetrain.base.errors import InputError
        from drivetrain.registry.backends.local import LocalRegistry

        group, _, number = arn.partition(":model-package/")[2].rpartition("/")
        if not group or not number.isdigit():
            continue  # a stub's answer, or a package without a group
        try:
            version = LocalRegistry(home.ledger).version(group, int(number))
        except InputError:
            continue  # a stub answered, and nothing was registered here
        yield ModelFacts(
            group=group,
            version=version.version,
            status=version.status,
            model_uri=version.artifact,
            content_hash=version.content_hash,
            numbers=version.metrics,
            registered_by=(version.execution or "").rpartition("/")[2] or None,
        )


def _code_hash(row: StepRun) -> str:
    """The hash that the start file checks the code against (`--code HASH`)."""
    for key in ("AppSpecification", "AlgorithmSpecification"):
        given = object_in(row.arguments, key).get("ContainerArguments")
        words = cast("list[Any]", given) if isinstance(given, list) else []
        if "--code" in words[:-1]:
            return str(words[words.index("--code") + 1])
    return ""


def _left(home: Home, steps: Iterable[StepRun]) -> list[tuple[str, Path]]:
    """The folders of outputs that failed jobs left: they are in the run's own folder, and in no store."""
    found: list[tuple[str, Path]] = []
    for step in steps:
        if step.status != "Failed" or step.type != "Processing":
            continue
        from drivetrain.processes.mounts import host_path
        from drivetrain.targets.sagemaker.run.jobs.programs import HOSTS

        outputs = list_in(object_in(step.arguments, "ProcessingOutputConfig"), "Outputs")
        paths = [object_in(output, "S3Output").get("LocalPath") for output in outputs]
        hosts = home.attempt(step.execution, step.name, max(step.attempts, 1)) / HOSTS
        found += [(step.name, host_path(str(path), host)) for host in sorted(hosts.glob("*")) for path in paths]
    return found


def _environment(home: Home, execution: str) -> dict[str, str]:
    try:
        return json.loads((home.run(execution) / ENVIRONMENT_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def record_environment(home: Home, execution: str) -> None:
    """Note beside a run with what it was made, once: the page may be written again by a later version."""
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    path = home.run(execution) / ENVIRONMENT_FILE
    if path.exists():
        return
    versions: dict[str, str] = {}
    for name in ("drivetrain", "torch", "numpy", "pyarrow", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed
    facts = {
        **versions,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
    }
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def save_page(home: Home, facts: RunFacts, prices: Prices | None = None) -> Path:
    """Write the page of a run into its folder, whole or not at all; gives the file."""
    from drivetrain.telling.page import render

    path = home.run(facts.id) / REPORT_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(render(facts, prices), encoding="utf-8")
    beside.replace(path)
    return path
