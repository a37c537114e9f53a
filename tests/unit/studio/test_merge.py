"""The three-way merge: nothing is lost, nothing is guessed, and what nobody touched stays as it is written."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import parse, text_of
from drivetrain.studio.merge import merge
from drivetrain.targets.sagemaker.document.difference.change_words import describe_all
from drivetrain.targets.sagemaker.document.difference.difference import ABSENT, Change, differences
from tests.fixtures.changed_definitions import BASES, RETRAINING, altered, versions

Definition = dict[str, Any]
Edit = Callable[[dict[str, Any]], object]

# Each touches something that no other one touches.
EDITS: list[Edit] = [
    lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="30"),
    lambda s: s["train"]["Arguments"]["HyperParameters"].pop("learning_rate"),
    lambda s: s["train"]["Arguments"]["HyperParameters"].update(new="x"),
    lambda s: s["train"]["Arguments"]["ResourceConfig"].update(InstanceType="ml.g5.xlarge"),
    lambda s: s["train"]["Arguments"]["ResourceConfig"].update(InstanceCount=2),
    lambda s: s["train"]["Arguments"].update(EnableManagedSpotTraining=True),
    lambda s: s["train"]["Arguments"].setdefault("Environment", {}).update(ONE="1"),
    lambda s: s["train"]["Arguments"].setdefault("Environment", {}).update(TWO="2"),
    lambda s: s["train"]["Arguments"]["Tags"].clear(),
    lambda s: s["train"]["Arguments"]["InputDataConfig"].append({"ChannelName": "more"}),
    lambda s: s["train"]["Arguments"]["InputDataConfig"][0].update(InputMode="FastFile"),
    lambda s: s["train"].setdefault("DependsOn", []).append("prepare"),
    lambda s: s["train"].setdefault("DependsOn", []).append({"Step": "each", "Trigger": "Any"}),
    lambda s: s["train"]["RetryPolicies"][0].update(MaxAttempts=9),
    lambda s: s["train"].update(DisplayName="Learn"),
    lambda s: s["evaluate"]["DependsOn"].pop(0),
    lambda s: s["evaluate"]["PropertyFiles"][0].update(FilePath="other.json"),
    lambda s: s["prepare"]["Arguments"]["AppSpecification"]["ContainerArguments"].__setitem__(5, "z"),
    lambda s: s["prepare"]["Arguments"]["AppSpecification"]["ContainerArguments"].__setitem__(3, "--rows=99"),
    lambda s: s["prepare"].pop("CacheConfig"),
    lambda s: s["gate"]["Arguments"]["Conditions"][0].update(RightValue=0.99),
    lambda s: s["gate"]["Arguments"]["Conditions"][1].update(RightValue=3),
    lambda s: s["gate"]["Arguments"]["IfSteps"].append({"Name": "mail", "Type": "Lambda"}),
    lambda s: s["register"]["Arguments"].update(ModelPackageGroupName="other"),
    lambda s: s["stop"]["Arguments"].update(ErrorMessage="far too low"),
    lambda s: s["each"]["Arguments"]["ForEachBody"].append({"Name": "more", "Type": "Lambda"}),
    lambda s: s["each"]["Arguments"]["ForEachBody"][0].update(Unheard={"of": [1.0, "é"]}),
    lambda s: s[""]["Steps"].append({"Name": "extra", "Type": "Quantum2031", "Arguments": {"x": [1.50, None]}}),
    lambda s: s[""]["Steps"].remove(s["search"]),
    lambda s: s[""]["Parameters"][0].update(DefaultValue=0.95),
    lambda s: s[""]["Parameters"].append({"Name": "New", "Type": "Integer"}),
    lambda s: s[""]["Parameters"].remove(s[""]["Parameters"][1]),
    lambda s: s[""].update(Unheard={"b": 1, "a": 2}),
    lambda s: s[""]["Metadata"].update(owner="somebody"),
]


def chosen(numbers: list[int]) -> Definition:
    def change(steps: dict[str, Any]) -> None:
        for number in numbers:
            EDITS[number](steps)

    return altered(change)


@pytest.mark.slow
@given(st.permutations(range(len(EDITS))), st.data())
@settings(deadline=None, max_examples=80)
def test_independent_edits_are_all_kept(order: list[int], data: st.DataObject) -> None:
    first, second = sorted((data.draw(st.integers(0, len(order))), data.draw(st.integers(0, len(order)))))
    in_code, in_studio, in_both = sorted(order[:first]), sorted(order[first:second]), sorted(order[second:][:3])
    code, deployed = chosen(sorted(in_code + in_both)), chosen(sorted(in_studio + in_both))
    merged = merge(RETRAINING, code, deployed)
    assert merged.conflicts == ()
    assert differences(merged.definition, chosen(sorted(in_code + in_studio + in_both))) == ()
    assert len(differences(code, merged.definition)) == len(merged.edits)


@pytest.mark.slow
@given(versions(2))
@settings(deadline=None, max_examples=70)
def test_code_that_has_not_changed_takes_every_edit(two: tuple[Definition, Definition]) -> None:
    applied, deployed = two
    merged = merge(applied, copy.deepcopy(applied), deployed)
    assert merged.conflicts == ()
    assert differences(merged.definition, deployed) == ()


def test_a_condition_may_lose_all_its_terms() -> None:
    def gate(**fields: Any) -> Definition:
        return {"Steps": [{"Name": "Gate", "Type": "Condition", **fields}]}

    applied = gate(Arguments={"Conditions": [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}]})
    for deployed in (gate(), gate(Arguments={})):
        merged = merge(applied, copy.deepcopy(applied), deployed)
        assert merged.conflicts == () and differences(merged.definition, deployed) == ()


def test_an_object_where_the_service_reads_a_list_is_replaced_as_a_whole() -> None:
    def evaluate(inputs: Any) -> Definition:
        return {"Steps": [{"Name": "Evaluate", "Type": "Processing", "Arguments": {"ProcessingInputs": inputs}}]}

    listed = [{"InputName": "code"}]
    for applied, deployed in [({"Name": "a"}, {"Version": "b"}), (listed, {"Version": "b"}), ({"Name": "a"}, listed)]:
        merged = merge(evaluate(applied), evaluate(applied), evaluate(deployed))
        assert merged.conflicts == () and merged.definition == evaluate(deployed)
        assert [edit.where for edit in merged.edits] == ["steps.Evaluate.Arguments.ProcessingInputs"]


@given(versions(2))
@settings(deadline=None, max_examples=60)
def test_without_edits_the_code_stays_to_the_byte(two: tuple[Definition, Definition]) -> None:
    applied, code = two
    for deployed in (copy.deepcopy(applied), None):
        merged = merge(applied, code, deployed)
        assert (merged.edits, merged.conflicts) == ((), ())
        assert text_of(merged.definition) == text_of(code)


@given(versions(3))
@settings(deadline=None, max_examples=70)
def test_merging_any_three_versions_is_idempotent(three: tuple[Definition, Definition, Definition]) -> None:
    before = json.dumps(three)
    applied, code, deployed = three
    merged = merge(applied, code, deployed)
    again = merge(applied, merged.definition, deployed)
    assert again.edits == ()
    assert {conflict.place for conflict in again.conflicts} == {conflict.place for conflict in merged.conflicts}
    assert json.dumps(three) == before
    own, theirs = differences(code, merged.definition), differences(applied, deployed)
    assert len(own) <= len(theirs)
    assert not merged.conflicts or differences(applied, code)
    assert len({conflict.where for conflict in merged.conflicts}) == len(merged.conflicts)


@given(versions(3), st.data())
@settings(deadline=None, max_examples=50)
def test_conflicts_are_settled_by_choosing(
    three: tuple[Definition, Definition, Definition], data: st.DataObject
) -> None:
    applied, code, deployed = three
    conflicts = merge(applied, code, deployed).conflicts
    sides = {conflict.where: data.draw(st.sampled_from(["code", "studio"])) for conflict in conflicts}
    merged = merge(applied, code, deployed, sides)
    # What would leave a step without its condition is not taken, whoever wants it.
    assert all(conflict.why for conflict in merged.conflicts)
    of_studio = {conflict.place for conflict in conflicts if sides[conflict.where] == "studio" and not conflict.why}
    left = {change.place for change in differences(merged.definition, deployed)}
    assert not (of_studio & left) or merged.conflicts


@pytest.mark.parametrize(
    ("code", "studio", "said"),
    [
        (
            lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="40"),
            lambda s: s["train"]["Arguments"]["HyperParameters"].update(epochs="30"),
            "steps.train.Arguments.HyperParameters.epochs: was 20, the code has 40, Studio has 30",
        ),
        (
            lambda s: s[""]["Steps"].remove(s["search"]),
            lambda s: s["search"]["Arguments"].update(Tags=[{"Key": "a"}]),
            "steps.search: was {Name, Type, Arguments}, the code has nothing, Studio has {Name, Type, Arguments}",
        ),
        (
            lambda s: s["search"]["Arguments"].update(Tags=[{"Key": "a"}]),
            lambda s: s[""]["Steps"].remove(s["search"]),
            "steps.search: at steps.search.Arguments.Tags.a was nothing, the code has {Key}; Studio has nothing",
        ),
        (
            lambda s: s["prepare"]["Arguments"].pop("ProcessingOutputConfig"),
            lambda s: s["prepare"]["Arguments"]["ProcessingOutputConfig"]["Outputs"].pop(),
            "steps.prepare.Arguments.ProcessingOutputConfig: was {Outputs}, the code has nothing, Studio has {Outputs}",
        ),
        (
            lambda s: s["gate"]["Arguments"]["ElseSteps"].append({"Name": "mail", "Type": "Lambda"}),
            lambda s: s[""]["Steps"].remove(s["gate"]),
            "steps.gate: step mail stands in a branch of gate, which is then no condition",
        ),
        (
            lambda s: s[""]["Steps"].append(s["gate"]["Arguments"]["IfSteps"].pop(0)),
            lambda s: s["gate"]["Arguments"]["IfSteps"].pop(0),
            "steps.register: the code moved it, or changed what is around it; Studio has nothing",
        ),
        (
            lambda s: s["register"]["Arguments"]["InferenceSpecification"]["Containers"].reverse(),
            lambda s: s["register"]["Arguments"]["InferenceSpecification"]["Containers"][0].update(
                Environment={"a": "1"}
            ),
            "steps.register.Arguments.InferenceSpecification.Containers[1 of 2].Environment.a: the code moved it",
        ),
        (
            lambda s: s["prepare"]["Arguments"]["AppSpecification"]["ContainerArguments"].append("--verbose"),
            lambda s: s["prepare"]["Arguments"]["AppSpecification"]["ContainerArguments"].__setitem__(5, "z"),
            "steps.prepare.Arguments.AppSpecification.ContainerArguments: was",
        ),
    ],
)
def test_conflicts_are_listed_and_the_code_wins(code: Edit, studio: Edit, said: str) -> None:
    ours, deployed = altered(code), altered(studio)
    merged = merge(RETRAINING, ours, deployed)
    assert any(str(conflict).startswith(said) for conflict in merged.conflicts)
    assert text_of(merged.definition) == text_of(ours)
    as_code = merge(RETRAINING, ours, deployed, {conflict.where: "code" for conflict in merged.conflicts})
    assert (as_code.conflicts, as_code.edits) == ((), ())


def test_two_moves_into_each_other_are_conflicts() -> None:
    two = {
        "Steps": [
            {"Name": name, "Type": "Condition", "Arguments": {"Conditions": [], "IfSteps": [], "ElseSteps": []}}
            for name in ("a", "b")
        ]
    }
    two["Steps"][0]["Arguments"]["IfSteps"].append({"Name": "below", "Type": "Fail"})

    def moved(inner: int) -> Definition:
        made = copy.deepcopy(two)
        step = made["Steps"].pop(inner)
        made["Steps"][0]["Arguments"]["IfSteps"].append(step)
        return made

    merged = merge(two, moved(0), moved(1))
    assert merged.definition == moved(0)
    assert [str(conflict) for conflict in merged.conflicts] == [
        "branches.b: steps a, b then stand in each other's branches"
    ]


def test_a_step_that_the_code_took_out_comes_back_with_its_branch() -> None:
    code = altered(lambda s: s["gate"]["Arguments"]["IfSteps"].pop(0))
    deployed = altered(lambda s: s["register"]["Arguments"].update(ModelPackageGroupName="other"))
    merged = merge(RETRAINING, code, deployed, {"steps.register": "studio"})
    assert merged.conflicts == ()
    assert differences(merged.definition, deployed) == ()
    assert describe_all(merged.edits) == ["register added (RegisterModel), if gate holds"]


@pytest.mark.parametrize(
    ("take", "epochs", "spot"),
    [
        ({"steps.train.Arguments": "studio"}, "40", True),
        ({"all": "studio"}, "40", True),
        ({"steps": "studio", "steps.train.Arguments.HyperParameters": "code"}, "30", True),
        ({"steps.train": "code"}, "30", False),
    ],
)
def test_a_choice_may_be_a_prefix_of_places(take: dict[str, Any], epochs: str, spot: bool) -> None:
    def change(epochs: str, spot: bool) -> Definition:
        def edit(s: dict[str, Any]) -> None:
            s["train"]["Arguments"]["HyperParameters"].update(epochs=epochs)
            s["train"]["Arguments"].update(EnableManagedSpotTraining=spot)

        return altered(edit)

    code, studio = altered(EDITS[0]), change("40", True)
    assert merge(RETRAINING, code, studio).conflicts
    merged = merge(RETRAINING, code, studio, take)
    train = next(step for step in merged.definition["Steps"] if step["Name"] == "train")["Arguments"]
    assert not merged.conflicts
    assert (train["HyperParameters"]["epochs"], train.get("EnableManagedSpotTraining", False)) == (epochs, spot)
    with pytest.raises(UserError, match=r"'steps\.trai' is not in conflict"):
        merge(RETRAINING, code, studio, {"steps.trai": "studio"})


def test_only_conflicts_can_be_chosen() -> None:
    with pytest.raises(UserError, match=r"'steps.train' is not in conflict\. None is declared\."):
        merge(RETRAINING, RETRAINING, RETRAINING, {"steps.train": "code"})


def test_the_same_edit_on_both_sides_is_no_conflict() -> None:
    both = altered(EDITS[0])
    assert merge(RETRAINING, both, copy.deepcopy(both)).definition == both


def test_untouched_parts_are_not_rewritten() -> None:
    """Floats, large numbers, text beyond ASCII and the order of keys come out as they came in."""
    text = """{
 "Version": "2020-12-01",
 "Zeta": {"z": 1.0, "a": 1E5, "big": 123456789012345678901234567890, "é": "\\ud800 ☃"},
 "Steps": [
  {"Type": "Quantum2031", "Name": "q", "Odd": [1.50, -0.0, 1e-7], "Arguments": {"b": 0.10, "a": [2.0]}},
  {"Name": "t", "Type": "Training", "Arguments": {"HyperParameters": {"epochs": "1"}, "Later": {"x": 3.00}}}
 ]
}"""
    code = parse(text, "code")
    deployed = parse(text.replace('"epochs": "1"', '"epochs": "2"'), "deployed")
    assert isinstance(code, dict) and isinstance(deployed, dict)
    merged = merge(code, code, deployed)
    assert len(merged.edits) == 1
    assert text_of(merged.definition) == text_of(deployed)


def test_conflicts_as_json() -> None:
    code, studio = (
        altered(lambda s: s["train"].update(DisplayName="A")),
        altered(lambda s: s["train"].pop("DisplayName")),
    )
    [conflict] = merge(RETRAINING, code, studio).conflicts
    assert conflict.deployed is ABSENT
    assert conflict.to_json() == {"place": "steps.train.DisplayName", "applied": "Train it", "code": "A"}


@pytest.mark.parametrize("name", sorted(BASES))
def test_a_first_deployment_has_nothing_to_merge(name: str) -> None:
    assert merge(None, BASES[name], None).definition == BASES[name]
    assert merge(None, BASES[name], BASES[name]).conflicts == ()


def test_entries_of_an_object_do_not_land_in_a_list() -> None:
    def version(value: Any) -> Definition:
        return altered(lambda s: s["train"]["Arguments"].update(Odd=value))

    merged = merge(version({"x": 1}), version([]), version({"x": 1, "a": "b", "c": 2}))
    assert {conflict.where for conflict in merged.conflicts} == {"steps.train.Arguments.Odd"}
    assert merged.definition == version([])


def test_every_listed_conflict_may_be_chosen() -> None:
    def edited(steps: dict[str, Any]) -> None:
        steps["gate"]["DisplayName"] = "Good enough?"
        steps["gate"]["Arguments"]["IfSteps"].append({"Name": "mail", "Type": "Lambda", "Arguments": {}})

    code = altered(lambda s: s[""]["Steps"].remove(s["gate"]))
    deployed = altered(edited)
    listed = [conflict.where for conflict in merge(RETRAINING, code, deployed).conflicts]
    assert "steps.gate" in listed and any("mail" in where for where in listed)
    taken = merge(RETRAINING, code, deployed, dict.fromkeys(listed, "studio"))
    assert taken.conflicts == ()
    assert {"steps.gate", "steps.mail"} <= {edit.where for edit in taken.edits}
    kept = merge(RETRAINING, code, deployed, dict.fromkeys(listed, "code"))
    assert (kept.edits, kept.conflicts) == ((), ())


def without(name: str) -> Edit:
    """The code without a step; what was in its branches goes with it."""
    if name == "register":
        return lambda s: s["gate"]["Arguments"]["IfSteps"].remove(s[name])
    return lambda s: s[""]["Steps"].remove(s[name])


def moved(name: str, to: str) -> Edit:
    """A step of the gate, or of none, moved to a branch of the gate, or out of it."""

    def change(steps: dict[str, Any]) -> None:
        without(name)(steps)
        (steps[""]["Steps"] if to == "out" else steps["gate"]["Arguments"][to]).append(steps[name])

    return change


@pytest.mark.parametrize(
    ("gone", "edited", "at", "back"),
    [
        ("gate", lambda s: s["register"].update(DisplayName="R"), "steps.register", ["gate", "register"]),
        ("gate", lambda s: s["tell"].update(DisplayName="T"), "steps.tell", ["gate", "inner", "tell"]),
        ("gate", moved("search", "IfSteps"), "branches.search", ["gate"]),
        ("gate", moved("register", "out"), "steps.register", ["register"]),
        ("register", moved("register", "out"), "steps.register", ["register"]),
        ("register", moved("register", "ElseSteps"), "steps.register", ["register"]),
        ("search", moved("search", "IfSteps"), "steps.search", ["search"]),
    ],
)
def test_an_edit_of_a_removed_part_is_a_conflict_with_two_choices(
    gone: str, edited: Edit, at: str, back: list[str]
) -> None:
    code, deployed = altered(without(gone)), altered(edited)
    [conflict] = merge(RETRAINING, code, deployed).conflicts
    assert conflict.where == at
    kept = merge(RETRAINING, code, deployed, {at: "code"})
    assert (kept.edits, kept.conflicts, kept.definition) == ((), (), code)
    taken = merge(RETRAINING, code, deployed, {at: "studio"})
    assert taken.conflicts == ()
    assert sorted({change.step for change in differences(code, taken.definition) if change.place[0] == "steps"}) == back
    # It stands where Studio has it, and its condition asks what it asked.
    left = {change.step for change in differences(taken.definition, deployed)}
    assert left.isdisjoint({*back, str(conflict.place[1])})


def test_the_condition_above_a_step_that_comes_back_can_still_be_refused() -> None:
    def edited(steps: dict[str, Any]) -> None:
        steps["gate"]["DisplayName"] = "Good enough?"
        steps["register"]["DisplayName"] = "R"

    given = (RETRAINING, altered(without("gate")), altered(edited))
    merged = merge(*given, {"steps.gate": "code", "steps.register": "studio"})
    assert merged.edits == () and {c.where for c in merged.conflicts} == {"steps.register", "branches.register"}
    assert all("stands in a branch of gate" in conflict.why for conflict in merged.conflicts)


def test_an_edit_quotes_the_value_of_the_code() -> None:
    def edited(steps: dict[str, Any]) -> None:
        steps["train"]["Arguments"]["EnableManagedSpotTraining"] = True

    code = altered(lambda s: s["train"]["Arguments"].pop("EnableManagedSpotTraining"))
    [edit] = merge(RETRAINING, code, altered(edited)).edits
    assert (edit.old, edit.new) == (ABSENT, True)


MAIL = {"Name": "mail", "Type": "Lambda", "Arguments": {}}


def mail(to: str) -> Definition:
    def added(steps: dict[str, Any]) -> None:
        (steps[""]["Steps"] if to == "out" else steps["gate"]["Arguments"][to]).append(MAIL)

    return altered(added)


@pytest.mark.parametrize("to", ["out", "IfSteps", "ElseSteps"])
def test_the_branch_of_a_step_that_is_left_out_goes_with_it(to: str) -> None:
    merged = merge(RETRAINING, RETRAINING, mail(to), {"steps.mail": "code"})
    assert (merged.edits, merged.conflicts, merged.definition) == ((), (), RETRAINING)


@pytest.mark.parametrize(("code", "studio"), [("out", "IfSteps"), ("IfSteps", "out"), ("IfSteps", "ElseSteps")])
def test_a_step_that_both_added_in_different_branches_is_a_conflict(code: str, studio: str) -> None:
    given = (RETRAINING, mail(code), mail(studio))
    merged = merge(*given)
    assert [conflict.where for conflict in merged.conflicts] == ["branches.mail"] and merged.edits == ()
    assert merge(*given, {"branches.mail": "code"}).definition == mail(code)
    taken = merge(*given, {"branches.mail": "studio"})
    assert taken.conflicts == () and differences(taken.definition, mail(studio)) == ()
    both = merge(RETRAINING, mail(studio), mail(studio))
    assert (both.edits, both.conflicts) == ((), ())


def test_the_content_of_a_step_is_chosen_without_its_branch() -> None:
    def made(to: str, size: int) -> Definition:
        def added(steps: dict[str, Any]) -> None:
            (steps[""]["Steps"] if to == "out" else steps["gate"]["Arguments"][to]).append(MAIL | {"Size": size})

        return altered(added)

    taken = merge(RETRAINING, made("out", 1), made("IfSteps", 2), {"steps.mail": "studio"})
    assert [conflict.where for conflict in taken.conflicts] == ["branches.mail"]
    assert taken.definition == made("out", 2)


@pytest.mark.parametrize(("field", "edit"), [("Steps", EDITS[0]), ("Parameters", EDITS[29])])
def test_a_list_without_names_conflicts_as_a_whole(field: str, edit: Edit) -> None:
    code, deployed = altered(lambda s: s[""][field].append(s[""][field][0])), altered(edit)
    [conflict] = merge(RETRAINING, code, deployed).conflicts
    assert conflict.where == f"definition.{field}"
    taken = merge(RETRAINING, code, deployed, {conflict.where: "studio"})
    assert taken.definition[field] == deployed[field] and taken.conflicts == ()


def test_already_seen_changes_are_no_edits() -> None:
    """It was pulled, and the code has been written since without it: only what Studio changed after that is new."""
    pulled = altered(EDITS[0])
    seen = differences(RETRAINING, pulled)
    assert merge(RETRAINING, RETRAINING, pulled, seen=seen).edits == ()

    def both(steps: dict[str, Any]) -> None:
        EDITS[0](steps)
        EDITS[3](steps)

    [edit] = merge(RETRAINING, RETRAINING, altered(both), seen=seen).edits
    assert edit.where == "steps.train.Arguments.ResourceConfig.InstanceType"


def test_without_an_applied_version_seen_changes_have_no_effect() -> None:
    code, deployed = altered(EDITS[0]), altered(EDITS[3])
    seen = [Change(("steps", "none", "DisplayName"), ABSENT, "x")]
    assert merge(RETRAINING, code, deployed, seen=seen) == merge(RETRAINING, code, deployed)
