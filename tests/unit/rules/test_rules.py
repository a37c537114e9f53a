"""One test a rule: the smallest pipeline that breaks it, and the message that says what to do.

(Those about distribution are in test_strategy_rules.py, those about triggers in test_trigger_rules.py.)
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain import (
    CachePolicy,
    Checkpoint,
    Cluster,
    Dependency,
    Deployment,
    NativeStep,
    Parameter,
    Pipeline,
    SpecError,
    Spot,
    execution,
    fail,
    folder_in,
    join,
    register,
    script,
    when,
)
from drivetrain.rules import graph_rules, job_rules, rules
from drivetrain.spec.resources import Program
from drivetrain.spec.steps import LambdaStep, ProcessingStep, TrainingStep
from drivetrain.spec.values import LambdaOutputRef, MetricRef, OutputRef, ParameterRef
from drivetrain.targets.sagemaker import rules as sagemaker_rules

PROGRAM = Program(kind="component", target="module:function")


def processing(name: str = "work", **fields: Any) -> ProcessingStep:
    return ProcessingStep(name=name, program=PROGRAM, **{"outputs": ("out",), "metrics": ("accuracy",), **fields})


def training(name: str = "train", **fields: Any) -> TrainingStep:
    return TrainingStep(name=name, program=PROGRAM, **fields)


def refusal(*steps: Any, **fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        Pipeline(**{"name": "p", "steps": list(steps), **fields})
    message = str(caught.value)
    assert len(message.splitlines()) <= 3
    return message


def accept(*steps: Any, **fields: Any) -> None:
    """What is just within a limit breaks no rule."""
    assert rules.problems(Pipeline(**{"name": "p", "steps": list(steps), **fields})) == []


def test_every_file_of_rules_is_loaded() -> None:
    """By its name in rules.py, its target's if it is one of a target; that it is asked where there is what it is about,
    the tests of its rules show."""
    numbers: list[int] = []
    for asking in (rules, sagemaker_rules):
        path = Path(str(asking.__file__))
        files = sorted(each.stem for each in path.parent.glob("*_rules.py"))
        assert [name for name in files if f"yield {name}.rule" not in path.read_text()] == []
        numbers.append(len(files))
    assert numbers == [8, 3]


def test_a_pipeline_of_two_steps_loads_only_the_rules_it_needs() -> None:
    code = (
        "import sys\n"
        "from drivetrain import Pipeline, script\n"
        "Pipeline(name='p', steps=[script('a.py'), script('b.py')])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('drivetrain.') and name.endswith('rules')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "drivetrain.rules",
        *(f"drivetrain.rules.{name}" for name in ("graph_rules", "job_rules", "rules")),
        *(f"drivetrain.targets.sagemaker.{name}" for name in ("option_rules", "rules")),
    ]


def test_a_targets_rules_about_jobs_come_after_the_general_ones() -> None:
    tags = {f"k{n}": "v" for n in range(51)}
    assert "has 51 tags" in refusal(processing(tags=tags))
    assert "looks like a secret" in refusal(processing(tags=tags, parameters={"password": "hunter2"}))
    accept(processing(tags=tags), deployment=Deployment(target="kubeflow"))


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in (*graph_rules.rule, *job_rules.rule, *sagemaker_rules.rule)} <= tests


def test_a_good_pipeline_breaks_no_rule() -> None:
    data, model = processing("data"), training()
    gate = when(
        data.metric("accuracy") >= 0.9, then=[register(model=model["model"], group="g")], otherwise=[fail("no")]
    )
    assert rules.problems(Pipeline(name="p", steps=[data, model, gate])) == []


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "a_b", "x" * 257])
def test_rule_pipeline_name_is_legal(name: str) -> None:
    assert "letters, digits and hyphens" in refusal(processing(), name=name)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ü", "x" * 65])
def test_rule_step_names_are_legal(name: str) -> None:
    assert "1 to 64 letters" in refusal(processing(name))


def test_rule_native_steps_leave_out_what_is_written() -> None:
    said = "step 'n': NativeStep(fields=...) gives 'Name', which is written of every step. Give it as NativeStep(name="
    assert said in refusal(NativeStep(name="n", type="EMR", fields={"Name": "x", "Type": "y"}))


def test_rule_step_names_are_unique() -> None:
    inside = when(processing("a").metric("accuracy") > 0, then=[processing("b")])
    assert "2 steps are called 'b'" in refusal(processing("a"), processing("b"), inside)


def test_rule_parameters_are_legal() -> None:
    assert "'a b' is not allowed" in refusal(parameters=[Parameter.string("a b")])
    assert "is Integer, but 0.5 is not" in refusal(parameters=[Parameter(name="n", type="Integer", default=0.5)])
    assert "is Boolean, but 1 is not" in refusal(parameters=[Parameter(name="n", type="Boolean", default=1)])
    equal = Parameter(name="n", type="Integer", default=1, choices=(1.0, 2))
    assert "is Integer, but 1.0 is not" in refusal(parameters=[equal])
    message = refusal(parameters=[Parameter.string("size", default="smal", choices=("small", "large"))])
    assert "Did you mean 'small'?" in message
    assert "at most 1,024" in refusal(parameters=[Parameter.string("text", default="x" * 1025)])
    assert "'Fresh' is taken by starts with --fresh. Give yours" in refusal(parameters=[Parameter.string("Fresh")])
    accept(parameters=[Parameter.string("Fresh", "no")])  # an imported pipeline's
    accept(parameters=[Parameter.string("text", default="x" * 1024)])
    accept(parameters=[Parameter(name="n", type="Float", default=1)])


def test_rule_parameter_names_are_unique() -> None:
    assert "2 parameters are called 'n'" in refusal(parameters=[Parameter.string("n"), Parameter.integer("n")])


def test_rule_limits_are_kept() -> None:
    assert "200 parameters" in refusal(parameters=[Parameter.string(f"p{i}") for i in range(200)])
    assert "51 tags" in refusal(tags={f"t{i}": "x" for i in range(51)})
    assert "step 'work' has 51 tags" in refusal(processing(tags={f"t{i}": "x" for i in range(51)}))
    tags = {f"t{i}": "x" for i in range(50)}
    offered = [Parameter.integer("Machines", choices=tuple(range(17)))]
    assert "parameter 'Machines' offers 17 choices; at most 16. Leave choices out" in refusal(parameters=offered)
    accept(parameters=[Parameter.integer("Machines", choices=tuple(range(16)))])
    accept(processing(tags=tags), tags=tags, parameters=[Parameter.string(f"p{i}") for i in range(199)])


def test_rule_tags_are_legal() -> None:
    assert "a key that is not allowed, 'kkk" in refusal(tags={"k" * 129: ""})
    assert "a value that is not allowed, 'a;b'. Use 0 to 256 letters" in refusal(tags={"team": "a;b"})
    assert "step 'work': the tag 'AWS:x' begins with 'aws:'" in refusal(processing(tags={"AWS:x": ""}))
    accept(tags={"k" * 128: "v" * 256, "Kürzel 1": "a_b.c:d/e=f+g-h@i"})


def test_rule_references_find_their_parameter() -> None:
    step = processing(parameters={"n": ParameterRef(name="Epocs", type="Integer")})
    message = refusal(step, parameters=[Parameter.integer("Epochs")])
    assert "Did you mean 'Epochs'?" in message
    step = processing(parameters={"n": ParameterRef(name="Epochs", type="Float")})
    assert "declared Integer" in refusal(step, parameters=[Parameter.integer("Epochs")])


def test_rule_references_find_their_step() -> None:
    reader = processing("reader", inputs={"data": OutputRef(step="prepar", output="out")})
    assert "Or did you mean 'prepare'?" in refusal(processing("prepare"), reader)
    assert "'nowhere'" in refusal(processing(depends_on=(Dependency(step="nowhere"),)))


def test_rule_references_find_their_output() -> None:
    reader = processing("reader", inputs={"data": OutputRef(step="a", output="outt")})
    assert "Did you mean 'out'?" in refusal(processing("a"), reader)
    reader = processing("reader", parameters={"x": MetricRef(step="a", name="acuracy")})
    assert "Did you mean 'accuracy'?" in refusal(processing("a"), reader)
    called = LambdaStep(name="a", function="arn:aws:lambda:us-east-1:1:function:f", outputs={"size": "Integer"})
    reader = processing("reader", parameters={"x": LambdaOutputRef(step="a", name="siz", type="Integer")})
    assert "Did you mean 'size'?" in refusal(called, reader)
    for file, said in (("outt/a.json", "Did you mean 'out'?"), ("out", "Give a file in one of its outputs")):
        reader = processing("reader", parameters={"x": MetricRef(step="a", name="mse", file=file)})
        assert f"reads {file!r} of 'a'" in (message := refusal(processing("a"), reader)) and said in message
    reader = processing("reader", parameters={"x": training("t").report("model", "a.json").value("mse")})
    assert "'t', which is no processing step. Take what a training logs" in refusal(training("t"), reader)


def test_rule_steps_make_no_cycle() -> None:
    a = processing("a", inputs={"data": OutputRef(step="b", output="out")})
    b = processing("b", inputs={"data": OutputRef(step="c", output="out")})
    c = processing("c", depends_on=(Dependency(step="a"),))
    assert "a -> b -> c -> a" in refusal(a, b, c)
    assert "a -> a" in refusal(processing("a", depends_on=(Dependency(step="a"),)))


def test_rule_branches_do_not_rejoin() -> None:
    a, inner = processing("a"), processing("inner")
    gate = when(a.metric("accuracy") > 0.5, then=[inner], name="gate")
    assert "only in the branch 'gate:then'" in refusal(a, gate, processing("after", inputs={"data": inner["out"]}))
    other = when(a.metric("accuracy") > 0.5, then=[inner], otherwise=[processing("b", inputs={"x": inner["out"]})])
    assert "only in the branch" in refusal(a, other)


def test_rule_conditions_compare_like_with_like() -> None:
    a, text = processing("a"), Parameter.string("text", default="x")
    gate = when(a.metric("accuracy") >= text.ref(), then=[fail("x")])
    assert "compares Float with String" in refusal(a, gate, parameters=[text])
    gate = when(text > "a", then=[fail("x")])
    assert "only numbers have an order" in refusal(gate, parameters=[text])
    accept(when(text.equals("a"), then=[fail("x")]), parameters=[text])


def test_rule_job_names_are_of_jobs_that_the_step_starts() -> None:
    name = execution("TrainingJobName")
    accept(training(parameters={"name": name}), processing(parameters={"name": execution("ProcessingJobName")}))
    said = refusal(processing("evaluate", parameters={"name": name}))
    assert "step 'evaluate': execution('TrainingJobName') is the name of the job that the step itself starts" in said
    assert "other.property('TrainingJobName')" in said
    assert "starts no such job" in refusal(fail(join("the job ", name)))


def test_rule_conditions_have_a_branch() -> None:
    a = processing("a")
    assert "decides nothing" in refusal(a, when(a.metric("accuracy") > 0.5))


def test_rule_processing_jobs_have_the_machine() -> None:
    big = Cluster(instance_type="ml.p4d.24xlarge")
    said = refusal(processing("evaluate", cluster=big))
    assert "step 'evaluate': processing jobs have no ml.p4d.24xlarge; training jobs have." in said
    assert "such as ml.g6e.xlarge (1 x L40S of 44.7 GiB" in said
    accept(training(cluster=big), processing(cluster=Cluster(instance_type="ml.p5.4xlarge")))


def test_rule_folders_fit_a_job() -> None:
    assert "'code' is taken" in refusal(processing(inputs={"code": "s3://b/k"}))
    step = script("clean.py", inputs={"raw": "s3://b/k"}, arguments=[folder_in("row")])
    assert "Did you mean 'raw'?" in refusal(step)
    assert "the output name '../x' is not allowed: it names a folder" in refusal(script("x.py", outputs=["../x"]))
    assert "the input name 'a b' is not allowed" in refusal(script("x.py", inputs={"a b": "s3://b/k"}))
    assert "two outputs are called 'a'" in refusal(script("x.py", outputs=["a", "a"]))


def test_rule_jobs_take_so_many_folders() -> None:
    assert "11 inputs with the code; at most 10" in refusal(processing(inputs={f"i{n}": "s3://b/k" for n in range(10)}))
    # The code is one more input, and the report with the metrics one more output.
    accept(processing(inputs={f"i{n}": "s3://b/k" for n in range(9)}, outputs=tuple(f"o{n}" for n in range(9))))
    assert "11 outputs; at most 10" in refusal(processing(outputs=tuple(f"o{n}" for n in range(10))))
    assert "no output 'weights'. Allowed: model, output" in refusal(training(outputs=("model", "weights")))


def test_rule_inputs_are_uris() -> None:
    a = processing("a")
    assert "is Float" in refusal(a, processing("b", inputs={"x": a.metric("accuracy")}))
    path = Parameter.string("Data", default="data.csv")
    assert "is no S3 URI" in refusal(processing(inputs={"x": path.ref()}), parameters=[path])
    assert "'..' is not allowed" in refusal(processing(inputs={"x": "s3://bucket/../secrets"}))
    assert "input 'x' of step 'work' is empty" in refusal(processing(inputs={"x": ""}))


def test_rule_ages_of_caches_are_durations() -> None:
    assert "step 'work': cache.expire_after: 'banana' is not a duration" in refusal(
        processing(cache=CachePolicy(expire_after="banana"))
    )
    assert "the pipeline: cache.expire_after: '3' is" in refusal(processing(), cache=CachePolicy(expire_after="3"))
    accept(processing(cache=CachePolicy(expire_after="30d")), cache=CachePolicy(expire_after="P1DT6H"))


def test_rule_arguments_fit() -> None:
    assert "at most 256" in refusal(processing(arguments=("x" * 257,)))
    assert "argument 0 has line breaks" in refusal(processing(arguments=("x\ny",)))
    assert "text has line breaks" in refusal(training(parameters={"text": "x\ny"}))
    assert "at most 2500" in refusal(training(parameters={"text": "x" * 2501}))
    assert "command-line arguments; at most 100" in refusal(processing(parameters={f"p{i}": i for i in range(60)}))
    # Two for each of two outputs and for a parameter, and three before them all.
    accept(processing(parameters={f"p{i}": i for i in range(46)}, arguments=("x",)))
    assert "needs 101 command-line" in refusal(processing(parameters={f"p{i}": i for i in range(47)}))
    accept(processing(parameters={"text": "x" * 256}))
    # A component's text is spread over two arguments for every 256 characters; nine are of all else.
    accept(processing(parameters={"text": "x" * 256 * 45, "lines": "x\ny"}))
    too_long = refusal(processing(parameters={"text": "x" * 256 * 46, "lines": "x\ny"}))
    assert "needs 101 command-line" in too_long and "text takes 92 of them" in too_long
    accept(training(parameters={"text": "x" * 2500, **{f"p{i}": i for i in range(99)}}))
    assert "101 parameters" in refusal(training(parameters={f"p{i}": i for i in range(101)}))


def test_rule_machines_make_sense() -> None:
    count = Parameter.string("Count", default="2")
    step = processing(cluster=Cluster(count=count.ref()))
    assert "not Integer" in refusal(step, parameters=[count])
    spot = Spot(max_wait_seconds=7200)
    assert "for trainings" in refusal(processing(cluster=Cluster(spot=spot)))
    too_short = Cluster(spot=spot, max_run_seconds=7201)
    assert "max_wait_seconds (7200) is less" in refusal(training(cluster=too_short, checkpoint=Checkpoint()))
    fits = Cluster(spot=spot, max_run_seconds=7200)
    assert "without a checkpoint location" in refusal(training(cluster=fits))
    accept(training(cluster=fits, checkpoint=Checkpoint()))


def test_rule_jobs_end_in_time() -> None:
    assert "after 777,600 seconds" in refusal(processing(cluster=Cluster(max_run_seconds=777_601)))
    assert "after 2,419,200 seconds" in refusal(training(cluster=Cluster(max_run_seconds=2_419_201)))
    accept(processing(cluster=Cluster(max_run_seconds=777_600)), training(cluster=Cluster(max_run_seconds=2_419_200)))


def test_rule_warm_pools_are_of_trainings() -> None:
    assert "are for training jobs" in refusal(processing(cluster=Cluster(warm_pool_seconds=60)))
    spot = Spot(max_wait_seconds=7200)
    warm = Cluster(spot=spot, max_run_seconds=7200, warm_pool_seconds=60)
    assert "no warm pools" in refusal(training(cluster=warm, checkpoint=Checkpoint()))
    accept(training(cluster=Cluster(warm_pool_seconds=60)))


def test_rules_of_a_target_hold_for_its_pipelines_alone() -> None:
    """A pipeline for Kubeflow is not held to SageMaker's limits before it is compiled to SageMaker."""
    from drivetrain.targets.target import find_target

    long = processing(cluster=Cluster(max_run_seconds=777_601))
    accept(long, deployment=Deployment(target="kubeflow"))
    pipeline = Pipeline(name="p", steps=[long], deployment=Deployment(target="kubeflow"))
    assert find_target("kubeflow").check(pipeline) == []
    with pytest.raises(SpecError, match=r"(?s)SageMaker Pipelines cannot express.*after 777,600 seconds"):
        find_target("sagemaker").compile(pipeline)
    # What holds everywhere is refused everywhere.
    assert "are called 'a'" in refusal(processing("a"), processing("a"), deployment=Deployment(target="kubeflow"))


