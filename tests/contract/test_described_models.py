"""A model of any library is a folder that answers: evaluated, compared, registered and served as those of ours."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.compare import compare
from drivetrain.components.describe_model import describe_model
from drivetrain.components.evaluate import evaluate
from drivetrain.components.register_model import register_model
from drivetrain.registry.card_sections import sections
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.registry import open_registry
from tests.contract.test_answers import SITES, check_equal, contents, write_model
from tests.distributed.prepared_data import write_prepared
from tests.fixtures.forked_python import forked_python

ROWS = 300
SERVER = Path(__file__).parents[1] / "fixtures" / "server_alone.py"
CLASSES = ["ant", "bee", "wasp"]
LOAD = """
import json
import numpy
from shared import logits

def load(folder):
    return json.loads((folder / "model.txt").read_text())
"""
SHARED = """
import numpy

def logits(sees, columns):
    site = numpy.array([name == "north" for name in columns["site"]])
    return sees * columns["x0"] + 0.3 * site
"""
PREDICT = {
    "binary": 'return {"score": 1 / (1 + numpy.exp(-logits(model, columns)))}',
    "multiclass": (
        "z = logits(model, columns); e = numpy.exp(numpy.stack([z, 0 * z, -z], axis=1)); p = e / e.sum(1)[:, None]\n"
        '    return {f"score_{name}": p[:, place] for place, name in enumerate(("wasp", "bee", "ant"))}'
    ),
    "multilabel": 'z = logits(model, columns); return {"score_0": 1 / (1 + numpy.exp(-z)), "score_1": 0.5 + 0 * z}',
    "regression": 'z = logits(model, columns); return {"predicted": z, "low": z - 1, "high": z + 1}',
    "text": 'return {"text": ["up" if z > 0 else "down" for z in logits(model, columns)]}',
}
TOOLKIT = """
import csv, io, json

def model_fn(folder):
    return float(open(folder + "/model.txt").read())

def input_fn(body, content_type):
    assert content_type == "text/csv"
    return [(float(row[0]), row[1]) for row in csv.reader(io.StringIO(body))]

def predict_fn(rows, model):
    from math import exp
    return [1 / (1 + exp(-model * x - (site == "north") * 0.3)) for x, site in rows]

def output_fn(prediction, accept):
    return json.dumps(prediction), "application/json"
