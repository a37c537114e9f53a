"""What every health rule keeps: run for each file of drivetrain/training/health/rules.

A rule brings a file of the same name in tests/contract/health_rules with a fault that is planted in the records of a
healthy training: from which step, within how many steps the rule fires, and of what it speaks.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.health.record import Record, from_fields, rounded, to_line
from drivetrain.training.health.rule import FAMILY, Action, Finding, Watches, Watching, load_rules, see
from tests.contract.health_rules import records
from tests.contract.health_rules.records import NAMES

RULES = plugins.names(FAMILY)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


def plant_of(name: str) -> Any:
    return importlib.import_module(f"tests.contract.health_rules.{name}")


def rule_of(name: str, given: str = "{}") -> list[Watching]:
    return [watching for watching in load_rules(given, get_args(Watches)) if watching.name == name]


def findings(rules: list[Watching], training: Sequence[Record]) -> list[Finding]:
    return [finding for record in training for finding in see(rules, record)]


def as_written(record: Record, like: tuple[Record, Record] | None = None) -> Record:
    """With the digits that a training's own rules see. What is as it was in `like`, made and written, is taken from
    there: a fault changes few columns, and to round them takes most of the time of these tests."""
    made, written = like or (None, None)
    tables: dict[str, Any] = {}
    for name in ("ranks", "tensors", "layers"):
        if (table := getattr(record, name)) is not None:
            before, done = (
                each.columns if each else {} for each in (getattr(made, name, None), getattr(written, name, None))
            )
            columns = {c: done[c] if before.get(c) is v else rounded(v) for c, v in table.columns.items()}
            tables[name] = dataclasses.replace(table, columns=columns)
    return dataclasses.replace(record, **tables)


@functools.cache
def healthy(seed: int) -> tuple[tuple[Record, Record], ...]:
    """Each record as it is made and as it is written; no rule changes one (test_a_rule_does_not_change_records)."""
    return tuple((record, as_written(record)) for record in records.with_model(seed))


@functools.cache
def with_fault(name: str, seed: int = 0) -> tuple[Record, ...]:
    plant = plant_of(name)
    return tuple(
        as_written(plant.planted(both[0]), both) if both[0].step >= plant.FROM else both[1] for both in healthy(seed)
    )


@pytest.fixture(params=RULES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_rule_describes_what_it_watches_and_what_to_do(name: str) -> None:
    module = plugins.load(FAMILY, name, kind="health rule")
    assert module.__doc__ and module.__doc__.endswith((".\n", "."))
    assert module.WATCHES in get_args(Watches) and module.ACTION in get_args(Action)
    assert module.WINDOW and not module.WINDOW.endswith(".") and module.ADVICE.endswith(".")
    for field in dataclasses.fields(module.Rule):
        assert field.type in ("int", "float", "str", "bool") and isinstance(field.default, (int, float, str, bool))
        source = inspect.getsource(module.Rule).split(f"    {field.name}: {field.type} = ")[1]
        assert source.splitlines()[1].lstrip().startswith('"""'), field.name


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rule_fires_on_its_fault_within_its_window(name: str, seed: int) -> None:
    plant, rules = plant_of(name), rule_of(name)
    found = findings(rules, with_fault(name, seed))
    assert found, "it never fired"
    allowed = plant.WITHIN * (records.VALIDATION_EVERY if rules[0].watches == "validation" else 1)
    assert plant.FROM <= found[0].step <= plant.FROM + allowed
    assert found[0].about == plant.ABOUT
    assert len(found[0].text) > 20 and found[0].describe().endswith(".")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rule_is_silent_on_healthy_records(name: str, seed: int) -> None:
    training = [written for _, written in healthy(seed)]
    if name == "overtraining":  # which a training that has converged has not done badly
        training = [record for record in training if record.step <= 300]
    assert findings(rule_of(name), training) == []


@pytest.mark.parametrize("after", [0.1, 0.5, 0.8])
def test_an_interruption_is_no_fault(name: str, after: float) -> None:
    """Also of a training whose loss stands still: it goes on for as long again at its last loss."""
    training = [written for _, written in healthy(0)]
    if name == "overtraining":
        training = [record for record in training if record.step <= 300]
    losses, last = [record for record in training if record.loss is not None], training[-1].step
    training += [dataclasses.replace(record, step=last + record.step, loss=losses[-1].loss) for record in losses]
    cut = round(after * len(training))
    (before,), (later,) = rule_of(name), rule_of(name)
    assert findings([before], training[:cut]) == []
    later.load_state(json.loads(json.dumps(before.state(), allow_nan=False)))
    assert findings([later], training[cut:]) == []


