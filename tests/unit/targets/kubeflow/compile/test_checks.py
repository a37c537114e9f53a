"""What Kubeflow Pipelines cannot express: one rule, one test, which names step and field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from drivetrain import (
    Alternative,
    CachePolicy,
    Cluster,
    Debugger,
    Dependency,
    NativeStep,
    Network,
    Parameter,
    RetryPolicy,
    SpecError,
    Spot,
    TrainingOptions,
    between,
    call_lambda,
    current_item,
    execution,
    fail,
    for_each,
    largest,
    register,
    step,
    tune,
    when,
)
from drivetrain.components.train import train
from drivetrain.components.transform_data import transform_data
from drivetrain.spec.pipeline import DataDrift, Graph, Pipeline, QualityDrop, RegistryEvent, Schedule, Upload
from drivetrain.spec.resources import Checkpoint, InstanceGroup, Program
from drivetrain.targets.kubeflow.compile import checks
from tests.fixtures.kubeflow_examples import compiled, fit, load, pipeline, score, trained

RAW = "s3://own/raw/"
KEPT = {"checkpoint_claim": "kept"}
FUNCTION = "arn:aws:lambda:us-east-1:111122223333:function:f"
COUNT = Parameter.integer("Count", default=2)


def on(**cluster: Any) -> Any:
    return step(load, raw=RAW, cluster=Cluster(**cluster))


def fitted(**options: Any) -> Any:
    return step(fit, data=RAW, **options)


def asked() -> Any:
    return call_lambda(FUNCTION, name="ask", outputs={"n": "Integer"})


def gated(condition: Any, *before: Any) -> list[Any]:
    return [*before, when(condition, then=[step(load, name="good", raw=RAW)], name="gate")]


def swept(**options: Any) -> Any:
    return for_each(
        **{
            "items": [0.1],
            "body": [fitted(rate=current_item("Float"))],
            "name": "sweep",
            "max_concurrency": 1,
            **options,
        }
    )


def uncounted() -> list[Any]:
    loop = swept()
    return [loop, *gated(loop.count() > 1)]


def by_property() -> list[Any]:
    model = fitted()
    return [model, step(load, raw=model.property("ModelArtifacts.S3ModelArtifacts"))]


SCORES = step(score, data=RAW)
FIRST = step(load, name="first", raw=RAW)
# Rule, what it is about, step, field, and what is said.
CASES: list[tuple[str, Callable[[], Any], str, str, str]] = [
    (
        "_kinds",
        lambda: tune(fitted(), objective="loss", max_trainings=4, rate=between(0.001, 1.0)),
        "fit",
        "tune",
        "for_each(..., best=largest(...))",
    ),
    ("_kinds", asked, "ask", "call_lambda", "Use a component"),
    (
        "_kinds",
        lambda: NativeStep(name="spark", type="EMR", fields={"Arguments": {}}),
        "spark",
        "type EMR",
        "Use a component or a script",
    ),
    (
        "_images",
        lambda: step(load, raw=RAW, image="a b"),
        "load",
        "image",
        "it has a space. Give [REGISTRY[:PORT]/]NAME",
    ),
    (
        "_images",
        lambda: step(transform_data, raw=RAW, plan="[]", engine="spark", image="r.example.com/drivetrain-gpu:1"),
        "transform-data",
        "image",
        "spark.Dockerfile builds, or engine=polars",
    ),
    (
        "_machines",
        lambda: fitted(cluster=Cluster(groups=(InstanceGroup(name="b", instance_type="ml.m5.large"),))),
        "fit",
        "cluster.groups",
        "Give a count",
    ),
    (
        "_machines",
        lambda: fitted(cluster=Cluster(alternatives=(Alternative(instance_type="ml.m5.large"),))),
        "fit",
        "cluster.alternatives",
        "resources and node labels",
    ),
    (
        "_machines",
        lambda: fitted(cluster=Cluster(warm_pool_seconds=60)),
        "fit",
        "cluster.warm_pool_seconds",
        "nodes are the cluster's to keep",
    ),
    (
        "_machines",
        lambda: fitted(cluster=Cluster(instance_type="ml.p4d.24xlarge", count=2, efa=True)),
        "fit",
        "cluster.efa",
        "resources and the image",
    ),
    ("_machines", lambda: on(network=Network(isolated=True)), "load", "cluster.network", "network policy"),
    ("_machines", lambda: on(count=COUNT.ref()), "load", "cluster.count", "is a parameter"),
    ("_machines", lambda: on(count=2), "load", "cluster.count", "a task is one pod. Give 1."),
    (
        "_spot",
        lambda: fitted(cluster=Cluster(spot=Spot(max_wait_seconds=90_000))).model_copy(update={"checkpoint": None}),
        "fit",
        "cluster.spot",
        "an eviction loses all of it",
    ),
    (
        "_options",
        lambda: fitted(options=TrainingOptions(remote_debug=True)),
        "fit",
        "options.remote_debug",
        "Leave it out there.",
    ),
    (
        "_options",
        lambda: fitted(options=TrainingOptions(debugger=Debugger())),
        "fit",
        "options.debugger",
        "Leave it out there; the health rules run in the training itself.",
    ),
    (
        "_inputs",
        lambda: fitted().model_copy(update={"inputs": {"data": "fsx://fs-0123456789abcdef0/mnt/train"}}),
        "fit",
        "inputs.data",
        "Give a path, or an s3:// URI",
    ),
    (
        "_inputs",
        lambda: [SCORES, step(load, raw=execution("PipelineExecutionId"))],
        "load",
        "inputs.raw",
        "cannot be an input's place there",
    ),
    ("_references", lambda: step(load, raw=RAW, label=execution("PipelineArn")), "load", "PipelineArn", "PipelineName"),
    (
        "_references",
        by_property,
        "load",
        "property 'ModelArtifacts.S3ModelArtifacts'",
        "Use an output or a metric",
    ),
    ("_references", uncounted, "gate", "count", "Count them in a step"),
    (
        "_conditions",
        lambda: gated(execution("PipelineName").equals("p")),
        "gate",
        "condition",
        "Execution value 'PipelineName' cannot be compared there.",
    ),
    (
        "_dependencies",
        lambda: [FIRST, step(load, raw=RAW, after=[Dependency(step="first", trigger="Failed")])],
        "load",
        "after 'first'",
        "Use trigger='Any'",
    ),
    (
        "_dependencies",
        lambda: [FIRST, SCORES, step(load, raw=SCORES["metrics"], after=[Dependency(step="first", trigger="Any")])],
        "load",
        "after 'first'",
        "waits for it alone, and not for 'score', too",
    ),
    (
        "_dependencies",
        lambda: [
            FIRST,
            second := step(load, name="second", raw=RAW, after=[Dependency(step="first", trigger="Any")]),
            step(load, raw=RAW, after=[second]),
        ],
        "second",
        "after 'first'",
        "no step can wait for one that runs however another ended; 'load' does",
    ),
    (
        "_conditions",
        lambda: gated((SCORES.metric("a") > 0.5) | ~SCORES.metric("b").is_in([1, 2**53 + 1])),
        "gate",
        "condition",
        "9007199254740993 is rounded there, where numbers are doubles. Allowed: -2**53 to 2**53.",
    ),
    (
        "_retries",
        lambda: step(load, raw=RAW, retry=[RetryPolicy(causes=("throttling",), backoff_rate=0)]),
        "load",
        "retry",
        "a backoff_rate of 0 ends the run there at the first retry. Give 1, 2, or more.",
    ),
    (
        "_retries",
        lambda: register(model=fitted()["model"], group="g", name="load").model_copy(
            update={"retry": (RetryPolicy(causes=("throttling",), backoff_rate=1.5),)}
        ),
        "load",
        "retry",
        "a backoff_rate of 1.5 ends the run",
    ),
    (
        "_outputs",
        lambda: step(load, raw=RAW).model_copy(update={"outputs": ("data", "executor-logs-2")}),
        "load",
        "outputs.executor-logs-2",
        "'executor-logs-2' is the log that Kubeflow Pipelines adds to each task. Give it another name.",
    ),
    (
        "_outputs",
        lambda: swept(body=[step(load, name="executor", raw=RAW).model_copy(update={"outputs": ("logs",)})]),
        "executor",
        "outputs.logs",
        "'executor-logs' is the log",
    ),
    (
        "_nodes",
        lambda: trained(cluster=Cluster(count=2), environment={"PET_NNODES": "2"}),
        "train",
        "environment.PET_NNODES",
        "the Trainer sets it itself. Leave it out.",
    ),
    ("_loops", lambda: swept(items=Parameter.string("Items", default="[1]")), "sweep", "items", "a list of literals"),
    ("_checkpoints", fitted, "fit", "checkpoint", "Set deployment.targets.kubeflow.checkpoint_claim"),
    (
        "_checkpoints",
        lambda: trained(checkpoint=Checkpoint(uri=Parameter.string("Place").ref())),
        "train",
        "checkpoint.uri",
        "Give a URI",
    ),
    (
        "_scripts",
        lambda: fitted().model_copy(update={"program": Program(kind="script", target="work.py")}),
        "fit",
        "program",
        "Use the component train_script",
    ),
    (
        "_libraries_of_a_vendor",
        lambda: step(train, name="fit", train=RAW, recipe="digits_cnn", strategy="smp"),
        "fit",
        "strategy",
        "Give strategy='hsdp', which does the same with torch alone",
    ),
]


def spec(steps: Any, **fields: Any) -> Pipeline:
    """Not held to the rules that all targets share, some of which ask for more."""
    return Pipeline(**{**dict(pipeline(**fields)), "steps": tuple(steps) if isinstance(steps, list) else (steps,)})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].strip('_')}-{case[3]}")
def test_a_rule_names_step_and_field(case: tuple[str, Callable[[], Any], str, str, str]) -> None:
    rule, steps, name, field, said = case
    graph = Graph(spec(steps()))
    found = list(getattr(checks, rule)(graph.by_name[name], graph))
    hits = [problem for problem in found if (problem.step, problem.field) == (name, field) and said in problem.reason]
    assert hits, found
    assert str(hits[0]) in map(str, checks.check(graph.pipeline))
    assert str(hits[0]).startswith(f"Step {name!r}: {field}: ")


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    assert {case[0] for case in CASES} == {rule.__name__ for _, rule in checks._OF_STEPS}


def test_expressible_features_are_no_problem() -> None:
    model = trained(cluster=Cluster(spot=Spot(max_wait_seconds=90_000)))
    sweep = for_each([0.1], [fitted(rate=current_item("Float"))], name="sweep", max_concurrency=1)
    steps = [model, SCORES, *gated(SCORES.metric("a") > 0.5), sweep, fail("no", name="stop")]
    steps.append(register(model=model["model"], group="digits"))
    assert checks.check(spec(steps, settings=KEPT)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (step(load, name="a_b", raw=RAW), step(load, name="A-b", raw=RAW)),
        (gated(SCORES.metric("a") > 0.5, SCORES), step(load, name="gate-then", raw=RAW)),
        (step(load, name="gate-then", raw=RAW), gated(SCORES.metric("a") > 0.5, SCORES)),
    ],
)
def test_names_that_collide_on_kubeflow_are_refused(first: Any, second: Any) -> None:
    steps = [each for part in (first, second) for each in (part if isinstance(part, list) else [part])]
    (problem,) = checks.check(spec(steps))
    assert problem.field == "name" and "as" in problem.reason and "Give" in problem.reason


def test_names_of_the_notices_and_of_parameters() -> None:
    (problem,) = checks.check(spec(step(load, name="notice", raw=RAW), settings={"notices": "hooks/url"}))
    assert "'notice' is a task of the notices" in problem.reason
    assert checks.check(spec(step(load, name="notice", raw=RAW))) == []
    (problem,) = checks.check(spec([], parameters=[Parameter.string("a--b", default="x")]))
    assert str(problem) == "The pipeline: parameter 'a--b': its name holds `--`. Give it another name."


def test_the_name_of_a_pipeline_is_not_too_long() -> None:
    assert checks.check(spec([], name="a" * 128)) == []
    assert [str(problem) for problem in checks.check(spec([], name="a" * 129))] == [
        "The pipeline: name: has more than 128 characters. Give a shorter one."
    ]


def test_settings_of_a_step_that_is_not_there() -> None:
    settings = {"steps": {"laod": {"volumes": {"/data": "shared"}}}}
    (problem,) = checks.check(spec(step(load, raw=RAW), settings=settings))
    assert problem.field == "deployment.targets.kubeflow.steps.laod"
    assert "Did you mean 'load'?" in problem.reason


def test_settings_of_a_loop_would_reach_no_pod() -> None:
    loop = for_each([0.1], [step(load, raw=RAW)], name="sweep", max_concurrency=1)
    (problem,) = checks.check(spec(loop, settings={"steps": {"sweep": {"cpu": 4}}}))
    assert str(problem).startswith("The pipeline: deployment.targets.kubeflow.steps.sweep: it has no pod.")


@pytest.mark.parametrize("item", ["{{$.x}}", "$$", "$(HOME)"])
def test_items_that_would_not_arrive_as_they_are(item: str) -> None:
    loop = for_each([{"key": "a", "text": item}], [step(load, raw=RAW)], name="sweep", key="key", max_concurrency=1)
    assert [problem.field for problem in checks.check(spec(loop))] == ["items"]


def test_more_variables_than_a_train_job_has() -> None:
    """Recorded: `spec.trainer.env: Too many: 134: must have at most 128 items`."""

    def found(secrets: int) -> list[str]:
        given = {f"V{number}": "a/b" for number in range(secrets)}
        return [str(each) for each in checks.check(spec(nodes, settings={"pods": {"secrets": given}}))]

    nodes = trained(cluster=Cluster(count=2))
    assert found(127) == []
    (problem,) = found(128)
    assert "a TrainJob has at most 128 variables, and there are 129 with those of Drivetrain. Name fewer." in problem


def test_a_volume_where_checkpoints_are() -> None:
    taken = {"pods": {"volumes": {"/drivetrain/checkpoints": "shared"}}}
    (problem,) = checks.check(spec(step(load, raw=RAW), settings={**taken, **KEPT}))
    assert problem.field == "deployment.targets.kubeflow.pods.volumes" and "Give another folder" in problem.reason
    assert checks.check(spec(step(load, raw=RAW), settings=taken)) == []


def test_triggers() -> None:
    triggers = (
        Schedule(name="nightly", cron="0 2 * * ? *"),
        RegistryEvent(name="approved", group="digits"),
        DataDrift(name="drift", group="digits"),
        QualityDrop(name="drop", group="digits"),
        Upload(name="data", bucket="own-bucket"),
    )
    (problem,) = checks.check(spec(step(load, raw=RAW)).model_copy(update={"triggers": triggers}))
    assert (
        problem.field == "trigger 'data'"
        and "Use a Schedule, RegistryEvent, DataDrift or QualityDrop." in problem.reason
    )
    rounded = Schedule(name="nightly", cron="0 2 * * ? *", parameters={"Rows": 2**53 + 1})
    (problem,) = checks.check(spec(step(load, raw=RAW)).model_copy(update={"triggers": (rounded,)}))
    assert problem.field == "trigger 'nightly', parameters.Rows" and "is rounded there" in problem.reason


def test_a_pipeline_that_cannot_be_expressed_is_not_compiled() -> None:
    with pytest.raises(
        SpecError, match=r"Kubeflow Pipelines cannot express this pipeline\.\n  Step 'ask': call_lambda"
    ):
        compiled(asked())


def test_notes_name_ignored_settings() -> None:
    policy = RetryPolicy(causes=("throttling",))
    choice = Parameter.string("Kind", default="a", choices=("a", "b"))
    model = fitted(cache=CachePolicy(expire_after="P30D"), retry=[policy])
    carded = register(model=model["model"], group="digits", intended_use="Digits.")
    found = compiled(model, carded, parameters=[choice], settings=KEPT).notes
    for said in ("expire_after does not count", "causes of a RetryPolicy", "'Kind'", "'register-model': its card"):
        assert any(said in note for note in found), said
    assert compiled(step(load, raw=RAW)).notes == ()


@pytest.mark.parametrize(
    ("block", "where"),
    [
        ({"pods": {"secrets": {"TOKEN": "keys"}}}, "deployment.targets.kubeflow.pods.secrets.TOKEN"),
        ({"pods": {"secrets": {"MY TOKEN": "keys/token"}}}, "deployment.targets.kubeflow.pods.secrets"),
        ({"pods": {"volumes": {"data": "shared"}}}, "deployment.targets.kubeflow.pods.volumes"),
        ({"steps": {"load": {"volumes": {"/data": "No Name"}}}}, "deployment.targets.kubeflow.steps.load.volumes"),
        ({"notices": "https://hooks"}, "deployment.targets.kubeflow.notices"),
        ({"notice": "hooks/url"}, "deployment.targets.kubeflow.notice"),
    ],
)
def test_settings_that_are_wrong(block: dict[str, Any], where: str) -> None:
    with pytest.raises(SpecError) as refused:
        checks.check(spec(step(load, raw=RAW), settings=block))
    assert str(refused.value).startswith(where) and "\n" not in str(refused.value)


def test_the_settings_on_the_page_are_some() -> None:
    page = (Path(__file__).parents[5] / "docs" / "kubeflow_pipelines.md").read_text(encoding="utf-8")
    block = yaml.safe_load(page.split("```yaml\n")[1].partition("```")[0])
    model = trained(cluster=Cluster(spot=Spot(max_wait_seconds=90_000)))
    assert checks.check(spec(model, settings=block["deployment"]["targets"]["kubeflow"])) == []


def test_the_picked_iteration_is_by_a_logged_value_alone() -> None:
    lambda_step = asked()
    loop = for_each([0.1], [lambda_step], name="sweep", max_concurrency=1, best=largest(lambda_step.value("n")))
    assert [problem.field for problem in checks.check(spec(loop)) if problem.step == "sweep"] == ["best"]


@pytest.mark.parametrize(
    "block",
    [
        {"endpoint": "http://user:hunter2@host/"},
        {"pods": {"secrets": {"HF_TOKEN": "hunter2 in clear"}}},
        {"notices": "https://hooks.example.com/hunter2"},
        {"s3_secret": "HUNTER2hunter2"},
    ],
)
def test_errors_show_no_possible_secret(block: dict[str, Any]) -> None:
    from drivetrain import Deployment
    from drivetrain.targets.kubeflow.settings import settings_of

    with pytest.raises(SpecError, match=r"^deployment\.targets\.kubeflow\.") as refused:
        settings_of(Deployment(targets={"kubeflow": block}))
    assert "hunter2" not in str(refused.value).lower()
