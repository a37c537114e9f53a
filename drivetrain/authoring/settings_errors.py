"""Settings that are not valid, in words. Loaded where some are."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from drivetrain.authoring.plain_yaml import hint_on
from drivetrain.base.errors import did_you_mean
from drivetrain.base.masking import looks_secret
from drivetrain.spec.deployment import in_a_block
from drivetrain.spec.validation_errors import message_of

Path = tuple[str, ...]


def explained(
    error: ValidationError,
    source_of: Callable[[Path], str | None],
    model_at: Callable[[Path], type[BaseModel] | None],
) -> str:
    """The first broken field: where it came from, what was given, what is allowed.

    Args:
        source_of: where a setting came from: a file, a variable, `--set`, a call.
        model_at: the model that holds the settings below a path.
    """
    first, *others = error.errors()
    path = tuple(str(part) for part in first["loc"])
    source = source_of(path)
    where = ".".join(path) + (f" (from {source})" if source else "")
    more = f" ({len(others)} more)" if others else ""
    if first["type"] == "extra_forbidden":
        if path[:-1] == ("deployment",) and (place := in_a_block(path[-1])) is not None:
            return f"Setting {where} does not exist. It belongs in the block of its target: {place}{more}"
        owner = model_at(path[:-1])
        return f"Setting {where} does not exist. {did_you_mean(path[-1], owner.model_fields if owner else ())}{more}"
    if first["type"] == "missing":
        return f"Setting {where} is required. Give it in the settings file or with --set {'.'.join(path)}=VALUE.{more}"
    if any(map(looks_secret, path)):
        return f"Setting {where} is not of the right kind: {message_of(first)}.{more}"
    said = "give a list, such as [a, b]" if first["type"] in ("tuple_type", "list_type") else message_of(first)
    return f"Setting {where} is {first.get('input')!r:.80}: {said}.{hint_on(first, source)}{more}"
