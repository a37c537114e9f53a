"""The pipeline that `drivetrain submit` makes of a component: a pipeline of one step, run like any other."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.authoring import Pipeline
from drivetrain.authoring.loading import import_file
from drivetrain.authoring.plain_yaml import read_yaml
from drivetrain.base.errors import InputError, UserError, did_you_mean
from drivetrain.catalog.strategies import recipe_file
from drivetrain.cli import home_option, local_home, options
from drivetrain.cli.local.outputs import check_folder, check_inputs, copy_outputs, outputs_of_latest
from drivetrain.cli.outcome import Terminal, exit_code
from drivetrain.operations import running
from drivetrain.operations.operands import Work
from drivetrain.spec.resources import Cluster
from drivetrain.spec.steps import JobStep, ProcessingStep
from drivetrain.steps import command_line
from drivetrain.steps.declaration import Component
from drivetrain.telling.terminal import say, shown_path

if TYPE_CHECKING:
    from drivetrain.cli.local.job import Job
    from drivetrain.run_store.home import Home

COMPONENTS = "drivetrain.components"
# What docs/launcher.md lists; `processes` and the hosts are options of their own.
LAUNCHER_VARIABLES = frozenset(
    f"DRIVETRAIN_{name}"
    for name in (
        *("CHECKPOINTS", "HANG_TIMEOUT", "JOIN_TIMEOUT", "LAST_CALL", "LAUNCHER", "MAX_INTERRUPTIONS", "MAX_RESTARTS"),
        *("NETWORK_INTERFACE", "NODES", "PORT", "PROCESSES", "RENDEZVOUS", "RESOLVE_TIMEOUT", "ROLES"),
        *("SPOT_NOTICE", "STOP_TIMEOUT"),
    )
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def run_here(job: Job, *, home: Path | None, as_json: bool) -> int:
    """Run a job on this machine, watched; returns the exit code. `job.out` gets a copy of its outputs.

    Raises:
        UserError: what is wrong with any of it, before anything starts.
    """
    data, interruptions, out = options.data(job.data), options.interruptions(job.interrupt), job.out
    pipeline, source = one_step_pipeline(job)
    if out is not None:
        (job_step,) = pipeline.steps
        assert isinstance(job_step, JobStep)
        # Those of a training arrive as files.
        outputs = job_step.output_names() if isinstance(job_step, ProcessingStep) else ()
        check_folder(out, outputs)
        check_inputs(out, outputs, job_step.inputs)
    elif _kept_versions(pipeline) > 1:
        raise UserError(
            "keep_versions limits the earlier versions in the folder of --out, which is not given. Each run "
            "writes into folders of its own, which stay as long as the run. Give --out DIR, or leave keep_versions out."
        )
    place = local_home(home)
    work = Work.from_step(pipeline, source, f"submit {job.component}")
    how: dict[str, Any] = {"cache": not job.no_cache, "data": data, "interruptions": interruptions}
    request = running.request_for(work, place, parameters={}, fresh=job.fresh, **how)
    terminal = Terminal(place, as_json=as_json, home_option=home_option(home))
    code = exit_code(running.run(place, request, terminal))
    if code == 0 and (out is not None or not as_json):
        _say_outputs(place, pipeline, out, quiet=as_json)
    return code


def _say_outputs(home: Home, pipeline: Pipeline, out: Path | None, *, quiet: bool) -> None:
    """Say where on this machine the outputs lie, since no next step takes them up."""
    places = outputs_of_latest(home, pipeline.name)
    if out is not None:
        places = copy_outputs(places, out, keep_versions=_kept_versions(pipeline))
    if not quiet:
        for name, place in places.items():
            say(f"{name}: {shown_path(place)}")


def _kept_versions(pipeline: Pipeline) -> int:
    """How many earlier versions of a data set stay in `--out`. The folder of the job has no earlier versions."""
    (step,) = pipeline.steps
    assert isinstance(step, JobStep)
    if not step.program.target.startswith(f"{COMPONENTS}."):  # to others it may mean something else
        return 0
    kept = step.parameters.get("keep_versions", 0)
    return kept if isinstance(kept, int) else 0


def _environment(job: Job) -> dict[str, str]:
    """The job's variables. Those of the launcher in this shell do not reach a job, which is told."""
    import sys

    given = options.pairs("--env", job.env, "NAME=VALUE, such as DRIVETRAIN_MAX_RESTARTS=2")
    for name in given:
        if not _VARIABLE.fullmatch(name):
            raise UserError(
                f"--env {name}: not the name of a variable. Allowed: letters, digits and _, no digit first."
            )
    for name in sorted((LAUNCHER_VARIABLES & os.environ.keys()) - given.keys()):
        print(
            f"{name} of this shell does not reach the job; give it with --env {name}={os.environ[name]}",
            file=sys.stderr,
        )
    return given


def one_step_pipeline(job: Job) -> tuple[Pipeline, Path | None]:
    """The pipeline of a job, and the folder whose Python files travel with it.

    Raises:
        UserError: no such component, input or parameter; a value that is not of its type.
    """
    from drivetrain.authoring import step

    if job.source is not None and not job.source.is_dir():
        raise UserError(f"--source {job.source}: no such folder.")
    component, source = find_component(job.component)
    given = options.pairs("--set", job.set_, "NAME=VALUE, such as epochs=20")
    values = {**(_read_config(component, job.config) if job.config else {}), **read_values(component, given)}
    cluster = Cluster(instance_type=job.instance, count=job.hosts, processes=job.processes)
    environment = _environment(job)
    if job.hosts > 1:
        # The cache ignores machines, as on the service; but a user who submits a job on other hosts wants it run there.
        environment.setdefault("DRIVETRAIN_NODES", str(job.hosts))
    built = step(component, cluster=cluster, environment=environment, **values)
    name = "submit-" + component.name.replace("_", "-")
    source = job.source or source or _folder_of_own_code(component.name, values)
    return Pipeline(name=name, description=component.summary or None, steps=(built,)), source


