"""Runs as objects: started, read, compared, gone on with."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import drivetrain as dt
from drivetrain.client import frames
from drivetrain.components.prepare_data import prepare_data
from drivetrain.run_store.events import StepStarted
from drivetrain.telling.progress import Progress
from drivetrain.training.plugins import load as load_plugin

FILE = """
from drivetrain import Pipeline, Settings, fail, register, step, when
from drivetrain.components import Input, Output, component


class Small(Settings):
    rows: int = 3
    least: float = 0.0
    note: str | None = None


@component
def fit(model: Output, rows: int = 1) -> dict[str, float]:
    print(f"fitting {rows} rows")
    print("done")
    (model / "model.txt").write_text("x" * rows)
    return {"size": rows, "seconds": 0.5}


@component
def score(model: Input) -> dict[str, float]:
    return {"accuracy": len((model / "model.txt").read_text()) / 10, "seconds": 0.25}


def small(settings: Small) -> Pipeline:
    model = step(fit, rows=settings.rows)
    scores = step(score, model=model["model"])
    good = scores.metric("accuracy") >= settings.least
    version = register(model=model["model"], metrics=scores, group="small")
    gate = when(good, then=[version], otherwise=[fail("too small")])
    return Pipeline(name="small", steps=[model, scores, gate])
