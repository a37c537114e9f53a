"""The image that serves models: what it copies is there, and what it starts answers as an endpoint does."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "infra" / "serving.Dockerfile").read_text(encoding="utf-8")
MODEL = """
def model_fn(folder):
    with open(folder + "/factor") as file:
        return float(file.read())


def predict_fn(data, model):
    return data * model
"""
STARTUP_S = 60


def test_files_copied_into_the_image_exist() -> None:
    copied = [word for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]]
    assert "drivetrain/inference_server" in copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert "\ntorch==" in (ROOT / "infra/kubeflow/images/requirements.txt").read_text()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[http.client.HTTPConnection]:
    """The image's own `serve`, with its folders elsewhere."""
    (script,) = re.findall(r"printf '(.*)\\n'", DOCKERFILE)
    copied = f"{ROOT}/drivetrain/inference_server/"
    text = script.replace("\\n", "\n").replace("/opt/drivetrain/inference_server/", copied)
    serve = tmp_path / "serve"
    serve.write_text(text.replace("/opt/ml/model", f"{tmp_path}/model").replace("python", sys.executable, 1))
    serve.chmod(0o755)
    code = tmp_path / "model" / "code"
    code.mkdir(parents=True)
    (code / "inference.py").write_text(MODEL)
    (code.parent / "factor").write_text("2.5")
    with socket.socket() as held:
        held.bind(("", 0))
        port = held.getsockname()[1]
    variables = {**os.environ, "SAGEMAKER_BIND_TO_PORT": str(port)}
    with subprocess.Popen([str(serve), "serve"], env=variables) as process:
        try:
            # The service asks from outside of the container: on another address than localhost's.
            connection = http.client.HTTPConnection("127.0.0.2", port, timeout=STARTUP_S)
            until = time.monotonic() + STARTUP_S
            while True:
                try:
                    connection.connect()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None and time.monotonic() < until
                    time.sleep(0.02)
            yield connection
            connection.close()
        finally:
            process.terminate()


def test_the_image_answers_pings_and_requests_of_an_endpoint(served: http.client.HTTPConnection) -> None:
    served.request("GET", "/ping")
    answer = served.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    served.request("POST", "/invocations", b"[[1, 2]]", {"Content-Type": "application/json"})
    answer = served.getresponse()
    assert (answer.status, answer.read()) == (200, b"[[2.5, 5.0]]")
    asked = b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}]}'
    served.request("POST", "/v2/models/model/infer", asked, {"Content-Type": "application/json"})
    answer = served.getresponse()
    assert (answer.status, b'"data": [2.5, 5.0]' in answer.read()) == (200, True)
