"""ForEach on this machine: the steps of its iterations, what comes of them, and going on where they were."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.processes import alive
from drivetrain.run_store.events import StepExpanded, StepFinished, StepStarted
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import BUCKET, LocalRuns, join

ROOT = Path(__file__).parents[5]
PATIENCE_S = 30.0
# Goes on when two of its kind have come: the first with the second, the third with the fourth.
MEETING = f"""
import sys, time
from pathlib import Path
for number in range(1, 5):
    try:
        (Path(sys.argv[1]) / str(number)).touch(exist_ok=False)
        break
    except FileExistsError:
        pass
other = Path(sys.argv[1]) / str(number + number % 2)
deadline = time.monotonic() + {PATIENCE_S}
while not other.exists():
    assert time.monotonic() < deadline, "nobody else has come"
    time.sleep(0.01)
"""
HANDLERS = """
def square(event, context):
    return {"n": int(event["x"]) ** 2}

def count(event, context):
    return {"n": event["so_far"] + 1}
"""


@pytest.fixture
def handlers(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "handlers.py"
    file.write_text(HANDLERS)
    return {name: f"{file}:{name}" for name in ("square", "count")}


def lambda_step(name: str, function: str, *needs: Any, **arguments: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "Lambda",
        "FunctionArn": f"arn:aws:lambda:us-east-1:000000000000:function:{function}",
        "Arguments": arguments,
        "OutputParameters": [{"OutputName": "n", "OutputType": "Integer"}],
        "DependsOn": list(needs),
    }


def loop(items: Any, *body: dict[str, Any], most: int = 2, name: str = "Each", **arguments: Any) -> dict[str, Any]:
    fields = {"IterableItems": items, "MaxConcurrency": most, "ForEachBody": list(body), **arguments}
    return {"Name": name, "Type": "ForEach", "Arguments": fields}


def get(path: str) -> dict[str, str]:
    return {"Get": path}


ITEM = get("ForEach.CurrentItem")


def rows(runs: LocalRuns) -> dict[str, StepRun]:
    with Ledger(runs.home) as ledger:
        return {row.name: row for row in ledger.steps(ledger.execution("latest").id)}


def test_each_iteration_has_steps_of_its_own_and_later_steps_see_what_they_gave(
    runs: LocalRuns, handlers: dict[str, str]
) -> None:
    steps = [
        loop(
            ["3", "5", "-7"],
            lambda_step("Square", "square", x=ITEM),
            lambda_step("Count", "count", so_far=get("Steps.Square.OutputParameters['n']")),
            Selector={"Pick": "MinBy", "Field": get("IterationOutput.Count.OutputParameters['n']")},
        ),
        lambda_step("Best", "count", so_far=get("Steps.Each.Selected.OutputParameters['n']")),
        lambda_step("Second", "count", so_far=get("Steps.Each.IterationOutputs[1].Square.OutputParameters.n")),
        lambda_step("Many", "count", so_far=get("Steps.Each.SucceededStepCount")),
    ]
    summary = runs.start(steps, functions=handlers)
    assert summary.status == "Succeeded"
    found = rows(runs)
    assert list(found)[:7] == ["Each", "Square-0", "Count-0", "Square-1", "Count-1", "Square-2", "Count-2"]
    assert {found[name].response["OutputParameters"]["n"] for name in ("Square-0", "Square-1", "Square-2")} == {
        9,
        25,
        49,
    }
    assert [found[name].response["OutputParameters"]["n"] for name in ("Best", "Second", "Many")] == [11, 26, 7]
    counts = {key: value for key, value in found["Each"].response.items() if key.endswith("Count")}
    assert counts == {
        "InputItemCount": 3,
        "TotalStepCount": 6,
        "SucceededStepCount": 6,
        "FailedStepCount": 0,
        "StoppedStepCount": 0,
    }
    assert found["Each"].response["Selector"] == {"StepName": "Count-0", "Index": 0}
    assert (found["Each"].value, found["Each"].parent) == ("Count-0: OutputParameters.n 10", None)
    one = found["Count-2"]
    assert (one.parent, one.iteration, one.item, one.title) == ("Each", 2, "-7", "Count [2]")
    [expanded] = runs.of(StepExpanded)
    assert [name for name, _, _ in expanded.steps] == list(found)[1:7]
    order = [event.step for event in runs.of(StepFinished)]
    assert order.index("Square-1") < order.index("Count-1") < order.index("Each") < order.index("Best")


def test_items_may_come_as_json_text_from_a_parameter_and_be_objects(runs: LocalRuns, handlers: dict[str, str]) -> None:
    body = runs.processing(
        "Say",
        "import sys; open('/opt/ml/processing/output/out/said.txt', 'w').write(' '.join(sys.argv[1:]))",
        outputs=["out"],
        arguments=["--size", join(get("ForEach.CurrentItem.size"), get("ForEach.CurrentItem.names[0]")), "--all", ITEM],
    )
    uri = body["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]
    uri["S3Uri"] = join(f"{BUCKET}/said", get("ForEach.CurrentItem.size"))
    items = '[{"size": 1, "names": ["a"]}, "{\\"size\\": 2.5, \\"names\\": [\\"b\\"]}"]'
    parameters = [{"Name": "Items", "Type": "String"}]
    assert (
        runs.start([loop(get("Parameters.Items"), body)], {"Items": items}, parameters=parameters).status == "Succeeded"
    )
    assert runs.read(f"{BUCKET}/said/1/said.txt") == '--size 1/a --all {"size":1,"names":["a"]}'
    assert runs.read(f"{BUCKET}/said/2.5/said.txt") == '--size 2.5/b --all {"size": 2.5, "names": ["b"]}'


@pytest.mark.parametrize(("most", "max_parallel"), [(2, 4), (3, 2)])
def test_no_more_run_at_a_time_than_max_concurrency_and_the_execution_allow(
    runs: LocalRuns, tmp_path: Path, most: int, max_parallel: int
) -> None:
    (tmp_path / "met").mkdir()
    body = runs.processing("Meet", MEETING, arguments=[str(tmp_path / "met")])
    summary = runs.start([loop([1, 2, 3, 4], body, most=most)], max_parallel=max_parallel)
    assert summary.status == "Succeeded"
    with Ledger(runs.home) as ledger:
        spans = [(row.started, row.ended) for row in ledger.attempts(ledger.execution("latest").id)]
    at_once = [sum(a <= start < (b or start) for a, b in spans) for start, _ in spans]
    assert (len(spans), max(at_once)) == (4, 2)


def test_one_failure_lets_the_others_end_and_a_step_that_waits_for_it_reads_the_counts(
    runs: LocalRuns, handlers: dict[str, str]
) -> None:
    steps = [
        loop(
            ["1", "two", "3"],
            lambda_step("Square", "square", x=ITEM),
            lambda_step("Count", "count", so_far=get("Steps.Square.OutputParameters['n']")),
        ),
        lambda_step("Next", "count", so_far=get("Steps.Each.SucceededStepCount")),
        lambda_step("Told", "count", {"Step": "Each", "Trigger": "Failed"}, so_far=get("Steps.Each.FailedStepCount")),
    ]
    summary = runs.start(steps, functions=handlers)
    assert (summary.status, summary.reason) == ("CompletedWithFailures", "Each failed")
    found = rows(runs)
    assert {name: row.status for name, row in found.items()} == {
        "Each": "Failed",
        "Square-0": "Succeeded",
        "Count-0": "Succeeded",
        "Square-1": "Failed",
        "Count-1": "NotExecuted",
        "Square-2": "Succeeded",
        "Count-2": "Succeeded",
        "Next": "NotExecuted",
        "Told": "Succeeded",
    }
    assert found["Told"].response["OutputParameters"] == {"n": 2}
    assert found["Each"].reason == "Square-1: ValueError: invalid literal for int() with base 10: 'two'"


def test_going_on_after_a_failure_repeats_only_what_failed_with_the_items_of_the_first_time(
    runs: LocalRuns, tmp_path: Path
) -> None:
    handlers = tmp_path / "changing.py"
    handlers.write_text("def square(event, context):\n    return {'n': int(event['x']) ** 2}\n")
    listed = runs.put("items.json", json.dumps({"items": '["1", "two"]'}))
    steps = [
        loop({"Std:JsonGet": {"S3Uri": listed, "Path": "items"}}, lambda_step("Square", "square", x=ITEM)),
    ]
    assert runs.start(steps, functions={"square": f"{handlers}:square"}).status == "Failed"
    handlers.write_text("def square(event, context):\n    return {'n': len(event['x'])}\n")
    runs.put("items.json", json.dumps({"items": '["5", "6", "7"]'}))
    assert runs.resume().status == "Succeeded"
    assert [event.step for event in runs.of(StepStarted)] == ["Each", "Square-1"]
    [expanded] = runs.of(StepExpanded)
    assert expanded.finished == ("Square-0",)
    outputs = rows(runs)["Each"].response["IterationOutputs"]
    assert [one["Square"]["OutputParameters"]["n"] for one in outputs] == [1, 3]


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
Runner(Home({home!r})).start(Path({text!r}).read_text(), {{}}, Options(pipeline="test", max_parallel=2))
"""
# Items 0 and 1 come to their ends; item 2 stays at work, until the run goes on and finds the mark.
WORK = """
import sys, time
from pathlib import Path
item, out = sys.argv[1], Path("/opt/ml/processing/output/out")
(out / "half.txt").write_text(item)
if item == "2" and not Path("/opt/ml/processing/input/mark/go").exists():
    print("at work", flush=True)
    time.sleep(600)
(out / "whole.txt").write_text(item)
"""


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def test_a_run_killed_inside_a_for_each_goes_on_without_repeating_what_it_has_done(
    runs: LocalRuns, tmp_path: Path
) -> None:
    runs.put("mark/none", "")
    body = runs.processing("Work", WORK, inputs={"mark": f"{BUCKET}/mark/"}, outputs=["out"], arguments=[join(ITEM)])
    body["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = join(f"{BUCKET}/made", ITEM)
    after = runs.processing("After", "pass", DependsOn=["Each"])
    text = tmp_path / "definition.json"
    text.write_text(runs.text([loop([0, 1, 2, 3], body, most=1), after]))
    program = RUN.format(root=str(ROOT), home=str(runs.home.root), text=str(text))
    process = subprocess.Popen([sys.executable, "-c", program])
    until(lambda: any("at work" in log.read_text() for log in runs.home.runs.glob("*/Work-2/attempt-*/logs/*.log")))
    process.kill()
    process.wait()
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest")
        assert execution.status == "Interrupted"
        supervisors = [record for row in ledger.attempts(execution.id) for record in row.processes]
    until(lambda: not any(alive(record) for record in supervisors))
    assert {name: row.status for name, row in rows(runs).items()} == {
        "Each": "Executing",
        "Work-0": "Succeeded",
        "Work-1": "Succeeded",
        "Work-2": "Executing",
        "Work-3": "Waiting",
        "After": "Waiting",
    }
    runs.put("mark/go", "")
    summary = runs.resume()
    assert (summary.execution, summary.status) == (execution.id, "Succeeded")
    assert [event.step for event in runs.of(StepStarted)] == ["Each", "Work-2", "Work-3", "After"]
    with Ledger(runs.home) as ledger:
        tried = [(row.step, row.number, row.status) for row in ledger.attempts(execution.id)]
    assert tried == [
        ("Work-0", 1, "Succeeded"),
        ("Work-1", 1, "Succeeded"),
        ("Work-2", 1, "Interrupted"),
        ("Work-2", 2, "Succeeded"),
        ("Work-3", 1, "Succeeded"),
        ("After", 1, "Succeeded"),
    ]
    assert [runs.read(f"{BUCKET}/made/{n}/whole.txt") for n in range(4)] == ["0", "1", "2", "3"]


def test_steps_of_iterations_are_retried_and_taken_from_the_cache(runs: LocalRuns) -> None:
    body = runs.processing("Make", "print(__import__('sys').argv)", arguments=[join(ITEM)], cache=True)
    assert runs.start([loop(["a", "b"], body)]).status == "Succeeded"
    assert runs.start([loop(["a", "c"], body)]).status == "Succeeded"
    assert {name: row.status for name, row in rows(runs).items()} == {
        "Each": "Succeeded",
        "Make-0": "Cached",
        "Make-1": "Succeeded",
    }


def test_a_stub_of_a_step_of_the_body_stands_for_it_in_every_iteration(runs: LocalRuns) -> None:
    body = lambda_step("Ask", "nobody", x=ITEM)
    stubs = {"Ask": {"OutputParameters": {"n": 1}}, "Ask-1": {"OutputParameters": {"n": 4}}}
    picked = {"Pick": "MaxBy", "Field": get("IterationOutput.Ask.OutputParameters['n']")}
    assert runs.start([loop(["a", "b", "c"], body, Selector=picked)], stubs=stubs).status == "Succeeded"
    assert rows(runs)["Each"].response["Selector"] == {"StepName": "Ask-1", "Index": 1}


def test_a_stub_of_the_for_each_stands_for_all_of_it(runs: LocalRuns, handlers: dict[str, str]) -> None:
    steps = [
        loop(["a"], lambda_step("Ask", "nobody", x=ITEM)),
        lambda_step("Next", "count", so_far=get("Steps.Each.SucceededStepCount")),
    ]
    assert runs.start(steps, stubs={"Each": {"SucceededStepCount": 41}}, functions=handlers).status == "Succeeded"
    assert rows(runs)["Next"].response["OutputParameters"] == {"n": 42}


def test_no_items_are_no_failure_unless_one_is_to_be_picked(runs: LocalRuns, handlers: dict[str, str]) -> None:
    parameters = [{"Name": "Items", "Type": "String"}]
    body = lambda_step("Square", "square", x=ITEM)
    summary = runs.start(
        [loop(get("Parameters.Items"), body)], {"Items": "[]"}, parameters=parameters, functions=handlers
    )
    assert summary.status == "Succeeded"
    assert rows(runs)["Each"].response["TotalStepCount"] == 0
    picked = {"Pick": "MaxBy", "Field": get("IterationOutput.Square.OutputParameters['n']")}
    steps = [loop(get("Parameters.Items"), body, Selector=picked)]
    summary = runs.start(steps, {"Items": "[]"}, parameters=parameters, functions=handlers)
    assert summary.status == "Failed"
    assert summary.reason == "Each: error: no iteration ran 'Square', so the selector has nothing to pick from."


@pytest.mark.parametrize(("pick", "index"), [("MaxBy", 1), ("MinBy", 0)])
def test_of_equal_values_the_first_is_picked(runs: LocalRuns, pick: str, index: int) -> None:
    picked = {"Pick": pick, "Field": get("IterationOutput.Ask.OutputParameters['n']")}
    given = {"Ask": 3, "Ask-1": 7, "Ask-2": 7, "Ask-3": 3}
    stubs = {name: {"OutputParameters": {"n": n}} for name, n in given.items()}
    steps = [loop(["a", "b", "c", "d"], lambda_step("Ask", "nobody", x=ITEM), Selector=picked)]
    assert runs.start(steps, stubs=stubs).status == "Succeeded"
    assert rows(runs)["Each"].response["Selector"] == {"StepName": f"Ask-{index}", "Index": index}


def test_the_selector_compares_only_numbers(runs: LocalRuns) -> None:
    body = lambda_step("Ask", "nobody", x=ITEM)
    picked = {"Pick": "MaxBy", "Field": get("IterationOutput.Ask.OutputParameters['n']")}
    stubs = {"Ask": {"OutputParameters": {"n": "0.5"}}, "Ask-1": {"OutputParameters": {"n": "many"}}}
    summary = runs.start([loop(["a", "b"], body, Selector=picked)], stubs=stubs)
    assert summary.reason == (
        "Each: error: the selector compares OutputParameters.n of Ask-1, which is 'many'. Allowed: a number."
    )


def test_secrets_in_items_are_kept_nowhere_but_reach_the_program(runs: LocalRuns) -> None:
    body = runs.processing(
        "Use",
        "import os; open('/opt/ml/processing/output/out/n.txt', 'w').write(str(len(os.environ['API_TOKEN'])))",
        outputs=["out"],
        environment={"API_TOKEN": get("ForEach.CurrentItem.token")},
    )
    body["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = f"{BUCKET}/used"
    secret = "correct-horse-battery"
    assert runs.start([loop([json.dumps({"token": secret, "n": 1})], body)]).status == "Succeeded"
    assert runs.read(f"{BUCKET}/used/n.txt") == str(len(secret))
    assert rows(runs)["Use-0"].item == '{"token":"***","n":1}'
    for path in runs.home.root.glob("ledger.db*"):
        assert secret.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (loop(["a"], lambda_step("Ask", "nobody", x=ITEM)), "step 'Ask' calls arn:aws:lambda"),
        (
            loop(get("Parameters.Items"), lambda_step("Ask", "x")),
            "IterableItems is 3. Allowed: a list, or the JSON text",
        ),
        (
            loop(["a"], lambda_step("Ask", "x", x=get("ForEach.CurrentItem.size"))),
            "step 'Ask-0': Get 'ForEach.CurrentItem.size': the item 'a' is no JSON text.",
        ),
    ],
)
def test_unsupported_definitions_are_reported_before_anything_starts(
    runs: LocalRuns, step: dict[str, Any], said: str
) -> None:
    parameters = [{"Name": "Items", "Type": "String", "DefaultValue": "3"}]
    with pytest.raises(UserError) as raised:
        runs.start([step], parameters=parameters)
    assert said in str(raised.value)
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []


