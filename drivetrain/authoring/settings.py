"""Settings that a user changes without touching the pipeline: a typed model, filled from file, environment and command
line.

    class Retraining(Settings):
        dataset: str = "example:digits"
        epochs: int = 10

Later sources win: defaults in the class, then the YAML file, then `DRIVETRAIN_EPOCHS=20`, then `--set epochs=20`, or
what a call in Python is given: `dt.run(..., epochs=20)`.
Nested fields are spelled `deployment.targets.sagemaker.bucket` and `DRIVETRAIN_DEPLOYMENT__TARGETS__SAGEMAKER__BUCKET`.
A field of text takes what is typed as it is, also a JSON object: `--set 'strategy_options={"tensor": 2}'`. In the file
that is a mapping, which becomes its JSON text.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined

from drivetrain.base.call_site import place_of_field
from drivetrain.base.errors import Notice, SpecError, UserError, at_place, did_you_mean, shown
from drivetrain.base.masking import MASK, Masking, looks_secret
from drivetrain.spec import Frozen
from drivetrain.spec.deployment import (
    Deployment,
    LocalRun,
    alternatives,
    block_model,
    block_problem,
    model_at,
    model_in,
)

ENVIRONMENT_PREFIX = "DRIVETRAIN_"
# Set by the package itself or by a step's start file, never a setting.
RESERVED_ENVIRONMENT = frozenset(
    f"{ENVIRONMENT_PREFIX}{name}"
    for name in (
        *("CHECKPOINTS", "CONFIG", "FAILURE_FILE", "HANG_TIMEOUT", "HOME", "HOST", "HOSTS", "JOIN_TIMEOUT"),
        *("LASTCALL", "LAUNCHER", "MAX_INTERRUPTIONS", "MAX_RESTARTS", "NETWORK_INTERFACE", "NODES"),
        *("NOTICE_MAIL", "NOTICE_URL", "PORT", "PRICES", "PROCESSES", "REHEARSE_FILE", "REHEARSE_STEP"),
        *("RENDEZVOUS", "RESOLVE_TIMEOUT", "SMTP", "SOURCE", "SPOT_NOTICE", "STOP_TIMEOUT", "TENSORBOARD_FOLDER"),
    )
)
# Those that the package reads elsewhere, beside RESERVED_ENVIRONMENT: no slips, however near a setting's name is.
_OURS = frozenset(
    (
        *("complete", "copies", "decoded_cache", "decoded_cache_mib", "deepspeed_kernels", "evidence", "execution"),
        "fail_on_violation",
        *("fresh", "job", "kubernetes_api", "local_data", "mask", "model_name"),
        *("most_body_mb", "most_connections", "node_folder", "object_store", "options"),
        *("parent_pid", "pipeline", "rank_hosts", "ranks_folder", "registry", "service_account", "sha256"),
        *("sources", "spark_settings", "start", "task", "task_logs", "task_reports", "termination_message"),
        *("unpacked", "unpacked_code"),
    )
)


class Settings(Frozen, defer_build=False):
    """Base of a pipeline's configuration; subclass it with a field for each value that users change."""

    deployment: Deployment = Deployment()
    """The target, and the pipeline's place there."""
    local: LocalRun = LocalRun()
    """Stand-ins for runs on this machine."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name, kind in (("deployment", Deployment), ("local", LocalRun)):
            given = cls.model_fields[name].annotation
            if not (isinstance(given, type) and issubclass(given, kind)):
                said = f"{cls.__name__}.{name} is {shown(given)}, but every pipeline's settings have a {name}, which is"
                raise SpecError(f"{said} a {kind.__name__}. Give the field another name.")

    if not TYPE_CHECKING:  # a type checker would allow every name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                return super().__getattr__(name)
            known = did_you_mean(name, type(self).model_fields)
            raise UnknownSettingError(f"Setting {name!r} does not exist in {type(self).__name__}. {known}")


class UnknownSettingError(SpecError, AttributeError):
    """A pipeline reads a setting that its class does not have."""


S = TypeVar("S", bound=Settings)


def build(
    kind: type[S],
    file: Path | None = None,
    overrides: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> S:
    """The settings from all sources, validated.

    Args:
        kind: the settings class.
        file: a YAML file, or None.
        overrides: `key=value` texts; values are read as YAML (`true`, `3`, `[a, b]`), but a field of text keeps what
            YAML would take for a number, a date, a list or a mapping.
        environment: variables; the process's own unless given.
        given: Python values by name, nested ones under `a.b`; they arrive as they are.

    Raises:
        UserError: naming the source, the field, what was given and what is allowed.
    """
    values: dict[str, Any] = {}
    origin: dict[tuple[str, ...], str] = {}
    if file is not None:
        from drivetrain.authoring.plain_yaml import read_yaml

        values = _objects_as_text(kind, read_yaml(file))
        _note(origin, values, str(file))
    for name, text in sorted((os.environ if environment is None else environment).items()):
        path = _environment_path(kind, name)
        if path is not None:
            _put(values, path, _value(kind, path, text, name), origin, name)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not all(key.split(".")):
            raise UserError(f"--set {override!r}: give key=value, for example --set epochs=20.")
        path = tuple(key.split("."))
        _put(values, path, _value(kind, path, text, f"--set {key}"), origin, "--set")
    for key, value in (given or {}).items():
        from drivetrain.authoring.python_values import CALL, as_given

        path = tuple(key.split("."))
        _put(values, path, as_given(path, value, text=_is_text(kind, path)), origin, CALL)
    _refuse_truth_for_numbers(kind, values, origin)
    _refuse_unknown_fields(kind, values, origin)
    try:
        settings = kind.model_validate(values)
    except ValidationError as error:
        from drivetrain.authoring.settings_errors import explained

        said = explained(error, lambda path: _source(path, origin), lambda path: model_at(kind, path))
        raise UserError(said) from None
    _check_blocks(settings.deployment, origin)
    _refuse_wrong_defaults(kind, values)
    return settings


def _refuse_truth_for_numbers(
    kind: type[BaseModel], values: Mapping[str, Any], origin: Mapping[tuple[str, ...], str], place: tuple[str, ...] = ()
) -> None:
    """YAML reads `yes` and `on` as true, which Python takes for the number 1."""
    for name, value in values.items():
        path = (*place, name)
        if isinstance(value, dict) and (inner := model_at(kind, (name,))) is not None:
            _refuse_truth_for_numbers(inner, cast("dict[str, Any]", value), origin, path)
        elif isinstance(value, bool) and name in kind.model_fields:
            allowed = alternatives(kind.model_fields[name].annotation)
            if allowed & {int, float} and not allowed & {bool, Any}:
                source = _source(path, origin)
                from drivetrain.authoring.python_values import CALL

                hint = "" if source == CALL else " YAML reads yes, no, on and off as True and False."
                raise UserError(
                    f"Setting {'.'.join(path)}{f' (from {source})' if source else ''} is {value}: give a number.{hint}"
                )


def _refuse_unknown_fields(
    kind: type[BaseModel], given: Any, origin: Mapping[tuple[str, ...], str], path: tuple[str, ...] = ()
) -> None:
    """Refuse unknown fields of nested models that are pydantic's own, which drop names that they do not have."""
    for key, value in cast("dict[str, Any]", given).items() if isinstance(given, dict) else ():
        field = kind.model_fields.get(key)
        if field is None and path and _drops_unknown_fields(kind):
            where = f"{'.'.join((*path, key))} (from {_source((*path, key), origin)})"
            raise UserError(f"Setting {where} does not exist. {did_you_mean(key, kind.model_fields)}")
        if field is None or (inner := model_in(field.annotation)) is None:
            continue
        for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
            _refuse_unknown_fields(inner, item, origin, (*path, key))


