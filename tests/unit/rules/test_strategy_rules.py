"""One test a rule about distribution: the smallest training that breaks it, and the message that says what to do."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Parameter, Pipeline, SpecError, step
from drivetrain.catalog import strategies
from drivetrain.catalog.strategies import refused_fields
from drivetrain.components.train import train
from drivetrain.rules import strategy_rules
from drivetrain.spec import steps, trainings
from drivetrain.spec.resources import Program
from drivetrain.spec.steps import TrainingStep

HOSTS = Cluster(instance_type="ml.p4d.24xlarge", count=2)
FILE = """
DIMENSIONS = {dimensions!r}
MIN_TORCH = "2.6"
SUMMARY = ""
BOUNDS = {{"bucket_mb": (1, 100)}}
CHOICES = {{"schedule": ("gpipe", "1f1b", "interleaved", "zero_bubble")}}
class Options:
    {options}
"""
MADE_UP = {
    "lone": ((), "pass"),
    "replicas": (("replicate",), "bucket_mb: int = 25"),
    "shards_tensors": (("shard", "tensor"), "shard: int = 0\n    tensor: int = 2"),
    "stages": (
        ("stage", "replicate"),
        "stage: int = 4\n    replicate: int = 0\n    micro_batches: int = 0\n    virtual: int = 0\n"
        "    schedule: str = '1f1b'",
    ),
    "dp": ((), "pass"),
}


@pytest.fixture(autouse=True)
def made_up_strategies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, (dimensions, options) in MADE_UP.items():
        (tmp_path / f"{name}.py").write_text(FILE.format(dimensions=dimensions, options=options))
    for name, dimensions in (("keras_lone", ()), ("keras_replicas", ("replicate",))):
        text = FILE.format(dimensions=dimensions, options="pass")
        (tmp_path / f"{name}.py").write_text(f'FRAMEWORK = "tensorflow"{text}')
    text = f'FRAMEWORK = "tensorflow"\nROLES = "chief=1,worker=*,ps=1"{FILE.format(dimensions=(), options="pass")}'
    (tmp_path / "keras_servers.py").write_text(text)
    monkeypatch.setattr(strategies, "strategies_folder", lambda: tmp_path)


def training(**fields: Any) -> TrainingStep:
    """A step of the train component; options of the strategy as a dict."""
    options = fields.pop("options", None)
    given = {"strategy": "replicas", "global_batch": 64, **fields}
    parameters = {name: given.pop(name) for name in list(given) if name in ("accumulation",)}
    made = step(train, train="s3://b/k/", **given)
    if options is not None:
        parameters["strategy_options"] = options if isinstance(options, str) else json.dumps(options)
    return made.model_copy(update={"parameters": {**made.parameters, **parameters}})


def refusal(made: TrainingStep, *parameters: Parameter) -> str:
    with pytest.raises(SpecError) as caught:
        Pipeline(name="p", steps=[made], parameters=parameters)
    return str(caught.value)


def accepted(made: TrainingStep, *parameters: Parameter) -> None:
    assert Pipeline(name="p", steps=[made], parameters=parameters).steps


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in strategy_rules.rule} <= tests


def test_the_component_is_known_by_its_declaration() -> None:
    assert train.target == steps.TRAIN
    own = TrainingStep(
        name="train",
        program=Program(kind="component", target="mine:train"),
        parameters={"strategy": "not one of ours", "global_batch": 3},
    )
    accepted(own)


def test_a_training_that_fits_is_accepted() -> None:
    accepted(training(cluster=Cluster(processes=2)))
    accepted(training(strategy="shards_tensors", cluster=HOSTS))
    accepted(training(strategy="stages", cluster=HOSTS, options={"micro_batches": 8}))
    accepted(training(strategy="auto"))


def test_rule_strategies_exist() -> None:
    message = refusal(training(strategy="replica"))
    assert "step 'train': no strategy 'replica'. Did you mean 'replicas'?" in message
    named = Parameter.string("Strategy", default="replicas", choices=("replicas", "stagse"))
    assert "(with Strategy='stagse'): no strategy 'stagse'. Did you mean 'stages'" in refusal(
        training(strategy=named), named
    )


def test_rule_auto_is_settled_when_compiled() -> None:
    named = Parameter.string("Strategy", default="replicas", choices=("replicas", "auto"))
    assert "a pipeline parameter cannot bring it" in refusal(training(strategy=named), named)
    assert "'auto' chooses which" in refusal(training(strategy="auto", options={"bucket_mb": 1}))


def test_rule_strategy_options_exist() -> None:
    assert "Did you mean 'bucket_mb'?" in refusal(training(options={"bucket": 1}))
    assert "bucket_mb='25'; allowed is a whole number (of 64 bits)." in refusal(training(options={"bucket_mb": "25"}))
    assert "bucket_mb=True; allowed is a whole number (of 64 bits)." in refusal(training(options={"bucket_mb": True}))
    assert "bucket_mb=-1; allowed are whole numbers from 1 to 100." in refusal(training(options={"bucket_mb": -1}))
    message = refusal(training(strategy="stages", options={"schedule": "1f1p"}))
    assert "strategy 'stages': schedule='1f1p'; allowed are gpipe, 1f1b, interleaved, zero_bubble." in message
    assert "are not JSON" in refusal(training(options="{"))
    assert "are not a JSON object" in refusal(training(options="[1]"))


def test_rule_recipe_options_exist() -> None:
    message = refusal(training(recipe="digits_cnn", recipe_options='{"channel": 8}'))
    assert "step 'train': recipe 'digits_cnn' has no option 'channel'. Did you mean 'channels'?" in message
    assert "are not JSON" in refusal(training(recipe="digits_cnn", recipe_options="{"))
    accepted(training(recipe="digits_cnn", recipe_options='{"channels": 8}'))
    accepted(training(recipe="my.own_recipe", recipe_options='{"anything": 1}'))


def test_rule_processes_have_a_gpu_each() -> None:
    message = refusal(training(cluster=Cluster(instance_type="ml.g5.12xlarge", processes=8)))
    assert "8 processes, but ml.g5.12xlarge has 4 GPUs" in message
    instance = Parameter.string("Instance", default="ml.g5.48xlarge", choices=("ml.g5.48xlarge", "ml.g5.xlarge"))
    cluster = Cluster(instance_type=instance.ref(), processes=8)
    assert "(with Instance='ml.g5.xlarge'): 8 processes" in refusal(training(cluster=cluster), instance)


def test_rule_lone_strategies_have_one_process() -> None:
    message = refusal(training(strategy="lone", cluster=Cluster(count=2)))
    assert "strategy 'lone' is for one process, but there are 2 processes (2 hosts x 1)" in message
    assert "there are 4 processes" in refusal(
        training(strategy="lone", cluster=Cluster(instance_type="ml.g5.12xlarge"))  # one a GPU
    )
    accepted(training(strategy="lone", cluster=Cluster(instance_type="ml.g5.12xlarge"), processes=1))
    assert "Use strategy 'replicas', or" in message
    assert "Use strategy 'keras_replicas', or" in refusal(training(strategy="keras_lone", cluster=Cluster(count=2)))


def test_rule_roles_have_their_processes() -> None:
    message = refusal(training(strategy="keras_servers", cluster=Cluster(count=2)))
    assert "'keras_servers' has processes in the roles chief=1,worker=*,ps=1, 3 at least, but there are 2" in message
    accepted(training(strategy="keras_servers", cluster=Cluster(count=3)))


@pytest.mark.parametrize("name", refused_fields("tensorflow"))
def test_rule_fields_fit_the_framework(name: str) -> None:
    """What TensorFlow's strategies do not have is refused when a pipeline is checked, not on the cluster."""
    without, advice = refused_fields("tensorflow")[name]
    given = {name: True if without is False else 2}
    message = refusal(training(strategy="keras_lone", recipe="digits_keras", **given))
    assert f"{name}={given[name]}, which strategies of tensorflow do not have (strategy 'keras_lone'). " in message
    assert advice in message
    accepted(training(strategy="keras_lone", recipe="digits_keras", **{name: without}))
    accepted(training(strategy="replicas", **given))


