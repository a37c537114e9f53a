"""Stock images: their URIs, and which of a component's needs they are documented to meet."""

from __future__ import annotations

import re
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest

from drivetrain.assets.image import missing
from drivetrain.assets.requirements import normal
from drivetrain.base.errors import UserError
from drivetrain.registry.model_package import is_training_image
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.targets.sagemaker.images import (
    ARM_FAMILIES,
    GPU_FAMILIES,
    NEURON_FAMILIES,
    has_gpu,
    image_uri,
    inference_image,
    machine_problem,
    stock_image,
    unpatched,
)
from drivetrain.targets.sagemaker.images import _table as table


def test_the_default_image_is_of_the_torch_that_is_tested_here() -> None:
    image = stock_image("us-east-1", gpu=False)
    assert image.version == ".".join(version("torch").split(".")[:2])
    assert image.packages["torch"] == version("torch").partition("+")[0]
    assert image.uri == "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13.0-cpu-amzn2023-sagemaker"
    assert tuple(int(part) for part in image.python.split(".")) >= (3, 11)


@pytest.mark.parametrize(
    ("framework", "wanted", "region", "instance_type", "uri"),
    [
        (
            "pytorch",
            "2.14",
            "eu-west-1",
            "ml.g5.xlarge",
            "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch:2.14.0-cu133-amzn2023-sagemaker",
        ),
        (
            "pytorch",
            "2.12.1",
            "af-south-1",
            "ml.m5.large",
            "626614931356.dkr.ecr.af-south-1.amazonaws.com/pytorch:2.12.1-cpu-amzn2023-sagemaker",
        ),
        (
            "pytorch",
            "2.10",
            "us-gov-west-1",
            "ml.p5.48xlarge",
            "442386744353.dkr.ecr.us-gov-west-1.amazonaws.com/pytorch-training:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker",
        ),
        (
            "tensorflow",
            None,
            "eu-west-1",
            "ml.m5.large",
            "763104351884.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-training:2.21.0-cpu-py312-amzn2023-sagemaker",
        ),
        (
            "tensorflow",
            "2.19",
            "eu-west-1",
            "ml.g5.xlarge",
            "763104351884.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-training:2.19.0-gpu-py312-cu125-ubuntu22.04-sagemaker",
        ),
        (
            "pytorch",
            None,
            "cn-north-1",
            "ml.c5.xlarge",
            "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/pytorch:2.13.0-cpu-amzn2023-sagemaker",
        ),
    ],
)
def test_the_uri_of_an_image(framework: str, wanted: str | None, region: str, instance_type: str, uri: str) -> None:
    assert image_uri(framework, wanted, region, instance_type) == uri


def test_every_image_in_every_region_has_a_uri_that_the_service_takes() -> None:
    pattern = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/[a-z-]+:[A-Za-z0-9._-]+")
    limit = service()["shapes"]["AlgorithmImage"]["max"]
    for entry in table()["images"]:
        for region in table()["accounts"]:
            for gpu in (False, True):
                uri = stock_image(region, gpu, entry["framework"], entry["version"]).uri
                assert pattern.fullmatch(uri)
                assert len(uri) <= limit


def test_the_image_that_serves() -> None:
    uri = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker"
    assert inference_image("eu-west-1", gpu=False) == uri
    assert ":2.6.0-gpu-py312-cu124-" in inference_image("cn-north-1", gpu=True)
    with pytest.raises(UserError, match="No account for stock images is documented for region 'mars-north-1'"):
        inference_image("mars-north-1", gpu=False)
    tensorflow = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-inference:2.20.0-gpu-py312-cu129-"
    assert inference_image("eu-west-1", gpu=True, framework="tensorflow").startswith(tensorflow)
    with pytest.raises(UserError, match="No stock image serves models of 'jax'"):
        inference_image("eu-west-1", gpu=False, framework="jax")
    sklearn = "141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-scikit-learn:1.9-0-cpu-py3"
    assert inference_image("eu-west-1", gpu=False, framework="sklearn") == sklearn
    xgboost = "492215442770.dkr.ecr.eu-central-1.amazonaws.com/sagemaker-xgboost:3.2-0"
    assert inference_image("eu-central-1", gpu=False, framework="xgboost") == xgboost
    assert unpatched([sklearn, xgboost], date(2040, 1, 1)) == ()
    with pytest.raises(UserError, match=r"'sklearn' uses no GPU\. Name instance types without one"):
        inference_image("eu-west-1", gpu=True, framework="sklearn")
    with pytest.raises(UserError, match="No account for stock images is documented for region 'mx-central-1'"):
        inference_image("mx-central-1", gpu=False, framework="sklearn")
    for entry in table()["inference"]:
        assert entry["sources"] and entry["available"] < entry["patched_until"]