def _drops_unknown_fields(kind: type[BaseModel]) -> bool:
    """Return True if a model takes any name and forgets it; not if it has other names, or looks at what it is given."""
    validators = kind.__pydantic_decorators__.model_validators.values()
    has_aliases = any(field.validation_alias is not None for field in kind.model_fields.values())
    is_plain = not has_aliases and all(each.info.mode == "after" for each in validators)
    return is_plain and kind.model_config.get("extra", "ignore") == "ignore"


def _check_blocks(deployment: Deployment, origin: Mapping[tuple[str, ...], str]) -> None:
    for target, block in deployment.targets.items():
        model = block_model(target)
        if model is None:
            continue
        try:
            model.model_validate(dict(block))
        except ValidationError as error:
            path, said = block_problem(target, model, error)
            source = _source(path, origin)
            raise UserError(f"{'.'.join(path)}{f' (from {source})' if source else ''}: {said}") from None


def _refuse_wrong_defaults(kind: type[Settings], values: Mapping[str, Any]) -> None:
    """Defaults are not validated, and would be refused far from their line. None often stands for none."""
    defaults = {
        name: field.default
        for name, field in kind.model_fields.items()
        if name not in values and field.alias is None and field.default not in (None, PydanticUndefined)
    }
    try:
        kind.model_validate({**values, **defaults})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if name not in defaults:
            return
        from drivetrain.spec.validation_errors import message_of

        given = MASK if looks_secret(name) else shown(defaults[name])
        said = f"The default of setting {name} in {kind.__name__} is {given}: {message_of(first)}."
        raise at_place(SpecError(said), place_of_field(kind, name)) from None


