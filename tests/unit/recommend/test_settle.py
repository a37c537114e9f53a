"""What compilation decides: auto becomes a strategy, a model that does not fit is refused, a slow save is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Parameter, Pipeline, SpecError, Spot, fail, register, step, when
from drivetrain.catalog import strategies as strategies_module
from drivetrain.catalog.instances import get_instance
from drivetrain.catalog.strategies import all_strategies
from drivetrain.components.evaluate import evaluate
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.recommend.choice import options_of, recommend
from drivetrain.recommend.facts import read_file
from drivetrain.recommend.facts_places import SHIPPED
from drivetrain.recommend.settle import settle
from drivetrain.recommend.sizing import Sizing
from drivetrain.resolving.frameworks import framework_of_step, framework_problem, needs_of
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import ConditionStep, TrainingStep
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline

P4D = Cluster(instance_type="ml.p4d.24xlarge")
LARGE = 6_400_000_000  # 102 GB with gradients and state
Write = Callable[..., Path]


def training(**fields: Any) -> TrainingStep:
    options = fields.pop("options", None)
    given = {"recipe": "mine", "strategy": "auto", "global_batch": 64, "cluster": P4D, **fields}
    made = step(train, train="s3://b/k/", **given)
    more = {} if options is None else {"strategy_options": json.dumps(options)}
    return made.model_copy(update={"parameters": {**made.parameters, **more}})


def settled(folder: Path, made: Any, *parameters: Parameter) -> Any:
    return settle(Pipeline(name="p", steps=[made], parameters=parameters), folder)


def refusal(folder: Path, made: Any, *parameters: Parameter) -> str:
    with pytest.raises(SpecError) as caught:
        settled(folder, made, *parameters)
    return str(caught.value)


def test_auto_becomes_what_fits(write_facts: Write) -> None:
    (made,) = settled(write_facts(), training()).pipeline.steps
    assert (made.parameters["strategy"], made.parameters["strategy_options"]) == ("ddp", "{}")
    (made,) = settled(write_facts(), training(cluster=Cluster())).pipeline.steps
    assert made.parameters["strategy"] == "single"
    (made,) = settled(write_facts(LARGE), training()).pipeline.steps
    assert made.parameters["strategy"] == "fsdp"


def test_auto_is_settled_in_branches_too(write_facts: Write) -> None:
    branch = when(Parameter.integer("N", default=1) >= 1, then=[training()], otherwise=[fail("no")])
    (made,) = settled(write_facts(), branch, Parameter.integer("N", default=1)).pipeline.steps
    assert isinstance(made, ConditionStep)
    assert made.then[0].parameters["strategy"] == "ddp"  # type: ignore[union-attr]


def test_a_pipeline_without_our_training_is_unchanged(tmp_path: Path) -> None:
    pipeline = Pipeline(name="p", steps=[fail("no")])
    assert settle(pipeline, tmp_path).pipeline is pipeline


def test_auto_needs_current_facts(write_facts: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    message = refusal(tmp_path, training())
    assert message.startswith("Step 'train': there are no facts of recipe 'mine' in ")
    assert message.endswith("Measure it: drivetrain recommend --recipe mine --write")
    write_facts()
    (tmp_path / "mine.py").write_text("edited")
    assert "are stale" in refusal(tmp_path, training())


def test_auto_says_that_nothing_fits(write_facts: Write) -> None:
    message = refusal(write_facts(LARGE), training(cluster=Cluster(instance_type="ml.g5.xlarge")))
    assert "strategy 'auto': nothing fits: the least is single with" in message


def test_auto_must_know_recipe_batch_and_machines(write_facts: Write) -> None:
    batch, instance = Parameter.integer("Batch"), Parameter.string("Instance")
    assert "must know recipe, recipe_options and global_batch" in refusal(
        write_facts(), training(global_batch=batch), batch
    )
    made = training(cluster=Cluster(instance_type=instance.ref()))
    assert "must know the instance type" in refusal(write_facts(), made, instance)
    made = training(cluster=Cluster(instance_type="ml.r5.large"))
    assert "No facts of instance type 'ml.r5.large'" in refusal(write_facts(), made)


def test_auto_must_be_the_same_for_every_value_of_a_parameter(write_facts: Write) -> None:
    same = Parameter.integer("Batch", default=64, choices=(64, 128))
    (made,) = settled(write_facts(), training(global_batch=same), same).pipeline.steps
    assert made.parameters["strategy"] == "ddp"
    instance = Parameter.string("Instance", default="ml.p4d.24xlarge", choices=("ml.p4d.24xlarge", "ml.m5.xlarge"))
    message = refusal(write_facts(), training(cluster=Cluster(instance_type=instance.ref())), instance)
    assert "would choose differently by pipeline parameter" in message
    assert "(with Instance='ml.m5.xlarge'): single" in message


def test_a_model_too_large_is_refused(write_facts: Write) -> None:
    message = refusal(write_facts(LARGE), training(strategy="ddp"))
    assert "Step 'train': strategy 'ddp' needs an estimated" in message and "'fsdp' would fit" in message
    instance = Parameter.string("Instance", default="ml.p5.48xlarge", choices=("ml.p5.48xlarge", "ml.p4d.24xlarge"))
    made = training(strategy="fsdp", cluster=Cluster(instance_type=instance.ref()))
    assert settled(write_facts(LARGE), made, instance).notes == ()
    made = training(strategy="ddp", cluster=Cluster(instance_type=instance.ref()))
    assert "Step 'train' (with Instance=" in refusal(write_facts(LARGE * 2), made, instance)


def test_memory_is_checked_only_on_request(write_facts: Write, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    assert settled(tmp_path, training(strategy="ddp")).notes == ()  # no facts
    write_facts(LARGE)
    unlisted = Cluster(instance_type="ml.g7.12xlarge")
    assert settled(tmp_path, training(strategy="ddp", cluster=unlisted)).notes == ()  # no facts of the machine


def test_stale_facts_beside_the_pipeline_are_refused(write_facts: Write, tmp_path: Path) -> None:
    write_facts()
    (tmp_path / "mine.py").write_text("edited")
    assert "are stale" in refusal(tmp_path, training(strategy="ddp"))


def test_stages_that_the_model_does_not_have_are_refused(
    write_facts: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "strategies"
    folder.mkdir()
    head = "DIMENSIONS = ('stage',)\nMIN_TORCH = '2.6'\nSUMMARY = ''\n"
    (folder / "line.py").write_text(head + "class Options:\n    stage: int = 0\n    virtual: int = 0\n")
    monkeypatch.setattr(strategies_module, "strategies_folder", lambda: folder)
    made = training(strategy="line", options={"virtual": 5})
    assert "40 stages, but the model of recipe 'mine' has 32 layers with parameters" in refusal(write_facts(), made)
    message = refusal(write_facts(is_chain=False), training(strategy="line"))
    assert "the model of recipe 'mine' is no nn.Sequential" in message


def test_sequences_of_a_recipe_without_a_plan_are_not_split(write_facts: Write) -> None:
    message = refusal(write_facts(), training(strategy="cp"))
    assert "Step 'train': strategy 'cp' splits sequences, and recipe 'mine' has no context_plan()" in message
    assert settled(write_facts(has_context_plan=True), training(strategy="cp")).notes == ()


def test_a_slow_save_is_reported_and_never_refused(write_facts: Write) -> None:
    spot = Cluster(instance_type="ml.p4d.24xlarge", max_run_seconds=100, spot=Spot(max_wait_seconds=200))
    made = training(strategy="fsdp", cluster=spot)
    (note,) = settled(write_facts(LARGE), made).notes
    assert "step 'train': a checkpoint of 71.5 GiB takes about 768 s" in note
    assert "*assumed*: not measured on ml.p4d.24xlarge" in note
    (note,) = settled(write_facts(LARGE, speed={"ml.p4d.24xlarge": 5e8}), made).notes
    assert "*assumed*" not in note and "154 s to save at the 500 MB/s measured on ml.p4d.24xlarge" in note
    assert settled(write_facts(LARGE, speed={"ml.p4d.24xlarge": 5e9}), made).notes == ()
    assert settled(write_facts(), made).notes == ()  # at any speed a moment
    assert settled(write_facts(LARGE), training(strategy="fsdp")).notes == ()  # not on spot machines


@pytest.mark.slow_cases("192-ants_bees_resnet18", "192-imdb_sentiment")
@pytest.mark.parametrize("recipe", sorted(path.name.partition(".")[0] for path in SHIPPED.glob("*.facts.json")))
@pytest.mark.parametrize("batch", [1, pytest.param(24, marks=pytest.mark.slow), 192])
def test_every_feasible_row_breaks_no_rule(recipe: str, batch: int, tmp_path: Path) -> None:
    """Also those that are not chosen: who reads the table may name any of them."""
    strategies = all_strategies(framework="torch")
    facts = read_file(SHIPPED / f"{recipe}.facts.json").find({})
    assert facts is not None
    for instance, hosts in (("ml.m5.xlarge", 1), ("ml.g5.12xlarge", 1), ("ml.p4d.24xlarge", 1), ("ml.p4d.24xlarge", 3)):
        plan = Sizing(facts=facts, instance=get_instance(instance), hosts=hosts, global_batch=batch)
        made = recommend(plan, strategies)
        assert made.choice is not None
        for row in made.rows:
            if row.candidate is None or not row.fits:
                continue
            named = training(
                recipe=recipe,
                strategy=row.strategy,
                options=options_of(row.candidate, strategies[row.strategy], plan.world),
                global_batch=batch,
                cluster=Cluster(instance_type=instance, count=hosts),
            )
            (same,) = settled(tmp_path, named).pipeline.steps
            assert same.parameters["strategy"] == row.strategy


def test_the_choice_is_visible_in_the_definition(write_facts: Write) -> None:
    folder = write_facts(LARGE)
    pipeline = Pipeline(name="p", steps=[training()])
    built = compile_pipeline(pipeline, source=folder, here=True)
    parameters = built.definition["Steps"][0]["Arguments"]["HyperParameters"]
    assert (parameters["strategy"], parameters["strategy_options"]) == ("fsdp", "{}")
    assert '"strategy": "auto"' not in built.text


def test_a_framework_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("ddp", "2.6"), ("newest", "9.9")):
        (tmp_path / f"{name}.py").write_text(
            f"DIMENSIONS = ()\nMIN_TORCH = {version!r}\nSUMMARY = ''\nclass Options:\n    pass\n"
        )
    monkeypatch.setattr(strategies_module, "strategies_folder", lambda: tmp_path)
    named = Parameter.string("Strategy", default="ddp", choices=("ddp", "newest"))
    made = training(strategy=named, cluster=Cluster(instance_type="ml.g5.xlarge"))
    problem = framework_problem(made, (named,), "2.13")
    assert problem is not None and problem.startswith("strategy 'newest' needs torch 9.9, and the image has 2.13.")
    assert problem.endswith("or one of these strategies: ddp.")
    assert framework_problem(made, (named,), "9.10") is None
    pipeline = Pipeline(name="p", steps=[training(strategy="newest", recipe="digits_cnn", cluster=Cluster())])
    with pytest.raises(SpecError, match=r"Step 'train': strategy 'newest' needs torch 9.9"):
        compile_pipeline(pipeline, source=tmp_path, here=True)


def test_recipe_and_strategy_are_of_one_framework(tmp_path: Path) -> None:
    said = refusal(tmp_path, training(recipe="digits_cnn", strategy="tf_single", cluster=Cluster()))
    assert said.startswith("Step 'train': recipe 'digits_cnn' is of torch, and strategy 'tf_single' of tensorflow.")
    assert "Choose a strategy of torch: cp, ddp, " in said
    said = refusal(tmp_path, training(recipe="digits_keras", strategy="ddp"))
    assert (
        "Choose a strategy of tensorflow: tf_central_storage, tf_horovod, tf_mirrored, tf_multi_worker, tf_par" in said
    )
    (tmp_path / "theirs.py").write_text('FRAMEWORK = "other"\n')
    said = refusal(tmp_path, training(recipe="theirs", strategy="auto"))
    assert said.endswith("and recipe 'theirs' is of other. Name a strategy of other: there is none.")


def test_every_step_has_the_image_of_its_framework(tmp_path: Path) -> None:
    """Of a training by its strategy; of what reads its outputs, and of what serves its model, by the training."""
    keras = training(recipe="digits_keras", strategy="tf_single", cluster=Cluster())
    assert settled(tmp_path, keras).pipeline.steps == (keras,)
    judged = step(evaluate, model=keras["model"], data="s3://b/k/")
    registered = register(model=keras["model"], group="g")
    pipeline = Pipeline(
        name="p",
        steps=[
            keras,
            judged,
            registered,
            torch := training(name="other", recipe="digits_cnn", strategy="single", cluster=Cluster()),
        ],
    )
    graph = Graph(pipeline)
    assert [framework_of_step(each, graph) for each in (keras, judged, torch)] == ["tensorflow", "tensorflow", "torch"]
    assert needs_of(judged, graph, "tensorflow")[0] == "tensorflow"
    built = compile_pipeline(pipeline, source=tmp_path, here=True)
    images = {name: [each for each in found if "dkr.ecr" in each] for name, found in texts_by_step(built).items()}
    assert [len(found) for found in images.values()] == [1, 1, 1, 1]
    trained, evaluated, serves, other = (found[0].rpartition("/")[2] for found in images.values())
    assert trained == evaluated == "tensorflow-training:2.21.0-cpu-py312-amzn2023-sagemaker"
    assert serves == "tensorflow-inference:2.20.0-cpu-py312-amzn2023-sagemaker"
    assert other.startswith("pytorch:2.13.0-cpu")
    assert "SAGEMAKER_TFS_DEFAULT_MODEL_NAME" in built.text and "SAGEMAKER_PROGRAM" not in built.text


def test_a_script_has_the_image_of_tensorflow_by_its_launcher_or_its_needs(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text("")
    given = {"train": "s3://b/k/", "script": "fit.py", "cluster": Cluster(instance_type="ml.m5.large")}
    steps = [
        step(train_script, name="cluster", launcher="tf_config", **given),
        step(train_script._replace(needs=("tensorflow",)), name="alone", launcher="python", **given),
        step(train_script, name="torch", **given),
    ]
    built = compile_pipeline(Pipeline(name="p", steps=steps), source=tmp_path, here=True)
    images = [next(each for each in found if "dkr.ecr" in each) for found in texts_by_step(built).values()]
    names = [image.rpartition("/")[2].partition(":")[0] for image in images]
    assert names == ["tensorflow-training", "tensorflow-training", "pytorch"]


def test_a_step_of_two_frameworks_has_no_stock_image(tmp_path: Path) -> None:
    keras = training(recipe="digits_keras", strategy="tf_single", cluster=Cluster())
    torch = training(name="torch", recipe="digits_cnn", strategy="single", cluster=Cluster())
    both = step(evaluate, model=keras["model"], data=torch["output"])
    with pytest.raises(SpecError, match=r"'evaluate' would run on several frameworks: tensorflow, torch\. No stock"):
        compile_pipeline(Pipeline(name="p", steps=[keras, torch, both]), source=tmp_path, here=True)


def texts_by_step(built: Any) -> dict[str, list[str]]:
    """Every text in the arguments of each step."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for each in value.values() for text in texts(each)]
        if isinstance(value, list):
            return [text for each in value for text in texts(each)]
        return [value] if isinstance(value, str) else []

    return {each["Name"]: texts(each["Arguments"]) for each in built.definition["Steps"]}