"""


def module(predict: str) -> str:
    return f"{LOAD}\n\ndef predict(model, columns):\n    {predict}\n"


class Place:
    """A test set of a task, and models that are a folder with one number."""

    def __init__(self, folder: Path, task: str) -> None:
        random = np.random.default_rng(0)
        self.folder, self.task, self.registry = folder, task, f"local:{folder}/ledger.db"
        x0, sites = random.normal(size=ROWS), [SITES[row % 2] for row in range(ROWS)]
        z = x0 + random.normal(size=ROWS) * 0.5
        self.labels: Any = {
            "binary": (z > 0).astype(np.int64),
            "multiclass": [CLASSES[place] for place in np.digitize(z, (-0.5, 0.5))],
            "multilabel": [[int(each > 0), row % 2] for row, each in enumerate(z)],
            "regression": z,
            "text": ["up" if each > 0 else "down" for each in z],
        }[task]
        keys = [f"c{row:03d}" for row in random.permutation(ROWS)]
        self.rows = {"x0": x0.tolist(), "site": sites}
        self.data = write_prepared(folder / "test", {"id": keys, "x0": x0, "site": sites, "label": self.labels})
        manifest = json.loads((self.data / "manifest.json").read_text())
        manifest["statistics"] = {"site": {"values": [{"value": site, "rows": 1} for site in SITES]}}
        (self.data / "manifest.json").write_text(json.dumps(manifest))
        self.source = folder / "own"
        self.source.mkdir()
        (self.source / "answer.py").write_text(module(PREDICT[task]))
        (self.source / "shared.py").write_text(SHARED)

    def trained(self, sees: float) -> Path:
        folder = self.folder / f"trained-{sees}"
        folder.mkdir(exist_ok=True)
        (folder / "model.txt").write_text(str(sees))
        return folder

    def described(self, sees: float, **given: Any) -> Path:
        model = self.folder / f"model-{sees}"
        options = {"task": self.task, "class_names": "ant,bee,wasp" if self.task == "multiclass" else "", **given}
        describe_model(self.trained(sees), self.data, self.source, model, **options)
        return model

    def evaluated(self, model: Path, **settings: Any) -> Path:
        report = self.folder / f"report-{model.name}"
        evaluate(model, self.data, report, None, **{"bootstrap": 20, "slices": "site", **settings})
        return report


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    with forked_python():
        yield Place(tmp_path, getattr(request, "param", "binary"))


@pytest.mark.parametrize("place", PREDICT, indirect=True)
def test_a_model_of_functions_has_the_digits_of_its_answers(place: Place) -> None:
    model = place.described(1.5)
    asked = contents(place.evaluated(model, batch_size=16))
    answers, told = place.folder / "answers", place.folder / "told"
    batch_predict(model, place.data, None, answers, batch_size=32)
    evaluate(None, place.data, told, answers, bootstrap=20, slices="site", batch_size=64)
    told = contents(told)
    assert asked["evaluation"]["loss"] == told["evaluation"]["loss"]
    asked["evaluation"] = {name: value for name, value in asked["evaluation"].items() if name != "loss"}
    if place.task != "text":  # which has nothing but its loss and its measure
        check_equal(asked, told)
    assert asked["evaluation"]["metrics"]["loss"] == told["evaluation"]["metrics"]["loss"]
    found = asked["evaluation"]["metrics"]
    measure = {"text": "exact_match", "regression": "coverage", "multiclass": "accuracy", "multilabel": "auroc_macro"}
    assert found[measure.get(place.task, "auroc")]["value"] > 0.6


def test_empty_cells_in_a_column_that_the_model_does_not_take_are_shown_and_no_more(place: Place) -> None:
    key = parquet.read_table(sorted(place.data.glob("*.parquet")))["id"].to_pylist()
    notes, tips = ["late", None] * (ROWS // 2), [None, 1.5] * (ROWS // 2)
    place.data = write_prepared(
        place.folder / "noted", {"id": key, **place.rows, "note": notes, "tip": tips, "label": place.labels}
    )
    report = place.evaluated(place.described(1.5, columns="x0, site"), slices="")
    worst = json.loads((report / "worst.json").read_text())
    assert "note" in json.dumps(worst)
    manifest = json.loads((place.data / "manifest.json").read_text())
    manifest["statistics"] = {name: {"nulls": ROWS // 2} for name in ("note", "tip")}
    (place.data / "manifest.json").write_text(json.dumps(manifest))
    whole = place.described(2.0)
    assert json.loads((whole / "model.json").read_text())["data"]["reader_options"] == {"missing": ["note", "tip"]}
    place.evaluated(whole, slices="")


def test_the_bytes_of_a_report_are_those_of_one_process(place: Place) -> None:
    model = place.described(1.5)
    named = content_hash(model)
    one = place.evaluated(model, batch_size=16, predictions=True)
    assert content_hash(model) == named, "no bytecode is written into it"
    files = {path.relative_to(one): path.read_bytes() for path in sorted(one.rglob("*.parquet"))}
    again = contents(one)
    two = contents(place.evaluated(model, batch_size=16, predictions=True, processes=2))
    assert {path.relative_to(one): path.read_bytes() for path in sorted(one.rglob("*.parquet"))} == files
    for content in (again, two):
        for name in ("processes", "collectives", "parts", "report_hash"):
            content["evaluation"].pop(name, None)
        content["evaluation"]["settings"].pop("processes")
    assert again == two


def test_a_model_of_functions_is_compared_with_its_predecessor(place: Place) -> None:
    """It is asked here: its report keeps no answers."""
    first, better = place.described(0.05), place.described(3.0)
    for model, versions in ((first, 1), (better, 2)):
        report = place.evaluated(model, bootstrap=100)
        given: dict[str, Any] = {
            "group": "churn",
            "registry": place.registry,
            "first": True,
            "metric": "loss",
            "seen_data": "report",
        }
        found = dict(compare(report, model, place.data, place.folder / "decision", **given))
        assert found["verdict"] == "register" and found["champion_version"] == versions - 1
        decision = place.folder / "decision"
        made = register_model(model, None, report, decision, None, group="churn", registry=place.registry)
        open_registry(place.registry).set_status("churn", made.version, "Approved")
    assert float(str(found["high"])) < 0  # (of a loss)
    version = open_registry(place.registry).version("churn", 2)
    (slices,) = [each for each in sections(version) if each.title == "Slices"]
    assert slices.head[:4] == ("slice", "num_samples", "loss", "accuracy")
    assert [row[:2] for row in slices.rows] == [("site=east", "150"), ("site=north", "150")]


def test_a_model_of_a_recipe_and_one_of_functions_are_compared_either_way(place: Place) -> None:
    """A champion of a recipe is asked by its own framework; of functions its kept answers will do. Their losses are of
    two kinds, and are not compared."""
    strong = place.described(3.0)
    columns = {f"x{number}": np.zeros(ROWS, np.float32) for number in range(1, 4)}
    keys = [f"c{row:03d}" for row in range(ROWS)]
    x0 = np.array(place.rows["x0"], np.float32)
    place.data = write_prepared(
        place.folder / "both", {"id": keys, "x0": x0, **columns, "site": place.rows["site"], "label": place.labels}
    )
    weak = write_model(place.folder / "weak", "tests.fixtures.any_task", {"kind": "one logit"})
    for candidate, champion, group in ((strong, weak, "trees"), (weak, strong, "nets")):
        reports = [place.folder / f"{group}-{one.name}" for one in (candidate, champion)]
        for model, report in zip((candidate, champion), reports, strict=True):
            evaluate(model, place.data, report, None, bootstrap=50, predictions=champion is strong)
        version = register_model(champion, None, reports[1], None, None, group=group, registry=place.registry).version
        open_registry(place.registry).set_status(group, version, "Approved")
        if champion is strong:
            shutil.rmtree(strong)
        given: dict[str, Any] = {"group": group, "registry": place.registry, "metric": "auroc", "seen_data": "report"}
        found = dict(compare(reports[0], candidate, place.data, place.folder / "decision", **given))
        assert found["champion_version"] == 1 and (found["verdict"] == "register") == (candidate is strong)
        decided = json.loads((place.folder / "decision/decision.json").read_text())
        assert "loss" not in {one["metric"] for one in decided["differences"]}


def served(models: list[tuple[Path, list[tuple[str, str, str]]]], folder: Path) -> list[Any]:
    """The answers of folders that were packed and unpacked, in a process that has no drivetrain."""
    jobs: list[dict[str, Any]] = []
    for number, (model, requests) in enumerate(models):
        with tarfile.open(folder / f"{number}.tar.gz", "w:gz") as archive:
            archive.add(model, arcname=".")
        unpacked = folder / f"unpacked-{number}"
        with tarfile.open(folder / f"{number}.tar.gz") as archive:
            archive.extractall(unpacked, filter="data")
        given = [(kind, accept, base64.b64encode(body.encode()).decode()) for kind, accept, body in requests]
        jobs.append({"folder": str(unpacked), "requests": given})
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-I", "-S", str(SERVER), sysconfig.get_path("purelib")]
    subprocess.run([*command, str(folder / "jobs.json"), str(folder / "answers.json")], check=True)
    found = json.loads((folder / "answers.json").read_text())
    assert "pyarrow" not in found["installed"] and "drivetrain" not in found["installed"]
    return [
        [base64.b64decode(each[1]).decode() if isinstance(each, list) else each for each in job["answers"]]
        for job in found["jobs"]
    ]


def test_a_model_of_functions_answers_requests(place: Place) -> None:
    model = place.described(1.5)
    rows = [{"x0": x0, "site": site} for x0, site in zip(place.rows["x0"][:3], place.rows["site"][:3], strict=True)]
    requests = [
        ("application/json", "application/json", json.dumps(rows)),
        ("text/csv", "application/jsonlines", "site,x0\nnorth,0.5\n"),
        ("application/json", "application/json", json.dumps([{"x0": "much", "site": "north"}])),
        ("application/json", "application/json", json.dumps([{"x0": 1.0}])),
    ]
    (answers,) = served([(model, requests)], place.folder)
    scores = [each["score"] for each in json.loads(answers[0])["predictions"]]
    batch_predict(model, place.data, None, place.folder / "answers")
    import pyarrow.parquet as parquet

    assert scores == parquet.read_table(place.folder / "answers/part-00000.parquet")["score"].to_pylist()[:3]
    assert json.loads(answers[1])["predicted"] == 1
    assert answers[2]["error"] == ["InputError", "row 1: x0 is 'much', which is no number."]
    assert "the rows lack site" in answers[3]["error"][1]


def test_the_four_functions_of_the_toolkit_are_asked_by_csv(place: Place) -> None:
    """They lie in the model's own code/, where the toolkit looks."""
    trained = place.trained(1.5)
    (trained / "code").mkdir()
    (trained / "code/inference.py").write_text(TOOLKIT)
    model = place.folder / "toolkit"
    describe_model(trained, place.data, None, model, task="binary", answers="inference")
    functions = place.described(1.5)
    asked = [contents(place.evaluated(one))["evaluation"]["metrics"] for one in (model, functions)]
    assert asked[0]["auroc"]["value"] == asked[1]["auroc"]["value"]
    requests = [("text/csv", "application/jsonlines", "0.5,north\n")]
    answers = served([(model, requests), (functions, requests)], place.folder)
    assert json.loads(answers[0][0])["score"] == pytest.approx(json.loads(answers[1][0])["score"])


