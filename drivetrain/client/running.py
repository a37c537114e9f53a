"""Start a pipeline on this machine, or go on with a run, and watch it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, shown
from drivetrain.client.arguments import as_overrides
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.run.options import region_of

if TYPE_CHECKING:
    from drivetrain.authoring.loading import Loaded
    from drivetrain.targets.sagemaker.run.runner import Runner, Summary


def start(
    pipeline: Any,
    home: Home,
    parameters: Mapping[str, Any],
    config: Path | None,
    settings: Mapping[str, Any],
    *,
    cache: bool,
    fresh: bool,
    quiet: bool,
    tags: Mapping[str, str],
) -> str:
    """Run a pipeline, or go on with the same run where it was interrupted; gives the execution. See `dt.run`."""
    from drivetrain.authoring.settings import values_of
    from drivetrain.operations.needs import read_each_time, refuse_lacking
    from drivetrain.run_store.labels import checked_tags
    from drivetrain.studio import compile_edited
    from drivetrain.targets.sagemaker.run.options import Options
    from drivetrain.trackers.tracker import checked

    loaded = _loaded(pipeline, config, settings)
    _refuse_other_target(loaded)
    if not isinstance(pipeline, str | Path):
        loaded = _with_modules(loaded)
    built = compile_edited(loaded, here=True, edits_optional=True)
    refuse_lacking(built.pipeline, loaded.base, built.assets)
    local = loaded.settings.local
    options = Options(
        pipeline=built.pipeline.name,
        max_parallel=built.pipeline.max_parallel_steps,
        cache=cache,
        uncached=read_each_time(built.pipeline, loaded.base),
        triggered=bool(built.pipeline.triggers),
        functions=dict(local.lambdas),
        callbacks=dict(local.callbacks),
        region=region_of(built.pipeline.deployment),
        origin=_origin(pipeline, config, settings),
        settings=values_of(loaded.settings),
        tags=checked_tags(tags),
        trackers=checked(local.trackers),
    )

    def begin(runner: Runner) -> Summary:
        interrupted = None if fresh else runner.find_interrupted(built.text, parameters, options)
        if interrupted is not None:
            return runner.resume(interrupted, options, assets=built.assets)
        return runner.start(built.text, parameters, options, assets=built.assets, fresh=fresh)

    return _watched(home, begin, quiet=quiet).execution


def resume(home: Home, execution: str, settings: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Go on with a run, with other settings perhaps; see `Run.resume`."""
    if not settings:
        _watched(home, lambda runner: runner.resume(execution), quiet=quiet)
        return
    from drivetrain.targets.sagemaker.run.options import Request

    origin = Request.load(home.run(execution)).options.origin
    if origin is None:
        raise UserError(
            f"Run {execution} was not started from a named pipeline with settings, so there is nothing to compile "
            "again. Start it with the changed settings: a training goes on from its checkpoints."
        )
    from dataclasses import replace

    from drivetrain.operations.operands import compiled_again

    overrides = as_overrides(settings)
    built, values = compiled_again(origin, given=settings)
    origin = {**origin, "set": [*origin["set"], *overrides]}
    options = replace(Request.load(home.run(execution)).options, origin=origin, settings=values)
    _watched(home, lambda runner: runner.resume(execution, options, text=built.text, assets=built.assets), quiet=quiet)


def _loaded(pipeline: Any, config: Path | None, settings: Mapping[str, Any]) -> Loaded:
    from drivetrain.authoring import Pipeline
    from drivetrain.authoring.loading import Loaded, load, load_function
    from drivetrain.authoring.settings import Settings
    from drivetrain.steps.declaration import Component

    if isinstance(pipeline, str | Path):
        loaded = load(str(pipeline), config, given=settings)
        if settings:
            _refuse_what_is_not_kept(loaded, str(pipeline), config, settings)
        return loaded
    if isinstance(pipeline, Pipeline):
        if settings or config is not None:
            name = next(iter(settings), "config")
            raise UserError(
                f"run(Pipeline {pipeline.name!r}, {name}=...): it is built already. Give the function that builds it, "
                "or change what it is given there."
            )
        return Loaded(pipeline, Settings(), None, Path.cwd())
    if callable(pipeline) and not isinstance(pipeline, type | BuiltinFunctionType | Component):
        return load_function(pipeline, config, settings)
    raise UserError(
        f"run() is given {shown(pipeline)}. Give the name of a pipeline, a file, a function that returns a Pipeline, "
        "or a Pipeline."
    )


