"""What a run was given, what changed since the run before, and how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.options import Options, Request
from drivetrain.telling.content import Changed, Measured, RunFacts
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.content.given import RunAgain, run_again
from drivetrain.telling.page import render
from tests.fixtures.local_runs import LocalRuns

PARAMETER = {"Name": "Rate", "Type": "Float", "DefaultValue": 0.5}
ORIGIN = {
    "target": "shop.py:shop",
    "config": "night.yaml",
    "set": ["rate=0.5", "api_token=hunter2hunter2"],
    "folder": "/",
}


def facts(runs: LocalRuns, execution: str = "latest") -> RunFacts:
    with Ledger(runs.home) as ledger:
        return run_facts(ledger, execution)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> LocalRuns:
    """Two runs of a step that takes no time, and one that failed."""
    runs = LocalRuns(tmp_path_factory.mktemp("given"))
    steps = [{"Name": name, "Type": "Fail", "Arguments": {"ErrorMessage": "no"}} for name in ("stop",)]
    for rate in (0.5, 0.25):
        runs.start(steps, {"Rate": rate}, parameters=[PARAMETER], origin=ORIGIN)
    return runs


def test_changes_since_the_previous_run_are_listed(runs: LocalRuns) -> None:
    second = facts(runs)
    assert second.changed is not None and dict(second.changed.values) == {"Rate": (0.5, 0.25)}
    assert facts(runs, second.changed.since).changed is None
    page = render(second)
    assert second.changed.since in page and page.index("Before") < page.index("Of the pipeline")


def test_resume_commands_hide_secrets(runs: LocalRuns) -> None:
    last = facts(runs)
    commands = dict(last.commands)
    assert commands["Go on"] == f"drivetrain runs resume {last.id}"
    assert commands["Run it again"].startswith("drivetrain run shop.py:shop -c night.yaml --set rate=0.5 --set ")
    assert "hunter2" not in commands["Run it again"] and "***" in commands["Run it again"]
    assert commands["Run it again"] in render(last).replace("&#x27;", "'")


def asked(**options: Any) -> RunAgain:
    text = json.dumps({"Parameters": [PARAMETER]})
    parameters = options.pop("parameters", {"Rate": 0.5})
    given = {"pipeline": "shop", "origin": ORIGIN | {"set": []}} | options
    again = run_again(Request(text, parameters, Options(**given)))
    assert again is not None
    return again


def test_run_again_repeats_all_options() -> None:
    start = ("run", "shop.py:shop", "-c", "night.yaml")
    assert (asked().words, asked().why_not, asked().folder) == (start, None, Path("/"))
    again = asked(
        parameters={"Rate": 0.25, "Fresh": "a token"},
        data={"s3://a/b": "there"},
        functions={"arn": "code.py:answer"},
        image_commands={"own": ("python", "a b.py")},
        stubs={"deploy": {}},
        selected=("fit", "score"),
        selected_from="abc",
        cache=False,
    )
    assert again.shown == again.words and again.why_not is None
    assert " ".join(again.words[4:]) == (
        "--param Rate=0.25 --lambda arn=code.py:answer --data s3://a/b=there --image-command own=python 'a b.py' "
        "--stub deploy --select fit,score --from abc --no-cache"
    )


def test_a_run_with_an_incomplete_command_line_cannot_be_repeated() -> None:
    assert "--stub deploy=FILE" in " ".join(asked(stubs={"deploy": {"a": 1}}).words)
    assert "in files (--stub)" in str(asked(stubs={"deploy": {"a": 1}}).why_not)
    secret = asked(origin=ORIGIN)
    assert "hunter2" not in " ".join(secret.shown) and "looks like a secret" in str(secret.why_not)
    assert "not there any more" in str(asked(origin=ORIGIN | {"set": [], "folder": "/no/such"}).why_not)
    assert run_again(Request("{}", {}, Options(pipeline="shop"))) is None


def test_many_values_are_folded_and_few_are_not() -> None:
    def page(count: int) -> str:
        given = {f"p{number}": number for number in range(count)}
        return render(RunFacts(id="a", pipeline="p", status="Succeeded", started=0, ended=1, parameters=given,
                               changed=Changed(since="b", values={})))  # fmt: skip

    assert (
        "<summary>" not in page(8) and "All 9 values" in page(9) and "The same values as in the run before" in page(9)
    )


def test_iterations_share_one_chart_per_metric() -> None:
    def run(items: list[str]) -> str:
        steps = tuple(
            StepRun(name=f"score-{number}", type="Processing", title=f"score [{number}]", status="Succeeded",
                      parent="each", item=item)
            for number, item in enumerate(items)
        )  # fmt: skip
        numbers = tuple(Measured(step=step.name, numbers={"accuracy": 0.5}) for step in steps)
        return render(
            RunFacts(id="a", pipeline="p", status="Succeeded", started=0, ended=1, steps=steps, measured=numbers)
        )

    assert run(["0.1", "0.2", "0.4"]).count("accuracy of score by item") == 3  # caption, title, label
    assert 'class="chart bars"' in run(["north", "south", "west"]) and "by item" in run(["north", "south", "west"])
    assert "Returned by score-0" in run(["0.1"]) and "by item" not in run(["0.1"])


def test_a_removed_folder_leaves_other_facts(tmp_path: Path) -> None:
    runs = LocalRuns(tmp_path)
    runs.start([{"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}])
    run = facts(runs)
    (runs.home.run(run.id) / "request.json").unlink()
    assert all(words != "Run it again" for words, _ in facts(runs).commands)
