"""Callback steps: a question with a token, answers by hand and by a handler, and what is refused."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import Event, ExecutionFinished, StepNoted
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.run import callbacks
from drivetrain.targets.sagemaker.run.callbacks import Question
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.local_runs import LocalRuns

# Who waits for an answer that never comes waits for ever.
pytestmark = pytest.mark.timeout(60)
QUEUE = "https://sqs.us-east-2.amazonaws.com/000000000000/reviews"


def ask(name: str = "ask", wants: dict[str, str] | None = None, **arguments: Any) -> dict[str, Any]:
    outputs = {"approved": "Boolean"} if wants is None else wants
    return {
        "Name": name,
        "Type": "Callback",
        "SqsQueueUrl": QUEUE,
        "Arguments": arguments,
        "OutputParameters": [{"OutputName": key, "OutputType": kind} for key, kind in outputs.items()],
    }


def run_and_answer(runs: LocalRuns, steps: list[dict[str, Any]], answer: Any) -> ExecutionFinished:
    """Runs steps; as soon as one asks, `answer(question)` is called, from another thread as another process would."""
    threads: list[threading.Thread] = []

    def watch(event: Event) -> None:
        runs.events.append(event)
        if isinstance(event, StepNoted):
            [question] = [each for each in callbacks.waiting(runs.home) if each.token in event.note]
            threads.append(threading.Thread(target=answer, args=(question,)))
            threads[-1].start()

    runs.events = []
    summary = Runner(runs.home, watch).start(runs.text(steps), {}, Options(pipeline="test"))
    for thread in threads:
        thread.join()
    return summary


def test_a_step_waits_for_the_answer_to_its_token(runs: LocalRuns) -> None:
    steps = [ask("first", {"text": "String", "number": "Integer", "share": "Float"}, model="m"), ask("second", {})]
    steps[1]["Arguments"] = {"said": {"Get": "Steps.first.OutputParameters['text']"}}
    asked: list[Question] = []

    def answer(question: Question) -> None:
        asked.append(question)
        given = {"text": "yes", "number": "7", "share": "0.5"} if question.step == "first" else {}
        callbacks.answer(runs.home, question.token, given, None)

    summary = run_and_answer(runs, steps, answer)
    assert summary.status == "Succeeded", summary.reason
    assert [question.body["arguments"] for question in asked] == [{"model": "m"}, {"said": "yes"}]
    assert [len(question.token) for question in asked] == [10, 10] and asked[0].queue == QUEUE
    with Ledger(runs.home) as ledger:
        first, second = ledger.steps(summary.execution)
    assert first.response["OutputParameters"] == {"text": "yes", "number": 7, "share": 0.5}
    assert first.response["SqsQueueUrl"] == QUEUE and first.value == "text=yes, number=7, share=0.5"
    assert second.response["OutputParameters"] == {}
    assert callbacks.waiting(runs.home) == []
    [note, _] = runs.of(StepNoted)
    wanted = "--output text=STRING --output number=INTEGER --output share=FLOAT"
    assert note.note == f"waits for: drivetrain runs callback {asked[0].token} {wanted} --home {runs.home.root}"


def test_an_answer_can_be_a_failure_and_another_try_asks_anew(runs: LocalRuns) -> None:
    tokens: list[str] = []

    def refuse(question: Question) -> None:
        tokens.append(question.token)
        callbacks.answer(runs.home, question.token, {}, "the reviewer said no")

    summary = run_and_answer(runs, [ask()], refuse)
    assert (summary.status, summary.reason) == ("Failed", "ask: the reviewer said no")

    def watch(event: Event) -> None:
        if isinstance(event, StepNoted):
            [question] = callbacks.waiting(runs.home)
            tokens.append(question.token)
            callbacks.answer(runs.home, question.token, {"approved": "True"}, None)

    assert Runner(runs.home, watch).resume("latest").status == "Succeeded"
    assert len(set(tokens)) == 2


def test_a_question_keeps_its_token_over_a_run_that_was_stopped(runs: LocalRuns) -> None:
    """And an answer that is given meanwhile counts."""
    first = callbacks.ask(
        runs.home, execution="e", step="s", queue=QUEUE, arguments={"a": [1]}, outputs={"x": "String"}
    )
    again = callbacks.ask(
        runs.home, execution="e", step="s", queue=QUEUE, arguments={"a": [1]}, outputs={"x": "String"}
    )
    assert again == first
    callbacks.answer(runs.home, first.token, {"x": "y"}, None)
    same = callbacks.ask(runs.home, execution="e", step="s", queue=QUEUE, arguments={"a": [1]}, outputs={"x": "String"})
    assert same == first and callbacks.answer_to(runs.home, same) == callbacks.Answer({"x": "y"})
    other = callbacks.ask(
        runs.home, execution="e", step="s", queue=QUEUE, arguments={"a": [1]}, outputs={"x": "String"}, anew=True
    )
    assert other.token != first.token and callbacks.answer_to(runs.home, other) is None
    changed = callbacks.ask(
        runs.home, execution="e", step="s", queue=QUEUE, arguments={"a": [2]}, outputs={"x": "String"}
    )
    assert [each.token for each in callbacks.waiting(runs.home)] == [changed.token]
    assert changed.token != other.token


@pytest.mark.parametrize("change", [{"arguments": {"a": [2]}}, {"queue": f"{QUEUE}2"}, {"outputs": {"x": "Float"}}])
def test_another_question_has_a_token_of_its_own(runs: LocalRuns, change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"queue": QUEUE, "arguments": {"a": [1]}, "outputs": {"x": "String"}}
    first = callbacks.ask(runs.home, execution="e", step="s", **given)
    callbacks.answer(runs.home, first.token, {"x": "y"}, None)
    second = callbacks.ask(runs.home, execution="e", step="s", **{**given, **change})
    assert second.token != first.token
    assert callbacks.answer_to(runs.home, second) is None


def test_of_two_concurrent_answers_the_first_counts(runs: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen it wait."""
    question = callbacks.ask(runs.home, execution="e", step="s", queue=QUEUE, arguments={}, outputs={"x": "String"})
    seen = callbacks.waiting(runs.home)
    monkeypatch.setattr(callbacks, "waiting", lambda home: seen)
    callbacks.answer(runs.home, question.token, {"x": "first"}, None)
    with pytest.raises(UserError, match="was answered before"):
        callbacks.answer(runs.home, question.token, {"x": "second"}, None)
    assert callbacks.answer_to(runs.home, question) == callbacks.Answer({"x": "first"})


