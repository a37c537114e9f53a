"""Read what a user names on the command line: a pipeline of the package, a file of theirs, a definition, a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.authoring.settings import Settings, build, values_of
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.spec.deployment import LocalRun
from drivetrain.targets.sagemaker.run.options import region_of

if TYPE_CHECKING:
    from drivetrain.authoring.loading import Loaded
    from drivetrain.run_store.objects import Asset
    from drivetrain.spec.pipeline import Pipeline
    from drivetrain.targets.sagemaker.compile.compile import Compiled
    from drivetrain.targets.sagemaker.document.document import Definition
    from drivetrain.targets.target import Compiled as CompiledForAny


@dataclass(frozen=True, kw_only=True)
class Work:
    """The input of `run`: a definition's text, and what it needs beside it."""

    name: str
    text: str | bytes
    source: str
    region: str = "us-east-1"
    max_parallel: int | None = None
    assets: tuple[Asset, ...] = ()
    notes: tuple[str, ...] = ()
    local: LocalRun = field(default_factory=LocalRun)
    pipeline: Pipeline | None = None
    """The compiled pipeline, and the folder of its file."""
    folder: Path = field(default_factory=Path.cwd)
    origin: Mapping[str, Any] | None = None
    """The argument of `compiled_again`; None for a pipeline without a name."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The pipeline's settings with their values, defaults included."""
    one_step: bool = False
    """The pipeline was made of one component, whose inputs and parameters are given with --set."""

    @staticmethod
    def from_loaded(loaded: Loaded, named: str | None, config: Path | None, overrides: Sequence[str]) -> Work:
        """A pipeline, compiled for a run on this machine.

        Args:
            named: as it was named; None for one that came as an object, which cannot be compiled again.
            config, overrides: the settings that it was loaded with.

        Raises:
            UserError: as `compiled`.
        """
        built = _compile(loaded, local=True)
        origin = {"target": named, "config": None if config is None else str(config), "set": list(overrides)}
        return Work(
            name=built.pipeline.name,
            text=built.text,
            source=named or "definition",
            region=region_of(built.pipeline.deployment),
            max_parallel=built.pipeline.max_parallel_steps,
            assets=built.assets,
            notes=built.notes,
            local=loaded.settings.local,
            pipeline=built.pipeline,
            folder=loaded.base,
            origin=None if named is None else origin | {"folder": str(Path.cwd())},
            settings=values_of(loaded.settings),
        )

    @staticmethod
    def from_step(pipeline: Pipeline, source: Path | None, name: str) -> Work:
        """A pipeline of one step that was made here, with the folder whose files travel with it; it has no settings.

        Raises:
            UserError: it cannot be compiled.
        """
        from drivetrain.targets.target import DEFAULT, find_target

        here = Path.cwd()
        built = find_target(DEFAULT).compile(pipeline, source, here, here=True)
        return Work(
            name=pipeline.name,
            text=built.text,
            source=name,
            region=region_of(pipeline.deployment),
            assets=built.assets,
            pipeline=pipeline,
            folder=source or here,
            one_step=True,
        )

    @staticmethod
    def from_definition(path: Path, config: Path | None, overrides: Sequence[str] | None) -> Work:
        """A definition runs under the name of the pipeline that it was compiled from. Others run under the name of
        the file, as far as a pipeline can have it.

        Its settings are those of every pipeline: what stands for the account's things on this machine.

        Raises:
            UserError: it cannot be read, or wrong settings.
        """
        text = definition_text(path)
        settings = build(Settings, config, overrides or ())
        return Work(
            name=_compiled_name(text) or name_of(path),
            text=text,
            source=str(path),
            region=region_of(settings.deployment),
            local=settings.local,
        )

    def warnings(self) -> list[str]:
        """List what the service would refuse of the definition, as `check` says it."""
        from drivetrain.targets.sagemaker.document.document import read
        from drivetrain.targets.sagemaker.inspection import warnings

        return warnings(read(self.text, self.source))


def compiled(target: str, config: Path | None, overrides: Sequence[str] | None, *, local: bool = False) -> Compiled:
    """The compiled pipeline of that name or file, with what was edited in Studio (its NAME.studio.yaml).

    `local` does without wheels that are not to be had here, and without edits that do not fit: settings that were
    changed for a run here win.

    Raises:
        UserError: no such pipeline, wrong settings, a pipeline that cannot be compiled, or an edit that does not fit.
    """
    return _compile(_load(target, config, overrides), local=local)


def load_for(target: str, config: Path | None, overrides: Sequence[str] | None, on: str | None) -> tuple[Loaded, str]:
    """A pipeline, and the name of the target that it is for: `on`, or else what its deployment says.

    Raises:
        UserError: no such pipeline, or wrong settings.
    """
    loaded = _load(target, config, overrides)
    return loaded, on or loaded.pipeline.deployment.target


