"""A model of a script of one's own that a step opens as one of `train` is told before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, SpecError, step
from drivetrain.assets.own_models import check_models
from drivetrain.cli.main import run as cli
from drivetrain.components import Input, component
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.calibrate import calibrate
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.train import train
from drivetrain.components.train_script import train_script
from drivetrain.spec.pipeline import Graph

SCRIPT = "import os, json\njson.dump({}, open(os.environ['SM_MODEL_DIR'] + '/weights.json', 'w'))\n"
OWN = """from drivetrain import Pipeline, step
from drivetrain.components import Input, component
from drivetrain.components.train_script import train_script
from drivetrain.registry import model_folder
from drivetrain.registry.model_folder import open_model


@component
def look(trained: Input) -> int:
    with CALL(trained) as folder:
        return len(list(folder.iterdir()))


def own() -> Pipeline:
    model = step(train_script, train="s3://b/t/", script="fit.py", launcher="python")
    return Pipeline(name="own", steps=[model, step(look, trained=model["model"])])
"""


@component
def read(model: Input) -> int:
    """Takes any model."""
    return len(list(model.iterdir()))


@pytest.mark.parametrize("call", ["open_model", "model_folder.open_model"])
def test_open_model_on_a_scripts_model_is_refused(call: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(OWN.replace("CALL", call))
    (tmp_path / "fit.py").write_text(SCRIPT)
    assert cli(["compile", str(tmp_path / "own.py")]) == 2
    assert capfd.readouterr().err == (
        "error: own.py, line 10: Step 'look' opens the model of step 'train-script' as one of `train`, but your script "
        "fit.py writes no model.json of ours. Describe it in a step between them, step(describe_model, trained=..., "
        "data=..., answers='MODULE'), or open your own files: tarfile.open(trained / 'model.tar.gz').\n"
    )


def check(folder: Path, text: str, reader: Any, *, by: Any = train_script, **more: Any) -> None:
    (folder / "fit.py").write_text(text)
    more |= {"script": "fit.py"} if by is train_script else {}
    made = step(by, train="s3://b/t/", **more)
    data: dict[str, Any] = {} if reader is read else {"data": "s3://b/d/"}
    name = "trained" if reader is calibrate else "model"
    used = step(reader, **{name: made["model"]}, **data)
    graph = Graph(Pipeline(name="p", steps=[made, used]))
    module, _, function = used.program.target.partition(":")
    file = folder / f"{module}.py"
    content = file.read_bytes() if file.exists() else b""
    check_models(used, graph, folder, {path.name for path in folder.glob("*.py")}, function, content)


REFUSED = (
    r"line \d+: Step '\S+' opens the model of step 'train-script' .*fit\.py writes no model\.json .*"
    r"step\(describe_model, .* evaluate's answers\."
)


@pytest.mark.parametrize("reader", [evaluate, batch_predict, calibrate])
def test_ours_refuse_a_scripts_model(reader: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=REFUSED):
        check(tmp_path, SCRIPT, reader)


@pytest.mark.parametrize(
    "text",
    [
        "import pandas\npandas.DataFrame().copy().rename(columns={'a': 'b'}).replace('a', 'b')\n",
        "from sklearn.feature_extraction.text import TfidfVectorizer\n",
        "import os, concurrent.futures\nconcurrent.futures.ThreadPoolExecutor()\nos.remove('old')\n",
        "import os, xgboost\nxgboost.Booster().save_model(os.path.join(os.environ['SM_MODEL_DIR'], 'model.json'))\n",
    ],
    ids=["tables", "features", "threads", "xgboost"],
)
def test_everyday_calls_write_no_model_json_of_ours(text: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=REFUSED):
        check(tmp_path, text, evaluate)


def test_a_script_in_a_folder_of_this_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an input; relative paths are found beside the pipeline and from here."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "fit.py").write_text(SCRIPT)
    for given in ("own", str(own)):
        with pytest.raises(SpecError, match=REFUSED):
            check(tmp_path, "import shutil\n", evaluate, source=given)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines").mkdir()
    with pytest.raises(SpecError, match=REFUSED):
        check(tmp_path / "pipelines", "import shutil\n", evaluate, source="own")
    (own / "fit.py").write_text("import beside\n")
    (own / "beside.py").write_text("NAME = 'model.json'\n")
    check(tmp_path, SCRIPT, evaluate, source="own")
    check(tmp_path, SCRIPT, evaluate, source="no-such-folder")  # it is refused with the other inputs


def test_compare_takes_a_scripts_model_by_its_answers_alone(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(SCRIPT)
    made = step(train_script, train="s3://b/t/", script="fit.py")

    def judge(**evaluated: Any) -> None:
        scores = step(evaluate, data="s3://b/d/", **evaluated)
        used = step(compare, evaluation=scores["report"], model=made["model"], data="s3://b/d/", group="g")
        graph = Graph(Pipeline(name="p", steps=[made, scores, used]))
        check_models(used, graph, tmp_path, {"fit.py"}, "compare", b"")

    judge(model=made["model"], answers=made["output"], task="binary")
    with pytest.raises(SpecError, match=r"Step 'compare' opens the model"):
        judge(model="s3://b/m.tar.gz")


@pytest.mark.parametrize(
    "text",
    [
        "from drivetrain.training.model_folder import write_model\n",  # any way of ours
        "open('model.json', 'w')\n",
        "import shutil as files\nfiles.copytree('/opt/ml/input/data/train', '/opt/ml/model')\n",
        "import tarfile\ntarfile.open('given.tar.gz').extractall('/opt/ml/model')\n",
        "import subprocess\nsubprocess.run(['./fit'])\n",
        "import beside\n",
        "import runpy\nrunpy.run_path('other')\n",
    ],
)
def test_a_script_that_may_write_model_json_is_accepted(text: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'model.json'\n")
    check(tmp_path, text, evaluate)


def test_the_answers_of_a_scripts_model_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(SCRIPT)
    made = step(train_script, train="s3://b/t/", script="fit.py")
    used = step(evaluate, model=made["model"], answers=made["output"], data="s3://b/d/", task="binary")
    check_models(used, Graph(Pipeline(name="p", steps=[made, used])), tmp_path, {"fit.py"}, "evaluate", b"")


def test_other_models_and_readers_are_accepted(tmp_path: Path) -> None:
    check(tmp_path, SCRIPT, read)
    check(tmp_path, SCRIPT, evaluate, by=train)
    check(tmp_path, SCRIPT, evaluate, source="s3://b/code/")