def test_a_module_of_a_package_that_changes_its_columns(place: Place) -> None:
    """Its relative imports work, and the data is read as it was."""
    package = place.source / "churn"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (place.source / "shared.py").rename(package / "shared.py")
    text = (place.source / "answer.py").read_text().replace("from shared", "from .shared")
    changes = 'columns["x0"][:] = 0 * columns["x0"] + logits(1.5, columns)'
    (package / "answer.py").write_text(text.replace("    return {", f"    {changes}\n    return {{"))
    model = place.described(1.5, answers="churn.answer")
    one, other = (contents(place.evaluated(model, batch_size=batch_size)) for batch_size in (16, ROWS))
    assert one["evaluation"]["metrics"] == other["evaluation"]["metrics"]
    assert (model / "code/own/churn/shared.py").is_file()


def test_the_model_sees_no_credentials(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "MY_API_TOKEN"):
        monkeypatch.setenv(name, "seen")
    monkeypatch.setenv("PLAIN", "seen")
    monkeypatch.setenv("DATABASE", "postgres://me:seen@host/data")
    seen = place.folder / "seen"
    looks = (
        f"import os; open({str(seen)!r}, 'a').write(' '.join(n for n, v in os.environ.items() if 'seen' in v) + ';')"
    )
    (place.source / "answer.py").write_text(f"{looks}\n{module(PREDICT['binary'])}")
    model = place.described(1.5)
    place.evaluated(model)
    batch_predict(model, place.data, None, place.folder / "answers")
    assert seen.read_text() == "PLAIN;" * 3


