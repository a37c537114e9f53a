"""What a training exports answers as the model does, to the bit: a SavedModel, Keras's file, and the code that travels
with them, in a process of its own and in front of TensorFlow Serving."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.distributed.prepared_data import digit_columns
from tests.tensorflow.trainings import PYTHON, Work, run

pytestmark = pytest.mark.tensorflow

# What TensorFlow Serving's image does with a request (python_service.py of sagemaker-tensorflow-serving-container).
CALLER = """
import collections, importlib.util, io, json, sys
spec = importlib.util.spec_from_file_location("inference", sys.argv[1])
inference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(inference)
Context = collections.namedtuple("Context", "rest_uri request_content_type accept_header")
context = Context(sys.argv[2], "text/csv", "application/jsonlines")
for rows in sys.argv[3:]:
    try:
        body, kind = inference.handler(io.BytesIO(open(rows, "rb").read()), context)
    except ValueError as error:
        body, kind = json.dumps({"refused": str(error)}), ""
    print(body.strip())
assert not {"tensorflow", "keras", "torch"} & sys.modules.keys()
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return Work(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def trained(work: Work) -> Any:
    """What was exported is compared; and the predictions of batch_predict."""
    model = str(work.folder / "one/model")
    runs = [("one", {"epochs": 1}), ("fp64", {"epochs": 1, "precision": "fp64"})]
    return run(work.given(*runs, exports=[str(work.folder / "fp64/model"), model], predict=[model]))


@pytest.fixture(scope="module")
def rows(work: Work) -> Path:
    """All rows of the data, without their labels."""
    columns = {name: values for name, values in digit_columns(50).items() if name.startswith("p")}
    path = work.folder / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture(scope="module")
def expected(work: Work, trained: Any) -> list[list[float]]:
    """The probabilities that batch_predict has written, a row each."""
    table = pq.read_table(sorted((work.folder / "one/model-predictions").rglob("*.parquet")))
    return np.stack([table[f"score_{number}"].to_numpy() for number in range(10)], axis=1).tolist()


def test_an_export_computes_the_same_bits(work: Work, trained: Any) -> None:
    assert trained["exports"] == [{"saved_model": True, "keras": True}] * 2
    with zipfile.ZipFile(work.folder / "one/model/model.keras") as kept:
        assert {each.date_time[0] for each in kept.infolist()} == {1980}
        assert json.loads(kept.read("metadata.json"))["date_saved"] == ""


def answers_of(text: str) -> list[list[float]]:
    return [json.loads(line)["scores"] for line in text.splitlines()]


def test_the_code_of_the_model_works_alone(work: Work, rows: Path, expected: Any) -> None:
    """With the modules that lie beside it; it refuses to run with others."""
    entry, answers = work.folder / "one/model/code/inference.py", work.folder / "answers.jsonl"
    command = [str(PYTHON), "-I", str(entry), f"--input={rows}", f"--output={answers}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert answers_of(answers.read_text()) == expected


def test_it_answers_in_front_of_tensorflow_serving(work: Work, rows: Path, expected: Any) -> None:
    """In a process without TensorFlow; the server is one that has the outputs of these very inputs."""
    (bad := work.folder / "bad.csv").write_text("p0,p1\n1,2\n")
    with serving(work.folder / "one/computed.npz") as (uri, asked):
        entry = work.folder / "one/model/code/inference.py"
        command = [sys.executable, "-c", CALLER, str(entry), uri, str(rows), str(bad)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, cwd=work.folder, env={"PYTHONPATH": ""}
        )
    assert done.returncode == 0, done.stderr[-2000:]
    *answers, refused = done.stdout.splitlines()
    assert answers_of("\n".join(answers)) == expected
    assert asked == ["/v1/models/saved_model:predict"]
    assert "p2" in json.loads(refused)["refused"]


@contextmanager
def serving(computed: Path) -> Iterator[tuple[str, list[str]]]:
    """A stand-in for TensorFlow Serving's predict API that knows one batch; where it is, and what it was asked."""
    known, asked = np.load(computed), []

    class Requests(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            inputs = np.asarray(given["instances"], np.float32)
            right = given["signature_name"] == "serving_default" and np.array_equal(inputs, known["inputs"])
            body = json.dumps({"predictions": known["outputs"].tolist()} if right else {"error": "other inputs"})
            self.send_response(200 if right else 400)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/models/saved_model:predict", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
