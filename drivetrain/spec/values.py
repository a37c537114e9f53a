"""Values of a pipeline: plain ones, references to what is only known while it runs, and conditions on both.

A reference is data, not a promise of a Python value: it can be passed on, joined into text and compared (which gives
a condition), but it cannot be tested with `if` or put into an f-string, because its value does not exist yet.
Conditions nest, and combine with `&`, `|` and `~`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NoReturn, cast

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from drivetrain.base.call_site import is_called_by_user
from drivetrain.base.errors import SpecError, shown
from drivetrain.spec import Frozen, FrozenMap, Lazily
from drivetrain.steps import listed

ValueType = Literal["String", "Integer", "Float", "Boolean"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr

TYPE_OF_SCALAR: dict[type, ValueType] = {str: "String", int: "Integer", float: "Float", bool: "Boolean"}


class Pending(Frozen):
    """A value that is not there yet while the pipeline is built: a reference, or a parameter, which stands for one."""

    def __bool__(self) -> NoReturn:
        self._refuse(
            "`if`, `and`, `or` and `not` cannot test it. Build a condition (`reference >= 0.9`, "
            "`reference.equals('yes')`) and branch with `when(condition, then=[...], otherwise=[...])`."
        )

    # Without these, str() and "%s" would put the model's own text into a path, and `in` and `for` would go through the
    # model's fields: wrong without a word. repr() stays, for a look at what a reference is.
    def __str__(self, _: str = "") -> NoReturn:
        self._refuse("an f-string or a text cannot hold it. Join the parts: `join('s3://', bucket, '/data')`.")

    __format__ = __str__

    def __add__(self, _: Any) -> NoReturn:
        self._refuse("nothing can be added to it. Use `join('s3://', bucket, '/data')`; a step can add numbers.")

    __radd__ = __add__

    def __iter__(self) -> NoReturn:
        self._refuse(
            "`in`, `for` and `list` cannot look into it. Compare it (`reference.is_in(['a', 'b'])`, "
            "`reference.equals('yes')`) and branch with `when(condition, then=[...])`."
        )

    # An author means a condition, where this would always be False.
    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | int | float) and is_called_by_user():
            self._refuse(f"`==` cannot compare it. Use reference.equals({shown(other)}) as the condition of when(...).")
        return super().__eq__(other)

    def _refuse(self, why: str) -> NoReturn:
        raise SpecError(f"{self.described()} has no value while the pipeline is built, so {why}")

    def described(self) -> str:
        """The reference in an author's words, for messages."""
        return f"This {type(self).__name__}"

    # Comparisons build conditions. Equality of two specs must stay what it is in Python, hence `equals`.
    def __ge__(self, other: Any) -> Comparison:
        return _compare("GreaterThanOrEqualTo", self, other)

    def __gt__(self, other: Any) -> Comparison:
        return _compare("GreaterThan", self, other)

    def __le__(self, other: Any) -> Comparison:
        return _compare("LessThanOrEqualTo", self, other)

    def __lt__(self, other: Any) -> Comparison:
        return _compare("LessThan", self, other)

    def equals(self, other: Any) -> Comparison:
        """The condition that both values are equal when the pipeline runs."""
        return _compare("Equals", self, other)

    def is_in(self, options: Any) -> In:
        """The condition that the value is one of `options`."""
        items = listed(f"{self.described()}.is_in(...)", "options", options, "'a', 'b'")
        return In(value=as_value(self), options=tuple(as_value(option) for option in items))


class Reference(Pending):
    """Base of everything that stands for a value of the running pipeline."""

    def value_type(self) -> ValueType:
        """The type of the value when it is known: its own field, where it has one."""
        return getattr(self, "type", "String")


class ParameterRef(Reference, defer_build=False):
    """A parameter of the pipeline, given when it is started."""

    kind: Literal["parameter"] = "parameter"
    name: str
    type: ValueType

    def described(self) -> str:
        return f"Parameter {self.name!r}"


ExecutionField = Literal[
    "PipelineName",
    "PipelineArn",
    "PipelineExecutionId",
    "PipelineExecutionArn",
    "StartDateTime",
    "CurrentDateTime",
    "TrainingJobName",
    "ProcessingJobName",
]


