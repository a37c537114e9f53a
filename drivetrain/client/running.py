"""Start a pipeline on this machine, or go on with a run, and watch it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from drivetrain.assets import source_files
from drivetrain.authoring import Pipeline
from drivetrain.authoring.cells import write_modules
from drivetrain.authoring.loading import Loaded, load, load_function, settings_file
from drivetrain.authoring.settings import Settings, build
from drivetrain.base.errors import UserError, shown
from drivetrain.operations import running
from drivetrain.operations.operands import Work, as_overrides
from drivetrain.operations.running import Watcher, new_progress
from drivetrain.run_store.home import Home
from drivetrain.run_store.labels import checked_tags
from drivetrain.steps.declaration import Component
from drivetrain.targets.target import DEFAULT, find_target

if TYPE_CHECKING:
    from drivetrain.telling.content import RunFacts


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
    loaded = _loaded(pipeline, config, settings)
    _refuse_other_target(loaded)
    if isinstance(pipeline, str | Path):
        work = Work.from_loaded(loaded, str(pipeline), config, as_overrides(settings))
    else:
        work = Work.from_loaded(_with_modules(loaded), None, config, ())
    request = running.request_for(work, home, parameters=parameters, fresh=fresh, cache=cache, tags=checked_tags(tags))
    return _ended(running.run(home, request, _watcher(quiet)))


def resume(home: Home, execution: str, settings: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Go on with a run, with other settings perhaps; see `Run.resume`."""
    _ended(running.resume(home, execution, _watcher(quiet), settings=settings))


def _watcher(quiet: bool) -> Watcher:
    return Watcher(new_progress(as_json=False, quiet=quiet))


def _ended(facts: RunFacts) -> str:
    """The run's id.

    Raises:
        KeyboardInterrupt: it was stopped. The runner has handled the signal: the caller, a cell or a script, is to end
            too.
    """
    if facts.status == "Stopped":
        raise KeyboardInterrupt(f"run {facts.id} was stopped; dt.Run({facts.id!r}).resume() goes on")
    return facts.id


def _loaded(pipeline: Any, config: Path | None, settings: Mapping[str, Any]) -> Loaded:
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
    name = loaded.pipeline.deployment.target
    if name != DEFAULT:
        title = find_target(name).TITLE
        raise UserError(
            f"run(): deployment.target is {name}, and run() has no runner for {title}. Give it as {DEFAULT} for this "
            f"machine's own runner, or call on the command line: drivetrain run FILE.py --target {name}."
        )


def _refuse_what_is_not_kept(loaded: Loaded, target: str, config: Path | None, settings: Mapping[str, Any]) -> None:
    """A resume takes the settings from their text; a secret, for example, has none."""
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
