"""`drivetrain run`: run a pipeline on this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Home, Interrupt, Quiet, Set
from drivetrain.cli.options import Target as On

if TYPE_CHECKING:
    from drivetrain.authoring.loading import Loaded
    from drivetrain.operations.operands import Work
    from drivetrain.run_store.events import Event, Observer
    from drivetrain.spec.pipeline import Pipeline

app = App()
# An import in a function, or an absolute path.
_OF_THIS_MACHINE = re.compile(rb"""^[ \t]+(?:import|from)\s|["']/""", re.MULTILINE)


def _pipelines(incomplete: str, _: Mapping[str, Any]) -> list[str]:
    from drivetrain.cli.completion import pipelines

    return pipelines(incomplete)


@app.command()
def run(
    target: Annotated[
        str | None,
        Argument(
            metavar="PIPELINE",
            help="A pipeline's name (see `drivetrain list`), or FILE.py[:FUNCTION].",
            complete=_pipelines,
        ),
    ] = None,
    definition: Annotated[
        Path | None,
        Option("--definition", "-d", metavar="FILE.json", help="Run a SageMaker definition instead."),
    ] = None,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    param: Annotated[
        list[str] | None,
        Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the pipeline. Repeatable."),
    ] = None,
    no_cache: Annotated[bool, Option("--no-cache", help="Run every step.")] = False,
    explain_cache: Annotated[
        bool, Option("--explain-cache", help="Say, field by field, why a step is taken from the cache or not.")
    ] = False,
    verify: Annotated[
        bool, Option("--verify", help="First read all stored files, and make damaged ones again.")
    ] = False,
    fresh: Annotated[bool, Option("--fresh", help="Use nothing of earlier runs: no result, no checkpoint.")] = False,
    parallel: Annotated[
        int | None, Option("--parallel", min=1, metavar="N", help="Steps at a time  [default: processors]")
    ] = None,
    select: Annotated[
        list[str] | None,
        Option("--select", metavar="STEP,...", help="Run these steps only; take the rest from an earlier run."),
    ] = None,
    from_: Annotated[
        str | None, Option("--from", metavar="RUN", help="The earlier run, for --select  [default: the latest]")
    ] = None,
    stub: Annotated[
        list[str] | None,
        Option("--stub", metavar="STEP[=FILE]", help="Do not run the step; what it gives is in this JSON file."),
    ] = None,
    image_command: Annotated[
        list[str] | None,
        Option("--image-command", metavar="IMAGE=CMD", help="A command to run instead of this image."),
    ] = None,
    function: Annotated[
        list[str] | None,
        Option("--lambda", metavar="ARN=HANDLER", help="Python for a Lambda: FILE.py:FUNCTION, MODULE:FUNCTION."),
    ] = None,
    callback: Annotated[
        list[str] | None,
        Option("--callback", metavar="STEP=HANDLER", help="Python that answers a Callback step, as for --lambda."),
    ] = None,
    data: Annotated[
        list[str] | None,
        Option("--data", metavar="S3URI=PATH", help="A file or folder for this URI, or for `model/NAME`."),
    ] = None,
    read_s3: Annotated[bool, Option("--read-s3", help="Copy other inputs from S3, with your credentials.")] = False,
    tag: Annotated[
        list[str] | None, Option("--tag", metavar="NAME=TEXT", help="Mark the run, to find it. Repeatable.")
    ] = None,
    interrupt: Interrupt = None,
    paths: Annotated[
        Literal["auto", "namespace", "rewrite"],
        Option("--paths", help="How programs find /opt/ml: a private mount, or paths rewritten."),
    ] = "auto",
    home: Home = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, Option("--json", help="Print events as JSON lines, for scripts.")] = False,
) -> int:
    """Run a pipeline on this machine.

    It runs from the definition that would be deployed, without docker, network or account. A run that was killed goes
    on where it was when the same command is given again, unless that has --fresh.

    \b
    Examples:
      drivetrain run retraining
      drivetrain run retraining --set epochs=20 --param MinAccuracy=0.98
      drivetrain run digits.py -c nightly.yaml --explain-cache
      drivetrain run retraining --set spot=true --interrupt train@step=120
      drivetrain run retraining --select evaluate,compare --from latest
      drivetrain run --definition pipeline.json --stub deploy=deployed.json
      drivetrain run retraining --target kubeflow
    """
    from drivetrain.cli import home_option, local_home, options, watching
    from drivetrain.targets.sagemaker.run.options import Options
    from drivetrain.targets.target import DEFAULT

    # Everything that was typed is looked at before the pipeline is built, which may take a while.
    parameters = options.pairs("--param", param, "NAME=VALUE, such as MinAccuracy=0.98")
    stubs, commands = options.stubs(stub), options.image_commands(image_command)
    functions = options.pairs("--lambda", function, "ARN=FILE.py:FUNCTION or ARN=MODULE:FUNCTION")
    callbacks = options.pairs("--callback", callback, "STEP=FILE.py:FUNCTION or STEP=MODULE:FUNCTION")
    selected = options.selected(select, from_)
    tags = options.tags(tag)
    local_data, interruptions = options.data(data), options.interruptions(interrupt)
    loaded = _load(target, definition, config, set_, on)
    if loaded is not None and loaded[1] != DEFAULT:
        given = {"--explain-cache": explain_cache, "--parallel": parallel}  # it has no cache: --no-cache goes with it
        given |= {"--select": select, "--stub": stub, "--image-command": image_command, "--lambda": function}
        given |= {
            "--callback": callback,
            "--data": data,
            "--read-s3": read_s3,
            "--interrupt": interrupt,
            "--paths": paths != "auto",
            "--verify": verify,
            "--tag": tag,
        }
        return _run_on(*loaded, parameters, home, given, fresh=fresh, as_json=as_json, quiet=quiet)
    work = _work(target, definition, config, set_, None if loaded is None else loaded[0])

    def from_settings(given: Mapping[str, str]) -> list[str]:
        return [f"{name}={value}" for name, value in given.items()]

    uncached: dict[str, str] = {}
    stubbed = {**options.stubs(from_settings(work.local.stubs)), **stubs}
    if work.pipeline is not None and _asks_of_this_machine(work.pipeline, work.folder):
        from drivetrain.operations.needs import read_each_time, refuse_lacking

        refuse_lacking(work.pipeline, work.folder, work.assets, left_out=stubbed, only=selected)
        uncached = read_each_time(work.pipeline, work.folder)
    for note in work.notes:
        print(f"note: for a deployment, {note}", file=sys.stderr)
    if work.pipeline is not None and _compares_by_budgets(work.pipeline):
        from drivetrain.operations.planned_decisions import notes

        for note in notes(work.pipeline, work.folder, f"local:{local_home(home).ledger}"):
            print(f"note: {note}", file=sys.stderr)

    how = Options(
        pipeline=work.name,
        max_parallel=parallel or work.max_parallel,
        functions={**work.local.lambdas, **functions},
        callbacks={**work.local.callbacks, **callbacks},
        stubs=stubbed,
        image_commands={**options.image_commands(from_settings(work.local.image_commands)), **commands},
        data={**options.data(from_settings(work.local.data)), **local_data},
        read_s3=read_s3,
        mode=paths,
        cache=not no_cache,
        uncached=uncached,
        triggered=work.pipeline is not None and bool(work.pipeline.triggers),
        explain_cache=explain_cache,
        interruptions=interruptions,
        selected=selected,
        selected_from=from_,
        origin=work.origin,
        settings=work.settings,
        tags=tags,
        trackers=options.trackers(work.local.trackers),
        region=work.region,
    )
    if verify:
        from drivetrain.cli.local.home import tell_damages

        tell_damages(local_home(home))
    return watching.start(
        local_home(home),
        work.text,
        parameters,
        how,
        work.assets,
        source=work.source,
        fresh=fresh,
        as_json=as_json,
        quiet=quiet,
        home_option=home_option(home),
        wrap=partial(_warned, None if definition is None else work),
    )