def test_rule_threads_have_several_gpus() -> None:
    message = refusal(training(strategy="dp"))
    assert "strategy 'dp' copies the model to several GPUs, and ml.m5.xlarge has 0" in message
    assert "ml.g5.xlarge has 1" in refusal(training(strategy="dp", cluster=Cluster(instance_type="ml.g5.xlarge")))
    accepted(training(strategy="dp", cluster=Cluster(instance_type="ml.g5.12xlarge", processes=1)))


def test_rule_degrees_fit_the_processes() -> None:
    made = training(strategy="shards_tensors", cluster=HOSTS, options={"tensor": 3})
    assert "tensor 3 needs a multiple of 3 processes, but there are 16 processes (2 hosts x 8)" in refusal(made)
    hosts = Parameter.integer("Hosts", default=2, choices=(1, 2, 3))
    made = training(strategy="stages", cluster=Cluster(count=hosts.ref(), processes=4), options={"replicate": 2})
    assert "(with Hosts=1): strategy 'stages': stage 4 x replicate 2 needs 8 processes" in refusal(made, hosts)


def test_rule_tensor_ranks_share_a_host() -> None:
    made = training(strategy="shards_tensors", cluster=HOSTS, options={"tensor": 16})
    assert "tensor 16 would leave the host, which has 8 processes" in refusal(made)


