"""Trainings that cannot be distributed as asked: one clear error before anything runs, from each command."""

from __future__ import annotations

import json

import pytest

from tests.contract.bad_input.place import Place

RECIPE = "class Recipe: ...\n"
FACTS = {"format": 2, "recipe": "faces", "source_hash": "0" * 64, "torch": "2.13.0", "measurements": []}
PIPELINE = """
from drivetrain.components.train import train
from drivetrain import Cluster, Pipeline, Settings, step

class Own(Settings):
    recipe: str = "digits_cnn"
    strategy: str = "ddp"
    options: str = "{}"
    instance: str = "ml.m5.xlarge"
    hosts: int = 1

def own(settings: Own) -> Pipeline:
    cluster = Cluster(instance_type=settings.instance, count=settings.hosts)
    made = step(train, train="s3://b/k/", recipe=settings.recipe, strategy=settings.strategy,
                strategy_options=settings.options, cluster=cluster)
    return Pipeline(name="own", steps=[made])
"""


@pytest.mark.parametrize("command", ["run", "compile"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["strategy=ddpp"], "Did you mean 'ddp'"),
        (["strategy=single", "hosts=2"], "for one process, but there are 2 processes"),
        (["strategy=tp", "instance=ml.g5.12xlarge"], "needs NVLink"),
        (["strategy=hsdp", "options='{\"shards\": 2}'"], "Did you mean 'shard'"),
        (["strategy=ddp", "options='" + "[" * 2_000 + "'"], "are not JSON"),
        (["strategy=auto", "recipe=faces"], "Measure it again: drivetrain recommend --recipe faces --write"),
    ],
    ids=["typo", "processes", "links", "option", "nested", "stale facts"],
)
def test_undistributable_trainings_are_refused(place: Place, command: str, settings: list[str], message: str) -> None:
    place.write("faces.py", RECIPE)
    place.write("faces.facts.json", json.dumps({**FACTS, "checkpoint_bytes_per_second": {}}))
    given = [word for text in settings for word in ("--set", text)]
    ran = place.drivetrain(command, place.write("own.py", PIPELINE), *given)
    place.refused(ran, message)


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', "[" * 100_000], ids=["empty", "list", "bare", "nested"])
def test_an_invalid_facts_file_is_named(place: Place, content: str) -> None:
    place.write("faces.py", RECIPE)
    path = place.write("faces.facts.json", content)
    ran = place.drivetrain("compile", place.write("own.py", PIPELINE), "--set", "recipe=faces")
    place.refused(ran, f"{path} holds no facts of a recipe")
