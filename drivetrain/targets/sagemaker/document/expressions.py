"""The values of a definition that are only known while it runs: `Get`, `Std:Join` and `Std:JsonGet`.

    resolved = resolve(step.arguments, scope)

An expression is an object with that one key. What holds none is given back as it is, not copied: a step's arguments
are large and its expressions few.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json, Segment, parse_path
from drivetrain.base.records import dataclass
from drivetrain.targets.sagemaker.document import descend, path_text

ROOTS = ("Parameters", "Execution", "Steps", "ForEach", "IterationOutput", "PipelineExperimentConfig")
FUNCTIONS = ("Std:Join", "Std:JsonGet")
EXECUTION_FIELDS = (
    "PipelineName",
    "PipelineArn",
    "PipelineExecutionId",
    "PipelineExecutionArn",
    "StartDateTime",
    "CurrentDateTime",
)
JOB_FIELDS = ("TrainingJobName", "ProcessingJobName")
"""Execution.<...> in a step that starts such a job: the job's name.
https://sagemaker.readthedocs.io/en/v2/amazon_sagemaker_model_building_pipeline.html#execution-variables"""
PROPERTY_FILES = "PropertyFiles"
# The largest text that a service takes is a Lambda's payload. Without a bound a small definition could fill the memory.
MAX_JOINED = 262_144


class UnresolvedReference(UserError):  # noqa: N818 - the state of a reference, which the runner also asks for
    """A reference to what does not exist or has not run: names the step, the path and what exists."""


@dataclass(frozen=True)
class Get:
    """A parsed reference. `step` is the step's name where root is Steps; `path` is what follows it (or the root).

    SDK v2 also writes `Steps.train`, a step without a path: `graph.check` refuses it, reading does not.
    """

    text: str
    root: str
    path: tuple[Segment, ...]
    step: str | None = None

    @property
    def parameter(self) -> str | None:
        """The pipeline parameter that is meant."""
        return str(self.path[0]) if self.root == "Parameters" else None

    @property
    def property_file(self) -> str | None:
        """The property file that is meant (it is read through Std:JsonGet)."""
        return str(self.path[1]) if self.step is not None and self.path[:1] == (PROPERTY_FILES,) else None


class Scope:
    """The values that expressions ask of a running execution: override what is known.

    Every method may raise UnresolvedReference.
    """

    def parameter(self, name: str) -> Any:
        """The value of a pipeline parameter."""
        raise UnresolvedReference(f"parameter {name!r} has no value here.")

    def execution(self, field: str) -> Any:
        """A fact of the execution, one of EXECUTION_FIELDS, or of the step's job, one of JOB_FIELDS."""
        raise UnresolvedReference(f"execution value {field!r} is not known here.")

    def step(self, name: str) -> Any:
        """The answer of the service's describe call on a finished step."""
        raise UnresolvedReference(f"step {name!r} has not run.")

    def property_file(self, step: str, name: str) -> Any:
        """The parsed JSON of a step's property file."""
        raise UnresolvedReference(f"property file {name!r} of step {step!r} is not known here.")

    def s3_json(self, uri: str) -> Any:
        """The parsed JSON at an S3 URI."""
        raise UnresolvedReference(f"{uri} cannot be read here.")

    def root(self, name: str) -> Any:
        """The object behind any other root: ForEach, IterationOutput, PipelineExperimentConfig."""
        raise UnresolvedReference(f"{name} has no value here.")

    def below_root(self, get: Get) -> Any:
        """The value of a reference to such a root: what lies at its path in the object behind it."""
        return _descended(self.root(get.root), get.path, get.text)


class ParameterScope(Scope):
    """The values that are known before an execution starts: the parameters that have values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def parameter(self, name: str) -> Any:
        return self._values[name] if name in self._values else super().parameter(name)


def is_expression(value: dict[str, Json]) -> bool:
    """Return True if an object stands for a value that the service computes."""
    return len(value) == 1 and ((key := next(iter(value))) == "Get" or key.startswith("Std:"))


@lru_cache(maxsize=8192)
def parse_get(text: str) -> Get:
    """The parts of `Steps.train.ModelArtifacts.S3ModelArtifacts` and the like.

    Raises:
        UserError: for what cannot be a reference.
    """
    try:
        root, *path = parse_path(text)
    except UserError as error:
        raise UserError(f"Get: {error}") from None
    if not isinstance(root, str) or root not in ROOTS:
        raise UserError(f"Get {text[:120]!r} begins with {root!r}. {did_you_mean(str(root), ROOTS)}")
    if root == "Steps":
        if not path or not isinstance(path[0], str):
            raise UserError(f"Get {text[:120]!r} names no step. Allowed: Steps.<step>.<path>.")
        if path[1:2] == [PROPERTY_FILES] and (len(path) != 3 or not isinstance(path[2], str)):
            raise UserError(f"Get {text[:120]!r} names no property file. Allowed: Steps.<step>.PropertyFiles.<name>.")
        return Get(text, root, tuple(path[1:]), step=path[0])
    if not path:
        raise UserError(f"Get {text[:120]!r} names nothing below {root}. Allowed: {root}.<name>.")
    if root in ("Parameters", "Execution") and (len(path) != 1 or not isinstance(path[0], str)):
        raise UserError(f"Get {text[:120]!r} is too long. Allowed: {root}.<name>.")
    return Get(text, root, tuple(path))


def references(node: Any) -> list[Get]:
    """Every reference inside a value, those inside joins and property files included, in order of appearance.

    Raises:
        UserError: for a `Get` that cannot be read.
    """
    return expressions(node)[0]


def expressions(node: Any) -> tuple[list[Get], list[str]]:
    """Every reference inside a value, and the name of every function that it calls, in order of appearance.

    Raises:
        UserError: for a `Get` that cannot be read.
    """
    gets: list[Get] = []
    functions: list[str] = []
    _collect(node, gets, functions)
    return gets, functions


def resolve(node: Any, scope: Scope) -> Any:
    """The value with every expression replaced by what it stands for.

    Raises:
        UnresolvedReference: when the scope does not know it.
        UserError: for an expression that cannot be read.
    """
    value: Json = node
    if isinstance(value, dict):
        if len(value) == 1:
            (key, operand), *_ = value.items()
            if key == "Get":
                return _got(operand, scope)
            if key.startswith("Std:"):
                return _called(key, operand, scope)
        changed: dict[str, Any] | None = None
        for key, item in value.items():
            if isinstance(item, (dict, list)) and (new := resolve(item, scope)) is not item:
                changed = changed if changed is not None else dict(value)
                changed[key] = new
        return value if changed is None else changed
    if isinstance(value, list):
        replaced: list[Any] | None = None
        for n, item in enumerate(value):
            if isinstance(item, (dict, list)) and (new := resolve(item, scope)) is not item:
                replaced = replaced if replaced is not None else list(value)
                replaced[n] = new
        return value if replaced is None else replaced
    return value


def text_of_value(value: Json) -> str:
    """A value as part of a text, spelled as JSON spells it.

    Raises:
        UserError: for null, lists and objects.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    raise UserError(f"text cannot be made of {value!r:.80}. Allowed: text, numbers, true, false.")


