"""How much `drivetrain run` prints: nothing but the id, or a line a step."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import CommandLine


def test_a_quiet_run_prints_its_id_and_what_failed(drivetrain: CommandLine) -> None:
    id = drivetrain.run("--quiet").strip()
    assert drivetrain.err == "" and json.loads(drivetrain("runs", "show", id, "--home", drivetrain.home, "--json"))
    failed = drivetrain.run("--quiet", accuracy=0.1, code=1).strip()
    assert len(failed) == 12 and "failed in" in drivetrain.err and "not good enough" in drivetrain.err


def test_forty_steps_print_forty_lines(drivetrain: CommandLine) -> None:
    step = drivetrain.definition()["Steps"][0]
    steps = [{**step, "Name": f"one-{number}"} for number in range(40)]
    file = drivetrain.write("wide.json", {"Version": "2020-12-01", "Parameters": [], "Steps": steps})
    stubs = [f"--stub=one-{number}" for number in range(40)]
    text = drivetrain("run", "--definition", file, "--home", drivetrain.home, *stubs)
    lines = text.splitlines()
    assert len([line for line in lines if "one-" in line]) == 40
    assert len(lines) <= 46 and "STEP" not in text, text
