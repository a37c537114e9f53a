"""tune, between, one_of: what they take, what they make, and what it becomes for the service."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest

from drivetrain import (
    Alternative,
    Cluster,
    Deployment,
    Keys,
    Parameter,
    Pipeline,
    SpecError,
    between,
    fail,
    one_of,
    register,
    script,
    step,
    tune,
    when,
)
from drivetrain.base.errors import InputError
from drivetrain.components import Bounds, Checkpoints, Input, Output, component
from drivetrain.components.train_table import train_table
from drivetrain.spec.steps import TuningStep
from drivetrain.steps import command_line
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline


@component(job="training", logs={"loss": r"loss=([0-9.]+)", "accuracy": r"accuracy=([0-9.]+)"}, resumable=["epochs"])
def fit(
    data: Input,
    model: Output,
    output: Output,
    checkpoints: Checkpoints,
    rate: float = 0.1,
    layers: int = 2,
    schedule: str = "cosine",
    fast: bool = False,
    epochs: int = 1,
    share: Annotated[float, Bounds(0, 1)] = 0.5,
    kind: Literal["a", "b"] = "a",
) -> None:
    """Fit."""


def fitted(**given: Any) -> Any:
    return step(fit, name="search", data="s3://bucket/data/", **given)


def tuned(**given: Any) -> TuningStep:
    return tune(fitted(), **{"objective": "accuracy", "max_trainings": 9, "rate": between(0.001, 1.0), **given})


def arguments(built: TuningStep, **fields: Any) -> dict[str, Any]:
    definition = compile_pipeline(Pipeline(name="p", steps=[built], **fields)).definition
    assert definition["Steps"][0]["Type"] == "Tuning"
    return definition["Steps"][0]["Arguments"]


@pytest.mark.parametrize(("count", "counts"), [(None, (2, 2)), (8, (2, 8))])
def test_a_tuning_can_choose_among_machines(count: int | None, counts: tuple[int, int]) -> None:
    types = ("ml.c4.xlarge", "ml.c4.2xlarge")
    cluster = Cluster(
        instance_type=types[0],
        count=2,
        volume_gb=50,
        alternatives=(Alternative(instance_type=types[1], count=count),),
    )
    built = tune(fitted(cluster=cluster), objective="accuracy", max_trainings=9, rate=between(0.001, 1.0))
    trainings = arguments(built, deployment=Deployment(targets={"sagemaker": {"keys": Keys(volume="alias/disks")}}))[
        "TrainingJobDefinition"
    ]
    assert "ResourceConfig" not in trainings
    assert trainings["HyperParameterTuningResourceConfig"] == {
        "InstanceConfigs": [
            {"InstanceType": type, "InstanceCount": count, "VolumeSizeInGB": 50}
            for type, count in zip(types, counts, strict=True)
        ],
        "AllocationStrategy": "Prioritized",
        "VolumeKmsKeyId": "alias/disks",
    }


def test_tuning_is_the_training_step_with_a_search() -> None:
    training = fitted(epochs=3)
    built = tune(training, objective="loss", max_trainings=9, rate=between(0.001, 1.0), layers=between(1, 4))
    assert (built.name, built.program, built.inputs) == (training.name, training.program, training.inputs)
    assert built.parameters == {"schedule": "cosine", "fast": False, "epochs": 3, "share": 0.5, "kind": "a"}
    assert built.search.ranges == {"rate": between(0.001, 1.0), "layers": between(1, 4)}
    assert built.search.maximize is False  # of a loss; of an accuracy it is not
    assert tuned().search.maximize is True


def test_a_tuning_comes_after_other_steps() -> None:
    first, second = fail("no", name="first"), fitted(after=[])
    built = tune(
        fitted(after=[first]), objective="loss", max_trainings=9, rate=between(0.1, 1.0), after=[second, first]
    )
    assert [edge.step for edge in built.depends_on] == ["first", "search"]
    with pytest.raises(SpecError, match="after='search': no step"):
        tuned(after="search")


@pytest.mark.parametrize(
    ("objective", "maximize"),
    [(name, False) for name in ("rmse", "val_mae", "validation:mse", "perplexity", "log_loss", "valLoss", "ERROR")]
    + [(name, False) for name in ("train_logloss", "validation:merror", "mlogloss", "accuracy_loss", "eval_nll")]
    + [(name, True) for name in ("validation_accuracy", "AUC", "f1", "macroF1", "r2", "precision@5", "recall", "acc5")]
    + [(name, True) for name in ("log_likelihood", "validation:auc", "mAP")],
)
def test_the_direction_of_an_objective_follows_from_its_name(objective: str, maximize: bool) -> None:
    assert tuned(objective=objective).search.maximize is maximize
    assert tuned(objective=objective, maximize=not maximize).search.maximize is not maximize


@pytest.mark.parametrize("objective", ["quality", "emissions", "gap", "glossary"])
def test_an_objective_of_unknown_direction_needs_one(objective: str) -> None:
    with pytest.raises(SpecError, match="Give maximize=True or maximize=False"):
        tuned(objective=objective)
    assert tuned(objective=objective, maximize=True).search.maximize is True


def test_the_tuning_request_of_the_service() -> None:
    told = arguments(
        tuned(
            layers=between(1, 4),
            schedule=one_of("cosine", "linear"),
            fast=one_of(True, False),
            max_parallel=3,
            early_stopping=True,
            seed=7,
            target=0.99,
            patience=4,
            max_seconds=3600,
        )
    )
    assert told["HyperParameterTuningJobConfig"] == {
        "Strategy": "Bayesian",
        "HyperParameterTuningJobObjective": {"Type": "Maximize", "MetricName": "accuracy"},
        "ResourceLimits": {
            "MaxParallelTrainingJobs": 3,
            "MaxNumberOfTrainingJobs": 9,
            "MaxRuntimeInSeconds": 3600,
        },
        "ParameterRanges": {
            "ContinuousParameterRanges": [
                {"Name": "rate", "MinValue": "0.001", "MaxValue": "1.0", "ScalingType": "Auto"}
            ],
            "IntegerParameterRanges": [{"Name": "layers", "MinValue": "1", "MaxValue": "4", "ScalingType": "Auto"}],
            "CategoricalParameterRanges": [
                {"Name": "schedule", "Values": ["cosine", "linear"]},
                {"Name": "fast", "Values": ["true", "false"]},
            ],
        },
        "TrainingJobEarlyStoppingType": "Auto",
        "TuningJobCompletionCriteria": {
            "TargetObjectiveMetricValue": 0.99,
            "BestObjectiveNotImproving": {"MaxNumberOfTrainingJobsNotImproving": 4},
        },
        "RandomSeed": 7,
    }


def test_the_toolkit_starts_our_start_file() -> None:
    definition = arguments(tuned())["TrainingJobDefinition"]
    static = definition["StaticHyperParameters"]
    assert static["sagemaker_program"] == "start.py"
    assert static["sagemaker_submit_directory"] == "/opt/ml/input/data/code"
    assert (static["epochs"], "rate" in static) == ("1", False)
    words = json.loads(definition["Environment"]["DRIVETRAIN_START"])
    assert words[0] == "--code" and words[2:4] == ["--training", "--folders"] and words[-1].endswith(":fit")
    assert "ContainerEntrypoint" not in definition["AlgorithmSpecification"]
    assert "CheckpointConfig" not in definition
    names = [entry["Name"] for entry in definition["AlgorithmSpecification"]["MetricDefinitions"]]
    assert names == ["loss", "accuracy"]


def test_limits_may_be_parameters_of_the_pipeline() -> None:
    most = Parameter(name="Most", type="Integer", default=5)
    told = arguments(tuned(max_trainings=most), parameters=[most])
    limits = told["HyperParameterTuningJobConfig"]["ResourceLimits"]
    assert limits["MaxNumberOfTrainingJobs"] == {"Get": "Parameters.Most"}


def test_hyperband_and_grid() -> None:
    told = arguments(tuned(strategy="Hyperband", hyperband_epochs=(1, 9)))["HyperParameterTuningJobConfig"]
    assert told["StrategyConfig"] == {"HyperbandStrategyConfig": {"MinResource": 1, "MaxResource": 9}}
    told = arguments(tuned(strategy="Grid", max_trainings=None, rate=one_of(0.1, 0.2)))
    assert told["HyperParameterTuningJobConfig"]["ResourceLimits"] == {"MaxParallelTrainingJobs": 1}


def test_the_best_model_and_its_values_go_on() -> None:
    built = tuned()
    steps = [
        built,
        register(
            model=built["model"],
            group="g",
            metadata={"rate": built.best("rate"), "accuracy": built.logged("accuracy")},
        ),
    ]
    definition = compile_pipeline(Pipeline(name="p", steps=steps)).definition
    told = definition["Steps"][1]["Arguments"]
    assert told["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == {
        "Std:Join": {
            "On": "/",
            "Values": [
                {"Get": "Steps.search.TrainingJobDefinition.OutputDataConfig.S3OutputPath"},
                {"Get": "Steps.search.BestTrainingJob.TrainingJobName"},
                "output/model.tar.gz",
            ],
        }
    }
    metadata = told["CustomerMetadataProperties"]
    assert metadata["rate"] == {"Get": "Steps.search.BestTrainingJob.TunedHyperParameters['rate']"}
    best = "Steps.search.BestTrainingJob.FinalHyperParameterTuningJobObjectiveMetric.Value"
    assert {"Get": best} in metadata["accuracy"]["Std:Join"]["Values"]


def test_the_best_values_are_given_to_a_training() -> None:
    ranges = {"layers": between(1, 4), "schedule": one_of("cosine", "linear"), "fast": one_of(True, False)}
    built = tuned(**ranges)
    final = step(fit, name="final", data="s3://bucket/data/", **{name: built.best(name) for name in ("rate", *ranges)})
    told = compile_pipeline(Pipeline(name="p", steps=[built, final])).definition["Steps"][1]["Arguments"]
    for name in ("rate", *ranges):
        # As the service has it: hyperparameters are texts there, and so is what a tuning says of them.
        got = {"Get": f"Steps.search.BestTrainingJob.TunedHyperParameters['{name}']"}
        assert told["HyperParameters"][name] == got


@pytest.mark.parametrize(
    ("searched", "parameter", "told"),
    [
        ({"layers": between(1, 4)}, "rate", None),  # a whole number is a number
        ({"rate": one_of(1, 2)}, "layers", None),
        ({"rate": one_of(0.5, 1)}, "layers", "layers is Integer, but .* is Float"),
        ({"rate": between(0.1, 1.0)}, "layers", "layers is Integer, but .* is Float"),
        ({"layers": between(1, 4)}, "fast", "fast is Boolean, but .* is Integer"),
        ({"schedule": one_of("cosine", "linear")}, "rate", "rate is Float, but .* is String"),
        ({"rate": between(0.1, 1.0)}, "schedule", None),  # text it is, too
    ],
)
def test_a_best_value_fits_only_parameters_of_its_type(
    searched: dict[str, Any], parameter: str, told: str | None
) -> None:
    built = tuned(**searched)
    best = built.best(next(iter(searched)))
    if told is None:
        assert fitted(**{parameter: best}).parameters[parameter] == best
    else:
        with pytest.raises(SpecError, match=told):
            fitted(**{parameter: best})


def test_the_best_value_is_compared_as_the_text_that_the_service_has() -> None:
    built = tuned()
    high = when(built.best("rate") >= 0.1, then=[fail("too high")])
    with pytest.raises(SpecError, match="compares String with Float"):
        Pipeline(name="p", steps=[built, high])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rat": between(0.1, 1.0)}, "has no hyperparameter 'rat'. Did you mean 'rate'"),
        ({"rate": 0.5}, "a range is between"),
        ({"layers": between(0.5, 2.0)}, "'layers' takes a whole number, not 0.5"),
        ({"layers": one_of(True)}, "'layers' takes a whole number, not True"),
        ({"fast": one_of("yes")}, "'fast' takes true or false, not 'yes'"),
        ({"share": between(0.5, 1.5)}, r"Step 'search': share is 1\.5\. Allowed: numbers from 0 to 1\."),
        ({"share": between(-1, 1)}, r"Step 'search': share is -1\. Allowed: numbers from 0 to 1\."),
        ({"kind": one_of("a", "c")}, r"Step 'search': kind is 'c'\. Allowed: a, b\."),
        ({"max_trainings": 2.5}, "max_trainings=2.5"),
    ],
)
def test_values_that_do_not_fit_are_refused_where_written(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        tuned(**given)


def learnt(**given: Any) -> Any:
    return step(train_table, name="search", train="s3://bucket/data/", estimator_options='{"gamma": 1}', **given)


def test_options_of_an_estimator_are_ranges_by_their_own_names() -> None:
    ranges = {"max_depth": between(2, 8), "rounds": between(10, 90), "estimator_options.eta.nested": one_of("a")}
    built = tune(learnt(estimator="my_own"), objective="validation_loss", max_trainings=3, **ranges)
    assert list(built.search.ranges) == ["estimator_options.max_depth", "rounds", "estimator_options.eta.nested"]
    assert built.best("max_depth").name == "estimator_options.max_depth"
    both = {"rounds": between(1, 9), "estimator_options.rounds": between(10, 90)}
    built = tune(learnt(estimator="my_own"), objective="validation_loss", max_trainings=3, **{**ranges, **both})
    assert built.best("rounds").name == "rounds", "a parameter comes before an option"
    config = arguments(built)["HyperParameterTuningJobConfig"]
    assert config["ParameterRanges"]["IntegerParameterRanges"][0]["Name"] == "estimator_options.max_depth"
    assert built.parameters["estimator_options"] == '{"gamma": 1}'


@pytest.mark.parametrize(
    ("estimator", "given", "message"),
    [
        ("xgboost", {"max_dept": between(2, 8)}, "no hyperparameter 'max_dept'. Did you mean 'max_depth'"),
        ("lightgbm", {"num_leavs": between(2, 8)}, "no hyperparameter 'num_leavs'. Did you mean 'num_leaves'"),
        ("xgboost", {"gamma": between(2, 8)}, "'gamma' has a range here and a value in estimator_options"),
    ],
)
def test_options_that_an_estimator_lacks_or_has_already_are_refused(
    estimator: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        tune(learnt(estimator=estimator), objective="validation_loss", max_trainings=3, **given)


def test_chosen_options_join_those_of_the_step() -> None:
    words = ["--train=t", "--model=m", "--output=o", "--checkpoints=c", "--estimator-options", '{"gamma": 1}']
    words += ["--estimator-options.max-depth", "4", "--estimator-options.grow-policy=lossguide"]
    words += ["--estimator-options.model-options.C", "-1e-3"]
    read = command_line.read(train_table, words)
    chosen = {"gamma": 1, "max_depth": 4, "grow_policy": "lossguide", "model_options": {"C": -1e-3}}
    assert json.loads(read["estimator_options"]) == chosen
    with pytest.raises(InputError, match="gamma is 1, and not an object of options"):
        command_line.read(train_table, [*words, "--estimator-options.gamma.x", "4"])
    with pytest.raises(InputError, match="unrecognized arguments: --estimator"):
        command_line.read(train_table, [*words, "--estimator.x", "4"])


def test_only_a_training_is_tuned() -> None:
    with pytest.raises(SpecError, match="give a training step"):
        tune(script("a.py"), objective="loss", rate=between(0.1, 1.0))
    with pytest.raises(SpecError, match="give a training step"):
        tune(tuned(), objective="loss", rate=between(0.1, 1.0))
    rate = Parameter(name="Rate", type="Float", default=0.1)
    with pytest.raises(SpecError, match="Leave that out to search it"):
        tune(fitted(rate=rate), objective="loss", rate=between(0.1, 1.0))


def test_impossible_ranges_are_refused() -> None:
    with pytest.raises(SpecError, match="the lower bound comes first"):
        between(2, 1)
    with pytest.raises(SpecError, match="needs values above 0"):
        between(0.0, 1.0, scale="Logarithmic")
    with pytest.raises(SpecError, match="needs 0 <= x < 1"):
        between(0.5, 1.0, scale="ReverseLogarithmic")
    with pytest.raises(SpecError, match="one_of"):
        one_of()
    with pytest.raises(SpecError, match="'a' stands twice among the values"):
        one_of("a", "b", "a")
    assert one_of(1, True, "1").values == (1, True, "1")
    with pytest.raises(SpecError, match="searches no 'layers'"):
        tuned().best("layers")
    with pytest.raises(SpecError, match="exposes only its objective 'accuracy'"):
        tuned().logged("loss")
