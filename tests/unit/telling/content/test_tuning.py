"""What the page tells of a tuning: numbers, pictures, the table; whatever the description says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.run.tuning.trials import Trial, Trials
from drivetrain.telling.charts.tuning_charts import by_epoch, by_parameter, by_training
from drivetrain.telling.content import RunFacts
from drivetrain.telling.content.tuning import TrainingFacts, TuningFacts, tuning_facts
from drivetrain.telling.page import render
from drivetrain.telling.page.tuning_section import draw as tunings_section

CONFIG = {
    "Strategy": "Bayesian",
    "HyperParameterTuningJobObjective": {"Type": "Maximize", "MetricName": "accuracy"},
    "ResourceLimits": {"MaxNumberOfTrainingJobs": 9},
    "TrainingJobEarlyStoppingType": "Auto",
}


def training(number: int, objective: float | None, status: str = "Completed", **fields: Any) -> TrainingFacts:
    parameters = {"rate": repr(10.0 ** -(number % 4)), "optimizer": '"adam"' if number % 2 else '"sgd"'}
    return TrainingFacts(
        **{
            "number": number,
            "status": status,
            "parameters": parameters,
            "objective": objective,
            "seconds": 1.5,
            **fields,
        }
    )


def tuning(*trainings: TrainingFacts, **fields: Any) -> TuningFacts:
    return TuningFacts(
        **{
            "step": "tune",
            "strategy": "Random",
            "metric": "accuracy",
            "maximize": True,
            "trainings": trainings,
            **fields,
        }
    )


SEVERAL = (
    training(1, 0.5, values=(0.1, 0.3, 0.5)),
    training(2, None, "Failed", reason="the <data> is gone"),
    training(3, 0.9, "Stopped", values=(0.8, 0.9), reason="at epoch 2 it was worse"),
    training(4, 0.7, values=(0.2, 0.4, 0.7)),
    training(5, 0.6),
)


def xml(markup: str | None) -> ElementTree.Element:
    assert markup is not None
    return ElementTree.fromstring(markup)


def described(**more: Any) -> dict[str, Any]:
    summary = {
        "TrainingJobName": "j-1",
        "TrainingJobStatus": "Completed",
        "CreationTime": 5.0,
        "TrainingStartTime": 6.0,
        "TrainingEndTime": 8.0,
        "TunedHyperParameters": {"rate": "0.1"},
        "FinalHyperParameterTuningJobObjectiveMetric": {"MetricName": "accuracy", "Value": 0.75},
    }
    told = {"seed": 7, "over": "the target was reached", "notes": ["a note"]}
    told["trainings"] = [{"number": 1, "job": "j-1", "values": [0.5, 0.75], "reason": "because"}]
    return {
        "HyperParameterTuningJobConfig": CONFIG,
        "TrainingJobSummaries": [summary],
        "Drivetrain": told,
        **more,
    }


def test_the_best_trial_is_complete_and_the_running_best_is_monotone() -> None:
    found = tuning(*SEVERAL)
    assert [one.number for one in found.ranked()] == [3, 4, 5, 1]
    assert found.best is SEVERAL[3]
    assert found.best_so_far() == [(1, 0.5), (3, 0.9)]
    assert tuning(*SEVERAL, maximize=False).best is SEVERAL[0]
    assert tuning(training(1, None, "Failed")).best is None


def test_local_fields_of_a_tuning_description_are_read() -> None:
    found = tuning_facts("tune", {}, described())
    assert found is not None
    assert (found.strategy, found.metric, found.maximize, found.most) == ("Bayesian", "accuracy", True, 9)
    assert (found.seed, found.over, found.notes, found.early_stopping) == (
        7,
        "the target was reached",
        ("a note",),
        True,
    )
    (one,) = found.trainings
    assert one == TrainingFacts(
        number=1,
        status="Completed",
        parameters={"rate": "0.1"},
        objective=0.75,
        seconds=2.0,
        reason="because",
        values=(0.5, 0.75),
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("estimator_options.max_depth", "rounds"), ("max_depth", "rounds")),
        (("estimator_options.rounds", "rounds"), ("estimator_options.rounds", "rounds")),
    ],
)
def test_options_have_their_own_names(names: tuple[str, ...], shown: tuple[str, ...]) -> None:
    given = described()
    given["TrainingJobSummaries"][0]["TunedHyperParameters"] = dict.fromkeys(names, "3")
    found = tuning_facts("search", {}, given)
    assert found is not None and tuple(found.trainings[0].parameters) == shown


def test_a_service_description_is_sufficient() -> None:
    given = described()
    del given["Drivetrain"]
    found = tuning_facts("tune", {}, given)
    assert found is not None and found.trainings[0].number == 1 and found.trainings[0].objective == 0.75


def test_while_running_the_training_files_are_read(tmp_path: Path) -> None:
    trials = Trials(tmp_path, ObjectStore(tmp_path / "s3"), {})
    trials.take_up()
    shared: dict[str, Any] = {"definition": None, "parameters": {"rate": "0.1", "api_token": "hidden"}}
    done = Trial(number=1, place=0, job="a", status="Completed", objective=0.5, started=1.0, ended=3.0, **shared)
    done.values = [(0.5, 0.4), (1.0, 0.5)]
    trials.save(done)
    trials.save(Trial(number=2, place=1, job="b", started=3.0, **shared))
    found = tuning_facts("tune", {"HyperParameterTuningJobConfig": CONFIG}, {}, tmp_path)
    assert found is not None and found.metric == "accuracy"
    assert [(one.status, one.objective, one.seconds) for one in found.trainings] == [
        ("Completed", 0.5, 2.0),
        ("InProgress", None, None),
    ]
    assert found.trainings[0].values == (0.4, 0.5)
    assert "hidden" not in str(found)
    assert tuning_facts("tune", {}, {}, tmp_path / "nothing") is None


@pytest.mark.parametrize(
    "given",
    [
        {"TrainingJobSummaries": "many"},
        {"TrainingJobSummaries": [1, None, {"TrainingJobStatus": 5, "TunedHyperParameters": [1]}]},
        described(Drivetrain={"trainings": 3, "notes": "x", "seed": -1}),
        described(HyperParameterTuningJobConfig=[1]),
        described(
            TrainingJobSummaries=[{"TunedHyperParameters": {"x": {"a": 1}, "y": 10**400}, "CreationTime": "now"}]
        ),
        described(
            TrainingJobSummaries=[
                {"FinalHyperParameterTuningJobObjectiveMetric": {"Value": float("nan")}, "TrainingJobStatus": "<b>"}
            ]
        ),
    ],
)
def test_foreign_tuning_descriptions_are_shown_as_far_as_possible(given: dict[str, Any]) -> None:
    found = tuning_facts("tune", {}, given)
    assert found is None or xml(tunings_section([found])).tag == "section"


def test_each_training_has_its_mark() -> None:
    picture = xml(by_training(tuning(*SEVERAL)))
    titles = ["".join(one.itertext()) for one in picture.iter("title")]
    assert len([title for title in titles if title.startswith("training 00")]) == 5
    assert "training 002 failed: the <data> is gone" in titles
    assert [one for one in picture.iter("circle") if one.get("class") == "best-ring"]
    assert len([one for one in picture.iter("g") if one.get("class") == "s1 early"]) == 1
    said = "".join(picture.itertext())
    assert "best so far" in said and "stopped early" in said and "failed" in said


def test_diverged_trainings_do_not_dominate_the_scale() -> None:
    trainings = [training(number, number / 10, values=()) for number in range(1, 10)]
    picture = xml(by_training(tuning(*trainings, training(10, 1e9), maximize=False)))
    assert "1 beyond the scale" in "".join(picture.itertext())
    assert max(float(str(one.text).replace(",", "")) for one in picture.iter("text") if one.text != "training") <= 10


def test_hyperparameters_are_drawn_over_their_scale_or_their_names() -> None:
    marks = [one.text for one in xml(by_parameter(tuning(*SEVERAL), "rate")).iter("text")]
    assert "0.01" in marks and "1" in marks  # by orders of magnitude: 0.001 to 1
    names = [one.text for one in xml(by_parameter(tuning(*SEVERAL), "optimizer")).iter("text")]
    assert "adam" in names and "sgd" in names


def test_curves_are_drawn_if_present() -> None:
    picture = xml(by_epoch(tuning(*SEVERAL)))
    assert len(list(picture.iter("path"))) == 3
    assert [one for one in picture.iter("g") if one.get("class") == "s1 is-best"]
    assert by_epoch(tuning(training(1, 0.5, values=(0.5,)))) is None


def test_a_long_table_is_folded_with_the_best_first() -> None:
    trainings = [training(number, number / 100) for number in range(1, 41)]
    section = xml(tunings_section([tuning(*trainings)]))
    first, every = section.iter("table")
    rows = ["".join(row.itertext()) for row in first.iter("tr")]
    assert len(rows) == 11 and rows[1].startswith("040 best")
    assert len(list(every.iter("tr"))) == 41
    assert "All 40 trainings" in "".join(section.itertext())


def test_the_page_has_the_section_and_its_style() -> None:
    facts: dict[str, Any] = {"id": "e", "pipeline": "p", "status": "Succeeded", "started": 0.0, "ended": 1.0}
    page = render(RunFacts(**facts, tunings=(tuning(*SEVERAL, seed=3),)))
    assert 'id="tuning"' in page and ".best-ring" in page
    assert "the &lt;data&gt; is gone" in page and "the <data> is gone" not in page
    assert "seed 3" in page and not re.search(r"<script", page)
    assert ".best-ring" not in render(RunFacts(**facts))


def test_a_value_with_only_failed_trainings_is_kept() -> None:
    failed = training(2, None, "Failed", parameters={"optimizer": '"adagrad"'})
    names = [one.text for one in xml(by_parameter(tuning(training(1, 0.5), failed), "optimizer")).iter("text")]
    assert "adam" in names and "adagrad" in names


def test_the_failure_reason_is_the_exception_line_of_any_traceback(tmp_path: Path) -> None:
    frames = "".join(f'  File "train.py", line {number}, in step\n    loss = model(batch)\n' for number in range(500))
    reason = f"Traceback (most recent call last):\n{frames}ValueError: the labels are empty"
    told = described()
    told["TrainingJobSummaries"][0].pop("FailureReason", None)
    job = told["TrainingJobSummaries"][0]["TrainingJobName"]
    told["Drivetrain"]["trainings"] = [{"number": 1, "job": job, "reason": reason, "values": []}]
    found = tuning_facts("tune", {}, told)
    assert found is not None
    assert "ValueError: the labels are empty" in [one.reason for one in found.trainings]
