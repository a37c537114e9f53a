"""One test a rule about what a training is told beside its strategy."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Cluster, Parameter, Pipeline, SpecError, between, one_of, step, tune
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.components.train_table import train_table
from drivetrain.rules import training_rules
from drivetrain.training_scripts.recipes import huggingface


def refusal(*parameters: Parameter, **given: Any) -> str:
    with pytest.raises(SpecError) as caught:
        Pipeline(name="p", steps=[step(train, train="s3://b/k/", **given)], parameters=parameters)
    return str(caught.value)


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in training_rules.rule} <= tests


def trained(health_rules: Any) -> Pipeline:
    given = health_rules if isinstance(health_rules, str) else json.dumps(health_rules)
    return Pipeline(name="p", steps=[step(train, train="s3://b/train/", health_rules=given)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"overfiting": "off"}, "step 'train': health_rules: no rule 'overfiting'. Did you mean 'overfitting'?"),
        ({"overfitting": {"action": "halt"}}, "'overfitting' has no action 'halt'."),
        ({"overfitting": {"shares": 0.3}}, "no option of 'overfitting' 'shares'. Did you mean 'share'?"),
        ({"overfitting": "of"}, '\'overfitting\' is "of". Allowed: "off", or an object'),
        ("{", "are not JSON"),
    ],
)
def test_rule_health_rules_are_told_what_they_take(given: Any, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        trained(health_rules=given)
    assert said in str(refused.value)


def test_valid_health_rules_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(health_rules={"overfitting": {"action": "stop", "share": 0.3}, "slow_input": "off", "mine": {"most": 2}})
    (tmp_path / "overfiting.py").touch()
    monkeypatch.chdir(tmp_path)
    trained(health_rules={"overfiting": {}})  # a module of the user's own


def test_rule_checkpoint_every_is_known() -> None:
    said = "step 'train': checkpoint_every='ten'; allowed are auto, epoch, or"
    assert said in refusal(checkpoint_every="ten")
    every = Parameter.string("Every", "90s", choices=("90s", "ten"))
    said = "step 'train' (with Every='ten'): checkpoint_every='ten'; allowed are auto, epoch, or"
    assert said in refusal(every, checkpoint_every=every)


@pytest.mark.parametrize(("text", "longer"), [("90s", True), ("0.01h", False), ("9steps", False), ("epoch", True)])
def test_the_text_form_says_whether_saves_may_be_further_apart(text: str, longer: bool) -> None:
    assert training_rules.is_longer(text, 60) is longer


def test_a_bare_true_is_no_spot() -> None:
    with pytest.raises(ValueError, match="Cluster") as caught:
        Cluster(spot=True)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cluster.spot is True: say how long the job may take with waiting, spot=Spot(max_wait_seconds=...); None is "
        "on demand."
    )


def made(folder: Path, **changed: Any) -> Path:
    """A rule reads only the files of a folder: no library is needed for it."""
    folder.mkdir()
    config = {"model_type": "llama", "vocab_size": 30, "max_position_embeddings": 32} | changed
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    names = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.v_proj.weight")
    header = json.dumps({name: {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]} for name in names}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def pretrained(weights: Any = None, **options: Any) -> Pipeline:
    given = {} if weights is None else {"weights": weights}
    fit = step(train, train="s3://b/k/", recipe="huggingface", recipe_options=json.dumps(options), **given)
    return Pipeline(name="fit", steps=[fit])


def test_rule_pretrained_models_fit(tmp_path: Path) -> None:
    folder = made(tmp_path / "llama")
    good = {"head": "causal_lm", "length": 32, "lora_rank": 4, "lora_targets": ["q_proj"]}
    assert pretrained(folder, **good).steps
    assert pretrained("s3://b/model/", **good | {"length": 9_999}).steps  # nobody here can look at it
    for changed, message in (
        (
            {"length": 33},
            r"step 'train': recipe 'huggingface': length=33, .* has 32 positions\. Give a length up to 32",
        ),
        ({"lora_targets": ["k_prog"]}, r"no layer of llama for lora_targets 'k_prog'"),
        ({"length": "long"}, r"length='long' should be a whole number\."),
    ):
        with pytest.raises(SpecError, match=message):
            pretrained(folder, **good | changed)
    with pytest.raises(SpecError, match=r"starts from the folder of a pretrained model\. Give the step weights="):
        pretrained(**good)
    with pytest.raises(SpecError, match=r"head='causal_lm', and t5 is a model of encoder and decoder"):
        pretrained(made(tmp_path / "t5", model_type="t5", is_encoder_decoder=True), head="causal_lm", length=8)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(SpecError, match=r"llama has no tokenizer"):
        pretrained(folder, **good)


def test_positions_of_roberta_begin_behind_the_padding(tmp_path: Path) -> None:
    folder = made(tmp_path / "roberta", model_type="roberta", max_position_embeddings=34, pad_token_id=1)
    assert pretrained(folder, length=32).steps
    with pytest.raises(SpecError, match="has 32 positions"):
        pretrained(folder, length=33)


def test_pretrained_defaults_match_the_recipe() -> None:
    own = {field.name: field.default for field in dataclasses.fields(huggingface.Recipe)}
    assert {name: own[name] for name in training_rules.DEFAULTS} == training_rules.DEFAULTS


def scripted(**given: Any) -> Pipeline:
    fit = step(train_script, name="fit", train="s3://b/k/", script="fit.py", **given)
    return Pipeline(name="fit", steps=[fit])


def test_rule_roles_fit_the_processes() -> None:
    roles = "chief=1,worker=2,ps=1"
    assert scripted(launcher="tf_config", roles=roles).steps
    assert scripted(launcher="tf_config", roles=roles, cluster=Cluster(count=2, processes=2)).steps


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"step 'fit': roles='chief=1,worker=2,ps=1' are those of TF_CONFIG, and launcher='torchrun' writes none"),
        (
            {"launcher": "tf_config", "cluster": Cluster(count=3)},
            r"step 'fit': roles=chief=1,worker=2,ps=1 are 4 processes, and the job has 3 hosts. Give roles whose sum",
        ),
        (
            {"launcher": "tf_config", "cluster": Cluster(processes=3)},
            r"the job has 1 host x 3 processes",
        ),
        ({"launcher": "tf_config", "roles": "worker=1,ps=1"}, "has parameter servers and no chief"),
    ],
)
def test_roles_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        scripted(**{"roles": "chief=1,worker=2,ps=1"} | given)


@pytest.mark.parametrize(
    ("given", "processes"),
    [
        ({"estimator": "lightgbm", "processes": 2}, 2),
        ({"estimator": "sklearn", "cluster": Cluster(count=3)}, 3),
        ({"estimator": Parameter.string("e", "xgboost", ("xgboost", "lightgbm")), "cluster": Cluster(processes=4)}, 4),
    ],
)
def test_rule_estimators_take_the_processes(given: dict[str, Any], processes: int) -> None:
    parameters = [each for each in given.values() if isinstance(each, Parameter)]
    with pytest.raises(SpecError, match=r"step 'train-table': estimator '\w+' learns in one process") as refused:
        Pipeline(name="p", steps=[step(train_table, train="s3://b/t/", **given)], parameters=parameters)
    assert f"and {processes} are to run" in str(refused.value)
    Pipeline(name="p", steps=[step(train_table, train="s3://b/t/", processes=2, cluster=Cluster(count=2))])
    Pipeline(name="p", steps=[step(train_table, train="s3://b/t/", estimator="lightgbm", processes=1)])


def test_rule_estimator_options_exist() -> None:
    def pipeline(**given: Any) -> Pipeline:
        return Pipeline(name="p", steps=[step(train_table, train="s3://b/t/", **given)])

    with pytest.raises(SpecError, match="estimator 'xgboost' has no option 'max_dept'"):
        pipeline(estimator_options='{"max_dept": 3}')
    with pytest.raises(SpecError, match="estimator 'lightgbm' has no option 'max_bins'"):
        pipeline(estimator="lightgbm", estimator_options='{"max_bins": 3}')
    pipeline(estimator="sklearn", estimator_options='{"model": "ridge", "categories": ["plan"]}')
    pipeline(estimator="of_my_own", estimator_options='{"max_dept": 3}')


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"estimator_options": '{"max_depth": "deep"}'}, 'xgboost\': max_depth="deep"; allowed is a whole number'),
        ({"estimator_options": '{"learning_rate": -1}'}, "learning_rate=-1; allowed are numbers above 0"),
        ({"estimator": "lightgbm", "estimator_options": '{"bagging_fraction": 0.5}'}, "give bagging_freq"),
        ({"estimator": "sklearn", "estimator_options": '{"quantiles": 0.5}'}, "quantiles are three rising numbers"),
    ],
)
def test_options_with_values_that_an_estimator_does_not_take_are_refused(given: dict[str, Any], message: str) -> None:
    fit = step(train_table, train="s3://b/t/", **given)
    with pytest.raises(SpecError) as refused:
        Pipeline(name="p", steps=[fit])
    assert "step 'train-table': estimator '" in str(refused.value) and message in str(refused.value)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"max_depth": between(2.5, 8)}, "max_depth=2.5; allowed is a whole number"),
        ({"learning_rate": between(0.1, 0.3), "subsample": between(0.5, 1.5)}, "subsample=1.5; allowed are numbers"),
        (
            {"grow_policy": one_of("depthwise", "leafwise"), "gamma": between(0, 9)},
            'grow_policy="leafwise"; allowed are "depthwise"',
        ),
    ],
)
def test_ranges_beyond_what_an_estimator_takes_are_refused(ranges: dict[str, Any], message: str) -> None:
    fit = step(train_table, train="s3://b/t/", validation="s3://b/v/")
    with pytest.raises(SpecError) as refused:
        Pipeline(name="p", steps=[tune(fit, objective="validation_loss", max_trainings=3, **ranges)])
    assert message in str(refused.value)


def test_where_numpy_is_missing_the_training_itself_checks_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(sys.modules, "drivetrain.training_scripts.estimators.xgboost", raising=False)
    Pipeline(name="p", steps=[step(train_table, train="s3://b/t/", estimator_options='{"max_depth": "deep"}')])
