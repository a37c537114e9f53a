"""Words for the jobs of SageMaker as they are: nothing of this package travels, and nothing is added.

    prepared = processing("prepare", image=SKLEARN, command=["python3", "/opt/ml/processing/code/prepare.py"],
                          machine="ml.m5.xlarge", inputs={"code": At("s3://bucket/code/", "/opt/ml/processing/code")},
                          outputs={"train": To("s3://bucket/train/", "/opt/ml/processing/train")})
    trained = training("train", image=XGBOOST, machine="ml.m5.xlarge", channels={"train": prepared["train"]})

Each gives a step of the service's own JSON. The keywords of a word are the rows of its table (words.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, cast

from drivetrain.authoring.binding import dependencies
from drivetrain.base.errors import SpecError, did_you_mean, shown
from drivetrain.base.json_text import as_list, as_object, object_in
from drivetrain.native.table import OBJECT, MisfitError, Table
from drivetrain.native.words import (
    AT,
    CALLBACK,
    CHANNEL,
    CONTAINER,
    FUNCTION,
    MODEL,
    MODEL_VERSION,
    PROCESSING,
    TABLES,
    TO,
    TRAINING,
    TRANSFORM,
    TUNING,
)
from drivetrain.spec.reports import Report
from drivetrain.spec.steps import BaseStep, Dependency, NativeStep
from drivetrain.spec.values import PropertyRef

_OF_STEP = ("after", "display_name", "description", "other", "fields")


class Job(NativeStep):
    """A step as the service has it, whose outputs other steps take: prepared["train"], trained["model"]."""

    def __getitem__(self, output: str) -> PropertyRef:  # type: ignore[override]
        """A value that the step gives, by the service's description of it.

        Raises:
            SpecError: it gives nothing of that name.
        """
        paths = output_paths(self.type, self.fields)
        if output not in paths:
            raise SpecError(f"Step {self.name!r} has no output {output!r}. {did_you_mean(str(output), paths)}")
        return self.property(paths[output])

    def output_names(self) -> tuple[str, ...]:
        return tuple(output_paths(self.type, self.fields))

    def report(self, name: str) -> Report:
        """A property file of the step, by its name in `reports`.

        Raises:
            SpecError: there is none of that name.
        """
        names = names_in(self.fields.get("PropertyFiles"), "PropertyFileName")
        if name not in names:
            raise SpecError(f"Step {self.name!r} has no report {name!r}. {did_you_mean(str(name), names)}")
        return Report(self.name, name)


def output_paths(type: str, fields: Mapping[str, Any]) -> dict[str, str]:
    """Output of a step -> its path in the service's description of it."""
    if type == "Processing":
        outputs = object_in(object_in(fields, "Arguments"), "ProcessingOutputConfig").get("Outputs")
        names = names_in(outputs, "OutputName")
        return {name: f"ProcessingOutputConfig.Outputs['{name}'].S3Output.S3Uri" for name in names}
    if type in (CALLBACK.type, FUNCTION.type):
        names = names_in(fields.get("OutputParameters"), "OutputName")
        return {name: f"OutputParameters['{name}']" for name in names}
    return TABLES[type].outputs


def names_in(listed: Any, key: str) -> list[str]:
    """The names that a list of the service's gives under a key."""
    return [name for each in as_list(listed) if isinstance(name := as_object(each).get(key), str)]


class Word:
    """A word for a step type, by its table.

    Args:
        other: fields of the service's request (the step's Arguments) that have no keyword, as JSON.
        fields: fields beside Arguments that have no keyword, as JSON.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        keywords = (*(row.keyword for row in table.rows), *_OF_STEP)
        parameters = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in keywords]
        self.__signature__ = Signature([Parameter("name", Parameter.POSITIONAL_OR_KEYWORD), *parameters])
        self.__name__ = table.word

    def __call__(
        self,
        name: str,
        *,
        after: Sequence[BaseStep | Dependency] = (),
        display_name: str | None = None,
        description: str | None = None,
        other: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Job:
        """The step.

        Raises:
            SpecError: an unknown keyword, a value that one does not take, or a field that is given twice.
        """
        where = f"{self.table.word}({shown(name)})"
        built = self.table.write(given, where)
        for keyword, value, at in (("other", other, "Arguments"), ("fields", fields, "")):
            if value is None:
                continue
            try:
                more: dict[str, Any] = OBJECT.write(value)
            except MisfitError:
                raise SpecError(f"{where}: {keyword}={shown(value)}. Give {OBJECT.allowed}.") from None
            merge(built, {at: more} if at else more, f"{where}: {keyword}")
        return Job(
            name=name,
            type=self.table.type,
            fields=built,
            display_name=display_name,
            description=description,
            depends_on=dependencies(after),
        )


def merge(into: dict[str, Any], more: Mapping[str, Any], where: str, path: str = "") -> None:
    """Add fields that are not there yet.

    Raises:
        SpecError: one is there; `where` begins the message.
    """
    for name, value in more.items():
        if name not in into:
            into[name] = value
        elif isinstance(into[name], dict) and isinstance(value, dict):
            merge(into[name], cast("dict[str, Any]", value), where, f"{path}{name}.")
        else:
            raise SpecError(
                f"{where} gives {path}{name}, which a keyword or its default gives. Give one, the other None."
            )


def _entry(table: Table, positional: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    first = [row.keyword for row in table.rows[: table.positional]]
    if len(positional) > len(first) or {*first[: len(positional)]} & given.keys():
        raise SpecError(f"{table.word}(...) takes {', '.join(first) or 'nothing'} first, each once.")
    return table.write({**dict(zip(first, positional, strict=False)), **given}, f"{table.word}(...)")


def At(*place: Any, **given: Any) -> dict[str, Any]:  # noqa: N802
    """An input of processing: At(uri, path), its folder in the container."""
    return _entry(AT, place, given)


def To(*place: Any, **given: Any) -> dict[str, Any]:  # noqa: N802
    """An output of processing: To(uri, path), its folder in the container."""
    return _entry(TO, place, given)


def Channel(*uri: Any, **given: Any) -> dict[str, Any]:  # noqa: N802
    """A channel of training: Channel(uri, content_type="text/csv"); a URI alone will do."""
    return _entry(CHANNEL, uri, given)


def Container(**given: Any) -> dict[str, Any]:  # noqa: N802
    """A container that answers: Container(image=..., data=trained["model"])."""
    return _entry(CONTAINER, (), given)


processing, training, tuning = Word(PROCESSING), Word(TRAINING), Word(TUNING)
model, transform, model_version = Word(MODEL), Word(TRANSFORM), Word(MODEL_VERSION)
callback, function = Word(CALLBACK), Word(FUNCTION)
