"""`drivetrain serve`: triggers on this machine."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Home, JsonLines, Set
from drivetrain.cli.options import Target as On

if TYPE_CHECKING:
    from drivetrain.serve.runs import Served
    from drivetrain.spec.pipeline import Pipeline

app = App()


@app.command()
def serve(
    targets: Annotated[
        list[str] | None,
        Argument(metavar="PIPELINE", help="Pipelines' names or FILE.py[:FUNCTION]; all here unless given."),
    ] = None,
    config: Config = None,
    set_: Set = None,
    home: Home = None,
    on: On = None,
    poll: Annotated[
        float,
        Option("--poll", min=1.0, max=3600.0, metavar="SECONDS", help="With --target: seconds between two looks."),
    ] = 60.0,
    fresh: Annotated[bool, Option("--fresh", help="The first start of each uses nothing of earlier runs.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Start pipelines here: on schedules, approvals, ends of runs.

    Approvals in the local registry, ends of local runs and findings in served data are the events; stages, uploads and
    alarms are not seen. What a trigger starts is `drivetrain run`, one run of a pipeline at a time. Ctrl-C ends it, and
    the runs that it started.

    With --target the deployed pipeline is started instead, when a model changes in the registry of its settings, or
    something is found in the data that it serves. Both are looked at every so often: for targets that have no events of
    their own, such as Kubeflow.

    \b
    Examples:
      drivetrain serve retraining.py
      drivetrain serve                     every pipeline here that has triggers
      drivetrain serve retraining.py --target kubeflow -c production.yaml
    """
    say = Says(as_json=as_json)
    if on is not None:
        if fresh:
            raise UserError("--fresh does not go with --target. Start it once: drivetrain start PIPELINE --fresh")
        _serve_deployed(targets or [], config, set_ or [], on, poll, say)
        return
    from drivetrain.operations.models import opened
    from drivetrain.serve.server import Server

    place = local_home(home)
    served = _served(targets or [], config, set_ or [], place.root)
    place.create()
    server = Server(served, opened("local", place.root), place, say, fresh=fresh)
    with _signals() as ends:
        try:
            for one in served:
                _announce(one.pipeline, say)
            server.start()
            say("serving; Ctrl-C ends", event="serving", pid=os.getpid())
            ends.get()
            say("ending", event="ending")
        finally:
            server.stop()


@contextmanager
def _signals() -> Generator[queue.SimpleQueue[int]]:
    """The signals that ask this process to end, as they come."""
    import signal

    ends: queue.SimpleQueue[int] = queue.SimpleQueue()  # a signal handler may put into it, which it may not an Event

    def end(number: int, frame: object) -> None:
        ends.put(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield ends
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve_deployed(
    targets: list[str], config: Path | None, overrides: list[str], on: str, poll: float, say: Says
) -> None:
    """Look at the registry every so often, and start what is deployed."""
    from drivetrain.operations.deployment import deployer_of
    from drivetrain.operations.operands import load_for

    if len(targets) != 1:
        raise UserError("With --target one pipeline is served. Name it: drivetrain serve PIPELINE --target NAME")
    loaded, _ = load_for(targets[0], config, overrides, on)
    deployer, _ = deployer_of(targets[0], config, overrides, on=on)
    starter = deployer.starter(loaded.pipeline, say)
    with _signals() as ends:
        serving = f"serving {loaded.pipeline.name} in {deployer.where}; Ctrl-C ends"
        say(serving, event="serving", pid=os.getpid())
        while True:
            try:
                starter.poll()
            except UserError as error:
                say(f"failed, and is tried again in {poll:g} s: {error}")
            try:
                ends.get(timeout=poll)
                break
            except queue.Empty:
                continue
        say("ending", event="ending")


def _served(targets: list[str], config: Path | None, overrides: list[str], home: Path) -> tuple[Served, ...]:
    from drivetrain.authoring.loading import load
    from drivetrain.authoring.ready import ready_pipelines
    from drivetrain.cli.definition.list_pipelines import own_pipelines
    from drivetrain.serve.runs import Served

    if (config is not None or overrides) and len(targets) != 1:
        raise UserError("--config and --set are for one pipeline. Name it: drivetrain serve PIPELINE --set ...")
    given = [*(("--config", str(config)) if config is not None else ()), "--home", str(home)]
    given += [part for one in overrides for part in ("--set", one)]
    found: dict[str, Served] = {}
    for target in targets or [*ready_pipelines(), *own_pipelines(Path.cwd())]:
        try:
            pipeline = load(target, config, overrides).pipeline
        except UserError as error:
            if targets:
                raise
            # Nobody named it: those that can be served are.
            print(f"warning: {target} is left out: {error}", file=sys.stderr)
            continue
        if pipeline.name in found:
            raise UserError(f"Two pipelines are called {pipeline.name!r}; served together, their runs would mix.")
        if pipeline.triggers:
            found[pipeline.name] = Served(pipeline, (target, *given))
        elif targets:
            raise UserError(f"{target} has no triggers. Declare them: Pipeline(..., triggers=[Schedule(...)]).")
    if not found:
        raise UserError("No pipeline here has triggers. Declare them: Pipeline(..., triggers=[Schedule(...)]).")
    return tuple(found.values())


def _announce(pipeline: Pipeline, say: Says) -> None:
    from datetime import UTC, datetime

    from drivetrain.serve.local_events import is_seen
    from drivetrain.spec.pipeline import Schedule
    from drivetrain.triggers.timing import clock, when

    for trigger in pipeline.triggers:
        notes: list[str] = []
        following: datetime | None = None
        if not trigger.enabled:
            notes.append("switched off")
        elif isinstance(trigger, Schedule):
            following = next(clock(trigger).next_times(datetime.now(UTC)), None)
            notes.append("never: its last time is past" if following is None else f"next {following:%Y-%m-%d %H:%M %Z}")
        if not is_seen(trigger):
            notes.append("not seen here")
        told = "".join(f" ({note})" for note in notes)
        say(
            f"{pipeline.name} / {trigger.name}: {when(trigger)}{told}",
            event="trigger",
            pipeline=pipeline.name,
            trigger=trigger.name,
            enabled=trigger.enabled,
            seen=is_seen(trigger),
            next=None if following is None else following.isoformat(),
        )


class Says:
    """Prints what happens: lines with the time, or JSON lines with `event`, `time`, `text` and what is known of it."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def __call__(self, line: str, *, event: str = "said", **known: object) -> None:
        import json
        import time

        from drivetrain.base.formatting import printable

        if self.as_json:
            text = json.dumps({"event": event, "time": time.time(), "text": line, **known}, ensure_ascii=False)
        else:
            shown = "\n".join(printable(part) for part in line.splitlines())
            text = f"{time.strftime('%H:%M:%S')}  {shown}"
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