def _collect(node: Json, gets: list[Get], functions: list[str]) -> None:
    if isinstance(node, dict):
        if len(node) == 1:
            (key, operand), *_ = node.items()
            if key == "Get":
                gets.append(_parsed(operand))
                return
            if key.startswith("Std:"):
                functions.append(key)
        for item in node.values():
            if isinstance(item, (dict, list)):
                _collect(item, gets, functions)
    elif isinstance(node, list):
        for item in node:
            if isinstance(item, (dict, list)):
                _collect(item, gets, functions)


def _parsed(operand: Json) -> Get:
    if not isinstance(operand, str):
        raise UserError(f"Get needs text such as Parameters.Name; given {operand!r:.80}.")
    return parse_get(operand)


def _got(operand: Json, scope: Scope) -> Json:
    get = _parsed(operand)
    if get.step is None:
        if get.root == "Parameters":
            return scope.parameter(str(get.path[0]))
        if get.root == "Execution":
            return scope.execution(str(get.path[0]))
        return scope.below_root(get)
    if get.property_file is not None:
        raise UserError(f"Get {get.text!r} is a file. Take a value from it: Std:JsonGet with PropertyFile and Path.")
    return _descended(scope.step(get.step), get.path, f"step {get.step!r}, {path_text(get.path)}")


def _called(name: str, operand: Json, scope: Scope) -> Json:
    if name not in FUNCTIONS:
        raise UnresolvedReference(f"function {name!r} is not known. {did_you_mean(name, FUNCTIONS)}")
    if not isinstance(operand, dict):
        raise UserError(f"{name} needs an object; given {operand!r:.80}.")
    return _joined(operand, scope) if name == "Std:Join" else _read(operand, scope)


def _joined(operand: dict[str, Json], scope: Scope) -> str:
    on = resolve(operand.get("On", ""), scope)
    values = operand.get("Values")
    if not isinstance(on, str) or not isinstance(values, list):
        raise UserError(f"Std:Join needs On (text) and Values (a list); given {operand!r:.120}.")
    try:
        parts = [text_of_value(resolve(value, scope)) for value in values]
        if sum(map(len, parts)) + len(on) * len(parts) > MAX_JOINED:
            raise UserError(f"more than {MAX_JOINED:,} characters come out. Put so much text into a file.")
        return on.join(parts)
    except UserError as error:
        if isinstance(error, UnresolvedReference):
            raise
        raise UserError(f"Std:Join: {error}") from None


def _read(operand: dict[str, Json], scope: Scope) -> Json:
    path = resolve(operand.get("Path"), scope)
    if not isinstance(path, str) or not path:
        raise UserError(f"Std:JsonGet needs a Path such as metrics.accuracy.value; given {path!r:.80}.")
    if "PropertyFile" in operand:
        file = operand["PropertyFile"]
        get = _parsed(file["Get"]) if isinstance(file, dict) and set(file) == {"Get"} else None
        if get is None or get.step is None or get.property_file is None:
            raise UserError(
                f"Std:JsonGet: PropertyFile is {file!r:.80}. Allowed: a Get of Steps.<step>.PropertyFiles.<name>."
            )
        content: Json = scope.property_file(get.step, get.property_file)
        where = f"property file {get.property_file!r} of step {get.step!r}, {path}"
    elif "S3Uri" in operand:
        uri = resolve(operand["S3Uri"], scope)
        if not isinstance(uri, str):
            raise UserError(f"Std:JsonGet: S3Uri is {uri!r:.80}. Allowed: text.")
        content = scope.s3_json(uri)
        where = f"{uri}, {path}"
    else:
        raise UserError("Std:JsonGet needs PropertyFile or S3Uri.")
    # Some write the path as JSONPath, from the root `$`; a file with a key "$" is not read that way.
    plain = path[1:].removeprefix(".") if path.startswith("$") and not _has_dollar(content) else path
    return _descended(content, parse_path(plain) if plain else (), where)


def _has_dollar(content: Json) -> bool:
    return isinstance(content, dict) and any(key.startswith("$") for key in content)


def _descended(value: Json, path: tuple[Segment, ...], where: str) -> Json:
    try:
        return descend(value, path)
    except LookupError as error:
        raise UnresolvedReference(f"{where}: {cast('str', error.args[0])}") from None
