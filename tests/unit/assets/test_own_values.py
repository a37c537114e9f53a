"""What a component's file says of values that another process changes, and of files by absolute paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.assets.own_values import absolute_paths, changed_elsewhere, unknown_argument

HEAD = "N = 0\nSEEN = {}\n\n\ndef helper():\n    SEEN['a'] = 1\n\n\n"
TRAIN = "@component\ndef train() -> float:\n"
EVALUATE = "@component(needs=['x'])\ndef evaluate() -> float:\n    return N + len(SEEN)\n"


@pytest.mark.parametrize(
    ("change", "line", "name"),
    [
        ("    global N\n    N += 1\n", 12, "N"),
        ("    SEEN['n'] = 1\n", 11, "SEEN"),
        ("    SEEN.update(n=1)\n", 11, "SEEN"),
        ("    del SEEN['n']\n", 11, "SEEN"),
        ("    helper()\n", 6, "SEEN"),
    ],
)
def test_a_value_that_another_step_changes_is_named(change: str, line: int, name: str) -> None:
    found, wrong = changed_elsewhere((HEAD + TRAIN + change + EVALUATE).encode(), "evaluate")
    assert found == line
    changer = "helper" if "helper" in change else "train"
    assert wrong.startswith(
        f"{changer}() changes {name}, which evaluate() reads. Each step runs in a process of its own"
    )


def test_a_value_changed_by_the_pipeline_function_is_named() -> None:
    pipeline = "def nightly() -> Pipeline:\n    global N\n    N = 5\n"
    assert changed_elsewhere((HEAD + EVALUATE + pipeline).encode(), "evaluate")[0] == 14


@pytest.mark.parametrize(
    "text",
    [
        HEAD + TRAIN + "    N = 1\n    SEEN = {}\n    SEEN['a'] = N\n" + EVALUATE,  # names of its own
        HEAD + TRAIN + "    helper()\n" + EVALUATE + "    helper()\n",  # each for itself
        HEAD + TRAIN + "    SEEN.get('a')\n" + EVALUATE,
        HEAD + "def test_it():\n    global N\n    N = 1\n" + EVALUATE,  # no step
        HEAD + TRAIN + "    SEEN['a'] = 1\n    return len(SEEN)\n",
        "def broken(",
    ],
)
def test_changes_within_one_process_are_accepted(text: str) -> None:
    for function in ("train", "evaluate"):
        assert changed_elsewhere(text.encode(), function) == (0, "")


def test_absolute_paths_of_this_machine_are_found_with_their_lines(tmp_path: Path) -> None:
    data = tmp_path / "numbers.txt"
    data.write_text("1")
    text = (
        f"DATA = '{data}'\n\n\ndef rows():\n    return open(DATA)\n\n\n@component\ndef read() -> float:\n"
        f"    open('{tmp_path}/not_there'), open('/opt/ml/input'), open('/'), open('/usr/bin/env')\n"
        f"    return float(open('{data}').read()) + len(rows())\n\n\n"
        f"def nightly() -> Pipeline:\n    step(read, data='{tmp_path}')\n"
    )
    assert list(absolute_paths(text.encode(), "read")) == [(11, str(data)), (1, str(data))]


PARSER = "p = argparse.ArgumentParser()\np.add_argument('--epochs', '-e', type=int)\np.add_argument('--lr')\n"


@pytest.mark.parametrize("given", [["--rate"], ["--epochs", "--rate"], ["--rate", "-x"]])
def test_an_argument_that_a_script_does_not_take_is_found(given: list[str]) -> None:
    found = unknown_argument(f"{PARSER}p.parse_args()".encode(), given)
    assert found == ("--rate", ["--epochs", "-e", "--lr"])


@pytest.mark.parametrize(
    "text",
    [
        f"{PARSER}p.parse_known_args()",
        f"{PARSER}q = ArgumentParser(parents=[p])\nq.parse_args()",
        f"{PARSER}p.add_argument(*names)\np.parse_args()",
        f"{PARSER}p.add_argument('rate')\np.parse_args()",
        f"{PARSER}p.add_subparsers()\np.parse_args()",
        "p = HfArgumentParser(Options)\np.parse_args_into_dataclasses()",
        "import sys\nprint(sys.argv)",
        "def broken(",
    ],
)
def test_arguments_built_at_run_time_are_not_checked(text: str) -> None:
    assert unknown_argument(text.encode(), ["--rate"]) == ("", [])


def test_argument_prefixes_match_as_in_argparse() -> None:
    assert unknown_argument(f"{PARSER}p.parse_args()".encode(), ["--epo", "-e", "--l"])[0] == ""
