from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from drivetrain.base.errors import UserError
from drivetrain.targets.kubeflow.ir.check import problems, read
from drivetrain.targets.kubeflow.written import Written, write_code
from drivetrain.targets.kubeflow.written.meaning import DEEPEST, Meaning, differences

GOLDEN = Path(__file__).parents[4] / "golden" / "kubeflow"
# Of what kfp's compiler writes: fields of the whole, of a parameter without a value, a key of a cache.
RAW = {
    **dict.fromkeys(("collected-parameters", "lists-of-artifacts", "one-of", "settings-of-the-whole"), "the pipeline"),
    "optional-inputs": "maybe",
    "retries-and-caching": "show-3",
}


@cache
def forms() -> Mapping[str, str]:
    from tests.fixtures import kfp_forms

    with TemporaryDirectory() as folder:
        found = kfp_forms.compiled(Path(folder))
    ours = {path.stem: path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.yaml")}
    return {**found, **ours}


def written(text: str) -> Written:
    return write_code(text.encode(), "pipeline.yaml")


def test_each_form_becomes_code_that_means_the_same(tmp_path: Path) -> None:
    found = {name: written(text) for name, text in forms().items()}
    assert len(found) > 50
    assert {name: (each.problem, each.changes) for name, each in found.items() if not each.is_equal} == {}
    assert {name: [*each.raw] for name, each in found.items() if each.raw} == {name: [of] for name, of in RAW.items()}
    for name, each in found.items():
        (tmp_path / f"{name.replace('-', '_')}.py").write_text(each.code, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([ruff, *command, "--isolated", tmp_path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_code_reads_as_a_person_would_have_written_it() -> None:
    shell = {"container": {"image": "python:3.12", "command": ["python3", "train.py"]}}
    taken = {"componentInputParameter": "pipelinechannel--loop-item-param-1"}
    loop = {"itemInput": "pipelinechannel--loop-item-param-1", "items": {"raw": "[0.1, 0.5]"}}
    rate, model = {"parameterType": "NUMBER_DOUBLE"}, {"artifactType": {"schemaTitle": "system.Model"}}
    model["artifactType"]["schemaVersion"] = "0.0.1"
    key = "pipelinechannel--limit"
    ir = {
        "pipelineInfo": {"name": "sweep"},
        "schemaVersion": "2.1.0",
        "deploymentSpec": {"executors": {"exec-train": shell}},
        "components": {
            "comp-train": {
                "executorLabel": "exec-train",
                "inputDefinitions": {"parameters": {"rate": rate}},
                "outputDefinitions": {"artifacts": {"model": model}},
            },
            "comp-each": {
                "dag": {
                    "tasks": {
                        "train": task(
                            "train", cachingOptions={"enableCache": True}, inputs={"parameters": {"rate": taken}}
                        )
                    }
                },
                "inputDefinitions": {"parameters": {loop["itemInput"]: rate, key: {"parameterType": "NUMBER_INTEGER"}}},
            },
        },
        "root": {
            "inputDefinitions": {"parameters": {"limit": {"parameterType": "NUMBER_INTEGER"}}},
            "dag": {
                "tasks": {
                    "each": task(
                        "each",
                        parameterIterator=loop,
                        inputs={"parameters": {key: {"componentInputParameter": "limit"}}},
                        triggerPolicy={"condition": f"int(inputs.parameter_values['{key}']) > 3"},
                    )
                }
            },
        },
    }
    found = written(json.dumps(ir))
    assert (found.problem, found.changes, found.raw) == ("", (), {})
    assert (
        found.code
        == '''\
"""A pipeline as Kubeflow Pipelines has it, written by drivetrain import --code."""

from drivetrain import Parameter, Pipeline
from drivetrain.native.kubeflow import cel, given, group, task


def pipeline() -> Pipeline:
    limit = Parameter.integer("limit")
    item = given("pipelinechannel--loop-item-param-1")
    train = task(
        "train",
        image="python:3.12",
        command=["python3", "train.py"],
        inputs={"rate": item},
        outputs={"model": "Model"},
    )
    each = group(
        "each",
        [train],
        each=[0.1, 0.5],
        item="pipelinechannel--loop-item-param-1",
        when=cel("int({limit}) > 3", limit=limit),
    )
    return Pipeline(name="sweep", parameters=[limit], steps=[each])
'''
    )


def task(name: str, **fields: Any) -> dict[str, Any]:
    return {"componentRef": {"name": f"comp-{name}"}, "taskInfo": {"name": name}, **fields}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in [*parts]:
        yield from leaves(each, (*path, name))
    if not isinstance(value, dict | list):
        yield path


def test_a_changed_value_anywhere_is_a_difference() -> None:
    """Names of components and executors, and the compiler's version, are the only ones that do not count."""
    count = 0
    for name in ("chain", "collected-artifacts", "exit-handler"):
        spec = yaml.safe_load(forms()[name])
        meant = Meaning(spec, {}).whole
        for path in leaves(spec):
            changed = copy.deepcopy(spec)
            at = changed
            for part in path[:-1]:
                at = at[part]
            at[path[-1]] = {str: lambda old: f"{old}x", bool: lambda old: not old}.get(
                type(at[path[-1]]), lambda old: old + 1
            )(at[path[-1]])
            if path[-2:-1] == ("componentRef",) or path[-1] in ("executorLabel", "sdkVersion") or problems_of(changed):
                continue
            assert [*differences(meant, Meaning(changed, {}).whole)], path
            count += 1
    assert count > 80


def problems_of(spec: Any) -> list[Any]:
    return problems(read(json.dumps(spec).encode(), "changed"))


def test_true_and_one_differ_and_whole_numbers_do_not() -> None:
    assert [*differences({"a": {"b": [1, True]}}, {"a": {"b": [1, 1]}})] == ["a.b[1]: true became 1"]
    assert [*differences({"a": {}}, {"a": {"b": {}}})] == ["a: {} became nothing", "a.b: nothing became {}"]
    whole = {"root": {"dag": {"tasks": {}}}, "x": 2.0}
    assert Meaning(whole, {}).whole == Meaning({**whole, "x": 2}, {}).whole


@pytest.mark.parametrize("text", ['"""', "a'\"\nb\nc\n", "\\", "\u202e\nx\n\n", '{limit}\n\n"', "import os\nx()\n\n#"])
def test_hostile_texts_are_literals(text: str) -> None:
    spec = yaml.safe_load(forms()["condition-on-parameter"])
    for path in [*leaves(spec)]:
        if path[-1] in ("constant", "defaultValue", "image") or "args" in path or "command" in path:
            at = spec
            for part in path[:-1]:
                at = at[part]
            at[path[-1]] = text if path[-1] != "image" else at[path[-1]]
    spec["pipelineInfo"]["description"] = text
    found = written(json.dumps(spec))
    tree = ast.parse(found.code)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    assert names - made == {"Parameter", "Pipeline", "cel", "group", "task"}
    assert found.is_equal or found.problem


def test_a_value_that_compile_refuses_is_named_and_its_code_is_written() -> None:
    spec = yaml.safe_load(forms()["condition-on-parameter"])
    spec["root"]["inputDefinitions"]["parameters"]["kind"]["defaultValue"] = "$$"
    found = written(json.dumps(spec))
    assert not found.is_equal
    assert "kind" in found.problem
    assert 'Parameter.string("kind", "$$")' in found.code
    assert "It does not compile" in found.lines("x.py")[1]


def test_what_a_cluster_would_refuse_is_no_code() -> None:
    spec = yaml.safe_load(forms()["one-task"])
    del spec["components"]["comp-show"]
    with pytest.raises(UserError, match=r"a cluster would refuse it.*no component uses it"):
        written(json.dumps(spec))


def test_parts_in_parts_are_no_endless_code() -> None:
    spec = yaml.safe_load(forms()["one-task"])
    for level in range(DEEPEST + 1):
        inner = spec["root"]["dag"]
        spec["components"][f"comp-{level}"] = {"dag": inner}
        spec["root"]["dag"] = {"tasks": {"one": task(str(level)), "two": task(str(level))}}
    with pytest.raises(UserError, match="no code can show"):
        written(json.dumps(spec))