def compiled_for(loaded: Loaded, on: str, *, local: bool = False) -> CompiledForAny:
    """The pipeline in the words of a target.

    Raises:
        UserError: no such target, or what it cannot express, by step and field.
    """
    from drivetrain.targets.target import DEFAULT, find_target

    if on == DEFAULT:  # with what was edited in Studio
        return _compile(loaded, local=local)
    return find_target(on).compile(loaded.pipeline, loaded.source, loaded.base, here=local)


def compiled_again(
    origin: Mapping[str, Any], settings: Sequence[str] | Mapping[str, Any] = ()
) -> tuple[Compiled, dict[str, Any]]:
    """The pipeline of an earlier run, with further settings (`KEY=VALUE`, or Python values by their names), and all of
    its settings.

    Raises:
        UserError: it is no longer where it was, or as `compiled`.
    """
    from contextlib import chdir

    texts, given = ((), settings) if isinstance(settings, Mapping) else (settings, None)
    try:
        with chdir(origin["folder"]):  # from where its paths start
            config = None if origin["config"] is None else Path(origin["config"])
            loaded = _load(origin["target"], config, [*origin["set"], *texts], given)
            return _compile(loaded, local=True), values_of(loaded.settings)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}, where this run was started, is not there any more.") from None


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Settings as the command line takes them: texts that are read back as the values, objects as their JSON.

    Raises:
        UserError: a value that has no such text.
    """
    return [f"{name}={_text_of(name, value)}" for name, value in settings.items()]


def _text_of(name: str, value: object) -> str:
    from drivetrain.authoring.plain_yaml import load_yaml
    from drivetrain.authoring.python_values import json_of, yaml_of

    found = json_of(tuple(str(name).split(".")), value)
    text = yaml_of(found)
    try:
        again = load_yaml(text, f"Setting {name}")
    except UserError as error:  # too deep, too large a number, half a character
        raise UserError(f"{error} A run keeps its settings as text, to go on with them.") from None
    if repr(again) != repr(found):
        raise UserError(f"Setting {name} is not read back from its text as it was given. Give plainer values.")
    return found if isinstance(found, str) and _is_bare(found) else text


def _is_bare(text: str) -> bool:
    """Return True if YAML reads a text without quotes as the same text."""
    from drivetrain.authoring.plain_yaml import load_yaml

    try:
        return load_yaml(text, "") == text
    except UserError:
        return False


def _load(
    target: str, config: Path | None, overrides: Sequence[str] | None, given: Mapping[str, Any] | None = None
) -> Loaded:
    from drivetrain.authoring.loading import load

    return load(target, config, overrides or (), given)


def _compile(loaded: Loaded, *, local: bool) -> Compiled:
    from drivetrain.studio import compile_edited

    return compile_edited(loaded, here=local, edits_optional=local)


def definition_file(path: Path) -> Definition:
    """The definition in a file.

    Raises:
        UserError: it cannot be read, or is no definition.
    """
    from drivetrain.targets.sagemaker.document.document import read

    return read(definition_text(path), str(path))


def definition_text(path: Path) -> bytes:
    """The text of a definition's file: all of it, or enough to see that it is too long.

    Raises:
        UserError: it cannot be read.
    """
    from drivetrain.targets.sagemaker.document.document import read_bytes

    try:
        return read_bytes(path)
    except OSError as error:
        raise UserError(f"Definition {path}: {error.strerror}.") from None


def name_of(path: Path) -> str:
    """The name of a definition's pipeline unless one is given: its file's, as far as a pipeline can have it."""
    return re.sub(r"[^A-Za-z0-9]+", "-", path.stem).strip("-") or "definition"


def _compiled_name(text: bytes) -> str | None:
    """The pipeline of a definition of ours, by the places of its code; None for others' definitions."""
    names = set(re.findall(rb'"s3://[^"]*/([A-Za-z0-9-]+)/code/[0-9a-f]{64}/"', text))
    return names.pop().decode() if len(names) == 1 else None


def is_pipeline(target: str) -> bool:
    """Return True if a target names a pipeline of the package or a Python file."""
    from drivetrain.authoring.ready import ready_pipelines

    name = target.partition(":")[0]
    return name.endswith(".py") or name in ready_pipelines()


def is_definition(target: str) -> bool:
    """Return True if a target is to be read as a definition's file; a name that is neither is a pipeline's,
    mistyped."""
    return target.endswith((".json", ".yaml", ".yml")) or (not is_pipeline(target) and Path(target).exists())
