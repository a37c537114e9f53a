"""What each kind of step becomes in the IR."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain import (
    CachePolicy,
    Cluster,
    Dependency,
    Parameter,
    RetryPolicy,
    SpecError,
    UserError,
    current_item,
    execution,
    fail,
    folder_in,
    folder_out,
    for_each,
    join,
    largest,
    register,
    script,
    smallest,
    step,
    when,
)
from drivetrain.pipelines.retraining import Retraining, retraining
from drivetrain.targets.kubeflow.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline as compile_for_sagemaker
from tests.fixtures.kubeflow_examples import (
    FRESH,
    FRESH_INPUT,
    FRESH_PARAMETER,
    compiled,
    container,
    document,
    fit,
    load,
    pipeline,
    score,
    tasks,
    trained,
)
from tests.fixtures.kubeflow_tasks import executor_input

Json = dict[str, Any]
RAW = "s3://own/raw/"
HEX = "0123456789abcdef"
KEPT = {"checkpoint_claim": "kept"}


def test_a_step_is_a_task_a_component_and_an_executor() -> None:
    rows = Parameter.integer("Rows", default=3)
    built = compiled(
        step(load, name="Load_it", raw=RAW, max_rows=rows, display_name="Load the data"),
        parameters=[rows],
        description="What for.",
        display_name="Shown",
    )
    ir = built.ir
    assert ir["pipelineInfo"] == {"name": "p", "description": "What for.", "displayName": "Shown"}
    assert ir["root"]["inputDefinitions"] == {
        "parameters": {
            "Rows": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3, "isOptional": True},
            **FRESH_PARAMETER,
        }
    }
    assert tasks(built)["load-it"] == {
        "cachingOptions": {"enableCache": True},
        "componentRef": {"name": "comp-load-it"},
        "dependentTasks": ["import-code", "import-load-it-raw"],
        "inputs": {
            "artifacts": {
                "code": {"taskOutputArtifact": {"outputArtifactKey": "artifact", "producerTask": "import-code"}},
                "raw": {"taskOutputArtifact": {"outputArtifactKey": "artifact", "producerTask": "import-load-it-raw"}},
            },
            "parameters": {"Rows": {"componentInputParameter": "Rows"}, **FRESH_INPUT},
        },
        "taskInfo": {"name": "Load the data"},
    }
    component = ir["components"]["comp-load-it"]
    assert component["executorLabel"] == "exec-load-it"
    assert list(component["inputDefinitions"]["artifacts"]) == ["code", "raw"]
    assert component["inputDefinitions"]["parameters"]["Rows"] == {"parameterType": "NUMBER_INTEGER"}
    assert list(component["outputDefinitions"]["artifacts"]) == ["data", "metrics"]
    assert container(built, "load-it")["image"] == "drivetrain-cpu:latest"


def test_a_program_gets_its_arguments() -> None:
    rows, who = Parameter.integer("Rows"), Parameter.string("Who", default="a")
    built = compiled(
        step(
            load,
            raw=RAW,
            max_rows=rows,
            share=0.25,
            fast=True,
            label=join("x/", who, "/", execution("PipelineExecutionId")),
            environment={"MODE": "fast", "WHO": who},
        ),
        parameters=[rows, who],
    )
    told = document(built, "load")
    assert told["program"] == "tests.fixtures.kubeflow_examples:load"
    assert told["step"] == "load" and told["outputs"] == ["data", "metrics"]
    assert told["environment"] == {"MODE": "fast", "WHO": {"parameter": "Who", "type": "String"}, **FRESH}
    assert told["arguments"] == [
        {"option": ["--raw", {"input": "raw"}]},
        {"option": ["--data", {"output": "data"}]},
        {"option": ["--metrics", {"output": "metrics"}]},
        {"option": ["--max-rows", {"parameter": "Rows", "type": "Integer"}]},
        {"option": ["--share", "0.25"]},
        {"option": ["--fast", "true"]},
        {
            "option": [
                "--label",
                {
                    "join": [
                        "",
                        [
                            "x/",
                            {"parameter": "Who", "type": "String"},
                            "/",
                            {"parameter": "execution", "type": "String"},
                        ],
                    ]
                },
            ]
        },
    ]
    run = tasks(built)["load"]["inputs"]["parameters"]["execution"]
    assert run == {"runtimeValue": {"constant": "{{$.pipeline_job_uuid}}"}}


def test_a_parameter_without_a_default_must_be_given() -> None:
    types = [
        Parameter.integer("A"),
        Parameter.number("B"),
        Parameter.string("C"),
        Parameter.boolean("D", default=False),
    ]
    built = compiled(
        step(load, raw=RAW, max_rows=types[0], share=types[1], label=types[2], fast=types[3]), parameters=types
    )
    assert built.ir["root"]["inputDefinitions"]["parameters"] == {
        "A": {"parameterType": "NUMBER_INTEGER"},
        "B": {"parameterType": "NUMBER_DOUBLE"},
        "C": {"parameterType": "STRING"},
        "D": {"parameterType": "BOOLEAN", "defaultValue": False, "isOptional": True},
        **FRESH_PARAMETER,
    }


def test_parameters_with_names_that_tasks_have_for_themselves() -> None:
    run, item = Parameter.string("execution", default="a"), Parameter.integer("item", default=1)
    told = document(
        compiled(
            step(load, raw=RAW, max_rows=item, label=join(run, execution("PipelineExecutionId"))),
            parameters=[run, item],
        ),
        "load",
    )
    words = dict(each["option"] for each in told["arguments"])
    assert words["--max-rows"] == {"parameter": "item-value", "type": "Integer"}
    assert [part["parameter"] for part in words["--label"]["join"][1]] == ["execution-value", "execution"]


def test_arguments_are_escaped_for_the_platform() -> None:
    """Kubernetes would expand `$(HOME)` and make one of `$$`; Argo and KFP would fill in what is in double braces."""
    label = "$(HOME) $$ {{workflow.name}} {{$.pipeline_root}} }} '\"\\"
    built = compiled(step(load, raw=RAW, label=label, environment={"MODE": label}))
    variables = {each["name"]: each["value"] for each in container(built, "load")["env"]}
    assert not any(mark in value for value in variables.values() for mark in ("$", "{{"))
    assert document(built, "load")["environment"] == {"MODE": label, **FRESH}
    assert ["--label", label] in [each["option"] for each in document(built, "load")["arguments"]]


def test_arguments_too_long_for_a_variable_are_refused() -> None:
    with pytest.raises(SpecError, match=r"Step 'load': its arguments and variables take 120,\d{3} bytes\."):
        compiled(step(load, raw=RAW, environment={"LONG": "x" * 120_000}))


def test_a_script_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("print('work')\n")
    words = ["--in", folder_in("raw"), "--out", folder_out("done"), 7]
    one = script("work.py", name="work", arguments=words, inputs={"raw": RAW}, outputs=["done"])
    built = compile_pipeline(pipeline(one), source=tmp_path)
    told = document(built, "work")
    assert told["program"] == "script:work.py"
    assert told["arguments"] == ["--in", {"input": "raw"}, "--out", {"output": "done"}, "7"]


def test_data_between_steps_orders_them() -> None:
    data = step(load, raw=RAW)
    scores = step(score, data=data["data"], weight=data.metric("weight"))
    built = compiled(data, scores)
    task = tasks(built)["score"]
    assert task["dependentTasks"] == ["import-code", "load"]
    assert task["inputs"]["artifacts"]["data"] == {
        "taskOutputArtifact": {"outputArtifactKey": "data", "producerTask": "load"}
    }
    assert list(task["inputs"]["parameters"].values()) == [
        {"taskOutputParameter": {"outputParameterKey": next(iter(_given(built, "load"))), "producerTask": "load"}},
        FRESH_INPUT["Fresh"],
    ]


def _given(built: Any, name: str) -> Json:
    return built.ir["components"][f"comp-{name}"]["outputDefinitions"]["parameters"]


def test_an_order_without_data() -> None:
    first = step(load, raw=RAW)
    built = compiled(
        first,
        step(load, name="second", raw=RAW, after=[first]),
        step(load, name="third", raw=RAW, after=[Dependency(step="load", trigger="Any")]),
    )
    assert "load" in tasks(built)["second"]["dependentTasks"] and "triggerPolicy" not in tasks(built)["second"]
    assert tasks(built)["third"]["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}


def test_a_condition_is_two_dags_with_opposite_triggers() -> None:
    scores = step(score, data=RAW)
    least = Parameter.number("Least", default=0.9)
    gate = when(
        scores.metric("accuracy") >= least,
        then=[step(load, name="good", raw=RAW)],
        otherwise=[fail(join("only ", scores.metric("accuracy")), name="bad")],
        name="gate",
    )
    built = compiled(scores, gate, parameters=[least])
    accuracy = "inputs.parameter_values['pipelinechannel--score--accuracy']"
    condition = f"{accuracy} >= inputs.parameter_values['pipelinechannel--Least']"
    both = tasks(built, "comp-gate")
    assert both["gate-then"]["triggerPolicy"] == {"condition": condition}
    assert both["gate-otherwise"]["triggerPolicy"] == {"condition": f"!({condition})"}
    assert list(tasks(built, "comp-gate-then")) == ["good"]
    assert list(tasks(built, "comp-gate-otherwise")) == ["bad"]
    assert document(built, "bad")["fail"]["join"][1][0] == "only "
    # What is compared comes through both DAGs, and is declared where it is compared.
    assert tasks(built)["gate"]["inputs"]["parameters"]["pipelinechannel--Least"] == {
        "componentInputParameter": "Least"
    }
    declared = built.ir["components"]["comp-gate-then"]["inputDefinitions"]["parameters"]
    assert declared["pipelinechannel--score--accuracy"] == {"parameterType": "NUMBER_DOUBLE"}


def test_a_branch_alone_and_a_condition_in_a_branch() -> None:
    scores = step(score, data=RAW)
    inner = when(scores.metric("b") > 0.5, then=[step(load, name="deep", raw=RAW)], name="inner")
    built = compiled(scores, when(scores.metric("a") > 0.5, then=[inner], name="outer"))
    assert list(tasks(built, "comp-outer")) == ["outer-then"]
    assert list(tasks(built, "comp-outer-then")) == ["inner"]
    assert list(tasks(built, "comp-inner-then")) == ["deep"]
    assert "pipelinechannel--score--b" in tasks(built, "comp-outer")["outer-then"]["inputs"]["parameters"]


def test_a_step_in_a_branch_waits_for_one_outside_through_its_dag() -> None:
    scores, first = step(score, data=RAW), step(load, name="first", raw=RAW)
    late = step(load, name="late", raw=RAW, after=[first])
    built = compiled(scores, first, when(scores.metric("a") > 0.5, then=[late], name="gate"))
    assert "first" in tasks(built)["gate"]["dependentTasks"]


def loop(**options: Any) -> Any:
    model = step(fit, data=RAW, rate=current_item("Float", "rate"), epochs=current_item("Integer", "epochs"))
    items = [{"rate": 0.1, "epochs": 2}, {"rate": 0.3, "epochs": 4}]
    best = options.pop("best", largest)
    return for_each(
        items, [model], name="sweep", max_concurrency=2, key="rate", best=best(model.logged("loss")), **options
    )


def test_for_each_is_an_iterator_and_its_selection_a_task() -> None:
    sweep = loop(best=smallest)
    built = compiled(sweep, register(model=sweep.best["model"], group="digits"), settings=KEPT)
    task = tasks(built)["sweep"]
    assert task["parameterIterator"]["itemInput"] == "item"
    items = [json.loads(item) for item in json.loads(task["parameterIterator"]["items"]["raw"])]
    assert items == [{"rate": 0.1, "epochs": 2}, {"rate": 0.3, "epochs": 4}]
    assert task["iteratorPolicy"] == {"parallelismLimit": 2}
    body = built.ir["components"]["comp-sweep"]
    assert body["outputDefinitions"]["parameters"]["fit-logged-loss"] == {"parameterType": "LIST"}
    assert body["outputDefinitions"]["artifacts"]["fit-model"]["isArtifactList"]
    assert document(built, "fit")["logs"] == {"loss": r"loss=([0-9.]+)"}
    assert document(built, "fit")["logged"] == {"logged-loss": "loss"}
    words = [each["option"] for each in document(built, "fit")["arguments"]]
    assert ["--rate", {"parameter": "item", "type": "String", "path": "rate"}] in words
    assert document(built, "sweep-selected")["select"] == {
        "pick": "MinBy",
        "values": "fit-logged-loss",
        "outputs": ["fit-model"],
        "parameters": [],
    }
    chosen = tasks(built)["register-model"]["inputs"]["artifacts"]["model"]["taskOutputArtifact"]
    assert chosen == {"outputArtifactKey": "fit-model", "producerTask": "sweep-selected"}


def test_the_value_of_the_picked_iteration_can_be_compared() -> None:
    sweep = loop()
    chosen = register(model=sweep.best["model"], group="digits")
    built = compiled(sweep, when(sweep.best.logged("loss") < 0.5, then=[chosen], name="gate"), settings=KEPT)
    assert document(built, "sweep-selected")["select"]["parameters"] == ["fit-logged-loss-chosen"]
    assert list(tasks(built, "comp-gate-then")) == ["register-model"]


def test_one_iteration_by_its_number() -> None:
    model = step(fit, data=RAW, rate=current_item("Float"))
    sweep = for_each([0.1, 0.3], [model], name="sweep", max_concurrency=1)
    built = compiled(sweep, register(model=sweep.of(1, model)["model"], group="digits"), settings=KEPT)
    assert document(built, "sweep-1")["select"] == {"index": 1, "outputs": ["fit-model"], "parameters": []}
    assert json.loads(tasks(built)["sweep"]["parameterIterator"]["items"]["raw"]) == ["0.1", "0.3"]


def test_the_place_of_an_iterations_output_is_a_text() -> None:
    model = step(fit, data=RAW, rate=current_item("Float"))
    sweep = for_each([0.1, 0.3], [model], name="sweep", max_concurrency=1, best=smallest(model.logged("loss")))
    one, best = sweep.of(1, model)["model"], sweep.best["model"]
    variables = {"ONE": one, "BEST": join("the best: ", best)}
    built = compiled(sweep, step(score, data=RAW, environment=variables), settings=KEPT)
    assert document(built, "score")["environment"] == {
        "ONE": {"uri": "sweep-1-fit-model"},
        "BEST": {"join": ["", ["the best: ", {"uri": "sweep-selected-fit-model"}]]},
        **FRESH,
    }
    taken = tasks(built)["score"]["inputs"]["artifacts"]
    producers = {name: source["taskOutputArtifact"]["producerTask"] for name, source in taken.items()}
    assert producers["sweep-1-fit-model"] == "sweep-1" and producers["sweep-selected-fit-model"] == "sweep-selected"


def test_checkpoints_of_iterations_lie_in_folders_of_their_own() -> None:
    built = compiled(loop(), settings=KEPT)
    place = next(
        each["option"][1] for each in document(built, "fit")["arguments"] if each["option"][0] == "--checkpoints"
    )
    on, (below, item) = place["place"]["join"]
    assert on == "/" and below.startswith("/drivetrain/checkpoints/p/fit/")
    assert item == {"parameter": "item", "type": "String", "path": "rate"}


def test_a_model_is_registered_by_a_task() -> None:
    model = step(fit, data=RAW)
    scores = step(score, data=RAW)
    built = compiled(
        model,
        scores,
        register(
            model=model["model"],
            metrics=scores,
            decision=scores["metrics"],
            data_check=scores["metrics"],
            group="digits",
            approval="Approved",
            image="serve:1",
            display_name="Into the registry",
        ),
        settings={**KEPT, "registry": "kubeflow:http://registry:8080"},
    )
    told = document(built, "register-model")
    assert told["program"] == "drivetrain.components.register_model:register_model"
    assert told["environment"] == {"DRIVETRAIN_REGISTRY": "kubeflow:http://registry:8080"}
    words = dict(each["option"] for each in told["arguments"])
    assert words["--group"] == "digits" and words["--approval"] == "Approved" and words["--image"] == "serve:1"
    assert words["--artifact"] == {"uri": "model"} and words["--decision"] == {"input": "decision"}
    assert words["--baselines"] == {"input": "baselines"} and words["--data-check"] == {"uri": "baselines"}
    assert tasks(built)["register-model"]["taskInfo"] == {"name": "Into the registry"}
    assert tasks(built)["register-model"]["cachingOptions"] == {}


@pytest.mark.parametrize(
    ("whole", "own", "cached"), [(True, None, True), (False, None, False), (True, False, False), (False, True, True)]
)
def test_the_caching_switch(whole: bool, own: bool | None, cached: bool) -> None:
    options = {} if own is None else {"cache": CachePolicy(enabled=own)}
    built = compiled(step(load, raw=RAW, **options), cache=CachePolicy(enabled=whole))
    assert tasks(built)["load"]["cachingOptions"] == ({"enableCache": True} if cached else {})


def test_retries_are_those_of_the_most_patient_policy() -> None:
    policies = [
        RetryPolicy(causes=("throttling",), max_attempts=2),
        RetryPolicy(causes=("service_error",), max_attempts=5, interval_seconds=30, backoff_rate=3),
    ]
    built = compiled(step(load, raw=RAW, retry=policies))
    assert tasks(built)["load"]["retryPolicy"] == {
        "backoffDuration": "30s",
        "backoffFactor": 3.0,
        "backoffMaxDuration": "518580s",
        "maxRetryCount": 5,
    }
    assert "retries a step whatever it failed of" in " ".join(built.notes)


def test_the_time_for_all_attempts_of_a_step_is_long() -> None:
    """Argo ends an attempt, and tries no more, so long after the first one began (recorded: max60.nodes.json)."""
    hour = Cluster(max_run_seconds=3600)
    built = compiled(step(load, raw=RAW, cluster=hour, retry=[RetryPolicy(causes=("throttling",), max_attempts=2)]))
    assert tasks(built)["load"]["retryPolicy"]["backoffMaxDuration"] == "172800s"


def test_each_source_is_imported_once(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n")
    place = Parameter.string("Place")
    built = compiled(
        step(load, name="one", raw=RAW),
        step(load, name="two", raw=RAW.rstrip("/")),
        step(load, name="three", raw="data.csv"),
        step(load, name="four", raw=place),
        step(load, name="five", raw=place),
        parameters=[place],
        base=tmp_path,
    )
    importers = {name: task for name, task in tasks(built).items() if name.startswith("import-")}
    assert list(importers) == ["import-code", "import-four-raw", "import-one-raw", "import-three-raw"]
    executors = built.ir["deploymentSpec"]["executors"]
    assert executors["exec-import-one-raw"]["importer"]["artifactUri"] == {"constant": "s3://own/raw"}
    assert executors["exec-import-four-raw"]["importer"]["artifactUri"] == {"runtimeParameter": "uri"}
    assert importers["import-four-raw"]["inputs"] == {"parameters": {"uri": {"componentInputParameter": "Place"}}}
    uri = executors["exec-import-three-raw"]["importer"]["artifactUri"]["constant"]
    assert uri.startswith("s3://drivetrain-local/pipelines/p/")
    assert any(asset.uri.startswith(uri) for asset in built.assets)
    assert len([asset for asset in built.assets if "/code/" in asset.uri]) >= 2  # the start file and the archive


def test_an_importer_never_takes_the_name_of_a_step() -> None:
    scores = step(score, data=RAW)
    inside = [step(load, name="import-score-data", raw=RAW), step(load, name="import-code", raw=RAW)]
    built = compiled(scores, when(scores.metric("a") > 0.5, then=inside, name="gate"))
    executors = built.ir["deploymentSpec"]["executors"]
    assert "container" in executors["exec-import-score-data"] and "container" in executors["exec-import-code"]
    assert "importer" in executors["exec-import-score-data-2"] and "importer" in executors["exec-import-code-2"]


def test_data_that_is_not_there() -> None:
    with pytest.raises(UserError, match="nowhere"):
        compiled(step(load, raw="nowhere.csv"))


def test_our_own_training_gets_its_strategy_and_its_checkpoints() -> None:
    built = compiled(trained())
    words = dict(each["option"] for each in document(built, "train")["arguments"])
    assert words["--strategy"] == "single" and words["--recipe"] == "digits_cnn"
    folder = words["--checkpoints"]["place"]
    assert folder.startswith("s3://drivetrain-local/pipelines/p/checkpoints/train/")
    assert (
        words["--checkpoints"]
        == dict(each["option"] for each in document(compiled(trained(epochs=9)), "train")["arguments"])["--checkpoints"]
    ), "more epochs go on from the same checkpoints"


def test_the_text_is_the_same_under_two_hash_seeds() -> None:
    """The flagship, whose bytes may depend on no set's order; kfp is not imported."""
    program = (
        "import sys; from drivetrain.pipelines.retraining import Retraining, retraining\n"
        "from drivetrain.targets.kubeflow.compile.compile import compile_pipeline\n"
        "digest = compile_pipeline(retraining(Retraining()), here=True).digest\n"
        "print(digest, *(name in sys.modules for name in ('kfp', 'google')))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0].split()[1:] == ["False", "False"]
    assert len(told[0].split()[0]) == 64 and set(told[0].split()[0]) <= set(HEX)


def test_kubeflow_settings_do_not_change_the_sagemaker_definition() -> None:
    plain = retraining(Retraining())
    block = {
        "kubeflow": {
            "namespace": "team",
            "notices": "hooks/url",
            "pods": {"secrets": {"A": "b/c"}},
            "registry": "kubeflow:http://r",
        }
    }
    both = plain.model_copy(update={"deployment": plain.deployment.model_copy(update={"targets": block})})
    before = compile_for_sagemaker(plain).text
    compile_pipeline(both)
    assert compile_for_sagemaker(both).text == before == compile_for_sagemaker(plain).text


def test_a_location_given_by_a_parameter_is_an_input_of_its_readers() -> None:
    """The platform's cache compares the values of parameters, and of an importer's artifact only its number."""
    place = Parameter.string("Place", default="s3://own/raw")
    looped = step(score, data=place, weight=current_item("Float"))
    built = compiled(step(load, raw=place), for_each([1.0], [looped], name="sweep"), parameters=[place])
    taken = tasks(built)["load"]["inputs"]["parameters"]
    assert taken == {"Place": {"componentInputParameter": "Place"}, **FRESH_INPUT}
    inner = tasks(built, "comp-sweep")["score"]["inputs"]["parameters"]
    assert {"componentInputParameter": "pipelinechannel--Place"} in inner.values()


def test_tasks_with_different_inputs_have_different_commands() -> None:
    """The platform's cache compares commands, and neither variables nor the URIs of artifacts."""

    def command(epochs: int, data: str) -> Any:
        built = compile_pipeline(retraining(Retraining(epochs=epochs, dataset=data)), here=True).ir
        executors = built["deploymentSpec"]["executors"]
        return [executors[f"exec-{name}"]["container"]["command"] for name in ("prepare", "train")]

    first = command(5, "s3://bucket/monday/")
    assert command(5, "s3://bucket/monday/") == first
    longer = command(6, "s3://bucket/monday/")
    assert longer[0] == first[0] and longer[1] != first[1]
    assert command(5, "s3://bucket/tuesday/")[0] != first[0]


def test_the_start_command_runs_only_the_compiled_code(tmp_path: Path) -> None:
    """As in a pod, where nothing is unpacked beforehand."""
    built = compiled(step(load, raw=RAW), fail("no good", name="stop"))
    code = built.codes["stop"]
    start = f"{code.uri}start.py"
    for asset in built.assets:
        put_asset(tmp_path, asset)
    given = executor_input(built, "stop", {"code": code.uri.rstrip("/")}, "s3://own/out", tmp_path)
    told = {each["name"]: each["value"] for each in container(built, "stop")["env"]}

    def run() -> tuple[int, str]:
        ended = subprocess.run(
            [*container(built, "stop")["command"], given],
            env={"PATH": os.environ["PATH"], "DRIVETRAIN_OBJECT_STORE": str(tmp_path), "TMPDIR": str(tmp_path), **told},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.returncode, ended.stderr.strip()

    assert run() == (1, "error: no good")
    place = tmp_path / start.removeprefix("s3://")
    place.write_text(place.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert run() == (1, f"error: {place} is not the file that was deployed")


def put_asset(store: Path, asset: Any) -> None:
    place = store / asset.uri.removeprefix("s3://")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(asset.content if isinstance(asset.content, bytes) else asset.content.read_bytes())
