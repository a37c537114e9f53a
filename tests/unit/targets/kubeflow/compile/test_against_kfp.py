"""What we compile, beside what kfp's own compiler writes of an equal pipeline, and before kfp's own loader."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from drivetrain import step
from drivetrain.assets.step_code import NOTHING, StepCode
from tests.fixtures.kubeflow_examples import compiled, load

GOLDEN = Path(__file__).parents[5] / "tests" / "golden" / "kubeflow"
Json = dict[str, Any]
# How kfp calls what it makes itself -> the name here.
NAMES = {
    "exit-handler-1": "all-steps",
    "for-loop-3": "sweep",
    "loop-item-param-2": "item",
    "condition-branches-4": "gate",
    "condition-5": "gate-then",
    "condition-6": "gate-otherwise",
    "importer": "import-code",
    "importer-2": "import-load-raw",
    "load-it": "load",
    "load-it-2": "good",
    "score-it": "score",
    "stop": "bad",
    "fit-it": "fit",
    "select": "sweep-selected",
    "register-it": "register",
    "chosen": "fit-model",
}


def plain(ir: Json) -> Json:
    """Without what names alone make different: prefixes of names that go from DAG to DAG, `_` for `-`, and what
    programs are told, which is their own."""
    text = json.dumps({key: ir[key] for key in ("components", "root")})
    text = text.replace("parameter_values", "values").replace("pipelinechannel--", "")
    return json.loads(re.sub(r"(?<=[a-zA-Z0-9])(--|_)(?=[a-zA-Z0-9])", "-", text))


def renamed(ir: Json) -> Json:
    """kfp's IR with our names."""
    text = json.dumps(plain(ir))
    longest = sorted(NAMES, key=len, reverse=True)
    names = re.compile(rf"(?<![a-zA-Z0-9]-)(?<![a-zA-Z0-9])({'|'.join(longest)})(?![a-zA-Z0-9])(?!-[a-z0-9])")
    parts = re.compile(rf'(?<=["\'])(comp-|exec-)?({"|".join(longest)})((?:-[a-zA-Z]+)*)(?=["\'])')
    return json.loads(names.sub(lambda found: NAMES[found[0]], parts.sub(_part, text)))


def _part(found: re.Match[str]) -> str:
    return f"{found[1] or ''}{NAMES[found[2]]}{found[3]}"


def fields(node: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every field with its place; lists whose order says nothing are sorted, and JSON in a text is read."""
    if isinstance(node, dict) and node:
        for key, item in node.items():
            yield from fields(item, f"{place}.{key}")
    elif isinstance(node, list) and place.endswith("dependentTasks"):
        yield place, sorted(node)
    elif place.endswith("items.raw"):
        yield place, json.loads(node)
    else:
        yield place, node


def test_an_equal_pipeline_by_kfps_own_compiler_field_by_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Structure, types, order, iterators, triggers, retries, caching; not images, nor what programs are told."""
    from tests.fixtures.kfp_twin import ours, theirs

    monkeypatch.setattr(StepCode, "of", lambda *_: NOTHING)  # its pipeline has one archive of code
    mine, its = dict(fields(plain(ours()))), dict(fields(renamed(theirs(tmp_path))))
    code = ".components.comp-all-steps.dag.tasks.import-code.inputs.parameters.uri.runtimeValue.constant"
    assert mine.pop(code).startswith("s3://drivetrain-local/pipelines/twin/code/")
    assert its.pop(code) == "s3://own/code"
    patience = ".components.comp-all-steps.dag.tasks.score.retryPolicy.backoffMaxDuration"
    assert (mine.pop(patience), its.pop(patience)) == ("345720s", "3600s"), "the server ends all attempts by then"
    assert len(mine) > 200
    assert {place: (value, its.get(place)) for place, value in mine.items() if value != its.get(place)} == {}
    assert its.keys() == mine.keys()


@pytest.mark.parametrize("name", ["retraining", "searches", "settings"])
def test_kfp_reads_the_reviewed_files(name: str) -> None:
    """Its loader takes the spec, and its protobufs take the platform's part."""
    from google.protobuf import json_format

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kfp import components
        from kfp.kubernetes import kubernetes_executor_config_pb2

    text = (GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")
    loaded = components.load_component_from_text(text)
    spec, *platform = yaml.safe_load_all(text)
    assert loaded.pipeline_spec.pipeline_info.name == spec["pipelineInfo"]["name"]
    assert json_format.MessageToDict(loaded.pipeline_spec)["root"] == spec["root"]
    executors = platform[0]["platforms"]["kubernetes"]["deploymentSpec"]["executors"] if platform else {}
    assert bool(executors) == (name != "searches"), "trainings mount their claim"
    for config in executors.values():
        json_format.ParseDict(config, kubernetes_executor_config_pb2.KubernetesExecutorConfig())


def test_kfp_takes_a_pipeline_that_is_called_like_its_step_for_the_pipeline() -> None:
    """Its loader takes the component of the pipeline's name, where there is one, in place of the whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kfp import components

    built = compiled(step(load, raw="s3://own/raw/"), name="load")
    assert built.ir["pipelineInfo"]["name"] == "load-2"
    loaded = components.load_component_from_text(built.text)
    assert list(loaded.component_spec.inputs) == ["Fresh"], "the component takes the code"
