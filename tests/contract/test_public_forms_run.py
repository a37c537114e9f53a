"""Definitions in the forms that people publish run here: each refusal names the options that help, all of them before
anything starts, and with just those the run ends."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.cli import main
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from tests.fixtures import public_forms
from tests.fixtures.local_runs import LocalRuns
from tests.fixtures.public_forms import BUCKET, FORMS

# Stands for the programs and images of others: it writes every output that it is to write, or a model, or serves one.
PROGRAM = r"""
import json, os, sys, tarfile
from pathlib import Path

def serve():
    from http.server import BaseHTTPRequestHandler, HTTPServer
    class Requests(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(b"")
        def do_POST(self):
            rows = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
            self.answer(b"".join(b"0.5\n" for _ in rows))
        def answer(self, body):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
    HTTPServer(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])), Requests).serve_forever()

def process(config):
    scores = {"regression_metrics": {"mse": {"value": 4.5}}, "classification_metrics": {"auc_score": {"value": 0.9}}}
    for output in config.get("ProcessingOutputConfig", {}).get("Outputs", []):
        folder = Path(output["S3Output"]["LocalPath"])
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath(output["OutputName"] + ".csv").write_text("1,2\n3,4\n")
        for name in ("evaluation.json", "state.json"):
            folder.joinpath(name).write_text(json.dumps(scores))
        with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
            archive.add(folder / "state.json", "model.json")

def train():
    given = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
    Path("/opt/ml/model/model.json").write_text(json.dumps(given))
    print(f"[10]#011train-auc:0.5#011validation-auc:0.{given.get('max_depth', 1)}", flush=True)

config = Path("/opt/ml/config/processingjobconfig.json")
if sys.argv[-1] == "serve":
    serve()
elif config.exists():
    process(json.loads(config.read_text()))
else:
    train()
"""
HANDLERS = """
def deploy(event, context):
    assert event["model_name"]
    return {"statusCode": 200}

def ask1(event, context):
    assert event["arguments"] == {"arg1": "foo"}
    return {"output1": "yes"}

def ask2(event, context):
    assert event["arguments"] == {"arg1": "yes"}
    return {"output2": "no"}
