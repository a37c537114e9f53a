"""Where steps get their values and data from."""

from __future__ import annotations

from drivetrain.authoring import Pipeline, execution, join, step, when
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.spec.pipeline import Parameter
from tests.target_features.features import data, feature, of, training

GROUP = "Values and data"


@feature(GROUP, "parameters of a run")
def parameters() -> Pipeline:
    salt = Parameter.string("Salt", default="")
    return of(data(salt=salt), parameters=[salt])


@feature(GROUP, "parameters with choices")
def choices() -> Pipeline:
    salt = Parameter.string("Salt", default="a", choices=("a", "b"))
    return of(data(salt=salt), parameters=[salt])


@feature(GROUP, "texts joined when the pipeline runs")
def joined() -> Pipeline:
    salt = Parameter.string("Salt", default="")
    return of(data(salt=join("of-", salt)), parameters=[salt])


@feature(GROUP, "the run's own id")
def run_id() -> Pipeline:
    return of(data(salt=execution("PipelineExecutionId")))


@feature(GROUP, "other facts of the run, such as when it started")
def run_start() -> Pipeline:
    return of(data(salt=execution("StartDateTime")))


@feature(GROUP, "a number that a step returns")
def returned_number() -> Pipeline:
    prepared = data()
    model = training(prepared)
    scores = step(evaluate, model=model["model"], data=prepared["test"])
    return of(prepared, model, scores, when(scores.metric("accuracy") >= 0.9, then=[data("more")]))


@feature(GROUP, "a text that a step returns")
def returned_text() -> Pipeline:
    prepared = data()
    model = training(prepared)
    scores = step(evaluate, model=model["model"], data=prepared["test"])
    compared = step(compare, evaluation=scores["report"], model=model["model"], data=prepared["test"], group="example")
    return of(prepared, model, scores, compared, data("told", salt=compared.text("why")))


@feature(GROUP, "a number in a JSON file that a step writes")
def reported_number() -> Pipeline:
    prepared = data()
    model = training(prepared)
    scores = step(evaluate, model=model["model"], data=prepared["test"])
    good = scores.report("report", "evaluation.json").value("metrics.accuracy.value") >= 0.9
    return of(prepared, model, scores, when(good, then=[data("more")]))


@feature(GROUP, "the last value of a training metric")
def logged_metric() -> Pipeline:
    prepared = data()
    model = training(prepared)
    return of(prepared, model, when(model.logged("validation_accuracy") >= 0.9, then=[data("more")]))


@feature(GROUP, "a raw property of the service's description of a step")
def raw_property() -> Pipeline:
    prepared = data()
    model = training(prepared)
    return of(prepared, model, data("told", salt=model.property("TrainingJobName")))


@feature(GROUP, "data by `s3://` URI")
def object_store() -> Pipeline:
    return of(data(raw="s3://bucket/raw/"))


@feature(GROUP, "data by a URI that a parameter has")
def data_by_parameter() -> Pipeline:
    raw = Parameter.string("Raw", default="s3://bucket/raw/")
    return of(data(raw=raw), parameters=[raw])
