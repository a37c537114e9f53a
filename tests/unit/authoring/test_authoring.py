"""The author's words: what they build, and what they refuse where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from drivetrain import (
    CachePolicy,
    Cluster,
    Dependency,
    Parameter,
    Pipeline,
    RetryPolicy,
    SpecError,
    call_lambda,
    execution,
    fail,
    folder_in,
    folder_out,
    join,
    register,
    script,
    step,
    when,
)
from drivetrain.components import Bounds, Checkpoints, Input, Output, component
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import LambdaStep, ProcessingStep, TrainingStep
from drivetrain.spec.values import LambdaOutputRef, LoggedRef, MetricRef
from drivetrain.steps import Since


@component
def load(raw: Input, data: Output, note: Input | None = None, limit: int | None = None) -> None:
    """Load the data."""


@component(job="training")
def fit_at_once(data: Input, model: Output) -> None:
    """Fit without checkpoints."""


@component(job="training", logs={"loss": r"loss=([0-9.]+)"}, resumable=["epochs"])
def fit(
    data: Input,
    model: Output,
    checkpoints: Checkpoints,
    rate: float = 0.1,
    epochs: int = 1,
    kind: Literal["a", "b"] = "a",
    share: Annotated[float, Bounds(0, 1)] = 0.5,
    smoothing: Annotated[float, Since(before=0.0)] = 0.0,
) -> None:
    """Fit a model."""


@component
def measure(model: Input) -> dict[str, float]:
    found = {"accuracy": 1.0}
    return found


class Told(TypedDict):
    good: int
    content_hash: str
    data_hash: str
    verdict: str
    note: NotRequired[str]


@component(cached=False)
def judge(report: Input, decision: Output, registry: str = "auto") -> Told:
    return {"good": 1, "content_hash": "x", "data_hash": "y", "verdict": "z"}


@component
def measure_fully(model: Input, report: Output) -> dict[str, float]:
    return {}


def test_a_step_takes_its_declaration() -> None:
    loaded = step(load, raw="s3://bucket/raw/", limit=3)
    assert isinstance(loaded, ProcessingStep)
    assert loaded.name == "load"
    assert loaded.description == "Load the data."
    assert loaded.outputs == ("data",)
    assert loaded.inputs == {"raw": "s3://bucket/raw/"}
    assert loaded.parameters == {"limit": 3}
    assert loaded.program.target.endswith(":load")


def test_a_training_step_keeps_checkpoints_logs_and_growing_values() -> None:
    fitted = step(fit, data="s3://b/k", rate=1)
    assert isinstance(fitted, TrainingStep)
    assert fitted.checkpoint is not None
    assert fitted.resumable_parameters == ("epochs", "smoothing")
    assert fitted.parameters == {"rate": 1.0, "epochs": 1, "kind": "a", "share": 0.5, "smoothing": 0.0}
    assert isinstance(fitted.parameters["rate"], float)
    assert fitted.logged("loss") == LoggedRef(step="fit", name="loss")
    with pytest.raises(SpecError, match="Did you mean 'loss'"):
        fitted.logged("los")


def test_a_path_is_an_input() -> None:
    assert step(load, raw=Path("data") / "x.csv").inputs == {"raw": "data/x.csv"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rwa": "s3://b/k"}, "Did you mean 'raw'"),
        ({}, "needs the input folder 'raw'"),
        ({"raw": "s3://b/k", "limit": "three"}, "limit is Integer, but 'three' is String"),
        ({"raw": "s3://b/k", "limit": True}, "limit is Integer, but True is Boolean"),
        ({"raw": "s3://b/k", "limit": [1]}, "is a list"),
    ],
)
def test_values_that_do_not_fit_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        step(load, **given)
    assert len(str(caught.value).splitlines()) <= 3


def test_a_whole_step_stands_for_its_only_output_or_the_one_of_the_inputs_name() -> None:
    loaded = step(load, raw="s3://b/k")
    assert step(fit, data=loaded).inputs == {"data": loaded["data"]}  # its only one, of that name or of another
    split = script("split.py", outputs=["data", "rest"])
    fitted = step(fit, data=split)
    assert fitted.inputs == {"data": split["data"]}
    measured = step(measure_fully, model=fitted)
    assert step(judge, report=measured).inputs == {"report": measured["report"]}  # numbers are no folder to hand on
    version = register(model=fitted, metrics=measured, group="g")
    assert (version.model, version.metrics) == (fitted["model"], measured["metrics"])


def test_a_whole_step_of_several_outputs_or_none_is_no_input() -> None:
    several = script("split.py", outputs=["left", "right"])
    with pytest.raises(SpecError, match=r"Name one of its outputs: data=split\['...'\]. Allowed: left, right"):
        step(fit, data=several)
    with pytest.raises(SpecError, match=r"Name one of its outputs: model=measure\['...'\]"):
        step(measure, model=step(measure, model="s3://b/k"))
    with pytest.raises(SpecError, match=r"model of step 'register-model' is the whole step 'split'"):
        register(model=several, group="g")


def test_a_later_parameter_moves_checkpoints_only_when_set() -> None:
    assert step(fit, data="s3://b/k", smoothing=0.1).resumable_parameters == ("epochs",)


@pytest.mark.parametrize("share", [-0.1, 1.5, 2])
def test_bounds_are_checked(share: float) -> None:
    with pytest.raises(SpecError, match=rf"Step 'fit': share is {float(share)}\. Allowed: numbers from 0 to 1\."):
        step(fit, data="s3://b/k", share=share)
    given = Parameter.number("Share", default=share)
    with pytest.raises(
        SpecError, match=rf"Step 'fit' \(with Share={share}\): share is {share}\. Allowed: numbers from"
    ):
        step(fit, data="s3://b/k", share=given)
    good = Parameter.number("Share", default=0.25)
    assert step(fit, data="s3://b/k", share=good).parameters["share"] is not None


def test_choices_of_a_pipeline_parameter_are_checked() -> None:
    kind = Parameter.string("Kind", default="a", choices=("a", "c"))
    with pytest.raises(SpecError, match=r"Step 'fit' \(with Kind='c'\): kind is 'c'\. Allowed: a, b\."):
        step(fit, data="s3://b/k", kind=kind)


def test_choices_are_checked() -> None:
    with pytest.raises(SpecError, match=r"kind is 'c'"):
        step(fit, data="s3://b/k", kind="c")


def test_a_parameter_of_another_type_is_refused() -> None:
    assert step(fit, data="s3://b/k", rate=Parameter.integer("Rate")).parameters["rate"].name == "Rate"
    with pytest.raises(SpecError, match="epochs is Integer, but Parameter 'Epochs' is Float"):
        step(fit, data="s3://b/k", epochs=Parameter.number("Epochs"))


def test_outputs_and_metrics_are_taken_by_name() -> None:
    loaded, measured = step(load, raw="s3://b/k"), step(measure, model="s3://b/k")
    with pytest.raises(SpecError, match="Did you mean 'data'"):
        loaded["dta"]
    with pytest.raises(SpecError, match="has no output"):
        loaded["metrics"]
    assert measured["metrics"].output == "metrics"
    assert measured.metric("anything").name == "anything"  # a dict's names are known when it runs
    with pytest.raises(SpecError, match="take its outputs by name"):
        list(loaded)


def test_only_components_are_steps() -> None:
    with pytest.raises(SpecError, match="@component"):
        step(len)  # type: ignore[arg-type]


def test_a_script_can_be_a_step() -> None:
    cleaned = script(
        "jobs/clean_up.py",
        inputs={"raw": "s3://b/k"},
        outputs=["clean"],
        arguments=["--from", folder_in("raw"), "--to", folder_out("clean"), "--rows", 3],
    )
    assert cleaned.name == "clean-up"
    assert cleaned["clean"].output == "clean"
    for path in ("/abs.py", "../up.py"):
        with pytest.raises(SpecError, match="below the folder"):
            script(path)
    for name, given in (("needs", "numpy"), ("outputs", "abc"), ("arguments", "xyz"), ("needs", 5)):
        with pytest.raises(
            SpecError, match=rf"script\('a\.py'\): {name} is {given!r}\. Give a list, such as {name}=\["
        ):
            script("a.py", **{name: given})  # type: ignore[arg-type]


def test_arguments_of_a_wrong_kind_are_refused_where_written() -> None:
    for name, said in (
        ("cluster", r"Cluster\(\.\.\.\)"),
        ("cache", "CachePolicy"),
        ("environment", '{"KEY": "value"}'),
    ):
        with pytest.raises(SpecError, match=rf"step\(load\): {name} is 5\. Write {name}={said}"):
            step(load, **{name: 5})
        with pytest.raises(SpecError, match=rf"script\('a\.py'\): {name} is 5\. Write {name}="):
            script("a.py", **{name: 5})  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"when\(5\) is not a condition\. Compare a reference"):
        when(5)  # type: ignore[arg-type]


def test_the_payload_of_a_lambda_may_nest() -> None:
    loaded = step(load, raw="s3://b/k")
    size = Parameter.integer("Size", default=3)

    def called(**given: Any) -> LambdaStep:
        return call_lambda("arn:aws:lambda:us-east-1:1:function:f", name="ask", **given)

    nested = {"name": "n", "where": {"data": [loaded["data"], 1, [True, 0.5]], "size": size, "none": {}}}
    by_dict, by_name = called(payload=nested), called(where=nested["where"], payload={"name": "n"})
    assert by_dict == by_name and list(by_dict.payload) == ["name", "where"]
    built = Pipeline(name="p", steps=[loaded, by_dict], parameters=[size])
    assert type(built).model_validate_json(built.model_dump_json()) == built
    assert Graph(built).needs["ask"] == {"load"}
    # A flat one is what it was, whatever its fields are called.
    assert called(payload="x", who=1).payload == {"payload": "x", "who": 1}
    assert called().payload == {}
    for given, words in (
        ({"payload": {"a": 1}, "a": 2}, r"'a' is given by name and in payload=\{\.\.\.\}\. Give it once"),
        ({"payload": {1: 2}}, r"has the key 1\. JSON has texts alone: '1'"),
        ({"a": [{"b": None}]}, r"payload\['a'\]\[0\]\['b'\]: None is a NoneType, which a pipeline cannot carry"),
        ({"a": {"Get": "Parameters.Size"}}, "which SageMaker reads as a reference"),
        ({"a": {"Std:Join": {}}}, "which SageMaker reads as a reference"),
        ({"a": [float("nan")]}, "finite"),
    ):
        with pytest.raises(SpecError, match=words):
            called(**given)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SpecError, match="deeper than 32"):
        called(a=endless)


def test_edges_conditions_and_step_options_are_built() -> None:
    loaded, measured = step(load, raw="s3://b/k"), step(measure, model="s3://b/k")
    asked = call_lambda("arn:aws:lambda:us-east-1:1:function:f", name="ask", outputs={"go": "Boolean"}, who="x")
    assert asked.value("go") == LambdaOutputRef(step="ask", name="go", type="Boolean")
    with pytest.raises(SpecError, match="returns no 'gone'"):
        asked.value("gone")
    late = step(measure, name="late", model="s3://b/k", after=[loaded, Dependency(step="load", trigger="Failed")])
    assert [item.trigger for item in late.depends_on] == [None, "Failed"]
    version = register(model="s3://b/m.tar.gz", group=join("g-", execution("PipelineExecutionId")), metrics=measured)
    gate = when(measured.metric("a") > 1, measured.metric("b") > 2, then=[version], otherwise=[fail("x")])
    built = Pipeline(name="p", steps=[loaded, measured, asked, late, gate], cache=CachePolicy(enabled=False))
    assert [one.name for one in built.steps] == ["load", "measure", "ask", "late", "decide"]
    with pytest.raises(SpecError, match="no condition"):
        when(then=[fail("x")])


@pytest.mark.parametrize("after", ["load", ["load"], [load]])
def test_only_steps_can_come_before_a_step(after: object) -> None:
    with pytest.raises(SpecError, match=r"no step\. Give the steps themselves: after=\[cleaned\]"):
        step(load, raw="s3://b/k", after=after)  # type: ignore[arg-type]


def test_a_single_step_before_needs_no_list() -> None:
    loaded = step(load, raw="s3://b/k")
    assert step(load, name="again", raw="s3://b/k", after=loaded).depends_on == (Dependency(step="load"),)  # type: ignore[arg-type]


def test_a_dependency_takes_the_step_or_its_name() -> None:
    loaded = step(load, raw="s3://b/k")
    named = Dependency(step="load", trigger="Any")
    assert (
        Dependency(loaded, "Any")
        == Dependency(step=loaded, trigger="Any")
        == Dependency("load", trigger="Any")
        == named
    )
    assert Dependency(loaded).trigger is None
    assert Dependency.model_validate_json(named.model_dump_json()) == named
    assert step(measure, model="s3://b/k", after=[Dependency(loaded, "Any")]).depends_on == (named,)
    with pytest.raises(SpecError, match="triger"):
        Dependency(loaded, triger="Any")
    with pytest.raises(SpecError, match="step"):
        Dependency()


def test_checkpoints_are_for_training() -> None:
    from drivetrain import Checkpoint

    with pytest.raises(SpecError, match="no checkpoints"):
        step(load, raw="s3://b/k", checkpoint=Checkpoint())


def test_checkpoints_are_for_programs_that_keep_some() -> None:
    from drivetrain import Checkpoint

    with pytest.raises(SpecError, match="its component keeps none"):
        step(fit_at_once, data="s3://b/k", checkpoint=Checkpoint())


def test_a_training_step_has_the_outputs_that_its_program_writes() -> None:
    fitted = step(fit_at_once, data="s3://b/k")
    assert fitted["model"].output == "model"
    with pytest.raises(SpecError, match="has no output 'output'"):
        fitted["output"]


def test_a_spec_does_not_change() -> None:
    loaded = step(load, raw="s3://b/k", cluster=Cluster(count=2))
    with pytest.raises(SpecError, match=r"name cannot be changed once it is built"):
        loaded.name = "other"
    with pytest.raises(TypeError, match="immutable"):
        loaded.inputs["raw"] = "s3://b/other"


def test_texts_of_numbers_stay_texts() -> None:
    judged = step(judge, report="s3://b/report/")
    assert judged.text("verdict") == MetricRef(step="judge", name="verdict", type="String")
    assert judged.metric("good") == MetricRef(step="judge", name="good")
    with pytest.raises(SpecError, match=r"'verdict' of step 'judge' is a text. Take it by step.text\('verdict'\)"):
        judged.metric("verdict")
    with pytest.raises(SpecError, match="Did you mean 'verdict'"):
        judged.text("verdikt")
    with pytest.raises(SpecError, match="returns no text 'good'"):
        judged.text("good")
    with pytest.raises(SpecError, match="returns no text 'note'"):  # it may be missing
        judged.text("note")


def test_a_text_is_checked_again_where_it_is_used() -> None:
    judged = step(judge, report="s3://b/report/")
    for wrong, part in (
        (MetricRef(step="judge", name="verdict"), "as a number, but it is a text"),
        (MetricRef(step="judge", name="good", type="String"), "reads text 'good' of 'judge', which returns none"),
    ):
        with pytest.raises(SpecError, match=part):
            Pipeline(name="p", steps=[judged, fail(wrong)])
    with pytest.raises(SpecError, match="orders String values"):
        Pipeline(name="p", steps=[judged, when(judged.text("verdict") >= "a", then=[fail("x")])])
    with pytest.raises(SpecError, match="compares String with Integer"):
        Pipeline(name="p", steps=[judged, when(judged.text("verdict").equals(1), then=[fail("x")])])
    Pipeline(name="p", steps=[judged, when(judged.text("verdict").equals("register"), then=[fail("x")])])


def test_steps_that_read_more_than_their_inputs_are_not_cached() -> None:
    assert step(judge, report="s3://b/report/").cache == CachePolicy(enabled=False)
    assert step(judge, report="s3://b/report/", cache=CachePolicy(enabled=False)).cache == CachePolicy(enabled=False)
    with pytest.raises(SpecError, match="looks at more than its inputs"):
        step(judge, report="s3://b/report/", cache=CachePolicy(expire_after="P1D"))


def test_a_version_is_registered_with_all_known_facts() -> None:
    scores = step(measure_fully, model="s3://b/model.tar.gz")
    judged = step(judge, report=scores["report"])
    made = register(
        model="s3://b/model.tar.gz", evaluation=scores, decision=judged, group="g", metadata={"team": "north"}
    )
    assert (made.evaluation, made.decision) == (scores["report"], judged["decision"])
    assert made.metadata == {
        "drivetrain-content-hash": judged.text("content_hash"),
        "drivetrain-lineage-data": judged.text("data_hash"),
        "drivetrain-decision-verdict": judged.text("verdict"),
        "team": "north",
    }
    folder = register(model="s3://b/m.tar.gz", decision="s3://b/decision/", group="g", metadata={"drivetrain-x": "1"})
    assert (folder.decision, folder.metadata) == ("s3://b/decision/", {"drivetrain-x": "1"})
    with pytest.raises(SpecError, match="is no step that compares: it returns no content_hash"):
        register(model="s3://b/model.tar.gz", decision=scores, group="g")
    with pytest.raises(SpecError, match="has no output 'report'"):
        register(model="s3://b/model.tar.gz", evaluation=step(measure, model="s3://b/m"), group="g")


def test_a_model_card() -> None:
    business = {"business_problem": "letters wait"}
    made = register(
        model="s3://b/m.tar.gz", group="g", intended_use="Reads digits.", card={"business_details": business}
    )
    assert made.card == {"business_details": business, "intended_uses": {"intended_uses": "Reads digits."}}
    assert register(model="s3://b/m.tar.gz", group="g").card is None
    with pytest.raises(SpecError, match=r"no section 'intended_use'\. Did you mean 'intended_uses'"):
        register(model="s3://b/m.tar.gz", group="g", card={"intended_use": {}})
    with pytest.raises(
        SpecError, match=r"^card\['business_details'\] of the model card has no field 'nope'\. Allowed: "
    ):
        register(model="s3://b/m.tar.gz", group="g", card={"business_details": {"nope": 1}})
    with pytest.raises(SpecError, match="Give an object with purpose_of_model, intended_uses"):
        register(model="s3://b/m.tar.gz", group="g", intended_use="Reads digits.", card={"intended_uses": "digits"})


@pytest.mark.parametrize("field", ["instance_type", "volume_gb"])
def test_fields_of_a_cluster_point_to_it(field: str) -> None:
    with pytest.raises(SpecError, match=rf"does not take '{field}'.* cluster=Cluster\({field}=\.\.\.\)"):
        step(load, raw="s3://bucket/raw/", **{field: "ml.m5.large"})
    with pytest.raises(SpecError, match=rf"Did you mean '{field}' of cluster=Cluster\(\.\.\.\)\?"):
        step(load, raw="s3://bucket/raw/", **{f"{field}e": "ml.m5.large"})


def test_a_single_retry_policy_needs_no_list() -> None:
    policy = RetryPolicy(causes=("throttling",))
    assert step(load, raw="s3://bucket/raw/", retry=policy).retry == (policy,)  # type: ignore[arg-type]
    assert step(load, raw="s3://bucket/raw/", retry=[policy, {"causes": ["quota"]}]).retry[1].causes == ("quota",)  # type: ignore[list-item]