class ExecutionRef(Reference):
    """A fact about the running execution, such as its id, or the name of the job that the step itself starts."""

    kind: Literal["execution"] = "execution"
    field: ExecutionField

    def described(self) -> str:
        return f"Execution value {self.field!r}"


class OutputRef(Reference, defer_build=False):
    """The URI of a step's output folder (of a training job's model: of its model.tar.gz)."""

    kind: Literal["output"] = "output"
    step: str
    output: str

    def described(self) -> str:
        return f"Output {self.output!r} of step {self.step!r}"


class MetricRef(Reference, defer_build=False):
    """A number or text that a processing step returned; of `file` (spec/reports.py) the value at the path `name`."""

    kind: Literal["metric"] = "metric"
    step: str
    name: str
    type: ValueType = "Float"
    file: str = ""

    def described(self) -> str:
        return f"{'Text' if self.type == 'String' else 'Metric'} {self.name!r} of step {self.step!r}"


class LoggedRef(Reference):
    """The last value of a training metric in a step's log; of a tuning the best value of its objective."""

    kind: Literal["logged"] = "logged"
    step: str
    name: str

    def value_type(self) -> ValueType:
        return "Float"

    def described(self) -> str:
        return f"Logged metric {self.name!r} of step {self.step!r}"


class BestRef(Reference):
    """The value that a tuning's best training had for a hyperparameter that was searched.

    `spells` is the type of the value in its text: SageMaker has every hyperparameter as text.
    """

    kind: Literal["best"] = "best"
    step: str
    name: str
    spells: ValueType

    def described(self) -> str:
        return f"Hyperparameter {self.name!r} of the best training of step {self.step!r}"


class PropertyRef(Reference):
    """A field of SageMaker's description of a step, such as `TrainingJobName`. Other targets refuse it."""

    kind: Literal["property"] = "property"
    step: str
    path: str
    type: ValueType = "String"

    def described(self) -> str:
        return f"Property {self.path!r} of step {self.step!r}"


class LambdaOutputRef(Reference):
    """A named output of a Lambda step."""

    kind: Literal["lambda-output"] = "lambda-output"
    step: str
    name: str
    type: ValueType = "String"

    def described(self) -> str:
        return f"Output {self.name!r} of step {self.step!r}"


class ItemRef(Reference):
    """The item of the iteration in which a step of a for_each stands, or a field of it (`a.b`)."""

    kind: Literal["item"] = "item"
    path: str = ""
    type: ValueType = "String"

    def described(self) -> str:
        return f"Field {self.path!r} of the current item" if self.path else "The current item"


class IterationRef(Reference):
    """A value that a step of a for_each's body gave in one iteration: the picked one, or one by its number."""

    kind: Literal["iteration"] = "iteration"
    step: str
    """The for_each."""
    index: int | None = None
    """Counted from 0; None for the picked iteration."""
    of: Annotated[OutputRef | LoggedRef | LambdaOutputRef | PropertyRef, Field(discriminator="kind")]
    """The step's own value, as in the body."""

    def value_type(self) -> ValueType:
        return self.of.value_type()

    def described(self) -> str:
        which = "the picked iteration" if self.index is None else f"iteration {self.index}"
        return f"{self.of.described()} in {which} of {self.step!r}"


class CountRef(Reference):
    """How many steps of a for_each's iterations there were, or ended so."""

    kind: Literal["count"] = "count"
    step: str
    which: Literal["Total", "Succeeded", "Failed", "Stopped"]

    def value_type(self) -> ValueType:
        return "Integer"

    def described(self) -> str:
        return f"The number of {self.which.lower()} steps of {self.step!r}"


class Join(Reference):
    """Text put together when the pipeline runs; `on` stands between the values."""

    kind: Literal["join"] = "join"
    on: str = ""
    values: tuple[EagerValue, ...]

    def described(self) -> str:
        return "A join"


AnyReference = Annotated[
    ParameterRef
    | ExecutionRef
    | OutputRef
    | MetricRef
    | LoggedRef
    | BestRef
    | PropertyRef
    | LambdaOutputRef
    | ItemRef
    | IterationRef
    | CountRef
    | Join,
    Field(discriminator="kind"),
]
# As a part of larger unions.
EagerValue = Scalar | AnyReference
Value = Annotated[EagerValue, Lazily()]


