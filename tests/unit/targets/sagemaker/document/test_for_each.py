"""What is wrong with a ForEach, and the steps that come of its body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document import for_each, graph
from drivetrain.targets.sagemaker.document.document import Definition, read
from drivetrain.targets.sagemaker.document.expressions import UnresolvedReference, parse_get


def get(path: str) -> dict[str, str]:
    return {"Get": path}


def step(name: str, kind: str = "Lambda", **fields: Any) -> dict[str, Any]:
    return {"Name": name, "Type": kind, "Arguments": {}, **fields}


def loop(**arguments: Any) -> dict[str, Any]:
    given = {"IterableItems": ["a", "b"], "MaxConcurrency": 2, "ForEachBody": [step("First"), step("Second")]}
    return step("Each", "ForEach", Arguments={**given, **arguments})


def definition(*steps: dict[str, Any]) -> Definition:
    return read(json.dumps({"Steps": steps}), "pipeline")


def test_a_sound_one_is_accepted() -> None:
    body = [
        step("First", Arguments={"item": get("ForEach.CurrentItem.size"), "from": get("Steps.Before.Arn")}),
        step("Second", Arguments={"n": get("Steps.First.OutputParameters['n']")}, DependsOn=["Before"]),
    ]
    picked = {"Pick": "MaxBy", "Field": get("IterationOutput.Second.OutputParameters['n']")}
    sound = definition(
        step("Before"),
        loop(IterableItems=get("Steps.Before.OutputParameters['items']"), ForEachBody=body, Selector=picked),
        step("After", Arguments={"best": get("Steps.Each.Selected.Arn"), "n": get("Steps.Each.SucceededStepCount")}),
        step("Third", Arguments={"x": get("Steps.Each.IterationOutputs[3].First.Arn")}),
    )
    graph.check(sound)
    assert graph.dependencies(sound)["Each"] == {"Before"}
    assert graph.dependencies(sound)["After"] == {"Each"}


def test_the_steps_of_an_iteration_refer_to_each_other_and_to_the_outside() -> None:
    body = [
        step("First", DisplayName="The first", PropertyFiles=[]),
        step(
            "Second",
            Arguments={
                "a": get("Steps.First['x.y'].z"),
                "b": get("Steps.Before.Arn"),
                "deep": [{"Std:Join": {"On": "/"}}],
            },
            DependsOn=["First", "Before", {"Step": "First", "Trigger": "Any"}],
        ),
    ]
    [_, each] = definition(step("Before"), loop(ForEachBody=body)).steps
    first, second = for_each.children(each, 12)
    assert (first.name, first.display_name) == ("First-12", "The first [12]")
    assert second.arguments == {
        "a": get("Steps.First-12['x.y'].z"),
        "b": get("Steps.Before.Arn"),
        "deep": [{"Std:Join": {"On": "/"}}],
    }
    assert [(need.step, need.trigger) for need in second.depends_on] == [
        ("First-12", None),
        ("Before", None),
        ("First-12", "Any"),
    ]
    assert for_each.inner_needs([first, second]) == {"First-12": set(), "Second-12": {"First-12"}}
    assert each.raw["Arguments"]["ForEachBody"] == body  # what was read is as it was


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (loop(IterableItems=[]), "IterableItems has 0 items. Allowed: 1 to 100"),
        (loop(IterableItems=["a"] * 101), "IterableItems has 101 items"),
        (loop(IterableItems=["a", None]), r"IterableItems\[1\] is null"),
        (loop(IterableItems=[{"size": 1}]), r"IterableItems\[0\] is an object.*an object as JSON text"),
        (loop(IterableItems="abc"), "IterableItems is 'abc'. Allowed: a list, or a reference"),
        (loop(IterableItems=None), "IterableItems is missing"),
        (loop(MaxConcurrency=0), "MaxConcurrency is 0. Allowed: a whole number from 1 to 50"),
        (loop(MaxConcurrency=51), "MaxConcurrency is 51"),
        (loop(MaxConcurrency=True), "MaxConcurrency is true"),
        (loop(MaxConcurrency=None), "MaxConcurrency is missing"),
        (loop(ForEachBody=[]), "ForEachBody is empty"),
        (loop(ForEachBody="x"), "ForEachBody is 'x'. Allowed: a list"),
        (loop(ForEachBody=[step("In", "Condition")]), "a Condition step cannot stand in the body"),
        (loop(ForEachBody=[step("In", "Fail")]), "a Fail step cannot stand in the body"),
        (loop(ForEachBody=[step("In", "ForEach")]), "a ForEach step cannot stand in the body"),
        (loop(ForEachBody=[step("Out")]), "2 steps are named 'Out'"),
        (loop(ForEachBody=[step("Same"), step("Same")]), "2 steps are named 'Same'"),
        (loop(ForEachBody=[step("In", DependsOn=["Nobody"])]), "depends on step 'Nobody', which does not exist"),
        (loop(ForEachBody=[step("In", DependsOn=[{"Step": "Out", "Trigger": "Never"}])]), "trigger 'Never'"),
        (loop(ForEachBody=[step("In", Arguments={"x": get("Steps.Nobody.x")})]), "there is no step 'Nobody'"),
        (loop(ForEachBody=[step("In", Arguments={"x": get("ForEach.Index")})]), "a ForEach has no 'Index'"),
        (loop(ForEachBody=[step("In", CacheConfig={"Enabled": "yes"})]), "CacheConfig.Enabled"),
        (
            loop(ForEachBody=[step("In", Arguments={"x": get("Steps.On.x")}), step("On", DependsOn=["In"])]),
            "the steps of the body wait for each other",
        ),
        (
            loop(Selector={"Pick": "Best", "Field": get("IterationOutput.First.x")}),
            "Pick is 'Best'. Allowed: MaxBy, MinBy",
        ),
        (
            loop(Selector={"Pick": "MaxBy", "Field": get("Steps.First.x")}),
            "Field is an object. Allowed: a Get of Iteration",
        ),
        (loop(Selector={"Pick": "MaxBy", "Field": get("IterationOutput.First")}), "Field is an object. Allowed"),
        (loop(Selector={"Pick": "MaxBy", "Field": get("IterationOutput.Frist.x")}), "Did you mean 'First'"),
        (loop(IterableItems=[get("ForEach.CurrentItem")]), "has no value where the items are looked for"),
    ],
)
def test_unsupported_bodies_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        graph.check(definition(given, step("Out")))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (step("First-0"), "'First-0' is named like an iteration of 'First'"),
        (step("Next", Arguments={"x": get("ForEach.CurrentItem")}), "has a value in a ForEach step only"),
        (step("Next", Arguments={"x": get("Steps.Each.Selected.x")}), "has no Selector, so nothing is selected"),
        (step("Next", Arguments={"x": get("Steps.Each.Sucess")}), "a ForEach gives no 'Sucess'"),
        (step("Next", Arguments={"x": get("Steps.Each.IterationOutputs.First.x")}), "it names no iteration"),
        (step("Next", Arguments={"x": get("Steps.Each.IterationOutputs[0].Third.x")}), "the body has no step 'Third'"),
        (step("Next", Arguments={"x": get("Steps.First.x")}), "there is no step 'First'"),
    ],
)
def test_other_steps_see_only_what_it_gives(other: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        graph.check(definition(loop(), other))


def test_items_are_a_list_or_the_json_text_of_one() -> None:
    assert for_each.items_of('["a", 1, {"x": true}]', literal=False) == ["a", 1, {"x": True}]
    assert for_each.items_of([], literal=False) == []
    for given, said in [
        ("{}", "IterableItems is an object"),
        ("[1", "must be a list, or the JSON text of one"),
        (5, "IterableItems is 5"),
        ("[null]", r"IterableItems\[0\] is null"),
        (["x" * 12_801], r"IterableItems\[0\] has 12,801 characters. Allowed: 12,800"),
        (["a\0b"], r"IterableItems\[0\] holds a NUL character"),
    ]:
        with pytest.raises(UserError, match=said):
            for_each.items_of(given, literal=False)


def test_the_current_item_is_text_and_its_fields_are_what_they_are() -> None:
    def item(value: Any, path: str) -> Any:
        return for_each.current_item(value, parse_get(f"ForEach.CurrentItem{path}"))

    assert item("plain", "") == "plain"
    assert item(2.5, "") == 2.5
    assert item({"a": [1, "ü"]}, "") == '{"a":[1,"ü"]}'
    assert item('{"a": {"b": 3}}', ".a.b") == 3
    assert item('{"a": {"b": 3}}', "['a']") == {"b": 3}
    assert item({"a": [1, 2]}, ".a[1]") == 2
    with pytest.raises(UnresolvedReference, match="it has no 'c'"):
        item({"a": 1}, ".c")
    with pytest.raises(UnresolvedReference, match="'plain' is no JSON text"):
        item("plain", ".a")


def test_a_plain_dependency_may_be_spelled_with_its_trigger() -> None:
    [_, after] = definition(step("Before"), step("After", DependsOn=[{"Step": "Before", "Trigger": "Completed"}])).steps
    assert [(need.step, need.trigger) for need in after.depends_on] == [("Before", None)]
