"""The best approved version: `not_worse` counts its margin from it, so that promotions do not add up their losses."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.decision.anchor import anchor_of, best_approved, keep_best
from drivetrain.decision.deciding import Champion, Decision, decide
from drivetrain.decision.evaluation import Evaluation
from drivetrain.decision.policy import Policy
from drivetrain.registry.approving import make_champion
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import BEST_APPROVED, ModelVersion, Registry, open_registry

Make = Callable[..., Evaluation]
COUNT = 200
GROUP, METRIC = "digits", "loss"


class Group:
    """A group whose versions have a mean loss. The interval of a difference is about 0.011 wide to either side."""

    def __init__(self, registry: Registry, make: Make) -> None:
        self.registry, self._make = registry, make
        self.losses: dict[int, float] = {}
        self.measured: list[int] = []

    def evaluation(self, loss: float) -> Evaluation:
        draw = random.Random(str(loss))
        drawn = [draw.gauss(loss, 0.004) for _ in range(COUNT)]
        return self._make({"loss": loss}, replicates={"loss": drawn})

    def approve(self, loss: float) -> int:
        """A new version, approved."""
        content = hashlib.sha256(f"{len(self.losses)}".encode()).hexdigest()
        version, _ = self.registry.register(GROUP, content, ModelRecord(), approval="Approved")
        self.losses[version] = loss
        return version

    def night(self, loss: float, **given: Any) -> Decision:
        """The decision on a candidate, as compare comes to it."""
        conditions = Policy(**{"metric": METRIC, "rule": "not_worse", "margin": 0.03, "horizon": 1, **given})
        found = self.registry.champion(GROUP)
        assert found is not None

        def measure(version: ModelVersion) -> Evaluation:
            self.measured.append(version.version)
            return self.evaluation(self.losses[version.version])

        champion = Champion(
            version=found.version, content_hash="", evaluation=self.evaluation(self.losses[found.version])
        )
        anchor = anchor_of(self.registry, GROUP, champion, conditions, measure)
        return decide(self.evaluation(loss), champion, conditions, anchor=anchor)

    @property
    def kept(self) -> str:
        """The versions that the registry keeps for the metric."""
        text = self.registry.tags(GROUP).get(BEST_APPROVED, "")
        return text.removeprefix(f"{METRIC}=").replace(".", " ")


@pytest.fixture
def group(tmp_path: Path, evaluation: Make) -> Group:
    return Group(open_registry(f"local:{tmp_path / 'models.db'}"), evaluation)


def test_repeated_promotions_do_not_accumulate_losses(group: Group) -> None:
    group.approve(2.5)
    losses = iter(2.5 + 0.005 * step for step in range(1, 20))  # each a little worse than the last
    found, loss = group.night(2.501), 2.5
    while found.verdict == "register":
        loss = next(losses)
        group.approve(loss)
        found = group.night(loss + 0.005)
    assert (loss, group.kept) == (pytest.approx(2.515), "1"), "0.020 more than 2.5 is not surely less than 0.03 more"
    assert found.difference is not None and found.difference.value == pytest.approx(0.005)
    assert found.anchor is not None and found.anchor.version == 1 and not found.better
    assert found.anchor_difference is not None and found.anchor_difference.value == pytest.approx(0.02)
    assert any("loss is 2.5 of version 1, the best approved one: +0.0200" in line for line in found.why)
    said = "It must not be worse than that version either by more than 0.0300. This is not ruled out."
    assert any(said in line for line in found.why)
    assert group.night(loss + 0.001, margin_from="champion").verdict == "register", "the switch"


def test_a_champion_shown_to_be_better_becomes_the_anchor(group: Group) -> None:
    group.approve(2.5)
    group.night(2.5)
    assert (group.kept, group.measured) == ("1", []), "the champion is not measured twice"
    group.approve(2.495)  # perhaps by chance
    assert group.night(2.5).anchor is not None and group.kept == "1"
    group.approve(2.45)
    assert group.night(2.45).anchor is None and group.kept == "1 3"
    assert group.measured == [1, 1]
    group.approve(2.46)
    anchor = group.night(2.46).anchor
    assert anchor is not None and anchor.version == 3


def test_a_rejected_version_is_no_anchor(group: Group) -> None:
    for loss in (2.5, 2.45, 2.455):
        group.approve(loss)
        group.night(loss)
    assert group.kept == "1 2"
    group.registry.set_status(GROUP, 2, "Rejected")
    found = group.night(2.46)  # better than version 1, and so is the champion
    assert found.anchor is None and group.kept == "1 3"
    group.registry.set_status(GROUP, 3, "Rejected")
    best = best_approved(group.registry, GROUP, METRIC)
    assert best is not None and best.version == 1


def test_after_a_rollback_the_best_earlier_version_is_the_anchor(group: Group) -> None:
    for loss in (2.5, 2.495, 2.45):
        group.approve(loss)
        group.night(loss)
    assert group.kept == "1 3"
    make_champion(group.registry, GROUP, 2, reason="worse at night")
    anchor = group.night(2.5).anchor
    assert anchor is not None and anchor.version == 1, "version 3 was rejected by the rollback"
    make_champion(group.registry, GROUP, 3)
    assert group.night(2.45).anchor is None and group.kept == "1 3", "and counts again"


def test_a_rollback_before_the_kept_history_starts_at_the_champion(group: Group) -> None:
    for loss in (2.5, 2.4):
        group.approve(loss)
    group.night(2.4)
    assert group.kept == "2"
    make_champion(group.registry, GROUP, 1)
    assert group.night(2.5).anchor is None and group.kept == "1"


def test_rules_without_an_anchor_neither_keep_nor_measure_one(group: Group) -> None:
    group.approve(2.5)
    group.night(2.5)
    group.approve(0.505)
    assert group.night(2.4, rule="better").anchor is None
    assert group.night(2.5, margin_from="champion").anchor is None
    assert group.measured == [] and group.kept == "1"


def test_foreign_entries_of_the_history_are_ignored(group: Group) -> None:
    group.approve(2.5)
    group.registry.change_tag(GROUP, BEST_APPROVED, lambda _: "x loss=0 loss=1..5 loss=99 ada@example.com")
    assert best_approved(group.registry, GROUP, METRIC) is None, "there is no version 99"
    group.night(2.5)
    assert group.kept == "1"


def test_a_long_history_and_any_metric_fit_into_a_tag(group: Group) -> None:
    group.approve(2.5)
    for metric in ("recall of <b>", "m" * 80):
        last = None
        for version in range(10**8, 10**8 + 14):
            keep_best(group.registry, GROUP, metric, version, last)
            last = version
    (text,) = group.registry.tags(GROUP).values()
    assert text.startswith(f"{'m' * 80}=100000002.") and text.endswith(".100000013") and len(text) < 256