def test_the_image_that_serves_is_the_one_that_is_patched_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    [entry] = [each for each in table()["inference"] if each["framework"] == "pytorch"]
    older = {**entry, "patched_until": "2026-01-01", "tags": {"cpu": "older", "gpu": "older"}}
    newer = {**entry, "patched_until": "2027-01-01", "tags": {"cpu": "newer", "gpu": "newer"}}
    monkeypatch.setitem(table(), "inference", [older, newer, entry])
    assert inference_image("eu-west-1", gpu=False).endswith(":newer")


def test_unpatched_images_are_reported_with_their_age() -> None:
    serving = inference_image("eu-west-1", gpu=False)
    training = stock_image("eu-west-1", gpu=True, version="2.10").uri
    definition = {"Steps": [{"Containers": [{"Image": serving}]}, {"TrainingImage": training}, {"Image": serving}]}
    assert unpatched(definition, date(2026, 6, 30)) == (), "the last day counts"
    [told] = unpatched(definition, date(2026, 7, 2))
    assert "pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker gets no security patches since 2026-06-30" in told
    assert (
        "(2 days). No newer stock image serves models: give one of your own, "
        "deployment.targets.sagemaker.serving_image." in told
    )
    older = stock_image("eu-west-1", False, "tensorflow", "2.19").uri
    [keras] = unpatched({"Image": older}, date(2026, 9, 1))
    assert "since 2026-03-11 (174 days). Take a newer one (tensorflow-training 2.21 until 2027-07-10)" in keras
    both = unpatched(definition, date(2027, 2, 1))
    assert "(11 days)" in both[1] and "(pytorch 2.14 until 2027-09-28), deployment.targets.sagemaker.image." in both[1]


def test_training_images_are_known_by_their_names() -> None:
    ours = [
        stock_image("us-east-1", gpu, each["framework"], each["version"]).uri
        for each in table()["images"]
        for gpu in (False, True)
    ]
    for uri in (*ours, "huggingface-pytorch-training:2.9", "x/pytorch-training-neuronx:2@sha256:0", "pytorch-training"):
        assert is_training_image(uri)
    serving = [inference_image("us-east-1", gpu, of) for gpu in (False, True) for of in ("pytorch", "tensorflow")]
    for uri in (*serving, "", "mine:1", "me/pytorch:2.13.0-serving", "localhost:5000/pretraining-server:1"):
        assert not is_training_image(uri)


def test_old_gpus_want_an_image_of_the_cuda_that_knows_them() -> None:
    newest, host = stock_image("eu-west-1", gpu=True).uri, "763104351884.dkr.ecr.eu-west-1.amazonaws.com"
    last = "pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker"
    for machine in ("ml.p3.2xlarge", "ml.p3dn.24xlarge"):
        said = machine_problem(newest, machine)
        assert said and said.startswith(f"{machine} has GPUs of the generation Volta (V100), for which the image ")
        assert said.endswith(f"deployment.targets.sagemaker.image={host}/{last}")
        assert machine_problem(f"{host}/{last}", machine) is None, "what is advised does it"
    said = machine_problem("mirror.example.org/dlc/" + last, "ml.p2.xlarge")
    assert (
        said
        and "deployment.targets.sagemaker.image=pytorch-training:2.0.1-gpu-py310-cu118-" in said
        and "Python 3.10" in said
    )
    for uri, machine in (
        (newest, "ml.g4dn.xlarge"),
        ("mine:1", "ml.p3.2xlarge"),
        (stock_image("eu-west-1", False).uri, "ml.p2.xlarge"),
    ):
        assert machine_problem(uri, machine) is None
    with pytest.raises(UserError, match="Volta"):
        image_uri("pytorch", "2.13", "eu-west-1", "ml.p3.2xlarge")


