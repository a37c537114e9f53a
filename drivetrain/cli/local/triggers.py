"""`drivetrain triggers`: what starts a pipeline by itself, and what it would do about an event."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import printable
from drivetrain.cli.declared import App, Argument
from drivetrain.cli.options import Config, Json, Set
from drivetrain.telling.terminal import paint, say, say_json, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drivetrain.spec.pipeline import Pipeline, Trigger
    from drivetrain.triggers.replay import Verdict

NEXT_TIMES = 3

app = App(help="Look at what starts a pipeline by itself, try it on an event.")

Target = Annotated[str, Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].")]
MaybeTarget = Annotated[
    str | None,
    Argument(
        metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION]; all that are found here unless given."
    ),
]


@app.command(name="list")
def list_(target: Target, config: Config = None, set_: Set = None, as_json: Json = False) -> None:
    """List the triggers of a pipeline, and when its schedules run next.

    \b
    Examples:
      drivetrain triggers list retraining
      drivetrain triggers list nightly.py --json     patterns and parameters, too
    """
    from datetime import UTC

    from drivetrain.authoring.loading import load
    from drivetrain.triggers.timing import when

    pipeline, now = load(target, config, set_ or ()).pipeline, datetime.now(UTC)
    rows = [(trigger, _next_times(trigger, now)) for trigger in pipeline.triggers]
    if as_json:
        say_json([_as_json(pipeline, trigger, times) for trigger, times in rows])
        return
    if not rows:
        say(f"Nothing starts {pipeline.name} by itself. Declare it: Pipeline(..., triggers=[Schedule(...)]).")
        return
    cells = [
        [
            trigger.name,
            trigger.kind,
            _next(trigger, times),
            when(trigger) + ("" if trigger.enabled else " (switched off)"),
        ]
        for trigger, times in rows
    ]
    say(table(("trigger", "kind", "next", "when"), cells, styles=[("bold", "", "", "")] * len(cells)))
    say()
    say(paint(f"Try one: drivetrain triggers replay event.json {target}", "dim"))


@app.command()
def replay(
    file: Annotated[Path, Argument(metavar="EVENT", help="JSON: an event of EventBridge, or a list of them.")],
    target: MaybeTarget = None,
    config: Config = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Show what an event would start, with which values, and why not.

    Nothing is started, and no account is asked, so earlier executions are not known.

    \b
    Examples:
      drivetrain triggers replay approved.json retraining
      drivetrain triggers replay events.json --json
    """
    from drivetrain.triggers.replay import read_events
    from drivetrain.triggers.replay import replay as answers

    try:
        events = read_events(file.read_bytes(), str(file))
    except OSError as error:
        raise UserError(f"Event {file}: {error.strerror}.") from None
    pipelines = list(_pipelines(target, config, set_))
    said: list[dict[str, Any]] = []
    for event in events:
        found = {pipeline.name: answers(pipeline, event) for pipeline in pipelines}
        if as_json:
            said.append(
                {
                    "event": event.get("id"),
                    "detail-type": event.get("detail-type"),
                    "pipelines": {name: [_answer_json(one) for one in given] for name, given in found.items()},
                }
            )
        else:
            say(_event_text(event))
            say(_answers_text(found))
    if as_json:
        say_json(said)


def _pipelines(target: str | None, config: Path | None, set_: list[str] | None) -> Iterator[Pipeline]:
    """The pipeline named, or all that have triggers, of the package and of the current folder."""
    from drivetrain.authoring.loading import load
    from drivetrain.authoring.ready import ready_pipelines

    if target is not None:
        yield load(target, config, set_ or ()).pipeline
        return
    if config is not None or set_:
        raise UserError("--config and --set are for one pipeline. Name it: drivetrain triggers replay EVENT PIPELINE.")
    import sys

    from drivetrain.cli.definition.list_pipelines import own_pipelines

    for name in (*ready_pipelines(), *own_pipelines(Path.cwd())):
        try:
            pipeline = load(name).pipeline
        except UserError as error:
            print(f"warning: {name} is left out: {error}", file=sys.stderr)
            continue
        if pipeline.triggers:
            yield pipeline


def _next_times(trigger: Trigger, now: datetime) -> list[datetime]:
    from itertools import islice

    from drivetrain.spec.pipeline import Schedule
    from drivetrain.triggers.timing import clock

    if not isinstance(trigger, Schedule) or not trigger.enabled:
        return []
    return list(islice(clock(trigger).next_times(now), NEXT_TIMES))


def _next(trigger: Trigger, times: list[datetime]) -> str:
    if not trigger.enabled:
        return "off"
    if times:
        return times[0].strftime("%Y-%m-%d %H:%M")
    return "never" if trigger.kind == "schedule" else "by event"


def _as_json(pipeline: Pipeline, trigger: Trigger, times: list[datetime]) -> dict[str, Any]:
    from drivetrain.spec.pipeline import EventTrigger
    from drivetrain.targets.sagemaker.permissions.names import role_account
    from drivetrain.targets.sagemaker.settings import settings_of
    from drivetrain.triggers.event_values import is_path
    from drivetrain.triggers.patterns import Where, pattern
    from drivetrain.triggers.timing import clock, when

    # A place in an event is no secret, whatever it is called.
    fixed = {name: value for name, value in trigger.parameters.items() if not is_path(str(value))}
    parameters = {**trigger.parameters, **_shown(fixed)}
    made: dict[str, Any] = {**trigger.model_dump(mode="json"), "parameters": parameters, "when": when(trigger)}
    if isinstance(trigger, EventTrigger):
        # The account of the pipeline's role is the one it is deployed to.
        place = settings_of(pipeline.deployment)
        partition, account = role_account(place.role)
        where = Where(place.region, account, partition)
        made["event_pattern"] = pattern(trigger, where.pipeline_arn(pipeline.name), where)
    else:
        made["expression"] = clock(trigger).timing.expression
        made["next"] = [time.isoformat() for time in times]
    return made


def _answer_json(answer: Verdict) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(answer), "parameters": _shown(answer.parameters)}


def _shown(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, without values whose names look like secrets."""
    from drivetrain.base.masking import mask

    return mask(dict(parameters))


def _event_text(event: Mapping[str, Any]) -> str:
    facts = [str(event.get(name)) for name in ("id", "time") if event.get(name)]
    return paint(printable(str(event["detail-type"])), "bold") + printable(f"  {'  '.join(facts)}")


def _answers_text(found: Mapping[str, tuple[Verdict, ...]]) -> str:
    if not any(found.values()):
        return "  no pipeline here has triggers\n"
    lines: list[str] = []
    for pipeline, answers in found.items():
        for answer in answers:
            name = printable(f"{pipeline} / {answer.trigger}")
            if answer.starts:
                lines.append(f"  {paint('✓', 'Succeeded')} {name} starts it")
                shown = sorted(_shown(answer.parameters).items())
                lines += [f"      {printable(f'{key} = {value}')}" for key, value in shown]
            else:
                lines.append(f"  {paint('·', 'dim')} {name} does not")
                lines += [f"      {printable(reason)}" for reason in answer.reasons]
    return "\n".join(lines) + "\n"