@pytest.mark.parametrize(
    ("outputs", "failure", "said"),
    [
        ({}, None, "wants the output 'approved'. Give --output approved=BOOLEAN --output n=INTEGER"),
        ({"approved": "yes", "n": "1"}, None, "output 'approved' is 'yes'. Allowed: true, false"),
        ({"approved": "true", "n": "1.5"}, None, "output 'n' is '1.5'. Allowed: Integer"),
        ({"approved": "true", "n": "1", "m": "2"}, None, "has no output 'm'. Its outputs: approved, n"),
        ({"approved": "true", "n": "1" * 1025}, None, "1,025 characters. Allowed: 1,024"),
        ({}, "no" * 200, "the reason has 400 characters. Allowed: 256"),
    ],
)
def test_answers_that_the_service_would_refuse_are_refused(
    runs: LocalRuns, outputs: dict[str, str], failure: str | None, said: str
) -> None:
    wants = {"approved": "Boolean", "n": "Integer"}
    question = callbacks.ask(runs.home, execution="e", step="s", queue=QUEUE, arguments={}, outputs=wants)
    with pytest.raises(UserError, match=said):
        callbacks.answer(runs.home, question.token, outputs, failure)
    callbacks.answer(runs.home, question.token, {"approved": "true", "n": "1"}, None)
    with pytest.raises(UserError, match="no step waits with the token"):
        callbacks.answer(runs.home, question.token, {"approved": "true", "n": "1"}, None)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("Float", text) for text in ("nan", "-inf", "1e999", "1_0", "٣.٥")),
        *(("Integer", text) for text in ("٣", "1_000", " 7", "")),
    ],
)
def test_numbers_that_json_does_not_have_are_refused(runs: LocalRuns, kind: str, text: str) -> None:
    question = callbacks.ask(runs.home, execution="e", step="s", queue=QUEUE, arguments={}, outputs={"n": kind})
    with pytest.raises(UserError, match=f"output 'n' is '.*'. Allowed: {kind}"):
        callbacks.answer(runs.home, question.token, {"n": text}, None)
    for good in ("-7", *(["1.", ".5", "-1.5e-3"] if kind == "Float" else [])):
        question = callbacks.ask(
            runs.home, execution="e", step="s", queue=QUEUE, arguments={}, outputs={"n": kind}, anew=True
        )
        callbacks.answer(runs.home, question.token, {"n": good}, None)
        assert callbacks.answer_to(runs.home, question) == callbacks.Answer({"n": float(good)})