def test_the_table_is_documented_and_its_names_are_normal() -> None:
    assert table()["accounts_sources"]
    for entry in table()["images"]:
        assert all(source.startswith("https://") for source in entry["sources"])
        assert entry["available"] < entry["patched_until"]
        for group in entry["packages"].values():
            assert [name for name in group if name != normal(name)] == []
            assert list(group) == sorted(group)


def test_undocumented_packages_of_an_image_are_missing() -> None:
    for gpu in (False, True):
        image = stock_image("us-east-1", gpu)
        assert missing(("torch", "pyarrow", "numpy", "pydantic", "scikit_learn"), image) == ()
        assert missing(("safetensors", "torch", "polars"), image) == ("polars", "safetensors")
        keras = stock_image("us-east-1", gpu, "tensorflow")
        assert missing(("tensorflow==2.21.*", "keras", "pyarrow", "numpy", "safetensors"), keras) == ("safetensors",)
    assert missing(("safetensors",), stock_image("us-east-1", False, version="2.10")) == ()


def test_a_need_that_names_versions_is_held_against_the_documented_one() -> None:
    image = stock_image("us-east-1", gpu=False)
    assert image.packages["pyarrow"] == "23.0.1"
    assert missing(("pyarrow>=19,<27", "PyArrow == 23.*"), image) == ()
    assert missing(("pyarrow>=24",), image) == ("pyarrow>=24",)
    assert image.packages["requests"] is None, "its version is not documented"
    assert missing(("requests", "requests>=2"), image) == ("requests>=2",)


def test_a_need_for_another_python_or_system_is_none() -> None:
    image = stock_image("us-east-1", gpu=False)
    assert missing(("tomli; python_version < '3.11'", "pywin32; sys_platform == 'win32'"), image) == ()
    assert missing(("uvloop; sys_platform == 'linux'",), image) == ("uvloop; sys_platform == 'linux'",)


@pytest.mark.parametrize("need", ["", "two words", "numpy=>1", "pkg @ https://example.org/pkg.whl"])
def test_a_need_that_is_no_requirement_is_refused(need: str) -> None:
    with pytest.raises(UserError, match="Write a name and"):
        missing((need,), stock_image("us-east-1", gpu=False))


def test_unknown_images_are_reported_with_the_known_ones() -> None:
    with pytest.raises(
        UserError, match=r"PyTorch|pytorch 2\.9 is known\. Allowed: 2\.10\.0, .*2\.14\.0\. .*deployment"
    ):
        stock_image("us-east-1", False, version="2.9")
    with pytest.raises(UserError, match=r"pytorch 2\.13\.7 is known"):
        stock_image("us-east-1", False, version="2.13.7")
    with pytest.raises(UserError, match=r"'us-eats-1'.*Did you mean 'us-east-1'\?"):
        stock_image("us-eats-1", False)
    with pytest.raises(UserError, match=r"No stock image of 'pytorhc'\. Did you mean 'pytorch'\?"):
        stock_image("us-east-1", False, "pytorhc")


def test_the_processor_of_every_machine_of_the_service_is_known() -> None:
    shapes = service()["shapes"]
    machines = {*shapes["TrainingInstanceType"]["enum"], *shapes["ProcessingInstanceType"]["enum"]}
    refused, graphics = set[str](), set[str]()
    for machine in machines:
        family = machine.split(".")[1]
        try:
            if has_gpu(machine):
                graphics.add(family)
        except UserError:
            refused.add(family)
    families = {machine.split(".")[1] for machine in machines}
    assert refused <= {*NEURON_FAMILIES, *ARM_FAMILIES}
    # Whatever begins with p or g has a GPU; a new family of these letters must be sorted in.
    assert graphics | refused >= {family for family in families if family[0] in "pg"}
    assert graphics <= GPU_FAMILIES


@pytest.mark.parametrize(
    "machine", ["ml.trn1.32xlarge", "ml.inf2.xlarge", "ml.m7g.large", "ml.c6gd.xlarge", "ml.g5g.xlarge"]
)
def test_a_machine_that_runs_none_of_the_images_is_refused(machine: str) -> None:
    with pytest.raises(UserError, match=r"no stock image here runs on\. Choose an x86-64 machine"):
        has_gpu(machine)


def test_the_table_is_shipped() -> None:
    assert (Path(__file__).parents[4] / "drivetrain" / "targets" / "sagemaker" / "images.json").is_file()
