"""Several who change one pipeline at the same time, and the command as users start it: nobody's work is lost unsaid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from drivetrain.targets.sagemaker.account import Account
from tests.fixtures.sagemaker_service.command_line import NOTHING, CommandLine

PROGRAM = "import sys; from drivetrain.cli.main import main; sys.exit(main())"
PATIENCE_S = 300


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["put_object", "list_pipeline_versions", "update_pipeline"])
def test_an_edit_between_read_and_write_is_kept(
    drivetrain: CommandLine, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    drivetrain("apply", "nightly.py", "--yes")
    original, edited = Account.call, list[str]()

    def call(account: Account, service: str, operation: str, **arguments: Any) -> Any:
        if operation == moment and not edited:
            edited.append(operation)
            drivetrain.edit(lambda read: read["Parameters"][0].update(DefaultValue=0.25))
        return original(account, service, operation, **arguments)

    monkeypatch.setattr(Account, "call", call)
    changed = ("--set", "rows=20", "--set", "every=rate(12 hours)")
    schedules = drivetrain.left()["schedules"]
    code, text = drivetrain.run("apply", "nightly.py", "--yes", *changed)
    assert edited and code == 2, text
    assert "drivetrain plan" in text and any(
        said in text for said in ("changed while apply", "another user saved version", "was changed since it was made")
    ), text
    now = json.loads(drivetrain.definition())
    assert now["Parameters"][0]["DefaultValue"] == 0.25
    assert "20" not in now["Steps"][0]["Arguments"]["AppSpecification"]["ContainerArguments"]
    assert drivetrain.left()["schedules"] == schedules
    # It is drift now, which is pulled and applied with the change.
    drivetrain("apply", "nightly.py", "--yes", *changed, code=2)
    assert "was edited since the last apply" in drivetrain.err
    drivetrain("pull", "nightly.py")
    drivetrain("apply", "nightly.py", "--yes", *changed)
    both = json.loads(drivetrain.definition())
    assert both["Parameters"][0]["DefaultValue"] == 0.25
    assert "20" in both["Steps"][0]["Arguments"]["AppSpecification"]["ContainerArguments"]


def launch(drivetrain: CommandLine, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=drivetrain.folder,
        env={**os.environ, **drivetrain.account.variables, "DRIVETRAIN_HOME": str(drivetrain.folder / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        text, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, text


@pytest.mark.slow
def test_the_life_of_a_pipeline_in_separate_processes(drivetrain: CommandLine) -> None:
    def done(*arguments: str, code: int = 0) -> str:
        found, text = ended(launch(drivetrain, *arguments))
        assert found == code and "Traceback" not in text, text
        return text

    assert "+ pipeline 'nightly'" in done("plan", "nightly.py", "--out", "plan.json", "--exit-code", code=1)
    assert drivetrain.left() == NOTHING
    done("apply", "--plan", "plan.json")
    made = drivetrain.left()
    assert [len(made[kind]) for kind in ("pipelines", "rules", "schedules")] == [1, 1, 1]
    assert "Nothing to do" in done("plan", "nightly.py", "--exit-code")
    done("apply", "nightly.py", "--yes")
    assert drivetrain.left() == made
    drivetrain.edit(lambda read: read["Parameters"][0].update(DefaultValue=0.25))
    assert "was edited since the last apply" in done("apply", "nightly.py", "--yes", code=2)
    assert "0.9 -> 0.25" in done("pull", "nightly.py")
    done("apply", "nightly.py", "--yes")
    assert json.loads(drivetrain.definition())["Parameters"][0]["DefaultValue"] == 0.25
    done("destroy", "nightly.py", "--yes")
    assert drivetrain.left() == NOTHING


@pytest.mark.slow
def test_concurrent_applies_never_overwrite_silently(drivetrain: CommandLine) -> None:
    rows = ("20", "30")
    for _ in range(2):
        drivetrain("apply", "nightly.py", "--yes")
        both = [launch(drivetrain, "apply", "nightly.py", "--yes", "--set", f"rows={each}") for each in rows]
        (first, first_said), (second, second_said) = (ended(process) for process in both)
        said = f"{first}\n{first_said}\n{second}\n{second_said}"
        assert {first, second} <= {0, 2} and "Traceback" not in said, said
        words = json.loads(drivetrain.definition())["Steps"][0]["Arguments"]["AppSpecification"]["ContainerArguments"]
        stands = next(each for each in ("10", *rows) if each in words)
        if first == second == 0:
            # One came after the other, and said what it replaced.
            other = rows[stands == "20"]
            last = second_said if stands == "30" else first_said
            assert f"{other} -> {stands}" in last, said
        elif 0 in (first, second):
            # Who was refused wrote nothing, or put back what the other one wrote.
            assert stands == rows[first != 0], said
        # Whatever happened, a further apply settles it; where both were refused perhaps only by saying so.
        code, text = drivetrain.run("apply", "nightly.py", "--yes", "--set", "rows=40", "--discard", "all")
        assert code == 0, f"{said}\n{text}"
    drivetrain("destroy", "nightly.py", "--yes")
    assert drivetrain.left() == NOTHING