def _environment_path(kind: type[Settings], name: str) -> tuple[str, ...] | None:
    """The field that a variable names. Unknown ones may be another program's; those near a setting are warned of."""
    if not name.startswith(ENVIRONMENT_PREFIX) or name in RESERVED_ENVIRONMENT:
        return None
    path = tuple(part.lower() for part in name.removeprefix(ENVIRONMENT_PREFIX).split("__"))
    if path[0] in kind.model_fields:
        return path
    from difflib import get_close_matches

    # Another pipeline may have a setting of that name.
    close = [] if path[0] in _OURS else get_close_matches(path[0], kind.model_fields, 1, 0.8)
    if close:
        meant = name.upper().replace(path[0].upper(), close[0].upper(), 1)
        said = f"{name} is ignored: this pipeline has no setting {path[0]!r}. Did you mean {meant}?"
        warnings.warn(said, Notice, stacklevel=2)
    return None


def _value(kind: type[Settings], path: tuple[str, ...], text: str, where: str) -> Any:
    """Convert a text from the command line or the environment for a field."""
    from drivetrain.authoring.plain_yaml import load_yaml

    value = load_yaml(text, where)
    # Text it is already, but for YAML's null, which a field may allow.
    return text if not isinstance(value, str | None) and _is_text(kind, path) else value


def _objects_as_text(kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a file, with mappings and lists as JSON where the field is one of text."""
    import json

    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict | list) and _is_text(kind, (name,)):
            found[name] = json.dumps(value, default=str)  # a date of YAML's is a text to JSON
        elif isinstance(value, dict) and (inner := model_at(kind, (name,))) is not None:
            found[name] = _objects_as_text(inner, value)  # type: ignore[reportUnknownArgumentType]
        else:
            found[name] = value
    return found


def _is_text(kind: type[BaseModel], path: tuple[str, ...]) -> bool:
    """Return True if a field takes text and nothing that is written as a list or a mapping."""
    owner = model_at(kind, path[:-1])
    field = owner.model_fields.get(path[-1]) if owner is not None else None
    annotation: Any = field.annotation if field is not None else None
    return alternatives(annotation) in ({str}, {str, type(None)})


def _put(
    values: dict[str, Any], path: tuple[str, ...], value: Any, origin: dict[tuple[str, ...], str], source: str
) -> None:
    place = values
    for part in path[:-1]:
        found = place.get(part)
        if found is None or isinstance(found, dict):
            inner = dict(cast("dict[str, Any]", found or {}))
        else:
            from drivetrain.authoring.python_values import fields_given

            inner = fields_given(found)
        place[part] = inner
        place = inner
    place[path[-1]] = value
    origin[path] = source


def _note(
    origin: dict[tuple[str, ...], str], values: Mapping[str, Any], source: str, path: tuple[str, ...] = ()
) -> None:
    for key, value in values.items():
        origin[(*path, str(key))] = source
        if isinstance(value, dict):
            _note(origin, value, source, (*path, str(key)))  # type: ignore[reportUnknownArgumentType]


def values_of(settings: Settings) -> dict[str, Any]:
    """A pipeline's own settings as JSON values, defaults included; nested ones under `a.b`. Without those that every
    pipeline has; secrets are masked."""
    own = settings.model_dump(mode="json", exclude=set(Settings.model_fields), fallback=shown)
    return dict(_leaves(Masking.of(own)(own)))


def _leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(cast("dict[str, Any]", value), f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _source(path: tuple[str, ...], origin: Mapping[tuple[str, ...], str]) -> str | None:
    """The origin of a value: a file, a variable, --set, a call."""
    return next((origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), None)
