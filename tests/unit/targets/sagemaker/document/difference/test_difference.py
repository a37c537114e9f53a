"""Differences: in meaning, by name, complete, and said in a line that a reader understands."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import text_of
from drivetrain.targets.sagemaker.document.difference.change import KINDS
from drivetrain.targets.sagemaker.document.difference.difference import ABSENT, describe, describe_all, differences
from tests.fixtures.changed_definitions import BASES, RETRAINING, altered, edited, versions

Definition = dict[str, Any]


def lines(change: Callable[[dict[str, Any]], object]) -> list[str]:
    return describe_all(differences(RETRAINING, altered(change)))


@given(versions(1))
@settings(deadline=None, max_examples=60)
def test_nothing_differs_from_itself(version: tuple[Definition]) -> None:
    assert differences(version[0], copy.deepcopy(version[0])) == ()


@given(versions(2))
@settings(deadline=None, max_examples=70)
def test_the_differences_lead_from_one_to_the_other(two: tuple[Definition, Definition]) -> None:
    old, new = two
    before = json.dumps(two)
    found = differences(old, new)
    try:
        reached = edited(old, found)
    except UserError:  # what it leads to is no definition: a step under what is no condition
        reached = None
    if reached is not None:
        assert differences(reached, new) == ()
    assert json.dumps(two) == before
    assert len({change.place for change in found}) == len(found)
    assert {change.kind for change in found} <= set(KINDS)
    assert all(line.isprintable() for line in describe_all(found))


@given(versions(2))
@settings(deadline=None, max_examples=60)
def test_both_directions_differ_in_the_same_places(two: tuple[Definition, Definition]) -> None:
    there, back = differences(*two), differences(*reversed(two))
    assert bool(there) == bool(back)


@pytest.mark.parametrize("name", sorted(BASES))
def test_everything_of_the_first_version_is_new(name: str) -> None:
    found = differences(None, BASES[name])
    assert all(change.old is ABSENT for change in found)
    assert differences(edited({"Steps": []}, found), BASES[name]) == ()
    assert all(change.new is ABSENT for change in differences(BASES[name], None))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["train"].update(Type=s["train"].pop("Type")),
        lambda s: s[""]["Steps"].reverse(),
        lambda s: s[""]["Parameters"].reverse(),
        lambda s: s["gate"]["Arguments"]["Conditions"].reverse(),
        lambda s: s["gate"]["Arguments"]["IfSteps"].reverse(),
        lambda s: s["evaluate"].update(DependsOn=[{"Step": "train", "Trigger": "Any"}, {"Step": "prepare"}]),
        lambda s: s["train"].update(DependsOn=[], CacheConfig=None, PropertyFiles=[]),
        lambda s: s["train"].update(CacheConfig={"Enabled": False}),
        lambda s: s["prepare"]["CacheConfig"].update(ExpireAfter="30d"),
        lambda s: s["train"]["RetryPolicies"][0].update(IntervalSeconds=1, BackoffRate=2),
        lambda s: s["train"]["Arguments"].pop("EnableManagedSpotTraining"),
        lambda s: s["train"]["Arguments"].update(EnableNetworkIsolation=False, Environment={}),
        lambda s: s["train"]["Arguments"]["InputDataConfig"].reverse(),
        lambda s: s["train"]["Arguments"]["InputDataConfig"][0].pop("CompressionType"),
        lambda s: s["train"]["Arguments"]["ResourceConfig"].update(InstanceCount=1.0, KeepAlivePeriodInSeconds=None),
        lambda s: s["prepare"]["Arguments"]["ProcessingInputs"][0].update(AppManaged=False),
        lambda s: s["stop"]["Arguments"].update(Other=None),
        lambda s: s[""].pop("MlflowConfig"),
        lambda s: s["inner"]["Arguments"].pop("IfSteps"),
    ],
)
def test_equal_meaning_is_no_difference(change: Callable[[dict[str, Any]], object]) -> None:
    same = altered(change)
    assert json.dumps(same) != json.dumps(RETRAINING)
    assert differences(RETRAINING, same) == ()
    assert differences(same, RETRAINING) == ()


@pytest.mark.parametrize(
    ("change", "said", "kinds"),
    [
        (
            lambda s: s["train"]["Arguments"]["ResourceConfig"].update(InstanceType="ml.g5.xlarge"),
            ["train: instance ml.m5.xlarge -> ml.g5.xlarge"],
            ["instance"],
        ),
        (
            lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="30"),
            ["train: epochs 20 -> 30"],
            ["hyperparameter"],
        ),
        (
            lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs=20),
            ['train: epochs "20" -> 20'],
            ["hyperparameter"],
        ),
        (
            lambda s: s["train"]["Arguments"]["HyperParameters"].update(seed="7"),
            ["train: seed Seed -> 7"],
            ["hyperparameter"],
        ),
        (
            lambda s: s["prepare"]["Arguments"]["Environment"].pop("CompressionType"),
            ["prepare: environment CompressionType removed (was None)"],
            ["environment"],
        ),
        (
            lambda s: s["prepare"]["Arguments"]["AppSpecification"].update(
                ContainerArguments=["--code", "00ff", "prepare", "--rows=12", "--label", "z", "--verbose"]
            ),
            ["prepare: --rows [--rows=10] -> [--rows=12]", "prepare: --label y -> z"],
            ["argument", "argument"],
        ),
        (
            lambda s: s["prepare"]["Arguments"]["AppSpecification"].update(
                ContainerArguments=["--code", "00ff", "prepare", "--new", "1", "--rows=10", "--label", "z"]
            ),
            ["prepare: arguments --label y -> z; --verbose removed (was true); --new added: 1"],
            ["argument"],
        ),
        (
            lambda s: s["gate"]["Arguments"]["Conditions"][0].update(RightValue=0.95),
            ["gate: threshold of evaluate.accuracy.value 0.9 -> 0.95"],
            ["condition"],
        ),
        (
            lambda s: s["gate"]["Arguments"]["Conditions"].pop(1),
            ["gate: condition evaluate.loss.value < 2 removed"],
            ["condition"],
        ),
        (
            lambda s: s["evaluate"].update(DependsOn=["train"]),
            ["evaluate: no longer waits for prepare", "evaluate: waits for train (was: if any)"],
            ["edge", "edge"],
        ),
        (
            lambda s: s["register"]["Arguments"]["InferenceSpecification"]["Containers"][1].update(Image="two:2"),
            ["register: Containers 2 of 2 image two:1 -> two:2"],
            ["image"],
        ),
        (
            lambda s: s["register"]["Arguments"]["InferenceSpecification"]["Containers"].pop(0),
            ["register: Containers a list of 2 -> a list of 1"],
            ["other"],
        ),
        (
            lambda s: s["each"]["Arguments"]["IterableItems"].reverse(),
            ["each: IterableItems [a, b] -> [b, a]"],
            ["order"],
        ),
        (
            lambda s: s["each"]["Arguments"]["ForEachBody"].append({"Name": "more", "Type": "Lambda"}),
            ["each: step more added"],
            ["step"],
        ),
        (
            lambda s: s["tell"]["Arguments"].pop("Tags"),
            ["tell: Tags removed (was [])"],
            ["other"],
        ),
        (
            lambda s: s[""]["Parameters"][0].update(DefaultValue=0.95),
            ["parameter MinAccuracy: default 0.9 -> 0.95"],
            ["parameter"],
        ),
        (
            lambda s: s[""]["Parameters"].append({"Name": "New", "Type": "Integer", "DefaultValue": 3}),
            ["parameter New added (Integer, default 3)"],
            ["parameter"],
        ),
        (lambda s: s["train"].update(DisplayName="Learn"), ["train: display name Train it -> Learn"], ["text"]),
        (lambda s: s["prepare"].pop("CacheConfig"), ["prepare: cache removed"], ["cache"]),
        (
            lambda s: s["train"]["RetryPolicies"][0].update(MaxAttempts=9),
            [
                'train: retry policies [{"ExceptionType": ["Step.THROTTLING"], "MaxAttempts": 3}] -> '
                '[{"ExceptionType": ["Step.THROTTLING"], "MaxAttempts": 9}]'
            ],
            ["retry"],
        ),
        (lambda s: s["stop"].update(Type="Lambda"), ["stop: another step, Fail -> Lambda"], ["step"]),
        (
            lambda s: s["search"]["Arguments"]["HyperParameterTuningJobConfig"]["ParameterRanges"][
                "ContinuousParameterRanges"
            ][0].update(MaxValue="2"),
            ["search: HyperParameterTuningJobConfig ParameterRanges ContinuousParameterRanges lr MaxValue 1 -> 2"],
            ["hyperparameter"],
        ),
    ],
)
def test_a_change_is_one_line(change: Callable[[dict[str, Any]], object], said: list[str], kinds: list[str]) -> None:
    found = differences(RETRAINING, altered(change))
    assert (describe_all(found), [one.kind for one in found]) == (said, kinds)


def test_a_step_that_moves_is_one_change() -> None:
    def out_of_the_branch(steps: dict[str, Any]) -> None:
        steps[""]["Steps"].append(steps["gate"]["Arguments"]["IfSteps"].pop(0))

    [moved] = differences(RETRAINING, altered(out_of_the_branch))
    assert (moved.where, moved.kind, moved.step) == ("branches.register", "edge", "register")
    assert describe(moved) == "register: moved, if gate holds -> at the top level"

    def into_the_other(steps: dict[str, Any]) -> None:
        steps["gate"]["Arguments"]["ElseSteps"].append(steps["gate"]["Arguments"]["IfSteps"].pop(0))

    assert lines(into_the_other) == ["register: moved, if gate holds -> if gate does not hold"]


def test_a_renamed_step_is_gone_and_new() -> None:
    assert lines(lambda s: s["search"].update(Name="find")) == ["search removed (Tuning)", "find added (Tuning)"]


def test_a_new_step_is_said_with_its_branch() -> None:
    new = {"Name": "mail", "Type": "Lambda", "Arguments": {}}
    assert lines(lambda s: s["gate"]["Arguments"]["ElseSteps"].append(new)) == [
        "mail added (Lambda), if gate does not hold"
    ]


def test_the_same_code_in_another_place_is_no_changed_code() -> None:
    def placed(bucket: str, digest: str) -> dict[str, Any]:
        source = {"S3DataSource": {"S3Uri": f"s3://{bucket}/code/{digest}/"}}
        channel = {"ChannelName": "code", "DataSource": source}
        given = {"Name": "train", "Type": "Training", "Arguments": {"InputDataConfig": [channel]}}
        return {"Version": "2020-12-01", "Steps": [given]}

    old, moved, changed = placed("old", "a" * 64), placed("new", "a" * 64), placed("old", "b" * 64)
    (line,) = describe_all(differences(old, moved))
    assert "changed" not in line and "s3://old/code/" in line and "s3://new/code/" in line
    assert describe_all(differences(old, changed)) == ["code of train changed"]


def test_changed_code_is_one_line() -> None:
    text = json.dumps(RETRAINING).replace("00ff", "11ee")
    text = text.replace('{"ChannelName": "code", "InputMode": "File"}', '{"ChannelName": "code", "InputMode": "Pipe"}')
    found = differences(RETRAINING, json.loads(text))
    assert {change.kind for change in found} == {"code"}
    assert describe_all(found) == ["code of prepare, train changed"]


def test_lists_without_names_are_compared_entry_by_entry() -> None:
    def filtered(*rules: Any) -> Definition:
        return {"Steps": [{"Name": "t", "Type": "Training", "Arguments": {"Filters": list(rules)}}]}

    assert differences(filtered({"At": 1}, 2), filtered({"At": 1.0, "Most": None}, 2)) == ()
    [change] = differences(filtered({"At": 1}, 2), filtered({"At": 2}, 2))
    assert change.where == "steps.t.Arguments.Filters"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"Tags": []}),
        ({}, {"CompressionType": "None"}),
        ({"ExpireAfter": "P1D"}, {"ExpireAfter": "24h"}),
        ({"RetryPolicies": [{"MaxAttempts": 5}]}, {"RetryPolicies": [{}]}),
        ({"deep": [[{"a": 1}]]}, {"deep": [[{"a": 1, "b": None}]]}),
    ],
)
def test_arguments_of_foreign_programs_are_compared_literally(old: Any, new: Any) -> None:
    def told(payload: Any) -> Definition:
        return {"Steps": [{"Name": "tell", "Type": "Lambda", "Arguments": payload}]}

    for before, after in ((old, new), (new, old)):
        [change] = differences(told(before), told(after))
        assert change.where == f"steps.tell.Arguments.{next(iter(new))}"


def test_another_step_of_the_same_name_in_a_body_is_one_change() -> None:
    def body(kind: str, **arguments: Any) -> Definition:
        inner = {"Name": "one", "Type": kind, "Arguments": arguments}
        return {"Steps": [{"Name": "each", "Type": "ForEach", "Arguments": {"ForEachBody": [inner]}}]}

    [change] = differences(body("Lambda", a=1), body("Callback", a=2))
    assert (change.where, change.kind) == ("steps.each.Arguments.ForEachBody.one", "step")


def test_removed_parts_are_reported_at_their_place() -> None:
    def steps(*names: str, given: str) -> Definition:
        return {"Steps": [{"Name": name, "Type": "Fail", "Arguments": {"ErrorMessage": given}} for name in names]}

    found = differences(steps("a", "b", "c", "d", given="x"), steps("a", "new", "c", given="y"))
    assert [change.step for change in found] == ["a", "b", "new", "c", "d"]


def test_steps_of_one_name_in_two_branches_are_one_value() -> None:
    def twice(message: str) -> Definition:
        inner = {"Name": "a", "Type": "Fail", "Arguments": {"ErrorMessage": message}}
        gate = {"Name": "gate", "Type": "Condition", "Arguments": {"Conditions": [], "IfSteps": [inner]}}
        return {"Steps": [{"Name": "a", "Type": "Fail"}, gate]}

    [change] = differences(twice("x"), twice("y"))
    assert change.where == "definition.Steps"


def test_steps_without_names_of_their_own_are_one_value() -> None:
    twice = {**RETRAINING, "Steps": [*RETRAINING["Steps"], RETRAINING["Steps"][0]]}
    [change] = differences(RETRAINING, twice)
    assert (change.where, change.kind) == ("definition.Steps", "step")
    assert differences(edited(RETRAINING, [change]), twice) == ()


def test_unchanged_parts_keep_their_text() -> None:
    [change] = differences(
        RETRAINING, altered(lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="30"))
    )
    made = edited(RETRAINING, [change])
    assert text_of(made) == text_of(RETRAINING).replace('"epochs": "20"', '"epochs": "30"')
    assert made["Steps"][0] is RETRAINING["Steps"][0]


def test_a_thousand_steps_are_compared_in_linear_time() -> None:
    from time import process_time

    def cost(count: int) -> float:
        steps = [{**RETRAINING["Steps"][1], "Name": f"s{n}"} for n in range(count)]
        old = {"Steps": steps}
        new = json.loads(json.dumps(old).replace('"20"', '"30"'))
        start = process_time()
        assert len(differences(old, new)) == count
        return process_time() - start

    cost(50)
    assert cost(1000) < 40 * min(cost(100) for _ in range(3))


def test_text_that_holds_json_is_said_by_what_differs_in_it() -> None:
    def card(epochs: str) -> Definition:
        listed = [{"name": "seed", "value": "7"}, {"name": "epochs", "value": epochs}]
        content = json.dumps({"training_details": {"hyper_parameters": listed}, "intended_uses": "x" * 80})
        arguments = {"ModelCard": {"ModelCardContent": content}}
        return {"Steps": [{"Name": "register", "Type": "RegisterModel", "Arguments": arguments}]}

    assert describe_all(differences(card("20"), card("30"))) == ["register: model card epochs 20 -> 30"]


def test_a_name_cannot_break_its_line() -> None:
    old = {"Steps": [{"Name": "a\nb", "Type": "Fail", "Arguments": {"\x1b[2J": 1}}]}
    new = {"Steps": [{"Name": "a\nb", "Type": "Fail", "Arguments": {"\x1b[2J": 2}}]}
    assert describe_all(differences(old, new)) == ['a\\nb: "\\u001b[2J" 1 -> 2']