class Nested(Frozen):
    """A list or an object with values inside, for a program that takes JSON: one of both fields is given."""

    kind: Literal["nested"] = "nested"
    items: tuple[NestedValue, ...] | None = None
    fields: FrozenMap[NestedValue] | None = None


NestedValue = Annotated[EagerValue | Nested, Lazily()]


def as_value(given: Any) -> Value:
    """A literal or reference as a Value; pipeline parameters stand for their reference.

    Raises:
        SpecError: for anything else, naming the type.
    """
    # Not of the object itself, which may raise.
    if hasattr(type(given), "ref"):  # type: ignore[reportUnknownArgumentType]
        given = given.ref()
    if isinstance(given, Reference | bool | int | float | str):
        return cast(Value, given)
    advice = " Write it as JSON: json.dumps(...)." if type(given) in (dict, list, tuple) else ""
    raise SpecError(
        f"{shown(given)} is a {type(given).__name__}, which a pipeline cannot carry.{advice} Allowed: str, int, float, "
        "bool, a pipeline parameter, or a reference to a step's output, metric or property."
    )


def value_type(value: Value) -> ValueType:
    """The pipeline type of a literal or reference."""
    return value.value_type() if isinstance(value, Reference) else TYPE_OF_SCALAR[type(value)]


def references_in(value: Any) -> list[Any]:
    """Every reference inside a value, model, mapping or sequence, joins opened, in order of appearance."""
    if value is None or isinstance(value, str | int):  # as most are
        return []
    if isinstance(value, Join):
        return [value, *references_in(value.values)]
    if isinstance(value, Reference):
        return [value]
    if isinstance(value, Frozen):
        value = value.__dict__
    if isinstance(value, dict):
        value = tuple(value.values())  # type: ignore[reportUnknownArgumentType]
    items = cast("tuple[Any, ...]", value if isinstance(value, tuple | list) else ())
    return [found for item in items for found in references_in(item)]


def _compare(operator: Any, left: Any, right: Any) -> Comparison:
    return Comparison(operator=operator, left=as_value(left), right=as_value(right))


Operator = Literal["Equals", "GreaterThan", "GreaterThanOrEqualTo", "LessThan", "LessThanOrEqualTo"]


class _Condition(Frozen):
    def __bool__(self) -> NoReturn:
        raise SpecError(
            "A condition has no value while the pipeline is built: `if`, `and`, `or`, `not` and chained comparisons "
            "cannot test it. Branch with `when(condition, then=[...])`; combine with `a & b`, `a | b`, `~a`."
        )

    def __and__(self, other: Condition) -> All:
        return All(conditions=(*_parts(self, All), *_parts(other, All)))  # type: ignore[arg-type]

    def __or__(self, other: Condition) -> AnyOf:
        return AnyOf(conditions=(*_parts(self, AnyOf), *_parts(other, AnyOf)))  # type: ignore[arg-type]

    def __invert__(self) -> Not:
        return Not(condition=self)  # type: ignore[arg-type]


class Comparison(_Condition, defer_build=False):
    """left operator right, by the pipeline's types (numbers with numbers, text with text)."""

    kind: Literal["comparison"] = "comparison"
    operator: Operator
    left: Value
    right: Value


class In(_Condition):
    """The value is one of the options."""

    kind: Literal["in"] = "in"
    value: Value
    options: Annotated[tuple[Value, ...], Field(min_length=1)]


class Not(_Condition):
    """The condition does not hold."""

    kind: Literal["not"] = "not"
    condition: Condition


class AnyOf(_Condition):
    """At least one holds."""

    kind: Literal["any"] = "any"
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]


class All(_Condition):
    """Every one holds."""

    kind: Literal["all"] = "all"
    conditions: Annotated[tuple[Condition, ...], Field(min_length=1)]


Condition = Annotated[Comparison | In | Not | AnyOf | All, Lazily("kind")]


def _parts(condition: object, kind: type[All] | type[AnyOf]) -> tuple[object, ...]:
    return condition.conditions if isinstance(condition, kind) else (condition,)