def _warned(definition: Work | None, observer: Observer) -> Observer:
    """An observer that first warns of what the service would refuse of a definition, once its run has begun."""
    if definition is None:
        return observer
    from drivetrain.run_store.events import ExecutionStarted

    def tell(event: Event) -> None:
        if isinstance(event, ExecutionStarted):
            for warning in definition.warnings():
                print(f"warning: {warning}", file=sys.stderr)
        observer(event)

    return tell


def _asks_of_this_machine(pipeline: Pipeline, folder: Path) -> bool:
    """Whether a step says what it needs, or has a recipe, which imports what it likes, or a component whose file has
    an import in a function or an absolute path: else nothing is looked for."""
    from drivetrain.spec.steps import JobStep, flatten

    jobs = [step for step in flatten(pipeline.steps) if isinstance(step, JobStep)]
    if any(job.program.needs or "recipe" in job.parameters for job in jobs):
        return True
    modules = {job.program.target.partition(":")[0] for job in jobs if job.program.kind == "component"}
    files = (folder / f"{module.replace('.', '/')}.py" for module in modules)
    return any(_OF_THIS_MACHINE.search(file.read_bytes()) for file in files if file.is_file())


def _compares_by_budgets(pipeline: Pipeline) -> bool:
    from drivetrain.spec.steps import JobStep, flatten

    jobs = (step for step in flatten(pipeline.steps) if isinstance(step, JobStep))
    return any(job.parameters.get("budgets", "{}") != "{}" for job in jobs)