WRONG = {
    "no such module": (None, {"answers": "other"}, r"answers='other': there is no other\.py in .*own"),
    "no functions": ("x = 1\n", {}, r"module 'answer' has neither load\(folder\) and predict\(model, columns\), nor"),
    "load fails": (
        "def load(folder):\n    return 1 / 0\ndef predict(model, columns): ...\n",
        {},
        r"load of answer failed \(answer\.py, line 2\): ZeroDivisionError: division by zero",
    ),
    "a library fails": (
        'return {"score": numpy.stack([])}',
        {},
        r"predict of answer failed \(answer\.py, line 11\): ValueError: need at least one array",
    ),
    "the import fails": ("import nothing_like_it\n", {}, r"the import of answer failed .*No module named 'nothing_lik"),
    "no dict": ("return numpy.zeros(3)", {}, r"the model answered with ndarray; allowed is a dict of columns"),
    "no score": ('return {"p": columns["x0"]}', {}, r"has no column score; binary needs score"),
    "other rows": (
        'return {"score": numpy.zeros(3)}',
        {},
        r"score of the model's answer has shape \[3\]; 100 rows were",
    ),
    "no probability": (
        'return {"score": 2 + 0 * columns["x0"]}',
        {},
        r"the score of .*row 1.* is 2\.0; allowed are pr",
    ),
    "NaN": ('return {"score": numpy.nan * columns["x0"]}', {}, r"row 1.*nan"),
    "an unknown column": (None, {"columns": "x0,plan"}, r"plan"),
    "a threshold of no probability": (None, {"threshold": 1.5}, r"threshold=1\.5; allowed are numbers from 0 to 1"),
    "three classes of two": (None, {"class_names": "a,b,c"}, r"class_names='a,b,c'; allowed are two names"),
    "a path": (None, {"answers": "../answer"}, r"answers='\.\./answer'; allowed is the name of a module"),
    "a file": (None, {"answers": "answer.py"}, r"answers='answer\.py'; the module's name is answer\."),
    "the label": (None, {"columns": "x0,label"}, r"columns names 'label', the label of .*: the model is to find it"),
    "a syntax error": ("def load(:\n", {}, r"the import of answer failed \(answer\.py, line 1\): SyntaxError"),
    "another task": (None, {"task": "regression"}, r"has no column predicted; regression needs predicted"),
    "other classes": (
        'z = 0 * columns["x0"] + 0.5; return {"score_ant": z, "score_fly": z}',
        {"task": "multiclass", "class_names": "ant,bee"},
        r"has the columns score_ant, score_fly: the model's classes are ant, bee, each once",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_model_that_cannot_answer_is_refused_in_one_line(
    case: str, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    text, options, message = WRONG[case]
    if text is not None:
        whole = module(text) if text.lstrip().startswith(("return", "z =")) else text
        (place.source / "answer.py").write_text(whole)
    with pytest.raises(SystemExit) as ended:
        place.described(1.5, **options)
    import re

    (line,) = [each for each in capfd.readouterr().err.splitlines() if each.startswith("error:")]
    assert ended.value.code == 2 and re.search(message, line), line


def test_a_refused_model_leaves_nothing_and_replaces_nothing(place: Place) -> None:
    model = place.described(1.5)
    before = content_hash(model)
    (place.source / "answer.py").write_text(module('return {"score": numpy.zeros(3)}'))
    with pytest.raises(SystemExit):
        place.described(1.5)
    with pytest.raises(SystemExit):
        place.described(2.5)
    assert content_hash(model) == before and not any((place.folder / "model-2.5").glob("*"))
    (place.folder / "model-2.5").mkdir(exist_ok=True)
    (place.folder / "model-2.5/mine.txt").write_text("precious")
    (place.source / "answer.py").write_text(module(PREDICT["binary"]))
    with pytest.raises(SystemExit):
        place.described(2.5)
    assert [path.name for path in (place.folder / "model-2.5").iterdir()] == ["mine.txt"]


def test_a_model_whose_code_ends_its_process_is_no_success(place: Place) -> None:
    ends = "import os; os._exit(0)"
    (place.source / "answer.py").write_text(module(ends))
    with pytest.raises(InputError, match=r"the model's own code ended the process that asked it"):
        place.described(1.5)
    later = f'if len(columns["x0"]) > 100:\n        {ends}\n    {PREDICT["binary"]}'
    (place.source / "answer.py").write_text(module(later))
    model = place.described(1.5)
    for ask in (lambda: place.evaluated(model), lambda: batch_predict(model, place.data, None, place.folder / "out")):
        with pytest.raises(InputError, match="ended without a result and without an error"):
            ask()


def test_margins_are_served_as_margins(place: Place) -> None:
    (place.source / "answer.py").write_text(
        module('z = logits(model, columns); return {"margin": z, "predicted": (z > 0).astype(int)}')
    )
    model = place.described(1.5)
    (answers,) = served([(model, [("text/csv", "application/json", "x0,site\n2.0,east\n")])], place.folder)
    assert json.loads(answers[0]) == {"predictions": [{"predicted": 1, "margin": 3.0}]}


def test_scores_that_are_decisions_are_named(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    (place.source / "answer.py").write_text(module('return {"score": (columns["x0"] > 0).astype(float)}'))
    place.described(1.5)
    assert "warning: all scores of 100 rows are 0 or 1" in "".join(capfd.readouterr())


def test_a_model_of_another_version_of_its_library_is_refused(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    model = place.described(1.5)
    described = json.loads((model / "model.json").read_text())
    assert described["needs"].keys() == {"numpy"}
    described["needs"]["numpy"] = "0.9.1"
    (model / "model.json").write_text(json.dumps(described))
    with pytest.raises(SystemExit):
        place.evaluated(model)
    assert "was made with numpy 0.9.1, which is " in capfd.readouterr().err


def test_a_damaged_description_is_refused_in_one_line_by_the_folders_own_command(place: Place) -> None:
    model = place.described(1.5)
    (model / "model.json").write_text("{}")
    command = [
        sys.executable,
        str(model / "code/inference.py"),
        "--input",
        str(model / "model.json"),
        "--output",
        "x.jsonl",
    ]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2 and found.stderr.startswith("error: ")
    assert found.stderr.endswith("model.json does not describe a model (KeyError('format')).\n")


def test_a_model_that_is_not_described_is_named(place: Place) -> None:
    with pytest.raises(InputError, match="A model of your own goes through describe_model first"):
        place.evaluated(place.trained(1.5))


def test_a_model_json_of_another_program_is_no_model_of_ours(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    """XGBoost's users like that name for its own format."""
    (place.trained(1.5) / "model.json").write_text('{"learner": {}, "version": [3, 2, 0]}')
    with pytest.raises(SystemExit):
        place.described(1.5)
    assert "has a model.json of its own, and describe_model writes one of that name. Save" in capfd.readouterr().err