"""


NOTE = '  "null"\n\té: '

UNTYPED: Any = dt
"""As a notebook calls it, with whatever kind of argument."""


def on_kubeflow() -> dt.Pipeline:
    return dt.Pipeline(name="a", deployment=dt.Deployment(target="kubeflow"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a pipeline file, which is the working folder of these tests."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "small_pipeline.py").write_text(FILE)
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def first(place: Path) -> dt.Run:
    return dt.run("small_pipeline.py", quiet=True)


@pytest.fixture(scope="module")
def second(place: Path, first: dt.Run) -> dt.Run:
    return dt.run("small_pipeline.py", quiet=True, rows=5)


@pytest.fixture(scope="module")
def failed(place: Path, second: dt.Run) -> dt.Run:
    return dt.run("small_pipeline.py", quiet=True, rows=5, least=0.9, note=NOTE)


def test_a_run_reports_its_results(first: dt.Run, place: Path) -> None:
    assert (first.pipeline, first.status, first.succeeded, first.reason) == ("small", "Succeeded", True, None)
    assert list(first.steps) == ["fit", "score", "decide", "register-model", "stop"]
    fit = first.steps["fit"]
    assert (fit.status, fit.attempts, fit.settings["rows"], fit.metrics["size"]) == ("Succeeded", 1, "3", 3)
    assert (fit.outputs["model"] / "model.txt").read_text() == "xxx"
    assert first.steps["score"].inputs["model"] == fit.outputs["model"]
    assert fit.log().startswith("fitting 3 rows\ndone\n") and fit.log(1) == "}" and fit.log(0) == ""
    assert first.metrics["accuracy"] == 0.3
    assert first.metrics["fit.seconds"] == 0.5 and first.metrics["score.seconds"] == 0.25  # both return that name
    assert first.seconds >= fit.seconds > 0  # type: ignore[operator]
    assert first.started.tzinfo is not None
    assert repr(first).startswith(f"Run('{first.id}': small, Succeeded")
    version = first.model_version
    assert version is not None and (version.group, version.version, version.status) == (
        "small",
        1,
        "PendingManualApproval",
    )


def test_the_models_that_runs_registered(first: dt.Run, second: dt.Run, place: Path) -> None:
    found = dt.models("small")
    assert [(each.version, each.metrics["accuracy"]) for each in found] == [(2, 0.5), (1, 0.3)]
    assert [each.version for each in dt.models()] == [2] and dt.Registry().groups == ["small"]
    assert repr(found) == (
        "Model('small' version 2: PendingManualApproval)\nModel('small' version 1: PendingManualApproval)"
    )
    assert "<td>small</td><td>2</td>" in found._repr_html_() and list(found.to_frame()["version"]) == [2, 1]
    newest = found[0]
    assert newest.run is not None and newest.run.id == second.id
    assert newest.card.startswith("# small version 2\n") and "| accuracy | 0.5 |" in newest.card
    assert "small version 2" in newest._repr_html_()
    with pytest.raises(KeyError, match="Did you mean 'accuracy'"):
        newest.metrics["acuracy"]
    with newest.open() as folder:
        assert [file.read_text() for file in folder.iterdir()] == ["xxxxx"]
    assert not folder.exists()
    assert (newest.download(place / "kept") / "model.txt").read_text() == "xxxxx"
    with pytest.raises(dt.UserError, match="kept: something is there"):
        newest.download(place / "kept")


def test_a_model_is_approved_and_rejected(tmp_path: Path, first: dt.Run, place: Path) -> None:
    run = dt.run("small_pipeline.py", quiet=True, home=tmp_path)
    registry = dt.Registry(home=tmp_path)
    assert registry.champion("small") is None
    version = run.model_version
    assert version is not None and version.run is not None and version.run.id == run.id
    assert version.approve("good").status == "Approved" and version.reason == "good"
    champion = registry.champion("small")
    assert champion is not None and champion.version == registry.model("small", "approved").version == 1
    assert champion.reject().status == "Rejected" and registry.champion("small") is None
    ledger = dt.Registry(f"local:{tmp_path / 'ledger.db'}").model("small", 1)
    assert ledger.status == "Rejected" and ledger.decision is None and ledger.artifact.startswith("s3://")


def test_missing_models_are_named(first: dt.Run, place: Path) -> None:
    for asked, said in {
        lambda: dt.models("smal"): "Did you mean 'small'",
        lambda: dt.Registry().model("small", 9): "1 to",
        lambda: dt.Registry("locl:x").groups: "unknown kind 'locl'. Did you mean 'local'",
        lambda: dt.Registry("local:nowhere.db").groups: "registry local:nowhere.db: there is no registry at",
        lambda: dt.Registry("local:x", home="y"): "two places. Give one",
        lambda: dt.Registry(3): "give KIND:LOCATION",  # type: ignore[arg-type]
        lambda: dt.models(3): "3 is no name of a model",  # type: ignore[arg-type]
    }.items():
        with pytest.raises(dt.UserError, match=said):
            asked()


def test_missing_runs_and_files_are_named(first: dt.Run) -> None:
    with pytest.raises(KeyError, match=r"no step 'fitt'. Did you mean 'fit'"):
        first.steps["fitt"]
    with pytest.raises(KeyError, match=r"no metric 'acuracy'. Did you mean 'accuracy'"):
        first.metrics["acuracy"]
    with pytest.raises(dt.UserError, match="No execution 'nothing'"):
        dt.Run("nothing")
    with pytest.raises(dt.UserError, match="is given no other run"):
        first.compare()


def test_cached_steps_keep_their_results(failed: dt.Run, second: dt.Run) -> None:
    assert failed.status == "Failed" and failed.reason is not None and "too small" in failed.reason
    assert [failed.steps[name].status for name in ("fit", "score", "stop")] == ["Cached", "Cached", "Failed"]
    assert failed.steps["fit"].outputs == second.steps["fit"].outputs
    assert failed.steps["fit"].log().startswith("fitting 5 rows") and failed.metrics["accuracy"] == 0.5
    assert failed.model_version is None


def test_runs_are_listed_the_newest_first(first: dt.Run, second: dt.Run, failed: dt.Run, place: Path) -> None:
    assert [run.id for run in dt.runs()] == [failed.id, second.id, first.id]
    assert [run.id for run in dt.runs("small", limit=1, home=place / ".drivetrain")] == [failed.id]
    assert list(dt.runs("other")) == [] and repr(dt.runs("other")) == "no runs"
    assert [run.id for run in dt.runs()[1:]] == [second.id, first.id]
    assert dt.Run("latest").id == failed.id and dt.Run(first.id[:6]).id == first.id
    assert first in dt.runs() and {first, dt.Run(first.id, home=place / ".drivetrain" / ".." / ".drivetrain")} == {
        first
    }
    assert first != second and first not in dt.runs()[:2] and first != first.id
    assert list(dt.runs("other").to_frame().columns) == ["id", "pipeline", "status", "started", "seconds"]
    assert list(first.to_frame().columns) == ["step", "metric", "seconds", "value"]  # nothing was trained
    assert list(dt.models("small")[:0].to_frame().columns) == ["group", "version", "status", "registered"]
    table = dt.runs()._repr_html_()
    assert table.startswith("<table>") and f"<td>{failed.id}</td>" in table and "<td>0.9</td>" in table


def test_runs_are_labelled_and_found_by_their_labels(first: dt.Run, second: dt.Run, failed: dt.Run) -> None:
    assert [run.id for run in dt.runs(where="rows = 5", sort="least")] == [second.id, failed.id]
    assert [run.id for run in dt.runs(where="accuracy < 0.4")] == [first.id]
    second.label(name="second", note="five rows", team="vision", stage="b")
    assert (second.name, second.note, second.tags) == ("second", "five rows", {"team": "vision", "stage": "b"})
    assert dt.Run("second").id == second.id and [run.id for run in dt.runs(where="tag.team != none")] == [second.id]
    second.label(name="", note="", team=None, stage=None)
    assert (second.name, second.note, second.tags) == (None, None, {})
    with pytest.raises(dt.UserError, match="where: no run has 'lines'"):
        dt.runs(where="lines = 5")


def test_a_comparison_shows_only_differences(first: dt.Run, second: dt.Run) -> None:
    found = first.compare(second.id)
    assert found.settings == {"rows": (3, 5), "fit.rows": ("3", "5")}  # the first has the default
    assert found.metrics["accuracy"] == (0.3, 0.5)
    assert list(found.data) == ["score.model", "register-model.model"] and found.same_code
    assert "accuracy: 0.3, 0.5" in repr(found) and "data of score.model: differs" in repr(found)
    assert "<td>fit.rows</td>" in found._repr_html_()
    assert found.intervals == {}
    with pytest.raises(dt.UserError, match="is given twice"):
        first.compare(first)


def test_frames_use_the_installed_library(first: dt.Run, second: dt.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        @staticmethod
        def DataFrame(table: dict[str, Any], strict: bool) -> dict[str, Any]:  # noqa: N802
            assert not strict  # or Polars refuses a column of whole numbers and others
            return table

    tried: list[str] = []
    error = dt.UserError  # loaded by import_module, which is replaced below

    def imported(name: str, missing: tuple[str, ...] = ("pandas",)) -> Any:
        tried.append(name)
        if name in missing:
            raise ImportError(name)
        return Library

    monkeypatch.setattr(frames.importlib, "import_module", imported)
    table = frames.frame([{"a": 1}, {"a": 2, "b": "x"}])
    assert table == {"a": [1, 2], "b": [None, "x"]} and tried == ["pandas", "polars"]
    monkeypatch.setattr(frames.importlib, "import_module", lambda name: imported(name, frames.LIBRARIES))
    with pytest.raises(error, match="pip install pandas"):
        frames.frame([])


def test_a_pipeline_object_and_a_function_run_too(place: Path, first: dt.Run) -> None:
    module = importlib.import_module("small_pipeline")  # the runs have put the folder on the path
    by_function = dt.run(module.small, quiet=True, rows=3)
    assert by_function.steps["fit"].status == "Cached" and by_function.settings["rows"] == 3
    with pytest.raises(dt.UserError, match=r"rows=\.\.\.\): it is built already"):
        dt.run(module.small(module.Small()), rows=4)
    with pytest.raises(dt.UserError, match=r"run\(\) is given 3\."):
        dt.run(3)  # type: ignore[arg-type]
    with pytest.raises(dt.UserError, match=r"Setting row .*Did you mean 'rows'"):
        dt.run(module.small, row=3)


def test_bad_input_is_always_a_user_error(place: Path) -> None:
    def clustered() -> dt.Pipeline:
        return dt.Pipeline(name="a", steps=[], max_parallel_steps=dt.Cluster(hosts=3))  # type: ignore[call-arg]

    with pytest.raises(dt.UserError, match=r"test_client\.py, line \d+: Cluster\.hosts does not exist\. "):
        dt.run(clustered)
    with pytest.raises(dt.UserError, match=r"no recipe 'digit_cnn'\. Did you mean 'digits_cnn'"):  # of training code
        load_plugin("recipes", "digit_cnn", kind="recipe")
    assert repr(dt.runs(home=place / "nowhere")) == f"no runs: there is no folder {place / 'nowhere'}"


def test_arguments_of_another_kind_are_one_clear_error() -> None:
    with pytest.raises(dt.UserError, match=r"Run\(None\): give the id of a run"):
        dt.Run(None)  # type: ignore[arg-type]
    with pytest.raises(dt.UserError, match=r"runs\(3\): give the name of a pipeline"):
        dt.runs(3)  # type: ignore[arg-type]
    for wrong in ("a", 0, True, 2.5, 10**30):
        with pytest.raises(dt.UserError, match=r"runs\(limit=.*\): give a whole number from 1"):
            dt.runs(limit=wrong)  # type: ignore[arg-type]
    for option in ("where", "sort"):
        with pytest.raises(dt.UserError, match=rf"runs\({option}=5\): give a text"):
            dt.runs(**{option: 5})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (r"run\(parameters=5\): give a dict", lambda: UNTYPED.run("retraining", parameters=5)),
        (r"run\(tags=\['a=b'\]\): give a dict", lambda: UNTYPED.run("retraining", tags=["a=b"])),
        (r"run\(config=\{\}\): give a text or a pathlib\.Path\.", lambda: UNTYPED.run("retraining", config={})),
        (r"run\(home=5\): give a text or a pathlib\.Path\.", lambda: UNTYPED.run("retraining", home=5)),
        (r"run\(cache='no'\): give True or False\.", lambda: UNTYPED.run("retraining", cache="no")),
        (r"run\(fresh='x'\): give True", lambda: UNTYPED.run("retraining", fresh="x")),
        (r"There is no target 'nomad'\. ", lambda: dt.run("retraining", deployment={"target": "nomad"})),
        (r"run\(\): deployment\.target is kubeflow, .*--target kubeflow\.", lambda: dt.run(on_kubeflow)),
        (r"run\(quiet=1\): give True", lambda: UNTYPED.run("retraining", quiet=1)),
        (r"run\(\) is given <built-in function print>\. Give the name", lambda: UNTYPED.run(print)),
        (r"run\(\) is given Component\(.*\. Give the name", lambda: UNTYPED.run(prepare_data)),
        (r"types of its parameters cannot be read: TypeError", lambda: UNTYPED.run(partial(lambda rows: rows, rows=5))),
        (r"run\(\) is given <class 'dict'>\. Give the name", lambda: UNTYPED.run(dict)),
        (r"runs\(home=5\): give a text or", lambda: UNTYPED.runs(home=5)),
        (r"runs\(home='.*\.py'\): it is a file\. Give the folder", lambda: UNTYPED.runs(home=__file__)),
        (r"Run\(home=5\): give", lambda: UNTYPED.Run("latest", home=5)),
        (r"Registry\(home=5\): give", lambda: UNTYPED.models(home=5)),
        (r"model\(version=1\.5\): give a whole number or a text\.", lambda: UNTYPED.Registry().model("digits", 1.5)),
        (r"Deployed\(region=5\): give a text\.", lambda: UNTYPED.Deployed("nightly", region=5)),
        (r"Deployed\(settings=5\): give a dict", lambda: UNTYPED.Deployed("nightly", settings=5)),
        (
            r"--set epochs=3: a deployed pipeline is started as it was applied.* of the pipeline: start\(NAME=",
            lambda: dt.Deployed("retraining", settings={"epochs": 3}),
        ),
    ],
)
def test_unknown_arguments_are_one_clear_error(said: str, asked: Callable[[], object]) -> None:
    with pytest.raises(dt.UserError, match=said):
        asked()


def test_arguments_of_another_kind_of_a_run_are_one_clear_error(first: dt.Run) -> None:
    refused: dict[str, Callable[[], object]] = {
        r"log\(lines='x'\): give how many of the last lines, from 0": lambda: first.steps["fit"].log("x"),  # type: ignore[arg-type]
        r"log\(lines=-1\)": lambda: first.steps["fit"].log(-1),
        r"cannot be called 5\. A name is": lambda: first.label(name=5),  # type: ignore[arg-type]
        r"A note is a text\. Given: 5": lambda: first.label(note=5),  # type: ignore[arg-type]
        r"Tag team is 5": lambda: first.label(team=5),  # type: ignore[arg-type]
        r"compare\(5\): give a Run, or the id": lambda: first.compare(5),  # type: ignore[arg-type]
        r"curves\('fi'\): run [0-9a-f]+ has no such step\. Did you mean 'fit'": lambda: first.curves("fi"),
        r"approve\(reason=5\): give a text\.": lambda: first.model_version.approve(5),  # type: ignore[union-attr,arg-type]
        r"reject\(reason=5\): give a text\.": lambda: first.model_version.reject(5),  # type: ignore[union-attr,arg-type]
        r"download\(folder=5\): give a text or": lambda: first.model_version.download(5),  # type: ignore[union-attr,arg-type]
    }
    for said, asked in refused.items():
        with pytest.raises(dt.UserError, match=said):
            asked()
    assert (first.name, first.note, first.tags) == (None, None, {})


@pytest.mark.parametrize("by", ["Ctrl-C", "stop"])
def test_an_interrupt_stops_the_run_and_reaches_the_caller(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(event: object) -> None:
        if not isinstance(event, StepStarted):
            return
        if by == "stop":
            dt.Run("latest", home=tmp_path / "home").stop()
        else:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", lambda self, event: interrupt(event))
    file = tmp_path / "long_pipeline.py"
    file.write_text(
        "from drivetrain import Pipeline, step\n"
        "from drivetrain.components import Output, component\n"
        "@component\n"
        "def wait(done: Output) -> None:\n"
        "    import time\n"
        "    time.sleep(600)\n"
        "def long() -> Pipeline:\n"
        '    return Pipeline(name="long", steps=[step(wait)])\n'
    )
    with pytest.raises(KeyboardInterrupt, match=r"was stopped; dt\.Run\('[0-9a-f]+'\)\.resume\(\) goes on"):
        dt.run(str(file), quiet=True, home=tmp_path / "home")
    run = dt.runs("long", home=tmp_path / "home")[0]
    assert run.status == "Stopped" and run.steps["wait"].status == "Stopped"
    with pytest.raises(dt.UserError, match=rf"Run {run.id} has ended \(stopped\); there is nothing to stop"):
        run.stop()


def test_settings_name_local_replacements(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"local: {{stubs: {{fit: {tmp_path / 'gone.json'}}}}}")
    with pytest.raises(dt.UserError, match=r"local\.stubs fit=.*: No such file"):
        dt.run("small_pipeline.py", config=settings, quiet=True, home=tmp_path / "home")
    assert not list(dt.runs(home=tmp_path / "home"))


def test_a_run_resumes_with_other_settings(failed: dt.Run) -> None:
    run = dt.Run(failed.id)
    assert run.resume(least=0.1) is run
    assert run.status == "Succeeded" and run.steps["fit"].status == "Cached"
    assert run.settings == {"rows": 5, "least": 0.1, "note": NOTE}
    with pytest.raises(dt.UserError, match="there is nothing to resume"):
        run.resume()


def test_notebooks_see_the_page_and_the_picture(first: dt.Run) -> None:
    page = first._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "sandbox" in page and first.id in page
    assert first.report().read_text().startswith("<!doctype html>")
    module = importlib.import_module("small_pipeline")
    picture = module.small(module.Small())._repr_html_()
    assert picture.startswith("<svg") and "register-model" in picture


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of a package, with what it imports from its package and beside that."""
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "rows.py").write_text("def text(rows):\n    return 'y' * rows\n")
    (tmp_path / "flows" / "steps.py").write_text(
        "import sys\n"
        "from drivetrain import Pipeline, step\n"
        "from drivetrain.components import Output, component\n"
        "from .rows import text\n"
        "from letters import size\n"
        "@component\n"
        "def fit(model: Output, rows: int = 2) -> dict[str, float]:\n"
        "    (model / 'model.txt').write_text(text(rows))\n"
        "    if rows > 8: sys.exit(f'{size(text(rows))} rows are too many')\n"
        "    return {'size': size(text(rows))}\n"
        "def build(rows: int = 4) -> Pipeline:\n"
        "    return Pipeline(name='own', steps=[step(fit, rows=rows)])\n"
    )
    (tmp_path / "letters.py").write_text("def size(text):\n    return float(len(text))\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("flows.steps")
    for name in ("flows", "flows.steps", "flows.rows", "letters"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_components_of_the_users_own_modules_travel(flows: Any, tmp_path: Path) -> None:
    """With a Pipeline, and with a function, whose file's folder travels too: modules are found by their whole names."""
    home = tmp_path / "home"
    run = dt.run(flows.build(rows=4), quiet=True, home=home)
    assert run.status == "Succeeded" and run.metrics["size"] == 4, run.steps["fit"].log()
    failed = dt.run(flows.build, rows=9, quiet=True, home=home)
    assert failed.steps["fit"].log(1) == "9.0 rows are too many"
    assert failed.resume().steps["fit"].log(1) == "9.0 rows are too many"  # with the code that travelled


def test_curves_by_the_names_of_their_metrics(place: Path, first: dt.Run) -> None:
    assert first.curves() == {}  # nothing was trained
    file = place / "curved.py"
    file.write_text(
        "from drivetrain import Pipeline, step\n"
        "from drivetrain.components import Output, component\n"
        '@component(job="training", logs={"loss": r"loss=([0-9.]+)"})\n'
        "def fit(model: Output) -> None:\n"
        '    print("loss=0.5", flush=True)\n'
        '    print("loss=0.25", flush=True)\n'
        "def curved() -> Pipeline:\n"
        '    return Pipeline(name="curved", steps=[step(fit)])\n'
    )
    run = dt.run("curved.py", quiet=True)
    assert run.status == "Succeeded", run.steps["fit"].log()
    assert [value for _, value in run.curves()["loss"]] == [0.5, 0.25]
    assert run.curves("fit") == run.curves()


def test_progress_is_printed_unless_quiet(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dt.run("small_pipeline.py", rows=3)
    assert "small succeeded in" in capfd.readouterr().out
    dt.run("small_pipeline.py", rows=3, quiet=True)
    assert capfd.readouterr().out == ""


def test_public_names_are_imported_lazily() -> None:
    code = (
        "import json, sys, drivetrain as dt\n"
        "before = [name for name in sys.modules if name.startswith('drivetrain.')]\n"
        "names = dir(dt)\n"
        "public = {'run', 'runs', 'Run', 'models', 'Model', 'Registry'} <= set(names) & set(dt.__all__)\n"
        "print(json.dumps([before, dt.__version__, public]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, version, public = json.loads(done.stdout)
    assert before == [] and version.count(".") >= 1 and public is True


def test_a_file_that_a_step_names_by_its_absolute_path_is_read_each_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1")
    (tmp_path / "reads.py").write_text(
        f"""
from drivetrain import Pipeline, Settings, step
from drivetrain.components import component

@component
def read() -> dict[str, float]:
    return {{"n": float(open({str(data)!r}).read())}}

def pipeline(settings: Settings) -> Pipeline:
    return Pipeline(name="reads", steps=[step(read)])
"""
    )
    found: list[float] = []
    for text in ("1", "2"):
        data.write_text(text)
        ran = dt.run(tmp_path / "reads.py", home=tmp_path / "home", quiet=True)
        found.append(ran.steps["read"].metrics["n"])
    assert found == [1, 2]
    assert f"names {data}" in capfd.readouterr().err
