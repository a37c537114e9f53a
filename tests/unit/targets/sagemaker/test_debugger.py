"""What `options.debugger` becomes: the service's own rules, whose arguments the compiler holds against its shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Debugger, Deployment, Pipeline, SpecError, TrainingOptions, step
from drivetrain.catalog.debugger_rules import OURS_ALONE, SERVICE_RULES, ServiceRule, rules_image
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.sagemaker.document.service import service
from drivetrain.training import plugins
from drivetrain.training.health.rule import FAMILY, load_rules

IMAGE = "929884845733.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-debugger-rules:latest"
PAGE = Path(__file__).parents[4] / "docs/health.md"
FIELDS = ("DebugHookConfig", "DebugRuleConfigurations", "ProfilerConfig", "ProfilerRuleConfigurations")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('trained')\n")
    return tmp_path


def compiled(one: Any, source: Path | None = None, region: str = "eu-west-1") -> Compiled:
    place = {"region": region, "bucket": "own"}
    pipeline = Pipeline(name="p", steps=[one], deployment=Deployment(targets={"sagemaker": place}))
    again = Pipeline.model_validate_json(pipeline.model_dump_json())
    assert again == pipeline, "the spec comes back from JSON as it was"
    return compile_pipeline(pipeline, source)


def of_script(source: Path, debugger: Debugger | None) -> Any:
    options = TrainingOptions(debugger=debugger)
    return step(train_script, name="fit", train="s3://b/x/", source=str(source), script="train.py", options=options)


def of_ours(debugger: Debugger, **parameters: Any) -> Any:
    options = TrainingOptions(debugger=debugger)
    given = {"recipe": "digits_cnn", "strategy": "ddp", "epochs": 1, **parameters}
    return step(train, name="fit", train="s3://b/x/", validation="s3://b/y/", options=options, **given)


def arguments(found: Compiled) -> dict[str, Any]:
    return found.definition["Steps"][0]["Arguments"]


def invoked(rules: list[dict[str, Any]]) -> dict[str, str]:
    return {rule["RuleConfigurationName"]: rule["RuleParameters"]["rule_to_invoke"] for rule in rules}


def test_a_job_without_it_says_nothing_of_it(source: Path) -> None:
    assert not set(FIELDS) & set(arguments(compiled(of_script(source, None), source)))


def test_a_script_gets_every_rule_that_the_service_has(source: Path) -> None:
    found = compiled(of_script(source, Debugger(save_every=50)), source)
    said = arguments(found)
    rules = [*said["DebugRuleConfigurations"], *said["ProfilerRuleConfigurations"]]
    assert invoked(rules) == {name: rule.name for name, rule in SERVICE_RULES.items()}
    assert {rule["RuleEvaluatorImage"] for rule in rules} == {IMAGE}
    assert set(invoked(said["ProfilerRuleConfigurations"])) == {
        *("idle_accelerator", "memory_growth", "slow_input", "straggler_rank")
    }
    # Without the execution's id: the place is part of the key by which the service finds earlier results.
    assert said["DebugHookConfig"]["S3OutputPath"] == "s3://own/pipelines/p/steps/fit/debugger"
    saved = {
        one["CollectionName"]: one["CollectionParameters"]
        for one in said["DebugHookConfig"]["CollectionConfigurations"]
    }
    assert saved["gradients"] == {"save_interval": "50"}
    assert saved["relu_output"] == {"save_interval": "50", "include_regex": ".*relu_output"}
    [note] = [note for note in found.notes if "Health rules" in note]
    assert "Health rules that it does not get here: checkpoint_stalls, communication_share, learning_rate." in note
    assert "2026-07-30" in note and "2027-06-30" in note


def test_the_service_knows_each_of_the_fields() -> None:
    """The compiler refuses a field that the service's model does not have."""
    members = service()["shapes"]["CreateTrainingJobRequest"]["members"]
    assert set(FIELDS) <= set(members)
    most = service()["shapes"]["DebugRuleConfigurations"]["max"]
    assert sum(not rule.of_machines for rule in SERVICE_RULES.values()) <= most