def test_one_in_a_branch_feeds_another_and_the_branch_not_taken_is_left_alone(runs: LocalRuns) -> None:
    listing = {"Name": "List", "Type": "Lambda", "Arguments": {"x": ITEM}, "OutputParameters": []}
    listing["OutputParameters"] = [{"OutputName": "items", "OutputType": "String"}]
    inner = loop(
        get("Steps.Each.IterationOutputs[1].List.OutputParameters['items']"),
        lambda_step("Ask", "nobody", x=ITEM),
        name="Next",
    )
    other = loop(["z"], lambda_step("Never", "nobody", x=ITEM), name="Other")
    conditions = [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}]
    arguments = {"Conditions": conditions, "IfSteps": [loop(["a", "b"], listing), inner], "ElseSteps": [other]}
    gate = {"Name": "Gate", "Type": "Condition", "Arguments": arguments}
    stubs = {
        "List": {"OutputParameters": {"items": "[]"}},
        "List-1": {"OutputParameters": {"items": '["p", "q"]'}},
        "Ask": {"OutputParameters": {"n": 1}},
        "Never": {},
    }
    assert runs.start([gate], stubs=stubs).status == "Succeeded"
    assert {name: row.status for name, row in rows(runs).items()} == {
        "Gate": "Succeeded",
        "Each": "Succeeded",
        "List-0": "Succeeded",
        "List-1": "Succeeded",
        "Next": "Succeeded",
        "Ask-0": "Succeeded",
        "Ask-1": "Succeeded",
        "Other": "NotExecuted",
    }
    assert [rows(runs)[name].item for name in ("Ask-0", "Ask-1")] == ["p", "q"]
