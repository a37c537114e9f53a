"""How a run goes and ended, for a terminal: its steps, its numbers, its model, and what to type next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import BAD_INPUT, FAILED, INTERRUPTED
from drivetrain.base.formatting import (
    SIGNS,
    approval_words,
    cut,
    duration,
    moment,
    number,
    place,
    printable,
    status_word,
)
from drivetrain.operations.running import Watcher, new_progress
from drivetrain.run_store.events import Event, ExecutionStarted
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reasons import in_a_line, is_bad_input, joined, known_paths
from drivetrain.telling.content import ModelFacts, RunFacts
from drivetrain.telling.progress import MANY_STEPS, PlainProgress
from drivetrain.telling.terminal import paint, say, shown_path, table, width

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home
    from drivetrain.run_store.model import Run
    from drivetrain.telling.content.spot_savings import Prices
    from drivetrain.telling.progress import Clock

MAX_NUMBERS = 6
# What scripts get of a run, of a run in a list, of a step, of an artifact.
_FACTS = "pipeline name note tags status stopping unhealthy started ended seconds reason definition_hash"
_RUN = "id pipeline status started ended idle reason definition_hash parameters name note stopping unhealthy seconds"
_STEP = "name type title status started ended seconds attempts cache_of reason value why settings parent item"
_ARTIFACT = "step flow name uri digest files bytes from_step from_execution"


def headline(run: RunFacts) -> str:
    """`✓ retraining succeeded in 26.1 s  20261120-221455-3f9a`."""
    status = run.shown_status
    sign = SIGNS.get(status, "•")
    took = "for" if run.ended is None else "after" if run.status in ("Interrupted", "Stopped") else "in"
    return (
        f"{paint(f'{sign} {printable(run.pipeline)} {status_word(status)}', status)} "
        f"{took} {duration(run.seconds)}  {paint(run.id, 'dim')}"
    )


def _labels(run: RunFacts) -> list[str]:
    """Its name and tags, and the note."""
    marks = [*([paint(run.name, "bold")] if run.name else []), *(f"{name}={text}" for name, text in run.tags.items())]
    return [*([" ".join(marks)] if marks else []), *([printable(run.note)] if run.note else [])]


def steps_table(run: RunFacts) -> str:
    """One line a step: name, status, time, and why it ran or where its result came from."""
    rows = [
        [
            f"{'  ' if step.parent is not None else ''}{step.sign} {step.title}",
            status_word(step.shown_status),
            "" if step.status in ("Cached", "NotExecuted", "Waiting") else duration(step.seconds),
            remark(step),
        ]
        for step in run.steps
    ]
    styles = [[step.shown_status, step.shown_status, "", "dim"] for step in run.steps]
    return table(("step", "status", "time", "why"), rows, styles=styles)


def remark(step: StepRun) -> str:
    """The note on a step, in a few words: `max_digits 4 -> 3`, `version 1`, `from 20261120-...`."""
    item = "" if step.item is None else f"for {in_a_line(step.item)}"
    ended_badly = step.status in ("Failed", "Stopped")
    parts = [item, "" if ended_badly else step.said, f"{step.attempts} attempts" if step.attempts > 1 else ""]
    if step.cache_of:
        parts.append(f"from {step.cache_of}")
    if ended_badly:
        parts += [in_a_line(step.reason or ""), step.said]
    else:
        # Beside a failure, why the step was not taken from the cache would read as its cause.
        parts += step.why
    return joined(parts)


def results(run: RunFacts) -> list[str]:
    """Lines about checks of data, evaluations and decisions, and the numbers that other steps returned, without those
    of single classes."""
    lines: list[str] = []
    for check in run.data_checks:
        from drivetrain.telling.content import data_check

        lines.append(f"{paint(printable(check.step), 'bold')}: {printable(data_check.sentence(check))}")
        lines += [f"  {printable(line)}" for line in check.why[1 : MAX_NUMBERS + 1]]
    if run.evaluations or run.decisions:
        from drivetrain.cli.runs.evaluation_text import decision_lines, evaluation_lines

        lines += [line for found in run.evaluations for line in evaluation_lines(found)]
        lines += [line for found in run.decisions for line in decision_lines(found)]
    for measured in run.plain_numbers():
        from drivetrain.telling.content.findings import overall

        found = overall(measured)
        order = sorted(found, key=lambda name: (name != "accuracy", name != "loss"))
        shown = ", ".join(f"{printable(name)} {number(found[name])}" for name in order[:MAX_NUMBERS])
        more = f", {len(found) - MAX_NUMBERS} more" if len(found) > MAX_NUMBERS else ""
        if shown:
            lines.append(f"{paint(printable(measured.step), 'bold')}: {shown}{more}")
    return lines


def models(run: RunFacts, home_option: str = "") -> list[str]:
    """Registered versions, each with the command that decides on it; where one waits for that, what the run's steps
    warned of."""
    lines = [line for model in run.models for line in model_lines(model, run, home_option)]
    if any(model.status == "PendingManualApproval" for model in run.models):
        warned = [step for step in run.steps if step.warning]
        lines += [f"  {paint('!', 'Unhealthy')} {step.title}: {in_a_line(step.warning)}" for step in warned]
    return lines


def model_lines(model: ModelFacts, run: RunFacts, home_option: str) -> list[str]:
    """One registered version."""
    known = model.registered_by is not None and model.registered_by != run.id
    pending = model.status == "PendingManualApproval"
    lines = [
        f"{paint(f'{model.group} version {model.version}', 'bold')}: "
        f"{paint(approval_words(model.status), model.status)}"
        + (", unhealthy" if pending and run.shown_status == "Unhealthy" else "")
        + (f" (the same content was registered by {model.registered_by})" if known else "")
    ]
    if pending:
        lines.append(f"  drivetrain models approve {model.group} {model.version}{home_option}")
    return lines


def interrupted(run: RunFacts, prices: Prices | None = None) -> list[str]:
    """Lines about the cost of interruptions."""
    if not run.job_times:
        return []
    from drivetrain.cli.runs.interruption_text import interrupted_lines

    return [line for times in run.job_times for line in interrupted_lines(times, prices)]


def summary(
    run: RunFacts,
    report: Path | None,
    *,
    with_steps: bool = True,
    home_option: str = "",
    prices: Prices | None = None,
) -> str:
    """All of it, a paragraph each."""
    news = [f"nothing new since {run.nothing_new_since}"] if run.nothing_new_since else []
    blocks = ["\n".join([headline(run), *news, *_labels(run)])]
    if with_steps and run.steps:
        blocks.append(steps_table(run))
    blocks += [
        "\n".join(lines) for lines in (interrupted(run, prices), results(run), models(run, home_option)) if lines
    ]
    closing: list[str] = []
    if run.reason and run.status not in ("Succeeded", "Stopped") and not any(s.status == "Failed" for s in run.steps):
        closing.append(cut(printable(known_paths(run.reason)), max(width(), 40)))
    closing += [
        f"{printable(step)} goes on from step {saved.training_step:,}: {printable(place(saved.uri))}"
        for step, saved in run.goes_on_from.items()
    ]
    if run.can_go_on and (run.status == "Interrupted" or (run.status == "Failed" and run.goes_on_from)):
        closing.append(f"Go on: drivetrain runs resume {run.id}{home_option}")
    if report is not None:
        closing.append(f"Report: {shown_path(report)}")
    if closing:
        blocks.append("\n".join(closing))
    return "\n\n".join(blocks)


def as_json(run: RunFacts, prices: Prices | None = None) -> dict[str, Any]:
    """The facts of a run for scripts."""
    from dataclasses import asdict

    from drivetrain.cli.runs.evaluation_text import as_json as measured_json
    from drivetrain.cli.runs.interruption_text import interrupted_json

    return {
        "execution": run.id,
        **_chosen(run, _FACTS),
        "code_hash": run.code_hash or None,
        "parameters": dict(run.parameters),
        "nothing_new_since": run.nothing_new_since,
        "steps": [{**_chosen(step, _STEP), "unhealthy": step.unhealthy or None} for step in run.steps],
        "metrics": _last_values(run),
        "ended_early": dict(run.ended_early),
        "interrupted": {times.step: interrupted_json(times, prices) for times in run.job_times},
        "goes_on_from": {step: asdict(saved) for step, saved in run.goes_on_from.items()},
        "data_checks": [asdict(found) for found in run.data_checks],
        "evaluations": [measured_json(found) for found in run.evaluations],
        "decisions": [measured_json(found) for found in run.decisions],
        "results": {measured.step: dict(measured.numbers) for measured in run.measured},
        "models": [asdict(model) for model in run.models],
        "artifacts": [_chosen(item, _ARTIFACT) for item in run.artifacts],
    }


def _chosen(record: Any, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}


def _last_values(run: RunFacts) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for curve in run.curves:
        found.setdefault(curve.step, {})[curve.name] = curve.points[-1][1]
    return found


Values = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Execution -> kind -> name -> value."""


