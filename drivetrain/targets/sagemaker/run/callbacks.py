"""The local callback queue: the questions of Callback steps, and the answers given to their tokens.

A step's question lies in the run's folder, `callbacks/<token>/question.json`, and its answer beside it. A run that was
killed or stopped asks the same question with the same token when it goes on, so an answer given meanwhile counts.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SendPipelineExecutionStepSuccess.html
"""

from __future__ import annotations

import json
import math
import os
import secrets
import string
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.run_store.home import Home, write_whole
from drivetrain.triggers.event_values import FLOAT, INTEGER

TOKEN_LENGTH = 10
LONGEST_VALUE, LONGEST_REASON = 1024, 256
_CHARACTERS = string.ascii_letters + string.digits
_FOLDER, _QUESTION, _ANSWER = "callbacks", "question.json", "answer.json"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that a step asks. `body` is the message as it comes to the queue: `token` and `arguments`; `outputs`
    are the output parameters that it wants, name -> type; `asked` seconds since the epoch."""

    execution: str
    step: str
    queue: str
    body: Mapping[str, Any]
    outputs: Mapping[str, str]
    asked: float

    @property
    def token(self) -> str:
        return str(self.body["token"])


@dataclass(frozen=True)
class Answer:
    """Output parameters, or why it failed."""

    outputs: Mapping[str, Any]
    failure: str | None = None


def ask(
    home: Home,
    *,
    execution: str,
    step: str,
    queue: str,
    arguments: Mapping[str, Any],
    outputs: Mapping[str, str],
    anew: bool = False,
) -> Question:
    """Enter a step's question; an earlier one of the run that is the same keeps its token, and an answer that was given
    to it counts. `anew`: the earlier ones are over, since the ledger knows what came of them."""
    for earlier in _questions(home, execution):
        if earlier.step == step:
            if not anew and (earlier.queue, earlier.outputs, earlier.body["arguments"]) == (queue, outputs, arguments):
                return earlier
            _retire(home, earlier)
    token = "".join(secrets.choice(_CHARACTERS) for _ in range(TOKEN_LENGTH))
    body = {"token": token, "arguments": dict(arguments)}
    question = Question(
        execution=execution, step=step, queue=queue, body=body, outputs=dict(outputs), asked=time.time()
    )
    folder = _folder(home, question)
    folder.mkdir(parents=True)
    write_whole(folder / _QUESTION, json.dumps(asdict(question), indent=1))
    return question


def answer_to(home: Home, question: Question) -> Answer | None:
    """The answer to a question, or None. The file stays, so that a run that dies before recording the answer finds it
    again."""
    try:
        given = json.loads((_folder(home, question) / _ANSWER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Answer(given["outputs"], given["failure"])


def settle(home: Home, question: Question, outputs: Mapping[str, Any]) -> None:
    """A handler answered instead of a person."""
    write_whole(_folder(home, question) / _ANSWER, json.dumps(asdict(Answer(outputs)), indent=1))
    _retire(home, question)


def answer(home: Home, token: str, outputs: Mapping[str, str], failure: str | None) -> Question:
    """Answer the question of a token, with outputs as text or with the reason of a failure.

    Raises:
        UserError: no such question, or it was answered; outputs that it does not want, or of another type; a text that
            is longer than the service takes.
    """
    found = {question.token: question for question in waiting(home)}
    if token not in found:
        raise UserError(f"no step waits with the token {token!r}. {_waiting_are(token, found)}")
    question = found[token]
    given = Answer({}, _reason(failure)) if failure is not None else Answer(_typed(question, outputs))
    folder = _folder(home, question)
    incoming = folder / f"{_ANSWER}.{secrets.token_hex(4)}"
    write_whole(incoming, json.dumps(asdict(given), indent=1))
    try:
        os.link(incoming, folder / _ANSWER)  # unlike a rename it replaces nothing: the first answer counts
    except FileExistsError:
        raise UserError(f"token {token} was answered before.") from None
    finally:
        incoming.unlink()
    return question


def waiting(home: Home) -> list[Question]:
    """The questions without an answer, the oldest first."""
    open_ = [each for each in _questions(home, "*") if not (_folder(home, each) / _ANSWER).exists()]
    return sorted(open_, key=lambda question: question.asked)


def _typed(question: Question, outputs: Mapping[str, str]) -> dict[str, Any]:
    unknown = [name for name in outputs if name not in question.outputs]
    missing = [name for name in question.outputs if name not in outputs]
    if unknown:
        wanted = ", ".join(question.outputs) or "none"
        raise UserError(f"step {question.step!r} has no output {unknown[0]!r}. Its outputs: {wanted}.")
    if missing:
        options = " ".join(f"--output {name}={kind.upper()}" for name, kind in question.outputs.items())
        raise UserError(f"step {question.step!r} wants the output {missing[0]!r}. Give {options}.")
    return {name: _value(name, text, question.outputs[name]) for name, text in outputs.items()}


def _value(name: str, text: str, kind: str) -> Any:
    if len(text) > LONGEST_VALUE:
        raise UserError(f"output {name!r} has {len(text):,} characters. Allowed: {LONGEST_VALUE:,}.")
    try:
        if kind == "Integer" and INTEGER.fullmatch(text):
            return int(text)
        if kind == "Float" and FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
    except ValueError:  # more digits than Python reads
        pass
    if kind in ("Integer", "Float"):
        raise UserError(f"output {name!r} is {text!r:.60}. Allowed: {kind}.")
    if kind == "Boolean":
        if text.lower() not in ("true", "false"):
            raise UserError(f"output {name!r} is {text!r:.60}. Allowed: true, false.")
        return text.lower() == "true"
    return text


def _reason(failure: str) -> str:
    if len(failure) > LONGEST_REASON:
        raise UserError(f"the reason has {len(failure):,} characters. Allowed: {LONGEST_REASON}.")
    return failure or "the callback failed"


def _waiting_are(token: str, found: Mapping[str, Question]) -> str:
    if not found:
        return "No step is waiting: a step asks when it runs (drivetrain run)."
    return did_you_mean(token, found)


def _questions(home: Home, execution: str) -> list[Question]:
    paths = home.runs.glob(f"{execution}/{_FOLDER}/*/{_QUESTION}")
    return [Question(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def _retire(home: Home, question: Question) -> None:
    """Mark a question as over. The question and its answer can still be read."""
    path = _folder(home, question) / _QUESTION
    path.rename(path.with_name("asked.json"))


def _folder(home: Home, question: Question) -> Path:
    return home.run(question.execution) / _FOLDER / question.token
