"""`drivetrain run`: run a pipeline on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.cli import home_option, local_home, options
from drivetrain.cli.declared import App, Argument, Option, parameters_of
from drivetrain.cli.options import Config, Home, Interrupt, Quiet, Set
from drivetrain.cli.options import Target as On

if TYPE_CHECKING:
    from drivetrain.authoring.loading import Loaded
    from drivetrain.cli.outcome import Terminal
    from drivetrain.run_store.home import Home as Place
    from drivetrain.telling.content import RunFacts

app = App()
# What every target's runner has; one that has no cache runs every step anyway.
_ANYWHERE = ("param", "fresh", "no_cache")


def _pipelines(incomplete: str, _: Mapping[str, Any]) -> list[str]:
    """Names of ready pipelines, and files here, that begin so."""
    from drivetrain.authoring.ready import ready_pipelines

    files = [path.name for path in sorted(Path.cwd().glob("*.py"))]
    return [word for word in [*ready_pipelines(), *files] if word.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options that say how it is to run."""

    param: Annotated[
        list[str] | None,
        Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the pipeline. Repeatable."),
    ] = None
    no_cache: Annotated[bool, Option("--no-cache", help="Run every step.")] = False
    explain_cache: Annotated[
        bool, Option("--explain-cache", help="Say, field by field, why a step is taken from the cache or not.")
    ] = False
    verify: Annotated[bool, Option("--verify", help="First read all stored files, and make damaged ones again.")] = (
        False
    )
    fresh: Annotated[bool, Option("--fresh", help="Use nothing of earlier runs: no result, no checkpoint.")] = False
    parallel: Annotated[
        int | None, Option("--parallel", min=1, metavar="N", help="Steps at a time  [default: processors]")
    ] = None
    select: Annotated[
        list[str] | None,
        Option("--select", metavar="STEP,...", help="Run these steps only; take the rest from an earlier run."),
    ] = None
    from_: Annotated[
        str | None, Option("--from", metavar="RUN", help="The earlier run, for --select  [default: the latest]")
    ] = None
    stub: Annotated[
        list[str] | None,
        Option("--stub", metavar="STEP[=FILE]", help="Do not run the step; what it gives is in this JSON file."),
    ] = None
    image_command: Annotated[
        list[str] | None,
        Option("--image-command", metavar="IMAGE=CMD", help="A command to run instead of this image."),
    ] = None
    function: Annotated[
        list[str] | None,
        Option("--lambda", metavar="ARN=HANDLER", help="Python for a Lambda: FILE.py:FUNCTION, MODULE:FUNCTION."),
    ] = None
    callback: Annotated[
        list[str] | None,
        Option("--callback", metavar="STEP=HANDLER", help="Python that answers a Callback step, as for --lambda."),
    ] = None
    data: Annotated[
        list[str] | None,
        Option("--data", metavar="S3URI=PATH", help="A file or folder for this URI, or for `model/NAME`."),
    ] = None
    read_s3: Annotated[bool, Option("--read-s3", help="Copy other inputs from S3, with your credentials.")] = False
    tag: Annotated[
        list[str] | None, Option("--tag", metavar="NAME=TEXT", help="Mark the run, to find it. Repeatable.")
    ] = None
    interrupt: Interrupt = None
    paths: Annotated[
        Literal["auto", "namespace", "rewrite"],
        Option("--paths", help="How programs find /opt/ml: a private mount, or paths rewritten."),
    ] = "auto"

    def read(self) -> dict[str, Any]:
        """The fields of Options that it says.

        Raises:
            UserError: a text that cannot be read, or names what is not there.
        """
        return {
            "functions": options.pairs("--lambda", self.function, "ARN=FILE.py:FUNCTION or ARN=MODULE:FUNCTION"),
            "callbacks": options.pairs("--callback", self.callback, "STEP=FILE.py:FUNCTION or STEP=MODULE:FUNCTION"),
            "stubs": options.stubs(self.stub),
            "image_commands": options.image_commands(self.image_command),
            "data": options.data(self.data),
            "read_s3": self.read_s3,
            "mode": self.paths,
            "max_parallel": self.parallel,
            "cache": not self.no_cache,
            "explain_cache": self.explain_cache,
            "interruptions": options.interruptions(self.interrupt),
            "selected": options.selected(self.select, self.from_),
            "selected_from": self.from_,
            "tags": options.tags(self.tag),
        }

    def refuse_for(self, on: str, title: str) -> None:
        """
        Raises:
            UserError: something was typed that the runner of another target does not have.
        """
        names = {str(each.name): each.opts[0] for each in parameters_of(RunOptions)}
        given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        if refused := [names[name] for name in given if name not in _ANYWHERE]:
            raise UserError(f"{refused[0]} does not go with --target {on}: there {title} runs what is compiled.")


NONE_GIVEN = RunOptions()


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
    how: RunOptions = NONE_GIVEN,
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
    from drivetrain.cli.outcome import Terminal, exit_code
    from drivetrain.operations import running
    from drivetrain.operations.operands import Work, load_for
    from drivetrain.targets.target import DEFAULT

    # Everything that was typed is looked at before the pipeline is built, which may take a while.
    parameters = options.pairs("--param", how.param, "NAME=VALUE, such as MinAccuracy=0.98")
    given = how.read()
    options.refuse_both(target, definition, "run")
    place = local_home(home)
    new_terminal = partial(Terminal, place, as_json=as_json, quiet=quiet, home_option=home_option(home))
    if target is not None:
        loaded, which = load_for(target, config, set_, on)
        if which != DEFAULT:
            return exit_code(_run_on(loaded, which, how, parameters, place, new_terminal))
        work = Work.from_loaded(loaded, target, config, set_ or ())
    else:
        assert definition is not None
        if on not in (None, DEFAULT):
            raise UserError(f"--definition is of {DEFAULT}, --target is {on}. Give a pipeline, or no --target.")
        work = Work.from_definition(definition, config, set_)
    request = running.request_for(work, place, parameters=parameters, fresh=how.fresh, tell=_note, **given)
    if how.verify:
        from drivetrain.cli.local.home import tell_damages

        tell_damages(place)
    terminal = new_terminal()
    if definition is not None:
        terminal.warnings = work.warnings
    return exit_code(running.run(place, request, terminal))


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _run_on(
    loaded: Loaded,
    on: str,
    how: RunOptions,
    parameters: Mapping[str, str],
    home: Place,
    new_terminal: Callable[[], Terminal],
) -> RunFacts:
    """Run a pipeline as another target's own local runner does."""
    from drivetrain.operations import running
    from drivetrain.operations.operands import compiled_for
    from drivetrain.targets.target import RunsHere, find_target

    found = find_target(on)
    if not isinstance(found, RunsHere):
        raise UserError(f"{found.TITLE} has no runner on this machine. Leave --target out: the steps do the same.")
    how.refuse_for(on, found.TITLE)
    built = compiled_for(loaded, on, local=True)
    for note in built.notes:
        _note(note)
    if loaded.settings.local.trackers:
        _note(f"local.trackers: runs by {found.TITLE}'s runner are not told to trackers.")
    if how.fresh:
        from drivetrain.targets.fresh import made_fresh, new_token

        parameters = made_fresh((one.name for one in built.pipeline.parameters), parameters, new_token())
    return running.watch(
        home, lambda observer: found.run(built, parameters, home.root, observer), new_terminal(), tracked=False
    )