def listed(rows: Iterable[Run], values: Values | None = None, columns: Sequence[str] = ()) -> str:
    """Executions as a table: id, pipeline, status, when, how long; the values of `columns`, and names and tags where
    there are some."""
    listed_rows, known = list(rows), values or {}
    cells = [
        [
            row.id,
            row.pipeline,
            f"{SIGNS.get(row.shown_status, '•')} {status_word(row.shown_status)}",
            moment(row.started),
            "" if row.seconds is None else duration(row.seconds),
            *(_value_text(known.get(row.id, {}), name) for name in columns),
            " ".join([row.name or "", *(f"{k}={v}" for k, v in known.get(row.id, {}).get("tag", {}).items())]).strip(),
        ]
        for row in listed_rows
    ]
    head = ["execution", "pipeline", "status", "started", "time", *columns, "name and tags"]
    if not any(line[-1] for line in cells):
        head, cells = head[:-1], [line[:-1] for line in cells]
    styles = [["bold", "", row.shown_status, *[""] * (len(head) - 3)] for row in listed_rows]
    return table(head, cells, styles=styles)


def listed_json(row: Run, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """An execution of a list for scripts."""
    kinds = {"settings": "setting", "metrics": "metric", "tags": "tag"}
    return _chosen(row, _RUN) | {key: values.get(kind, {}) for key, kind in kinds.items()}


def _value_text(values: Mapping[str, Mapping[str, Any]], name: str) -> str:
    from drivetrain.run_store.run_values import value_named

    value = value_named(values, name)
    return "" if value is None else number(value) if isinstance(value, int | float) else str(value)


def say_to_user(text: str, *, as_json: bool) -> None:
    """On stdout; beside JSON lines on stderr, so that these stay JSON."""
    print(text, file=sys.stderr if as_json else sys.stdout, flush=True)


class Terminal(Watcher):
    """Shows a run on the terminal, and what came of it.

    Args:
        home_option: what a suggested command must repeat.
    """

    hears_signals = True

    def __init__(
        self,
        home: Home,
        *,
        as_json: bool,
        quiet: bool = False,
        home_option: str = "",
        clock: Clock | None = None,
    ) -> None:
        super().__init__(new_progress(as_json=as_json, quiet=quiet, clock=clock))
        self.warnings: Callable[[], Iterable[str]] = tuple
        """Gives the warnings for stderr once the run has begun."""
        self._home, self._home_option = home, home_option
        self._as_json, self._quiet = as_json, quiet

    def __call__(self, event: Event) -> None:
        if isinstance(event, ExecutionStarted):
            for warning in self.warnings():
                print(f"warning: {warning}", file=sys.stderr)
        super().__call__(event)

    def going_on(self, execution: str) -> None:
        if not self._quiet:
            said = f"The same run was interrupted: going on with {execution} (--fresh starts a new one)."
            say_to_user(said, as_json=self._as_json)

    def stopping(self) -> None:
        if self.progress.view.execution:
            said = "Stopping: the steps are asked to end (again: at once)."
            say_to_user(said, as_json=self._as_json or self._quiet)

    def ended(self, facts: RunFacts, page: Path | None) -> None:
        if self._as_json:
            import json

            report = None if page is None else str(page)
            print(json.dumps({"event": "summary", "report": report, **as_json(facts)}, default=str), flush=True)
            return
        failures = list(self._failure_blocks(facts))
        if self._quiet:
            say(facts.id)
            if failures or facts.status == "Stopped":
                print("\n\n".join([headline(facts), *failures]), file=sys.stderr)
            return
        # On a terminal the last picture of the progress is the table of the steps already; of many steps each has its
        # line.
        with_steps = isinstance(self.progress, PlainProgress) and len(facts.steps) <= MANY_STEPS
        say("\n" + summary(facts, page, with_steps=with_steps, home_option=self._home_option))
        if facts.status == "Stopped" and facts.can_go_on:
            say(f"Go on: drivetrain runs resume {facts.id}{self._home_option}")
        for failure in failures:
            say("\n" + failure)

    def _failure_blocks(self, facts: RunFacts) -> Iterator[str]:
        if failures := facts.failures():
            from drivetrain.cli.runs.failure import failure_block

            for step in failures:
                yield failure_block(self._home, facts.id, step)


def exit_code(facts: RunFacts) -> int:
    """0 when the run did what it should, 1 when it failed, 2 when it failed by bad input, 130 when it was stopped."""
    if facts.status in ("Succeeded", "CompletedWithFailures"):
        return 0

    if facts.status == "Stopped":
        return INTERRUPTED
    failed = [step for step in facts.steps if step.status == "Failed"]
    return BAD_INPUT if failed and all(is_bad_input(step.reason) for step in failed) else FAILED