def test_an_output_with_the_name_of_a_secret_is_kept_and_shown_nowhere(runs: LocalRuns, tmp_path: Path) -> None:
    def answer(question: Question) -> None:
        callbacks.answer(runs.home, question.token, {"api_token": "hush-hush-hush", "n": "x"}, None)

    summary = run_and_answer(runs, [ask(wants={"api_token": "String", "n": "String"})], answer)
    assert summary.status == "Succeeded"
    with Ledger(runs.home) as ledger:
        [step] = ledger.steps(summary.execution)
    assert step.value == "api_token=***, n=x" and "hush" not in str(step) + str(runs.events)
    (tmp_path / "wrong.py").write_text("def decide(message, context):\n    return {'api_token': 12345678}\n")
    handler = {"ask": f"{tmp_path / 'wrong.py'}:decide"}
    for wants in ({"api_token": "String"}, {"other": "String"}):
        summary = runs.start([ask(wants=wants)], callbacks=handler)
        assert summary.status == "Failed" and "***" in str(summary.reason)
        assert "12345678" not in str(summary.reason)


def test_a_handler_answers_in_a_persons_place(runs: LocalRuns, tmp_path: Path) -> None:
    (tmp_path / "reviews.py").write_text(
        "def decide(message, context):\n"
        "    assert set(message) == {'token', 'arguments'} and context.function_name == 'ask'\n"
        "    if message['arguments']['accuracy'] < 0.9:\n"
        "        raise ValueError('not good enough')\n"
        "    return {'approved': True}\n"
    )
    handler = {"ask": f"{tmp_path / 'reviews.py'}:decide"}
    summary = runs.start([ask(accuracy=0.95)], callbacks=handler)
    assert summary.status == "Succeeded", summary.reason
    assert callbacks.waiting(runs.home) == []
    summary = runs.start([ask(accuracy=0.5)], callbacks=handler)
    assert summary.status == "Failed" and "ValueError: not good enough" in str(summary.reason)


@pytest.mark.parametrize("value", ["float('nan')", "float('-inf')", "True", "'0.5'"])
def test_a_handlers_number_is_one_that_json_has(runs: LocalRuns, tmp_path: Path, value: str) -> None:
    (tmp_path / "odd.py").write_text(f"def decide(message, context):\n    return {{'score': {value}}}\n")
    summary = runs.start([ask(wants={"score": "Float"})], callbacks={"ask": f"{tmp_path / 'odd.py'}:decide"})
    assert summary.status == "Failed"
    assert re.search(r"the handler gave score=\S+\. Allowed: Float\.", str(summary.reason))


def test_callbacks_that_cannot_ask_are_refused_before_anything_starts(runs: LocalRuns) -> None:
    no_queue = ask()
    del no_queue["SqsQueueUrl"]
    for step, options, said in (
        (no_queue, {}, "SqsQueueUrl is None. Allowed: the URL of a queue"),
        (ask(wants={"x": "Date"}), {}, "output 'x' has type 'Date'. Allowed: String, Integer, Float, Boolean"),
        (ask(wants={f"x{n}": "String" for n in range(51)}), {}, "has 51 outputs. Allowed: 50"),
        (ask(), {"callbacks": {"ask": "nowhere.py:f"}}, "there is no file"),
        (ask(), {"callbacks": {"asks": "m:f"}}, "--callback asks: there is no such Callback step. Did you mean 'ask'"),
    ):
        with pytest.raises(UserError, match=said):
            runs.start([step], **options)
    assert callbacks.waiting(runs.home) == []


@pytest.mark.parametrize("failure", [None, "the reviewer said no"])
def test_an_answer_counts_that_the_runner_had_taken_when_it_died(
    runs: LocalRuns, monkeypatch: pytest.MonkeyPatch, failure: str | None
) -> None:
    class KilledError(BaseException):
        pass

    def answer(event: Event) -> None:
        if isinstance(event, StepNoted):
            [question] = callbacks.waiting(runs.home)
            callbacks.answer(runs.home, question.token, {} if failure else {"approved": "true"}, failure)

    def dies(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(LedgerWriter, "finish_step" if failure else "publish", dies)
        with pytest.raises(KilledError):
            Runner(runs.home, answer).start(runs.text([ask()]), {}, Options(pipeline="test"))
    runs.events = []
    summary = Runner(runs.home, runs.events.append).resume("latest")
    assert summary.status == ("Failed" if failure else "Succeeded") and (summary.reason or "").endswith(failure or "")
    assert runs.of(StepNoted) == []