def test_rule_tensor_ranks_have_fast_links() -> None:
    made = training(strategy="shards_tensors", cluster=Cluster(instance_type="ml.g5.12xlarge"))
    assert "tensor 2 needs NVLink" in refusal(made) and "ml.g5.12xlarge has PCIe 4 x16 (32 GB/s)" in refusal(made)
    accepted(training(strategy="shards_tensors", cluster=Cluster(processes=2)))  # a rehearsal on CPUs


def test_rule_stages_have_enough_micro_batches() -> None:
    made = training(strategy="stages", cluster=HOSTS, options={"micro_batches": 2})
    assert "2 micro-batches for 4 stages" in refusal(made)


def test_rule_virtual_stages_have_a_schedule() -> None:
    message = refusal(training(strategy="stages", cluster=HOSTS, options={"virtual": 2, "micro_batches": 8}))
    assert "virtual=2 with schedule '1f1b'; only 'interleaved' and 'zero_bubble' cut" in message
    options = {"virtual": 2, "micro_batches": 8, "schedule": "interleaved"}
    accepted(training(strategy="stages", cluster=HOSTS, options=options))
    accepted(training(strategy="stages", cluster=HOSTS, options={"virtual": 1, "micro_batches": 8}))


def test_rule_interleaved_schedules_get_whole_rounds() -> None:
    options = {"micro_batches": 6, "schedule": "zero_bubble"}
    made = training(strategy="stages", cluster=HOSTS, options=options, global_batch=48)
    assert "micro_batches=6 with schedule 'zero_bubble', which sends them in rounds" in refusal(made)
    accepted(training(strategy="stages", cluster=HOSTS, options={**options, "schedule": "1f1b"}, global_batch=48))


def test_rule_micro_batches_divide_the_batch() -> None:
    made = training(strategy="stages", cluster=HOSTS, options={"micro_batches": 8}, global_batch=48)
    assert "a global batch of 48 cannot be cut into 8 micro-batches x 4 data ranks. Give a multiple of 32" in refusal(
        made
    )
    made = training(strategy="stages", cluster=HOSTS, options={"micro_batches": 8}, global_batch=96, accumulation=2)
    assert "x accumulation 2. Give a multiple of 64" in refusal(made)
    batch = Parameter.integer("Batch", default=64, choices=(64, 100))
    made = training(strategy="stages", cluster=HOSTS, options={"micro_batches": 8}, global_batch=batch)
    assert "(with Batch=100)" in refusal(made, batch)


def test_values_known_only_at_run_time_are_not_judged() -> None:
    unknown = Parameter.string("Strategy"), Parameter.integer("Batch"), Parameter.string("Instance")
    cluster = Cluster(instance_type=unknown[2].ref(), processes=3)
    accepted(training(strategy=unknown[0], global_batch=unknown[1], cluster=cluster), *unknown)
    # An instance type that the table lacks: how many processes it starts is not known.
    accepted(training(strategy="lone", cluster=Cluster(instance_type="ml.g7.12xlarge")))


def test_parameters_are_looked_at_one_at_a_time() -> None:
    strategy = Parameter.string("Strategy", default="replicas", choices=("replicas", "stages"))
    hosts = Parameter.integer("Hosts", default=4, choices=(1, 4))
    made = training(strategy=strategy, cluster=Cluster(count=hosts.ref()))
    # Stages on one host would be refused, but nobody says that they are started together: the launcher will look.
    accepted(made, strategy, hosts)
    found = [dict(way.given) for way in trainings.ways(made, (strategy, hosts))]
    assert found == [
        {"Hosts": 4, "Strategy": "replicas"},
        {"Hosts": 1, "Strategy": "replicas"},
        {"Hosts": 4, "Strategy": "stages"},
    ]