def _load(
    target: str | None, definition: Path | None, config: Path | None, set_: list[str] | None, on: str | None
) -> tuple[Loaded, str] | None:
    """The pipeline that was named, and for which target; None for a definition."""
    from drivetrain.cli import options
    from drivetrain.operations.operands import load_for
    from drivetrain.targets.target import DEFAULT

    options.refuse_both(target, definition, "run")
    if target is None:
        if on not in (None, DEFAULT):
            raise UserError(f"--definition is of {DEFAULT}, --target is {on}. Give a pipeline, or no --target.")
        return None
    return load_for(target, config, set_, on)


def _work(
    target: str | None, definition: Path | None, config: Path | None, set_: list[str] | None, loaded: Loaded | None
) -> Work:
    """What is to be run: the pipeline that was named, compiled, or the definition as it is."""
    from drivetrain.operations.operands import Work

    if definition is not None:
        return Work.from_definition(definition, config, set_)
    assert target is not None
    return Work.from_pipeline(target, config, set_, loaded)


def _run_on(
    loaded: Loaded,
    on: str,
    parameters: Mapping[str, str],
    home: Path | None,
    given: Mapping[str, object],
    *,
    fresh: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run a pipeline as another target's own local runner does."""
    from drivetrain.cli import home_option, local_home, watching
    from drivetrain.operations.operands import compiled_for
    from drivetrain.targets.target import RunsHere, find_target

    found = find_target(on)
    if not isinstance(found, RunsHere):
        raise UserError(f"{found.TITLE} has no runner on this machine. Leave --target out: the steps do the same.")
    if refused := [name for name, value in given.items() if value]:
        raise UserError(f"{refused[0]} does not go with --target {on}: there {found.TITLE} runs what is compiled.")
    built = compiled_for(loaded, on, local=True)
    for note in built.notes:
        print(f"note: {note}", file=sys.stderr)
    if loaded.settings.local.trackers:
        print(f"note: local.trackers: runs by {found.TITLE}'s runner are not told to trackers.", file=sys.stderr)
    if fresh:
        from drivetrain.targets.fresh import made_fresh, new_token

        parameters = made_fresh((one.name for one in built.pipeline.parameters), parameters, new_token())
    folder = local_home(home)
    return watching.watched(
        folder,
        lambda observer: found.run(built, parameters, folder.root, observer),
        as_json=as_json,
        quiet=quiet,
        home_option=home_option(home),
        tracked=False,
    )