"""


@dataclass
class Laptop:
    """What a user has at hand, and gives where a refusal asks for it."""

    folder: Path
    options: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.program = self.folder / "program.py"
        self.program.write_text(PROGRAM)
        self.handlers = self.folder / "handlers.py"
        self.handlers.write_text(HANDLERS)
        self.data = self.folder / "data"
        self.data.mkdir()
        (self.data / "rows.csv").write_text("0.1\n0.2\n")
        (self.folder / "any.json").write_text('{"auc": 0.9}')
        (self.folder / "runproc.sh").write_text(
            "set -e\ncd /opt/ml/processing/input/code\ntar -xzf sourcedir.tar.gz\npython3 model.py\n"
        )
        (self.folder / "_repack_script_launcher.sh").write_text("python3 model.py\n")
        with tarfile.open(self.folder / "sourcedir.tar.gz", "w:gz") as archive:
            for name in ("model.py", "train.py"):
                archive.add(self.program, name)
            archive.add(self.folder / "_repack_script_launcher.sh", "_repack_script_launcher.sh")

    def stands_for(self, uri: str) -> Path:
        name = uri.rpartition("/")[2]
        found = {".py": self.program, ".json": self.folder / "any.json", ".sh": self.folder / "runproc.sh"}
        if name.endswith(".tar.gz"):
            return self.folder / "sourcedir.tar.gz"
        return found.get(Path(name).suffix, self.data / "rows.csv" if "." in name else self.data)

    def follow(self, refusal: str) -> bool:
        """Give what a refusal asks for; False where that is nothing new."""
        data = re.findall(r"--data (s3://.*?)=LOCAL_PATH", refusal)
        images = [image for image in re.findall(r"--image-command '(\S+)=COMMAND'", refusal) if image != "IMAGE"]
        asked = [
            *(("--data", f"{uri}={self.stands_for(uri)}") for uri in data),
            *(("--image-command", f"{image}={sys.executable} {self.program}") for image in images),
            *(("--lambda", f"{arn}={self.handlers}:deploy") for arn in re.findall(r"--lambda (\S+)=file", refusal)),
            *(("--param", f"{name}=x") for name in re.findall(r"no value for (\w+)", refusal)),
        ]
        for line in refusal.splitlines():
            # Only what there is no other way for: a cluster, an image without a name, a bucket without one.
            if "--stub" in line and "--lambda" not in line and ("--image-command" not in line or "'IMAGE=" in line):
                asked += [("--stub", name) for name in re.findall(r"step '([\w-]+)'", line)]
        new = [option for option in dict.fromkeys(asked) if option not in self.options]
        self.options += new
        return bool(new)


@dataclass(frozen=True)
class Ran:
    """A run that came to its end, and how often it was refused before."""

    home: Home
    refusals: int
    steps: dict[str, str | None]

    @property
    def runs(self) -> int:
        with Ledger(self.home) as ledger:
            return len(ledger.executions())

    def response(self, step: str) -> Any:
        with Ledger(self.home) as ledger:
            return ledger.step(ledger.execution("latest").id, step).response


def run(tmp_path: Path, definition: dict[str, Any], *given: tuple[str, str]) -> Ran:
    laptop = Laptop(tmp_path / "laptop")
    laptop.options += given
    (tmp_path / "foreign.json").write_text(json.dumps(definition, indent=1))
    imported = tmp_path / "imported.json"
    assert command(["import", str(tmp_path / "foreign.json"), "-o", str(imported)])[0] == 0
    home = Home(tmp_path / "home")
    refusals = 0
    while True:
        options = [word for option in laptop.options for word in option]
        code, said = command(["run", "-d", str(imported), "--home", str(home.root), *options])
        if code != 2:
            break
        assert laptop.follow(said), said
        refusals += 1
    assert code == 0, said
    with Ledger(home) as ledger:
        rows = ledger.steps(ledger.execution("latest").id)
        return Ran(home, refusals, {row.name: row.status for row in rows})


def command(words: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main.run(words)
    assert "Traceback" not in out.getvalue()
    return code, out.getvalue()


NOT_RUN = {"regression": {"Stop"}}
GIVEN = {"callbacks": [("--callback", "Ask1={handlers}:ask1"), ("--callback", "Ask2={handlers}:ask2")]}


@pytest.mark.slow_cases(but=["placeholders", "cluster", "tracked", "nothing", "deploy"])
@pytest.mark.parametrize("form", FORMS)
def test_following_the_advice_of_a_refusal_is_sufficient(tmp_path: Path, form: str) -> None:
    handlers = tmp_path / "laptop" / "handlers.py"
    given = [(name, value.format(handlers=handlers)) for name, value in GIVEN.get(form, [])]
    ran = run(tmp_path, FORMS[form](), *given)
    missed = NOT_RUN.get(form, set())
    assert ran.steps == {name: "NotExecuted" if name in missed else "Succeeded" for name in ran.steps}
    # Nothing that was known to be missing let the run begin.
    assert ran.runs == 1
    assert (ran.refusals > 0) == (form != "nothing")


@pytest.mark.slow
def test_a_tuning_without_a_number_of_trainings_tries_all_and_its_best_is_found_by_name(tmp_path: Path) -> None:
    ran = run(tmp_path, public_forms.tuned())
    tuned = ran.response("Tune")
    assert [one["TunedHyperParameters"]["max_depth"] for one in tuned["TrainingJobSummaries"]] == ["5", "3"]
    best = f"{BUCKET}/models/{tuned['BestTrainingJob']['TrainingJobName']}/output/model.tar.gz"
    assert ran.response("Create")["PrimaryContainer"]["ModelDataUrl"] == best
    assert LocalRegistry(ran.home.ledger).version("Tuned", "latest").metrics == {"auc": 0.9}


@pytest.mark.slow
def test_the_regression_is_registered_transformed_or_stopped_by_its_own_decision(tmp_path: Path) -> None:
    ran = run(tmp_path, public_forms.regression())
    version = LocalRegistry(ran.home.ledger).version("Regression", "latest")
    assert version.metrics["regression_metrics.mse.value"] == 4.5
    assert version.status == "PendingManualApproval"
    with Ledger(ran.home) as ledger:
        uris = [written.uri for written in ledger.written(ledger.execution("latest").id, "Transform")]
    assert uris == [f"{BUCKET}/Transform/rows.csv.out"]


def test_the_regression_fails_by_its_own_decision(tmp_path: Path) -> None:
    stricter = public_forms.regression()
    stricter["Parameters"][-1]["DefaultValue"] = 3.5
    with pytest.raises(AssertionError, match=re.escape("Execution failed due to MSE > 3.5")):
        run(tmp_path, stricter)


def test_inputs_below_a_step_output_are_still_reported_missing(tmp_path: Path) -> None:
    """The code of `serial` lies below its step's own output; beside the report of `tuned` other steps write."""
    runs = LocalRuns(tmp_path)
    for form, missing in (
        ("serial", f"{BUCKET}/scaled/code/bf5f/sourcedir.tar.gz"),
        ("tuned", f"{BUCKET}/evaluation.json"),
    ):
        with pytest.raises(UserError, match=re.escape(f"--data {missing}=LOCAL_PATH")):
            runs.start(json.dumps(FORMS[form]()))
    with Ledger(runs.home) as ledger:
        assert ledger.executions() == []
