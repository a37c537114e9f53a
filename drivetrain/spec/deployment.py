"""Settings of a deployment: its target, and one block of settings for each target.

A target declares its block as the model `Settings` of `drivetrain/targets/NAME/settings.py`, and is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from drivetrain.base.errors import SpecError, did_you_mean
from drivetrain.base.masking import without_secrets
from drivetrain.spec import Frozen, FrozenDict, FrozenMap, Matching

DEFAULT = "sagemaker"
"""The target of a pipeline that names none."""
_TARGETS = "drivetrain.targets"
_NO_BLOCK: Mapping[str, Any] = FrozenDict()
B = TypeVar("B", bound=Frozen)


def _known(targets: dict[str, Any]) -> dict[str, Any]:
    for name in targets:
        if name.isidentifier() and find_spec(f"{_TARGETS}.{name}") is not None:
            continue
        said = {"name": name, "known": did_you_mean(name, _target_names())}
        raise PydanticCustomError("target", "there is no target '{name}'. {known}", said)
    return targets


def _target_names() -> list[str]:
    found = find_spec(_TARGETS)
    places = found.submodule_search_locations if found is not None else None
    packages = (each.name for each in pkgutil.iter_modules(places) if each.ispkg)
    return [each for each in packages if find_spec(f"{_TARGETS}.{each}.target") is not None]


def _plain(value: Any) -> Any:
    """A block, or a value in one, as JSON has it: so two that say the same are equal, also after they were written."""
    if isinstance(value, Frozen):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in cast("list[Any]", value)]
    return value


class Deployment(Frozen):
    """The target of a pipeline and its settings there."""

    target: Annotated[
        str, Matching(r"[a-z][a-z0-9_]*", "the name of a folder of drivetrain/targets, such as kubeflow")
    ] = DEFAULT
    """The target for which the pipeline is compiled, and to which it is deployed."""
    project: (
        Annotated[
            str,
            Matching(
                r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,98}[A-Za-z0-9])?",
                "1 to 100 letters, digits, '.', '_', '/' and '-', such as vision-team",
            ),
        ]
        | None
    ) = None
    """The project to which deployed pipelines belong, so that another project's of the same name is left alone. By
    default the first commit of the git repository that the command is run in."""
    targets: Annotated[
        dict[str, Annotated[FrozenMap[Any], BeforeValidator(_plain)]],
        AfterValidator(FrozenDict),
        AfterValidator(_known),
    ] = Field(default_factory=FrozenDict)
    """Name of a target -> its block: a mapping, or the target's own `Settings`."""

    @cached_property
    def checked(self) -> dict[str, tuple[Any, Any]]:
        """Name of a target -> its block, and what it was checked to be; see `block_of`."""
        return {}


class LocalRun(Frozen):
    """Local stand-ins for what only the account has; each as the option of `drivetrain run`, which wins."""

    lambdas: FrozenMap[str] = Field(default_factory=FrozenDict)
    """ARN of a function -> FILE.py:FUNCTION or MODULE:FUNCTION."""
    callbacks: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Callback step -> FILE.py:FUNCTION or MODULE:FUNCTION that answers it."""
    stubs: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Step -> JSON file with the outputs that it would have; an empty text where no step needs any."""
    image_commands: FrozenMap[str] = Field(default_factory=FrozenDict)
    """Image -> command that runs in its place."""
    data: FrozenMap[str] = Field(default_factory=FrozenDict)
    """s3:// URI, or `model/NAME` of a model in the account -> file or folder here."""
    trackers: FrozenMap[FrozenMap[str | int | float | bool]] = Field(default_factory=FrozenDict)
    """Experiment tracker -> where it is: `mlflow: {uri: ...}` (docs/trackers.md)."""


def block_model(target: str) -> type[Frozen] | None:
    """The model of a target's block; None where the target declares none."""
    found = module_of(target, "settings")
    return None if found is None else found.Settings


