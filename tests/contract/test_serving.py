"""Every recipe's model can be served: what a training hands on is packed, unpacked and loaded in a process that has no
drivetrain, and answers with the bits of the training's own model. A new file in recipes/ is picked up by itself."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drivetrain.inference_server.hooks import Handler
from drivetrain.inference_server.server import Site
from drivetrain.inference_server.tensors import datatype
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.model_folder import ARCHIVE, unpack
from drivetrain.training import plugins
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.outputs import answers_of, task_of
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training.serving import inference
from drivetrain.training.serving.model import ServedModel
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training.torch.values import Values
from drivetrain.training_scripts.train import train
from tests.fixtures import tiny_data

NAMES = plugins.recipes_alone("torch")
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SERVER = Path(__file__).parents[1] / "fixtures" / "server_alone.py"
ROWS, ASKED = 20, 5
# Takes as long as all others together: left to the slow tests, and served by a process of its own.
LARGEST = "ants_bees_resnet18"
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == LARGEST else []) for name in NAMES]
)

Request = tuple[str, str, bytes]


def reader_of(name: str) -> str:
    return getattr(load_recipe(name, {}), "reader", "prepared")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As in the server: on another number of threads sums are rounded elsewhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Made(dict[str, Any]):
    """A dictionary whose values are made when they are first asked for."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, name: str) -> Any:
        self[name] = self.make(name)
        return self[name]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each recipe a folder with the data, and the model of a short training as its archive unpacks."""

    def make(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        tiny_data.write(reader_of(name), folder / "data", rows=ROWS)
        config = Config(
            recipe=name, recipe_options=json.dumps(tiny_data.SMALL.get(name, {})), global_batch=8, max_steps=1
        )
        train(config, Folders(train=folder / "data", model=folder / "trained"), ALONE)
        with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
            archive.add(folder / "trained", ".")
        (folder / "model").mkdir()
        unpack(folder / ARCHIVE, folder / "model")
        return folder

    return Made(make)


def dataset_of(folder: Path) -> Dataset:
    recipe, _, description = load_model(folder / "model")
    return Dataset(folder / "data", recipe, ALONE, fitted=description["data"]["fitted"])


def expected_of(folder: Path) -> dict[str, Any]:
    """What the training's own model says of the first rows, by the training's own way to them."""
    recipe, model, _ = load_model(folder / "model")
    with torch.no_grad():
        outputs = model.eval()(dataset_of(folder).batch(slice(0, ASKED)).inputs)
    scores, predicted, *_ = answers_of(Values(), recipe, task_of(recipe), outputs)
    if predicted is None:
        tokens = task_of(recipe).kind == "tokens"
        predicted = (outputs.argmax(dim=-1) if tokens else outputs.double()).numpy()
    return {"predicted": predicted.tolist(), "scores": None if scores is None else scores.tolist()}


def rows_of(folder: Path) -> list[dict[str, Any]]:
    dataset = dataset_of(folder)
    columns = dataset.reader.read(slice(0, ASKED), dataset.recipe.columns)
    return [{name: columns[name][row].tolist() for name in dataset.recipe.columns} for row in range(ASKED)]


def requests_of(name: str, folder: Path) -> list[Request]:
    """The first rows in every form that there is for the model."""
    rows = rows_of(folder)
    names = list(rows[0])
    found: list[Request] = [
        ("application/json", "application/json", json.dumps({"instances": rows}).encode()),
        ("application/json", "*/*", json.dumps([[row[name] for name in names] for row in rows]).encode())
        if len(names) > 1
        else ("application/json", "*/*", json.dumps([row[names[0]] for row in rows]).encode()),
        ("application/jsonlines", "application/json", "".join(f"{json.dumps(row)}\n" for row in rows).encode()),
        ("application/x-npy", "text/html, application/json;q=0.9", npy(rows, names)),
    ]
    dataset = dataset_of(folder)
    if reader_of(name) == "imdb":
        texts = [{"text": Path(dataset.reader.locate(row)).read_text()} for row in range(ASKED)]
        found.append(("application/json", "application/json", json.dumps(texts).encode()))
    if reader_of(name) == "image_folder":
        files = [Path(dataset.reader.locate(row)).read_bytes() for row in range(ASKED)]
        pictures = [{"picture": base64.b64encode(file).decode()} for file in files]
        found.append(("application/json", "application/json", json.dumps(pictures).encode()))
    if reader_of(name) == "text":
        length = len(rows[0]["tokens"])
        text = (folder / "data" / "text.txt").read_text()
        windows = [text[row * (length - 1) :][: length - 1] for row in range(ASKED)]
        found.append(
            ("application/json", "application/json", json.dumps([{"text": each} for each in windows]).encode())
        )
    if len(names) > 1:
        table = [names, *([row[name] for name in names] for row in rows)]
        for lines in (table, table[1:]):
            found.append(
                ("text/csv", "application/json", "".join(",".join(map(str, line)) + "\r\n" for line in lines).encode())
            )
    return found


def npy(rows: list[dict[str, Any]], names: list[str]) -> bytes:
    stream = io.BytesIO()
    np.save(
        stream,
        np.array(
            [[row[name] for name in names] for row in rows] if len(names) > 1 else [row[names[0]] for row in rows]
        ),
    )
    return stream.getvalue()


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    def ask(jobs: list[dict[str, Any]], *path: Path) -> list[dict[str, Any]]:
        scratch = tmp_path_factory.mktemp("server")
        for job in jobs:
            job["folder"] = str(job["folder"])
            job["requests"] = [
                [kind, accept, base64.b64encode(body).decode()] for kind, accept, body in job["requests"]
            ]
        (scratch / "jobs.json").write_text(json.dumps(jobs))
        arguments = [SERVER, sysconfig.get_path("purelib"), scratch / "jobs.json", scratch / "answers.json", *path]
        command = [sys.executable, "-I", "-S", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=scratch, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        answered = json.loads((scratch / "answers.json").read_text())
        assert answered["installed"] == []
        for job in answered["jobs"]:
            assert "failed" not in job, job["failed"]
        return answered["jobs"]

    return ask


@pytest.fixture(scope="module")
def served(folders: dict[str, Path], serve: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """All recipes' models but the largest by one process, which forks for each: torch is imported once."""

    def make(name: str) -> dict[str, Any]:
        names = [name] if name == LARGEST else [each for each in NAMES if each != LARGEST]
        jobs = [{"folder": folders[each] / "model", "requests": requests_of(each, folders[each])} for each in names]
        made.update(zip(names, serve(jobs), strict=True))
        return made[name]

    made = Made(make)
    return made


