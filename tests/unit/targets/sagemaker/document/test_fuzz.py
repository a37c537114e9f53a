"""Whatever comes in as a definition is read or refused with a UserError: no other exception, nothing lost."""

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import parse, text_of
from drivetrain.spec.binding import bind
from drivetrain.spec.pipeline import find_cycle
from drivetrain.targets.sagemaker.document import graph
from drivetrain.targets.sagemaker.document.conditions import check_condition, described, evaluate
from drivetrain.targets.sagemaker.document.document import Definition, from_json, read, write
from drivetrain.targets.sagemaker.document.expressions import Scope, resolve
from drivetrain.telling.content import from_definition

FIXTURES = Path(__file__).parents[4] / "fixtures" / "definitions"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.json"))}

# What means something in a definition, so that random JSON comes near to being one.
FREQUENT = """
    Parameters.P Steps.a.b Steps.a.PropertyFiles.F Execution.PipelineName P1D a b In Not Or QueryValue Expression
    PropertyFile S3Uri Path
"""
WORDS = st.sampled_from(sorted({*re.findall(r'"([A-Za-z:]+)"', "".join(TEXTS.values())), *FREQUENT.split()}))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    WORDS,
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=5)), inner, max_size=5)
    ),
    max_leaves=30,
)


class Anything(Scope):
    """Knows one value for everything."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def parameter(self, name: str) -> Any:
        return self.value

    def execution(self, field: str) -> Any:
        return self.value

    def step(self, name: str) -> Any:
        return self.value

    def property_file(self, step: str, name: str) -> Any:
        return self.value

    def s3_json(self, uri: str) -> Any:
        return self.value


def exact(value: Any) -> str:
    return json.dumps(value)


def use(definition: Definition, value: Any) -> None:
    """Everything that one can do with a definition; each part may refuse it, none may break."""
    scope = Anything(value)
    with contextlib.suppress(UserError):
        graph.check(definition)
        assert find_cycle(graph.dependencies(definition)) is None
    with contextlib.suppress(UserError):
        dag = from_definition.dag_of(definition)
        assert len(dag.nodes) == len(definition.walk())
        assert {edge.target for edge in dag.edges} <= {node.name for node in dag.nodes}
    with contextlib.suppress(UserError):
        bound = bind(definition.parameters, {p.name: value for p in definition.parameters[:1]})
        assert set(bound) == {p.name for p in definition.parameters}
    for step in definition.walk():
        before = exact(step.raw)
        with contextlib.suppress(UserError):
            resolve(step.arguments, scope)
        for condition in (step.arguments.get("Conditions"), value):
            with contextlib.suppress(UserError):
                check_condition(condition)
                assert isinstance(described(condition), str)
                assert isinstance(evaluate(condition, lambda node: resolve(node, scope)), bool)
        assert exact(step.raw) == before


def nodes_of(value: Any) -> Iterator[Any]:
    """Every object and list of a JSON value."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes_of(item)
    elif isinstance(value, list):
        yield value
        for item in value:
            yield from nodes_of(item)


@given(JSON)
@settings(deadline=None, max_examples=100)
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    text = text_of(value)
    again = parse(text.encode(), "file")
    assert exact(again) == exact(value)
    assert text_of(again) == text


@given(
    st.dictionaries(st.text(max_size=8), JSON, max_size=4),
    st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=3),
)
@settings(deadline=None, max_examples=50)
def test_any_definition_comes_back_as_it_was(top: dict[str, Any], extras: list[dict[str, Any]]) -> None:
    steps = [{**extra, "Name": f"s{n}", "Type": "Unheard"} for n, extra in enumerate(extras)]
    kept = {key: value for key, value in top.items() if key != "Parameters"}
    raw: dict[str, Any] = {**kept, "Steps": [*steps, {"Name": "c", "Type": "Condition", "Arguments": {"IfSteps": []}}]}
    with contextlib.suppress(UserError):  # a step's DependsOn may be anything here
        definition = from_json(copy.deepcopy(raw))
        assert exact(definition.raw) == exact(raw)
        assert exact(read(write(definition)).raw) == exact(raw)


@given(JSON, JSON)
@settings(deadline=None, max_examples=100)
def test_random_json_is_read_or_refused(raw: Any, value: Any) -> None:
    for candidate in (raw, {"Steps": raw}, {"Steps": [{"Name": "a", "Type": "Condition", "Arguments": raw}]}):
        try:
            definition = from_json(candidate)
        except UserError:
            continue
        use(definition, value)


@pytest.mark.slow
@given(st.sampled_from(sorted(TEXTS)), st.data())
@settings(deadline=None, max_examples=200)
def test_mutated_definitions_are_read_or_refused(name: str, data: st.DataObject) -> None:
    raw = json.loads(TEXTS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        node = data.draw(st.sampled_from(list(nodes_of(raw))))
        if not node:
            continue
        key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
        change = data.draw(st.sampled_from(["remove", "replace", "move", "wrap"]))
        if change == "remove":
            del node[key]
        elif change == "replace":
            node[key] = data.draw(JSON)
        elif change == "move":
            node[key] = copy.deepcopy(data.draw(st.sampled_from(list(nodes_of(raw)))))
        else:
            node[key] = {data.draw(WORDS): node[key]}
    try:
        definition = read(json.dumps(raw))
    except UserError:
        return
    assert exact(read(write(definition)).raw) == exact(raw)
    use(definition, data.draw(JSON))


@given(st.sampled_from(sorted(TEXTS)), st.data())
@settings(deadline=None, max_examples=200)
def test_damaged_texts_are_read_or_refused(name: str, data: st.DataObject) -> None:
    damaged = bytearray(TEXTS[name].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(damaged)))
        end = min(len(damaged), start + data.draw(st.integers(0, 5)))
        damaged[start:end] = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"{", b"[", b'"', b"NaN", b"1e999"]))
        )
    try:
        definition = read(bytes(damaged))
    except UserError as error:
        assert len(str(error)) < 600
        return
    assert exact(read(write(definition)).raw) == exact(definition.raw)
