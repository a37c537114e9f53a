"""A pipeline as frozen data. Here is the base of its models, immutable all the way down and without unknown fields, and
texts of a certain form, whose refusal says in words what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from inspect import signature
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function, no_info_plain_validator_function

from drivetrain.base.errors import SpecError, shown
from drivetrain.base.records import dataclass


@dataclass(frozen=True)
class Matching:
    """The pattern of a text field: `Annotated[str, Matching(r"[a-z]+", "lower-case letters, such as team")]`.

    The whole text matches `pattern`; `allowed` says the same for people, with an example.
    """

    pattern: str
    allowed: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^{self.pattern}$", "$comment": self.allowed}

    def _checked(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            # Not a ValueError, before whose message pydantic writes its own word.
            raise PydanticCustomError("form", "give {allowed}", {"allowed": self.allowed})
        return text


T = TypeVar("T")


class Frozen(BaseModel):
    """A value object: compared by content, never changed after it was built.

    Its validator is built with the first object of the class; of classes that most pipelines have, as they are imported
    (`defer_build=False`).

    Raises:
        SpecError: an unknown, missing or wrong field, in one line. `model_validate` raises pydantic's own error, for
            code that says where the values came from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    if not TYPE_CHECKING:  # a type checker knows the fields

        def __init__(self, /, *positional: Any, **fields: Any) -> None:
            if positional:
                raise SpecError(_by_name(type(self), positional[0]))
            self._fill(fields)

        # So pydantic builds what lies in other models without it, and reports all that is wrong with its place.
        __init__.__pydantic_base_init__ = True
        __init__.__signature__ = signature(BaseModel.__init__)

        def _fill(self, fields: dict[str, Any]) -> None:
            if problem := _truth_for_a_number(type(self), fields):
                raise SpecError(problem)
            try:
                self.__pydantic_validator__.validate_python(fields, self_instance=self)
            except ValidationError as error:
                from drivetrain.spec.validation_errors import explain_validation

                raise SpecError(_one_in_place_of_many(fields, error) or explain_validation(error)) from None

        def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
            """As pydantic's, but what is updated is checked as it is where a model is built."""
            if not update:
                return super().model_copy(deep=deep)
            checked = self.__class__.__new__(self.__class__)
            checked._fill({**{name: getattr(self, name) for name in self.model_fields_set}, **update})
            filled = {name: getattr(checked, name) for name in checked.model_fields_set}
            return super().model_copy(update=filled, deep=deep)

        def __setattr__(self, name: str, value: Any) -> None:
            try:
                super().__setattr__(name, value)
            except ValidationError:
                kind = type(self).__name__
                raise SpecError(
                    f"{kind}.{name} cannot be changed once it is built. Build another one: {kind}({name}=...)."
                ) from None


def _one_in_place_of_many(fields: dict[str, Any], error: ValidationError) -> str:
    """The message for a model that was given in place of a list of such; empty if none was."""
    for problem in error.errors(include_url=False, include_context=False):
        name, *inner = problem["loc"] or ("",)
        if inner and isinstance(inner[0], int) and isinstance(given := fields.get(str(name)), BaseModel):
            return f"{error.title}.{name} is one {type(given).__name__}. Give a list: {name}=[...]."
    return ""


def _truth_for_a_number(kind: type[BaseModel], fields: Mapping[str, Any]) -> str:
    """The message for True or False given as a number, for which Python takes them; empty if none was."""
    for name, value in fields.items():
        if type(value) is bool and name in kind.model_fields:
            allowed = _types(kind.model_fields[name].annotation)
            if bool not in allowed and (int in allowed or float in allowed):
                return f"{kind.__name__}.{name} is {value}: give a {'number' if float in allowed else 'whole number'}."
    return ""


def _by_name(kind: type[BaseModel], given: object) -> str:
    """How to write what was given to a model without the name of its field: most likely the first of its own."""
    own = [*vars(kind).get("__annotations__", {}), *kind.model_fields]
    likely = next((name for name in own if name in kind.model_fields and name != "kind"), "name")
    name = kind.__name__
    return f"{name}({shown(given)}): its fields are given by name, such as {name}({likely}=...)."


class FrozenDict(dict[str, T]):
    """A dict that refuses changes, so that a frozen model is frozen in its mappings too."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a pipeline spec is immutable; build a new one with model_copy(update=...)")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]
    __ior__ = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is copied and pickled: items that are set one by one would be refused."""
        return FrozenDict, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


FrozenMap = Annotated[dict[str, T], AfterValidator(FrozenDict)]


class Lazily:
    """Says of a union of models and plain values: what is of one of its types passes as it is; how to read anything
    else, as from JSON, is worked out when it first comes.

    Working that out for each field with such a union was most of what importing the spec took.

    Args:
        discriminator: the field that says which of the models an object is.
    """

    def __init__(self, discriminator: str | None = None) -> None:
        self.discriminator = discriminator
        self._union: Any = None

    def __get_pydantic_core_schema__(self, union: Any, _: GetCoreSchemaHandler) -> CoreSchema:
        self._union = union
        types = frozenset(_types(union))

        def read(value: object) -> object:
            if type(value) in types and not (isinstance(value, float) and not isfinite(value)):
                return value
            return self._adapter.validate_python(value)

        return no_info_plain_validator_function(read)

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(self._adapter.core_schema)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        union: Any = self._union
        if self.discriminator is not None:
            union = Annotated[union, Field(discriminator=self.discriminator)]
        return TypeAdapter[Any](union, config=ConfigDict(allow_inf_nan=False))


def _types(kind: Any) -> list[type]:
    """Those that a union is made of, also by unions in it."""
    return [kind] if isinstance(kind, type) else [each for part in get_args(kind) for each in _types(part)]
