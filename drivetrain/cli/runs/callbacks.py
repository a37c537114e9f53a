"""Answers to Callback steps, and the list of those that wait."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.cli.options import pairs
from drivetrain.targets.sagemaker.run import callbacks
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.run_store.home import Home


def show_waiting(home: Home, output: Sequence[str] | None, fail: str | None, *, as_json: bool) -> None:
    """
    Raises:
        UserError: an answer is given, and no token.
    """
    if output or fail is not None:
        raise UserError(
            "Whose question is answered? Give its token: drivetrain runs callback TOKEN --output NAME=VALUE."
        )
    from drivetrain.base.formatting import duration
    from drivetrain.telling.terminal import paint, table

    waiting = callbacks.waiting(home)
    if as_json:
        say_json([asdict(question) for question in waiting])
    elif not waiting:
        say("No step waits for an answer.")
    else:
        now = time.time()
        rows = [
            [
                question.token,
                question.step,
                question.execution if home.is_running(question.execution) else f"{question.execution} (not running)",
                duration(now - question.asked),
                ", ".join(f"{name} ({kind})" for name, kind in question.outputs.items()) or "none",
                json.dumps(question.body["arguments"], ensure_ascii=False)[:80],
            ]
            for question in waiting
        ]
        say(table(["token", "step", "run", "for", "outputs", "arguments"], rows))
        say(paint("\nAnswer with: drivetrain runs callback TOKEN --output NAME=VALUE, or --fail REASON", "dim"))


def answer(
    home: Home, token: str, output: Sequence[str] | None, fail: str | None, *, home_option: str, as_json: bool
) -> None:
    """
    Raises:
        UserError: outputs and a failure at once, or as `callbacks.answer`.
    """
    if output and fail is not None:
        raise UserError("--output and --fail exclude each other: a step succeeds with outputs, or fails for a reason.")
    question = callbacks.answer(home, token, pairs("--output", output, "NAME=VALUE"), fail)
    running = home.is_running(question.execution)
    if as_json:
        say_json({"execution": question.execution, "step": question.step, "running": running})
        return
    how = "fails" if fail is not None else "goes on"
    say(f"{question.step} of {question.execution} {how}.")
    if not running:
        say(f"Its run does not go on by itself: drivetrain runs resume {question.execution}{home_option}")
