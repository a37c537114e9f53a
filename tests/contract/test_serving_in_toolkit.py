"""A model folder under SageMaker's real inference toolkit: answers, and 400 for what a request holds that is wrong.

make test-in ENV=toolkit
"""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_data

pytestmark = pytest.mark.toolkit

ROOT = Path(__file__).parents[2]
TOOLKIT = ROOT / ".venvs" / "toolkit" / "bin" / "python"
# Does for each request what the toolkit's handler service does; its server (a program in Java) is left out.
ASK = """
import base64, json, sys
folder, packages, asked = sys.argv[1:]
sys.path.insert(0, folder + "/code")
sys.path.append(packages)
from sagemaker_inference.transformer import Transformer

class Context:
    system_properties = {"model_dir": folder}
    def __init__(self, kind):
        self.status, self.kind, self.request_processor = 200, kind, [self]
    def get_request_properties(self):
        return {"Content-Type": self.kind, "Accept": "application/json"}
    def set_response_status(self, code, phrase):
        self.status = code
    def set_response_content_type(self, number, kind):
        pass

transformer, answers = Transformer(), []
for kind, body in json.loads(asked):
    context = Context(kind)
    (answer,) = transformer.transform([{"body": base64.b64decode(body)}], context)
    answers.append([context.status, answer if isinstance(answer, str) else answer.decode()])
print(json.dumps(answers))
"""


def npy(array: object, *, archive: bool = False) -> bytes:
    stream = io.BytesIO()
    (np.savez if archive else np.save)(stream, np.asarray(array))
    return stream.getvalue()


def test_bad_requests_are_no_server_errors(tmp_path: Path) -> None:
    tiny_data.write("prepared", tmp_path / "data", rows=20)
    options = json.dumps(tiny_data.SMALL.get("digits_cnn", {}))
    config = Config(recipe="digits_cnn", recipe_options=options, global_batch=8, max_steps=1)
    folders = Folders(train=tmp_path / "data", model=tmp_path / "model")
    train(config, folders, Process(0, 1, 0, 1, torch.device("cpu")))
    described = json.loads((tmp_path / "model" / "model.json").read_text())
    width = len(described["inputs"]["columns"])
    rows = np.zeros((2, width))
    wrong = {
        "application/json": [b"", b"{", b"[[1, 2]]", b'[{"p0": "x"}]'],
        "application/jsonlines": [b"", b"[1", b"\xff"],
        "text/csv": [b"", b"1,2\n", b'"', b"x," * (width - 1) + b"x\n"],
        "application/x-npy": [
            b"",
            npy(rows)[:70],
            npy(rows)[:-1],
            npy(rows, archive=True)[:-30],
            npy(rows, archive=True),
            npy(rows[:, 1:]),
            npy(rows.astype("complex64")),
        ],
        "text/html": [b"x"],
    }
    requests = [("application/x-npy", npy(rows))]
    requests += [(kind, body) for kind, bodies in wrong.items() for body in bodies]
    asked = json.dumps([(kind, base64.b64encode(body).decode()) for kind, body in requests])
    command = [TOOLKIT, "-c", ASK, tmp_path / "model", sysconfig.get_path("purelib"), asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    (status, answer), *refused = json.loads(done.stdout.splitlines()[-1])
    assert status == 200 and len(json.loads(answer)["predictions"]) == 2
    assert {status for status, _ in refused} == {400}, refused