def module_of(target: str, room: str) -> Any:
    """A module that a target may bring, imported; None where it brings none."""
    name = f"{_TARGETS}.{target}.{room}"
    is_there = target.isidentifier() and find_spec(f"{_TARGETS}.{target}") is not None and find_spec(name) is not None
    return importlib.import_module(name) if is_there else None


def in_a_block(name: str) -> str | None:
    """The place of a setting that is written outside of its target's block: a target's name, or a field of its block.
    None where no target has it."""
    names = _target_names()
    if name in names:
        return f"deployment.targets.{name}"
    models = ((target, block_model(target)) for target in names)
    fits = (target for target, model in models if model is not None and name in model.model_fields)
    return next((f"deployment.targets.{target}.{name}" for target in fits), None)


def block_of(deployment: Deployment, target: str, kind: type[B]) -> B:
    """A target's block, checked; with the defaults if it is missing.

    Raises:
        SpecError: an unknown or wrong field, by its name.
    """
    given: Mapping[str, Any] = deployment.targets.get(target, _NO_BLOCK)
    kept = deployment.checked.get(target)
    if kept is None or kept[0] is not given:  # a copy of a deployment may have another block
        try:
            # Most pipelines have no block: defaults are not checked, and what would check them takes 0.5 ms to build.
            block = kind.model_validate(dict(given)) if given else kind.model_construct()
            kept = deployment.checked[target] = given, block
        except ValidationError as error:
            path, said = block_problem(target, kind, error)
            raise SpecError(f"{'.'.join(path)}: {said}") from None
    return kept[1]


def roots_of(deployment: Deployment) -> list[str]:
    """The URIs below which its pipelines write, by the settings of its target and of the one for all that name none.

    Raises:
        SpecError: as `block_of`.
    """
    models = {target: block_model(target) for target in (DEFAULT, deployment.target)}
    blocks = [block_of(deployment, target, model) for target, model in models.items() if model is not None]
    return list(dict.fromkeys(str(block.root) for block in cast("list[Any]", blocks) if hasattr(block, "root")))


def block_problem(target: str, kind: type[Frozen], error: ValidationError) -> tuple[tuple[str, ...], str]:
    """The path of a block's first wrong field, and its problem. A possible secret is not shown."""
    from drivetrain.spec.validation_errors import message_of

    first = error.errors()[0]
    inner = tuple(str(part) for part in first["loc"])
    path = ("deployment", "targets", target, *inner)
    if first["type"] == "extra_forbidden":
        owner = model_at(kind, inner[:-1])
        return path, f"there is no such setting. {did_you_mean(inner[-1], owner.model_fields if owner else ())}"
    text = str(first["input"])
    hidden = inner[:1] and inner[0] in getattr(kind, "NAMES_OF_SECRETS", ())
    shown = not hidden and "@" not in text and without_secrets(text) == text
    return path, f"{message_of(first)}." + (f" Given: {first['input']!r:.120}." if shown else "")


def model_at(kind: type[BaseModel], path: tuple[str, ...]) -> type[BaseModel] | None:
    """The model that a nested field holds; None where it is no model."""
    for at, part in enumerate(path):
        if kind is Deployment and part == "targets" and path[at + 1 :]:
            block = block_model(path[at + 1])
            return None if block is None else model_at(block, path[at + 2 :])
        field = kind.model_fields.get(part)
        inner = model_in(field.annotation) if field else None
        if inner is None:
            return None
        kind = inner
    return kind


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model that a field holds, or a list of such; None where it may hold anything else."""
    kinds = alternatives(get_args(annotation)[0] if get_origin(annotation) in (list, tuple) else annotation)
    first, *others = kinds - {type(None)} or {None}
    return first if not others and isinstance(first, type) and issubclass(first, BaseModel) else None


def alternatives(annotation: Any) -> set[Any]:
    """The types that a field's annotation allows."""
    if get_origin(annotation) is Annotated:
        return alternatives(get_args(annotation)[0])
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    return {each for part in parts for each in alternatives(part)} or {annotation}
