"""The tutorials do what they say: their files are saved, and their commands run in their order in an empty folder."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import preloaded

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
# What the commands together must have said.
SAID = {
    "first_pipeline": ("customers version 1 is approved", "# customers version 1", "min_accuracy"),
    "own_table": (
        "customers version 1: waiting for approval",
        "evaluate: accuracy 0.8",
        "on 300 samples",
        "The floor is met",
        "customers version 1, approved",
        "PROBABILITY",
    ),
    "own_model": (
        "churn version 1 is approved",
        "No version of churn in the registry local is approved yet",
        "churn version 2: waiting for approval",
        "Keep the champion",
        "churn version 2, approved",
        "PROBABILITY",
        "plan=basic",
    ),
    "own_training_script": ("epoch 5: loss=0.2000", "own version 2"),
    "kubeflow": ("customers succeeded in", "customers version 1"),
    "schedule_and_approval": ("0 2 * * ? *", "nightly version 1 is approved", "nothing new since", "nightly version 2"),
    "studio_round_trip": ("too many wrong guesses", "customers version 1"),
    "rehearse_a_deployment": (
        "created pipeline 'customers'",
        "Nothing to do: pipeline 'customers' in account 123456789012, us-east-1",
        "~ pipeline 'customers'",
    ),
    "spot": ("interrupted 1 time", "it pays from", "good"),
}


def test_every_tutorial_is_run() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == set(SAID)


# Of its own: other tests change moto in their process. It ends with its stdin.
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def stand_in(request: pytest.FixtureRequest) -> int:
    """The port of a moto server that lives as long as the test."""
    server = subprocess.Popen(
        [sys.executable, "-c", MOTO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def end() -> None:
        server.communicate(timeout=30)

    request.addfinalizer(end)
    assert server.stdout is not None
    return int(server.stdout.readline())


@pytest.mark.slow
@pytest.mark.nightly_cases("spot")
@pytest.mark.parametrize("name", SAID)
def test_its_commands_work_in_their_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    if "\nmoto_server -p 5055 &\n" in text:
        text = text.replace("5055", str(stand_in(request)))
    folder, said = tmp_path, ""
    files = re.findall(r"`(\w+\.(?:py|yaml))`[^`]*\n\n```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for line in "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)).splitlines():
        words = shlex.split(line, comments=True)
        for file, code in files:
            (folder / file).write_text(code)
        if words[0] == "cd":
            folder /= words[1]
        elif words[0] == "export":
            monkeypatch.setenv(*words[1].split("=", 1))
        elif words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], cwd=folder, check=True)
        elif words[0] == "drivetrain":
            done = preloaded.drivetrain(*words[1:], cwd=folder)
            assert done.returncode == int(line.endswith("# fails")), f"{line}\n{done.stdout}{done.stderr}"
            said += done.stdout
        elif words[0] not in ("moto_server", "pip"):
            subprocess.run(words, cwd=folder, check=True)
    for each in SAID[name]:
        assert each in said, said


@pytest.mark.slow
def test_text_labels_are_numbered_as_the_page_says(tmp_path: Path) -> None:
    from pyarrow import parquet

    from drivetrain.components.transform_data import transform_data

    text = (FOLDER / "own_table.md").read_text(encoding="utf-8")
    (plan,) = re.findall(r"^numbered = (.*)$", text, re.MULTILINE)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "customers.csv").write_text("id,visits,stays\n0,7,yes\n1,3,no\n2,5,yes\n")
    transform_data(raw=tmp_path / "raw", output=tmp_path / "out", plan=json.dumps(ast.literal_eval(plan)))
    (shard,) = (tmp_path / "out").rglob("*.parquet")
    assert parquet.read_table(shard)["stays"].to_pylist() == [1, 0, 1]


def test_the_fits_of_the_page_exist() -> None:
    import pyarrow as pa

    from drivetrain.data.fitting import declared_fits

    text = (FOLDER / "own_table.md").read_text(encoding="utf-8")
    (fit,) = re.findall(r"^fit = (\[.*?^\])", text, re.MULTILINE | re.DOTALL)
    numbers = [(name, pa.float64()) for name in ("visits", "minutes", "spent")]
    schema = pa.schema([("id", pa.int64()), *numbers, ("country", pa.string()), ("stays", pa.int64())])
    found = declared_fits(json.dumps(ast.literal_eval(fit)), schema, key="id", label="stays")
    assert {each.column for each in found} == {"visits", "minutes", "spent", "country"}