def test_a_rule_gives_the_same_result_on_stored_records(name: str) -> None:
    live = with_fault(name)
    lines = [json.loads(to_line(record)) for record in live]
    again = [from_fields(fields, NAMES) for fields in lines]
    assert findings(rule_of(name), live) == findings(rule_of(name), again)


def test_a_rule_does_not_change_records(name: str) -> None:
    training = with_fault(name)
    before = [pickle.dumps(record) for record in training]
    findings(rule_of(name), training)
    assert [pickle.dumps(record) for record in training] == before


def test_the_state_of_a_rule_is_bounded(name: str) -> None:
    """Of one without checkpoints, too."""
    (watching,), sizes = rule_of(name), dict[int, int]()
    for record, _ in healthy(0):
        if record.ranks is not None:
            record = records.changed(record, "ranks", "saves", slice(None), 0.0)
        see([watching], record)
        if record.step in (200, 400):
            sizes[record.step] = len(pickle.dumps(watching.rule))
    assert sizes[400] <= sizes[200] + 300


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ('{"%s": {"nonsense": 1}}', "health rule '%s' has no option 'nonsense'"),
        ('{"%s": {"action": "shout"}}', "no action of health rule '%s' 'shout'"),
        ('{"%s": 3}', "health_rules: '%s' is 3. Allowed: \"off\""),
    ],
)
def test_invalid_rule_options_are_refused(name: str, given: str, says: str) -> None:
    with pytest.raises(InputError, match=(says % name).replace("(", r"\(").replace(".", r"\.")):
        load_rules(given % name, get_args(Watches))


@pytest.mark.parametrize(
    ("losses", "fires"),
    [
        ([2.5, 5.6, 4.1, 3.5], 0),  # of a network with batch normalization in its first steps
        ([4.7, 46.8, 14.6, 8.6, 3.1], 0),
        ([2.5, 3.1, 3.6, 4.2], 1),
        ([2.5, 3.3, 3.2, 3.4, 3.3, 3.35], 3),  # noise on a loss that stays high
        ([2.5, 5.6, 4.1, 4.2, 4.3], 1),
    ],
)
def test_a_validation_loss_that_recovers_is_no_overfitting(losses: list[float], fires: int) -> None:
    training = [
        Record(step=step, time=0.0, validation={"validation_loss": loss, "train_loss": 2.0 / step})
        for step, loss in enumerate(losses, 1)
    ]
    assert len(findings(rule_of("overfitting"), training)) == fires


def test_a_rule_can_be_disabled_or_given_another_action(name: str) -> None:
    assert rule_of(name, json.dumps({name: "off"})) == []
    (watching,) = rule_of(name, json.dumps({name: {"action": "stop"}}))
    assert watching.action == "stop" and findings([watching], with_fault(name))[0].action == "stop"


def test_a_users_rule_is_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_health_rule.py").write_text(
        '"""Too many."""\nfrom dataclasses import dataclass\nfrom drivetrain.training.health.rule import Seen\n'
        'WATCHES = "loss"\nACTION = "fail"\nADVICE = "Do less."\n'
        "@dataclass\nclass Rule:\n    most: int = 10\n"
        "    def see(self, record):\n        return Seen(f'{record.step} steps') if record.step > self.most else None\n"
    )
    (tmp_path / "my_empty_rule.py").write_text("WATCHES = 'loss'\n")
    monkeypatch.syspath_prepend(tmp_path)
    rules = [one for one in load_rules('{"my_health_rule": {"most": 20}}') if one.name == "my_health_rule"]
    found = findings(rules, list(records.healthy(0, steps=30)))
    assert [finding.step for finding in found] == list(range(21, 31))
    assert found[0].describe() == "my_health_rule at step 21: 21 steps. Do less."
    with pytest.raises(InputError, match=r"my_empty_rule.* has no dataclass named Rule with a method see\(record\)"):
        load_rules('{"my_empty_rule": {}}')
    with pytest.raises(InputError, match=r"no health rule 'straggler_rnak'\. Did you mean 'straggler_rank'"):
        load_rules('{"straggler_rnak": {}}')


def test_the_healthy_records_would_be_noticed_if_they_changed() -> None:
    """(The generator gives the same records for a seed: else the tests above would prove nothing twice.)"""
    assert [to_line(r) for r in records.healthy(5, 20)] == [to_line(r) for r in records.healthy(5, 20)]
    assert np.isfinite([record.loss for record in records.healthy(0) if record.loss]).all()