@pytest.mark.slow
@EACH
def test_a_model_archive_answers_bit_for_bit_like_the_trained_model(
    name: str, folders: dict[str, Path], served: dict[str, dict[str, Any]]
) -> None:
    expected = expected_of(folders[name])
    assert len(served[name]["answers"]) >= 4
    for answer in served[name]["answers"]:
        assert isinstance(answer, list), answer
        kind, body = answer
        assert kind == "application/json"
        predictions = json.loads(base64.b64decode(body))["predictions"]
        assert [row["predicted"] for row in predictions] == expected["predicted"]
        scores = [row.get("scores", row.get("score")) for row in predictions]
        assert scores == (expected["scores"] or [None] * ASKED)


@pytest.mark.parametrize("name", ["digits_cnn", "imdb_sentiment"])
def test_the_v2_protocol_answers_as_the_other_pages_do(name: str, folders: dict[str, Path]) -> None:
    model = folders[name] / "model"
    site = Site(Handler(inference, str(model)), "model", json.loads((model / "model.json").read_bytes()))
    dataset = dataset_of(folders[name])
    columns = dataset.reader.read(slice(0, ASKED), dataset.recipe.columns)
    inputs = [
        {"name": each, "shape": values.shape, "datatype": datatype(values.dtype), "data": values.tolist()}
        for each, values in columns.items()
        if each in dataset.recipe.columns
    ]
    status, answer, *_ = site.asked("/v2/models/model/infer", json.dumps({"inputs": inputs}).encode(), Message())
    assert status == 200, answer
    outputs = {each["name"]: np.reshape(each["data"], each["shape"]).tolist() for each in json.loads(answer)["outputs"]}
    expected = expected_of(folders[name])
    assert outputs["predicted"] == expected["predicted"]
    assert outputs.get("scores", outputs.get("score")) == expected["scores"]


@EACH
def test_a_single_row_is_answered_like_in_a_batch_within_rounding(name: str, folders: dict[str, Path]) -> None:
    """Sums are taken in another order for another number of rows; docs/prediction.md has the figures."""
    served = ServedModel.load(folders[name] / "model", torch.device("cpu"))
    dataset = dataset_of(folders[name])
    columns = dataset.reader.read(slice(0, ROWS), dataset.recipe.columns)
    together = served.predict(columns)
    for row in range(len(together)):
        alone = served.predict({column: values[row : row + 1] for column, values in columns.items()})
        if together.scores is None or alone.scores is None:
            assert together.predicted[row].tolist() == alone.predicted[0].tolist()
        else:
            np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=0, atol=1e-6)


@pytest.mark.slow_cases("cifar10_resnet")
@EACH
def test_the_modules_of_the_archive_are_used(
    name: str, folders: dict[str, Path], served: dict[str, dict[str, Any]]
) -> None:
    inside = folders[name] / "model" / "code" / "modules"
    files = [Path(file) for file in served[name]["modules"].values()]
    assert len(files) > 10
    assert all(file.is_relative_to(inside) for file in files)


@EACH
def test_a_model_that_was_served_keeps_its_name(
    name: str, folders: dict[str, Path], served: dict[str, dict[str, Any]]
) -> None:
    assert served[name]["answers"]
    assert content_hash(folders[name] / "model") == content_hash(folders[name] / "trained")
    assert not list((folders[name] / "model").rglob("__pycache__"))


@EACH
def test_the_archive_has_only_modules_for_loading_and_predicting(name: str, folders: dict[str, Path]) -> None:
    code = folders[name] / "trained" / "code"
    package = code / "modules" / "drivetrain"
    rooms = {part.as_posix() for path in package.rglob("*.py") for part in path.relative_to(package).parents}
    assert "training/serving" in rooms
    assert not rooms & {
        *("training/checkpointing", "training/launch", "training/loop", "training/metric_states", "training/metrics"),
        *("training_scripts/strategies", "training_scripts/readers", "spec", "targets", "registry"),
    }
    assert sum(path.stat().st_size for path in code.rglob("*.py")) < 150_000
    assert {path.suffix for path in code.rglob("*") if path.is_file()} == {".py"}


@pytest.mark.slow
def test_another_drivetrain_on_the_path_is_not_used(
    folders: dict[str, Path], serve: Callable[..., Any], tmp_path: Path
) -> None:
    """One as pip installs it lies before the model's code; it would end the process with an error."""
    installed = tmp_path / "drivetrain"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    (request, *_) = requests_of("digits_cnn", folders["digits_cnn"])
    job = {"folder": folders["digits_cnn"] / "model", "requests": [request], "last": True}
    ((_, body),) = serve([job], tmp_path)[0]["answers"]
    assert [row["predicted"] for row in json.loads(base64.b64decode(body))["predictions"]] == expected_of(
        folders["digits_cnn"]
    )["predicted"]