def test_rules_that_are_named_alone_and_collections_of_ones_own(source: Path) -> None:
    collections = {"labels": {"include_regex": ".*target.*"}, "mine": {"save_interval": "7"}}
    debugger = Debugger(rules=("class_imbalance", "nan_or_inf"), collections=collections)
    said = arguments(compiled(of_script(source, debugger), source))
    assert invoked(said["DebugRuleConfigurations"]) == {
        "class_imbalance": "ClassImbalance",
        "nan_or_inf": "ExplodingTensor",
    }
    assert said["DebugRuleConfigurations"][1]["RuleParameters"]["collection_names"] == "losses,gradients"
    assert said["DebugHookConfig"]["CollectionConfigurations"] == [
        {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "500"}},
        {"CollectionName": "labels", "CollectionParameters": {"save_interval": "500", "include_regex": ".*target.*"}},
        {"CollectionName": "losses", "CollectionParameters": {"save_interval": "500"}},
        {"CollectionName": "mine", "CollectionParameters": {"save_interval": "7"}},
    ]
    assert "ProfilerConfig" not in said


def test_our_own_training_gets_the_rules_of_machines_that_are_on() -> None:
    off = json.dumps({"straggler_rank": "off", "overfitting": {"action": "stop"}})
    found = compiled(of_ours(Debugger(), health_rules=off))
    said = arguments(found)
    assert "DebugHookConfig" not in said and "DebugRuleConfigurations" not in said
    assert set(invoked(said["ProfilerRuleConfigurations"])) == {"idle_accelerator", "memory_growth", "slow_input"}
    assert said["ProfilerConfig"]["S3OutputPath"] == "s3://own/pipelines/p/steps/fit/debugger"
    assert "overfitting" in found.notes[-1] and "slow_input" not in found.notes[-1]


@pytest.mark.parametrize(
    ("rules", "region", "says"),
    [
        (("learning_rate",), "eu-west-1", "the service has no rule that means 'learning_rate'"),
        (("overfiting",), "eu-west-1", "there is no health rule 'overfiting'. Did you mean 'overfitting'?"),
        (("overfitting",), "eu-west-1", "'overfitting' needs a hook of smdebug in the script"),
        (("slow_input", "slow_input"), "eu-west-1", "has 'slow_input' twice"),
        ((), "ap-southeast-7", "no image of Debugger's rules is documented for region 'ap-southeast-7'"),
    ],
)
def test_rules_unknown_to_the_service_are_refused(rules: tuple[str, ...], region: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        compiled(of_ours(Debugger(rules=rules)), region=region)
    assert "step 'fit': options.debugger" in str(caught.value) and says in str(caught.value)


def test_every_health_rule_is_the_services_or_ours_alone() -> None:
    of_scripts = [rule.name for rule in load_rules("{}")]
    assert sorted([*SERVICE_RULES, *OURS_ALONE]) == of_scripts != plugins.names(FAMILY), (
        "tables have rules of their own"
    )


def test_the_page_has_the_table() -> None:
    rows = [
        f"| `{name}` | `{rule.name}` | {looks_at(rule)} | {rule.note} |" if rule else f"| `{name}` | none | | |"
        for name, rule in ((name, SERVICE_RULES.get(name)) for name in sorted([*SERVICE_RULES, *OURS_ALONE]))
    ]
    table = PAGE.read_text(encoding="utf-8").split("<!-- the service's rules -->\n")[1].split("<!-- end of")[0]
    assert table.splitlines()[2:] == rows


def looks_at(rule: ServiceRule) -> str:
    return "machines" if rule.of_machines else ", ".join(f"`{name}`" for name in rule.collections)


def test_regions_of_china_have_a_registry_of_their_own() -> None:
    assert rules_image("cn-north-1") == (
        "618459771430.dkr.ecr.cn-north-1.amazonaws.com.cn/sagemaker-debugger-rules:latest"
    )