def _folder_of_own_code(component: str, values: Mapping[str, Any]) -> Path | None:
    """The current folder, where a script or a recipe of the user's own lies in it: it has to go along.

    Raises:
        UserError: the script that is named is not there.
    """
    here, recipe, script = Path.cwd(), values.get("recipe"), values.get("script")
    if component == "train-script" and script and "source" not in values:
        if not (here / script).is_file():
            raise UserError(
                f"--set script={script}: no such file in {here}. Start from the folder of the script, or name that "
                "folder: --source DIR."
            )
        return here
    found = recipe_file(recipe, here) if isinstance(recipe, str) else None
    return here if found is not None and found.is_relative_to(here) else None


def find_component(target: str) -> tuple[Component[..., Any], Path | None]:
    """A component by the name of its file in the package, or `FILE.py:FUNCTION`; and the folder of that file.

    Raises:
        UserError: there is no component of that name.
    """
    file, _, function = target.partition(":")
    if file.endswith(".py"):
        path = Path(file).expanduser().resolve()
        if not path.is_file():
            raise UserError(f"No file {path}. Give an existing .py file, or a component: drivetrain submit train.")
        found = _components_in(vars(import_file(path)))
        if not function and len(found) == 1:
            function = next(iter(found))
        if function not in found:
            raise UserError(
                f"{target}: no component {function or '(none is named)'!r}. {did_you_mean(function, found)}"
            )
        return found[function], path.parent
    name = _file_name(target)
    known = shipped_components()
    if name not in known:
        shown = [each.replace("_", "-") for each in known]
        raise UserError(f"No component {target!r}. {did_you_mean(target, shown)} Or give a file: FILE.py:FUNCTION.")
    return _components_in(vars(importlib.import_module(f"{COMPONENTS}.{name}")))[name], None


def what_can_be_set(words: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """For help: heading -> (`NAME=TYPE`, what it is) of the component that is among the words of a command line."""
    named = component_named(words)
    if named is None:
        return {}
    component, _ = find_component(named)
    inputs = [
        (f"{folder.name}=PATH", folder.help + (" [may be left out]" if folder.optional else ""))
        for folder in component.inputs.values()
    ]
    parameters = [
        (
            f"{each.name}={'|'.join(map(str, each.choices)) or each.type.__name__.upper()}",
            each.help + ("" if each.default is None else f" [default: {each.default!r}]"),
        )
        for each in component.parameters.values()
    ]
    shown = {f"Inputs of {component.name} (--set)": inputs, f"Parameters of {component.name} (--set)": parameters}
    return {title: rows for title, rows in shown.items() if rows}


def component_named(words: Iterable[str]) -> str | None:
    """The component among the words of a command line, as it is written there."""
    known = shipped_components()
    return next((word for word in words if word.partition(":")[0].endswith(".py") or _file_name(word) in known), None)


def _file_name(component: str) -> str:
    return component.replace("-", "_")


def shipped_components() -> list[str]:
    """The components of the package: files that have a function of their own name, decorated; read, not imported."""
    import ast

    package = importlib.import_module(COMPONENTS)
    found: list[str] = []
    for path in sorted(Path(next(iter(package.__path__))).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "@component" not in text:
            continue
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        if any(node.name == path.stem and node.decorator_list for node in functions):
            found.append(path.stem)
    return found


def _components_in(names: Mapping[str, Any]) -> dict[str, Component[..., Any]]:
    return {name: value for name, value in names.items() if isinstance(value, Component)}


def _read_config(component: Component[..., Any], file: Path) -> dict[str, Any]:
    """The values of a YAML file; a mapping or a list becomes the JSON text that options are."""
    import json

    texts = {
        name: json.dumps(value) if isinstance(value, dict | list) else str(value)
        for name, value in read_yaml(file).items()
    }
    values = read_values(component, texts, where=f"{file}: ")
    for name in component.inputs.keys() & values.keys():
        # A path is meant from where it was written.
        if (file.parent / values[name]).exists():
            values[name] = str((file.parent / values[name]).resolve())
    return values


def read_values(component: Component[..., Any], given: Mapping[str, str], *, where: str = "--set ") -> dict[str, Any]:
    """Convert what is set for the step: folders as paths, parameters in their types.

    Raises:
        UserError: a name that the component does not declare, or a value that is not of its type.
    """
    allowed: Sequence[str] = [*component.inputs, *component.parameters]
    values: dict[str, Any] = {}
    for spelled, text in given.items():
        name = spelled.replace("-", "_")
        if name in component.inputs:
            values[name] = text
        elif name in component.parameters:
            try:
                values[name] = command_line.parse(component.parameters[name], text)
            except InputError as error:
                reason = str(error).partition(": ")[2].partition(". With --help")[0]
                raise UserError(f"{where}{spelled}: {reason}.") from None
        else:
            raise UserError(f"{where}{spelled}: {component.name} does not take it. {did_you_mean(spelled, allowed)}")
    return values
