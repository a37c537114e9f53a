"""Which names of images nodes can read, and that settings, steps and anybody's IR are held to the same."""

from __future__ import annotations

import pytest

from drivetrain import SpecError, step
from drivetrain.targets.kubeflow.compile import checks
from drivetrain.targets.kubeflow.image_names import image_problem
from drivetrain.targets.kubeflow.ir.check import problems, read
from tests.fixtures.kubeflow_examples import compiled, load, pipeline

DIGEST = "sha256:" + "0a" * 32
BAD = {
    "a b": "it has a space",
    "": "a part of its name is empty",
    "registry.example.com:99999/train:1": "port 99999 of its registry",
    "registry.example.com:0/train": "port 0 of its registry",
    "registry.example.com:x/train": "no address of a registry",
    "-registry.example.com/train": "no address of a registry",
    "registry.example.com/Train:1": "'Train' is no part of a name",
    "Train": "'Train' is no part of a name",
    "train:": "'' is no tag",
    "train:1:2": "'1:2' is no tag",
    f"train:{'a' * 129}": "is no tag",
    "train@sha256:abc": "no digest",
    "train@": "no digest",
    "registry.example.com//train": "a part of its name is empty",
    "train/": "a part of its name is empty",
    "a" * 256: "longer than 255 characters",
}


@pytest.mark.parametrize(
    "image",
    [
        "alpine",
        "python:3.12-slim-bookworm",
        "drivetrain-cpu:latest",
        "registry.example.com/drivetrain-cpu:1",
        "registry.example.com:5000/team/vision__train:v1.2_x",
        "localhost/train",
        "localhost:5000/train",
        "[fd00::7]:5000/train",
        f"111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1@{DIGEST}",
        f"a/b-c/d.e@{DIGEST}",
        "Registry/train:1",
    ],
)
def test_names_of_images(image: str) -> None:
    assert image_problem(image) is None


@pytest.mark.parametrize(("image", "said"), BAD.items(), ids=[repr(image)[:30] for image in BAD])
def test_unreadable_image_names_are_refused(image: str, said: str) -> None:
    problem = image_problem(image)
    assert problem is not None and said in problem


@pytest.mark.parametrize("image", ["a b", "registry.example.com:99999/train:1"])
def test_settings_steps_and_the_checker_of_ir_refuse_the_same(image: str) -> None:
    with pytest.raises(SpecError, match=r"^deployment\.targets\.kubeflow\.image: .*\. Allowed: \[REGISTRY") as refused:
        checks.check(pipeline(step(load, raw="s3://b/raw/"), settings={"image": image}))
    assert f"Given: {image!r}" in str(refused.value)

    [problem] = checks.check(pipeline(step(load, raw="s3://b/raw/", image=image)))
    assert (problem.step, problem.field) == ("load", "image") and "is no name of an image" in problem.reason

    good = compiled(step(load, raw="s3://b/raw/", image="image-of-the-step:1")).text
    [found] = problems(read(good.replace("image-of-the-step:1", image).encode(), "p.yaml"))
    assert "executors['exec-load'].container.image" in str(found) and "is no name of an image" in str(found)