def test_a_pipeline_without_machines_is_refused_by_sagemaker_alone() -> None:
    from drivetrain.spec.resources import Resources
    from drivetrain.targets.target import find_target

    pipeline = Pipeline(name="p", steps=[processing(cluster=Cluster(resources=Resources(cpu=1)))])
    assert [str(each) for each in find_target("sagemaker").check(pipeline)] == [
        "Step 'work': cluster.resources: a job has machines of its own. Give an instance_type."
    ]
    assert find_target("kubeflow").check(pipeline) == []


def test_rule_spot_is_decided_when_compiled() -> None:
    spot = Parameter.boolean("Spot", default=False)
    for given in (spot, spot.ref()):
        message = refusal(training(cluster=Cluster(spot=given)), parameters=[spot])  # type: ignore[arg-type]
        assert "cluster.spot is parameter 'Spot'" in message and "leaves a field out" in message
        assert "--set spot=false" in message


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_rule_texts_can_be_passed(text: str) -> None:
    for fields in (
        {"parameters": {"word": text}},
        {"environment": {"WORD": text}},
        {"inputs": {"word": "s3://b/" + text}},
    ):
        assert "half a surrogate pair" in refusal(processing(**fields))
    assert "argument 0 is" in refusal(processing(arguments=(text,)))


@pytest.mark.parametrize("uri", ["s3://bucket/run", "/local/", "run/"])
def test_rule_checkpoint_prefixes_end_with_a_slash(uri: str) -> None:
    assert "final slash" in refusal(training(checkpoint=Checkpoint(uri=uri)))


def test_rule_secrets_stay_out() -> None:
    assert "looks like a secret" in refusal(processing(environment={"DB_PASSWORD": "hunter2"}))
    assert "looks like a secret" in refusal(processing(environment={"DB": "mysql://me:hunter2@host"}))
    Pipeline(name="p", steps=[processing(parameters={"tokenizer": "bert", "eos_token": "</s>"})])
    arn = "arn:aws:secretsmanager:us-east-1:1:secret:db"
    Pipeline(name="p", steps=[processing(environment={"DB_PASSWORD": arn})])


def test_rule_registered_models_are_models() -> None:
    a = processing("a")
    assert "group is Float" in refusal(a, register(model="s3://b/m.tar.gz", group=a.metric("accuracy")))