def _refuse_other_target(loaded: Loaded) -> None:
    """`drivetrain run` has the runner of that target; a Run is of the local runner alone."""
    from drivetrain.targets.target import DEFAULT, find_target

    name = loaded.pipeline.deployment.target
    if name != DEFAULT:
        title = find_target(name).TITLE
        raise UserError(
            f"run(): deployment.target is {name}, and run() has no runner for {title}. Give it as {DEFAULT} for this "
            f"machine's own runner, or call on the command line: drivetrain run FILE.py --target {name}."
        )


def _refuse_what_is_not_kept(loaded: Loaded, target: str, config: Path | None, settings: Mapping[str, Any]) -> None:
    """A resume takes the settings from their text; a secret, for example, has none."""
    from drivetrain.authoring.loading import settings_file
    from drivetrain.authoring.settings import build

    beside = settings_file(target)
    file = config.expanduser().resolve() if config is not None else beside if beside.exists() else None
    with warnings.catch_warnings(action="ignore"):  # said once already
        again = build(type(loaded.settings), file, as_overrides(settings))
    for name in type(again).model_fields:
        old, new = getattr(loaded.settings, name), getattr(again, name)
        if old != new and (old == old or new == new):
            raise UserError(
                f"run({name}=...): a run keeps its settings as text, to go on with them, and this one is not the same "
                "when it is read from there. Give text, numbers, lists or dicts."
            )


def _with_modules(loaded: Loaded) -> Loaded:
    """The pipeline with the modules of its components, where it came as an object: those of a notebook's cells, and the
    user's own that do not lie in the folder that travels, such as those of a package below another name."""
    from dataclasses import replace

    from drivetrain.assets import source_files
    from drivetrain.authoring.cells import write_modules

    folder = Path(tempfile.mkdtemp(prefix="drivetrain-modules-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_modules(loaded.pipeline, folder)
    source, written = loaded.source, source_files(folder)
    if not written or (source is not None and all((source / file.relative_to(folder)).exists() for file in written)):
        return loaded
    if source is not None:
        for file in source_files(source):
            place = folder / file.relative_to(source)
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
    return replace(loaded, source=folder)


def _origin(pipeline: Any, config: Path | None, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `compiled_again` takes, of a pipeline that has a name; None of one that is an object."""
    if not isinstance(pipeline, str | Path):
        return None
    return {
        "target": str(pipeline),
        "config": None if config is None else str(config),
        "set": as_overrides(settings),
        "folder": str(Path.cwd()),
    }


def _watched(home: Home, begin: Callable[[Runner], Summary], *, quiet: bool) -> Summary:
    from drivetrain.cli.watching import Watcher, new_progress
    from drivetrain.operations.concluding import conclude
    from drivetrain.targets.sagemaker.run.runner import Runner
    from drivetrain.trackers import told_to_trackers

    watcher = Watcher(new_progress(as_json=False, quiet=quiet))
    with told_to_trackers(home, watcher) as observer:
        with watcher:
            summary = begin(Runner(home, observer))
        watcher.raise_what_went_wrong()
        conclude(home, summary.execution)
    if summary.status == "Stopped":
        # The runner has handled the signal: whoever called, a cell or a script, is to end too.
        raise KeyboardInterrupt(f"run {summary.execution} was stopped; dt.Run({summary.execution!r}).resume() goes on")
    return summary
