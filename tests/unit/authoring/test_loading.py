"""Finding a pipeline by name or file, and saying what is wrong with the file."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from drivetrain import SpecError, UserError
from drivetrain.authoring import loading
from drivetrain.authoring.loading import READY, load
from drivetrain.authoring.ready import ready_pipelines
from drivetrain.cli.errors import explain
from drivetrain.spec.steps import ProcessingStep
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.settings import settings_of

GOOD = """
from drivetrain.components import Output, component
from drivetrain import Pipeline, Settings, step

class Mine(Settings):
    rows: int = 3

@component
def load(data: Output, rows: int) -> None:
    ...

def nightly(settings: Mine) -> Pipeline:
    return Pipeline(name="nightly", steps=[step(load, rows=settings.rows)])
"""


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_given_deployment_settings_reach_the_pipeline(tmp_path: Path) -> None:
    """Also where the author does not hand it on; what the author says stands."""
    place = ["deployment.targets.sagemaker.bucket=mine", "deployment.targets.sagemaker.region=eu-west-1"]
    loaded = load(write(tmp_path, "nightly_placed.py", GOOD), overrides=[*place, "rows=4"])
    there = settings_of(loaded.pipeline.deployment)
    assert (there.bucket, there.region) == ("mine", "eu-west-1")
    assert loaded.pipeline.steps == load(str(tmp_path / "nightly_placed.py"), overrides=["rows=4"]).pipeline.steps
    own = GOOD.replace("import Pipeline", "import Deployment, Pipeline").replace(
        'name="nightly",', 'name="nightly", deployment=Deployment(targets={"sagemaker": {"bucket": "own"}}),'
    )
    built = load(write(tmp_path, "nightly_own.py", own), overrides=place).pipeline
    assert settings_of(built.deployment).bucket == "own"


def test_a_file_with_its_settings(tmp_path: Path) -> None:
    target = write(tmp_path, "nightly_one.py", GOOD)
    write(tmp_path, "nightly_one.yaml", "rows: 5\n")
    loaded = load(target)
    assert loaded.pipeline.steps[0].parameters["rows"] == 5  # type: ignore[union-attr]
    assert loaded.source == tmp_path
    assert load(target, overrides=["rows=6"]).pipeline.steps[0].parameters["rows"] == 6  # type: ignore[union-attr]
    assert load(target + ":nightly").pipeline.name == "nightly"


def test_two_pipelines_need_a_name(tmp_path: Path) -> None:
    second = "\ndef weekly() -> Pipeline:\n    return Pipeline(name='weekly')\n"
    target = write(tmp_path, "nightly_two.py", GOOD + second)
    with pytest.raises(UserError, match=r"several pipelines \(nightly, weekly\). Name one: .*:nightly"):
        load(target)
    assert load(target + ":weekly").pipeline.name == "weekly"
    with pytest.raises(
        UserError, match=r"Setting rows \(from --set\) does not exist\..* weekly\(\) takes no settings of"
    ):
        load(target + ":weekly", overrides=["rows=1"])
    with pytest.raises(UserError, match="Did you mean 'weekly'"):
        load(target + ":weakly")


def test_a_pipeline_without_settings_of_its_own_can_be_deployed(tmp_path: Path) -> None:
    target = write(
        tmp_path,
        "bare_two.py",
        "from __future__ import annotations\nimport drivetrain as dt\n"
        "def p() -> dt.Pipeline:\n    return dt.Pipeline(name='p')\n",
    )
    write(
        tmp_path,
        "bare_two.yaml",
        "deployment: {targets: {sagemaker: {bucket: my-bucket}}}\nlocal: {data: {'s3://b/x': data}}\n",
    )
    loaded = load(target, overrides=["deployment.targets.sagemaker.region=eu-west-1"])
    there = settings_of(loaded.pipeline.deployment)
    assert (there.bucket, there.region) == ("my-bucket", "eu-west-1")
    assert loaded.settings.local.data == {"s3://b/x": "data"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("syntax_wrong.py", "def f(:\n", r"syntax_wrong.py, line 1: "),
        ("raises_here.py", "x = 1\n1 / 0\n", r"raises_here.py, line 2: ZeroDivisionError"),
        ("exits_here.py", "raise SystemExit(5)\n", r"exits_here\.py ended the program \(sys\.exit\(5\)\) when it was"),
        (
            "exits_later.py",
            "from drivetrain import Pipeline\ndef p() -> Pipeline:\n    raise SystemExit\n",
            r"p\(\) ended the program \(sys\.exit\(\)\); it must return a Pipeline",
        ),
        ("imports_nothing.py", "import no_such_module_at_all\n", r"line 1: ModuleNotFoundError"),
        ("has_none.py", "x = 1\n", "no function is annotated `-> Pipeline`"),
        ("not-a-name.py", GOOD, "must be a Python name"),
        ("json.py", GOOD, "name of a module that is loaded already"),
        (
            "wrong_return.py",
            "from drivetrain import Pipeline\ndef p() -> Pipeline:\n    return 3\n",
            "must return a Pipeline",
        ),
        (
            "wrong_taking.py",
            "from drivetrain import Pipeline\ndef p(rows) -> Pipeline:\n    return 3\n",
            "subclass of Settings",
        ),
    ],
)
def test_errors_in_a_pipeline_file_are_explained(tmp_path: Path, name: str, text: str, message: str) -> None:
    import json  # noqa: F401  (a name that is taken)

    with pytest.raises((UserError, SpecError), match=message) as caught:
        load(write(tmp_path, name, text))
    assert len(str(caught.value).splitlines()) == 1


def test_unknown_names_and_files() -> None:
    with pytest.raises(UserError, match="Did you mean 'retraining'"):
        load("retrainin")
    with pytest.raises(UserError, match="No pipeline file"):
        load("nowhere.py")


def test_a_similar_file_name_is_suggested(tmp_path: Path) -> None:
    write(tmp_path, "nightly_named.py", GOOD)
    with pytest.raises(UserError, match=r"No pipeline file .*nightly_nmed.py. Did you mean 'nightly_named.py'"):
        load(str(tmp_path / "nightly_nmed.py"))


def test_ready_pipelines_are_listed_without_importing_them() -> None:
    assert "Retrain a model" in ready_pipelines()["retraining"]


def test_ready_pipelines_are_a_page_each() -> None:
    lengths = {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in READY.glob("*.py")}
    assert {name for name, lines in lengths.items() if lines >= 60} == {"retraining"}, "its settings are 35"


WRONG = """
from drivetrain.components import Input, component
from drivetrain import Parameter, Pipeline, Settings, script, step

class Base(Settings):
    rate: float = 0.5
    rows: int = "many"

class Mine(Base):
    name: str = "x"
    limit: int = None

class Good(Settings):
    rate: float = 1
    limit: int = None

@component
def load(raw: Input, rows: int = 3, text: str = "") -> None:
    ...

def returned() -> Pipeline:
    return 1

def ended() -> Pipeline:
    raise SystemExit(3)

def taking(a, b) -> Pipeline:
    return Pipeline(name="p")

def default(settings: Mine) -> Pipeline:
    return Pipeline(name="p", steps=[step(load, raw="s3://b/raw", rows=settings.rows)])

def unknown(settings: Good) -> Pipeline:
    return Pipeline(name=settings.rats)

def data(settings: Good) -> Pipeline:
    made = step(
        load, raw="nowhere")
    return Pipeline(name="p", steps=[made])

def missing() -> Pipeline:
    return Pipeline(name="p", steps=[script("nowhere.py")])

def called() -> Pipeline:
    made = load(raw=step(load, raw="s3://b/raw"))
    return Pipeline(name="p", steps=[made])

def equal() -> Pipeline:
    rows = Parameter.integer("Rows", default=1)
    made = step(load, raw="s3://b/raw", name="one" if rows == 1 else "many")
    return Pipeline(name="p", steps=[made])

def as_dict() -> Pipeline:
    made = step(load, raw="s3://b/raw", text={"a": 1})
    return Pipeline(name="p", steps=[made])
"""


@pytest.mark.parametrize(
    ("function", "line", "said"),
    [
        ("returned", "def returned", "returned() returned 1; it must return a Pipeline."),
        ("ended", "    raise SystemExit", "ended() ended the program (sys.exit(3))"),
        ("taking", "def taking", "taking() must take no parameter"),
        ("default", "    rows: int", "The default of setting rows in Mine is 'many': give a whole number"),
        ("unknown", "    return Pipeline(name=settings", "Setting 'rats' does not exist in Good. Did you mean 'rate'?"),
        ("data", "    made = step", "Input 'nowhere': no such file or folder in"),
        (
            "called",
            "    made = load(",
            "load(...) calls the function now, with values that exist only when the pipeline runs.",
        ),
        (
            "equal",
            '    made = step(load, raw="s3://b/raw", name',
            "Parameter 'Rows' has no value while the pipeline is built",
        ),
        (
            "as_dict",
            '    made = step(load, raw="s3://b/raw", text',
            "Step 'load': text is {'a': 1}; it takes a text with JSON.",
        ),
        ("missing", '    return Pipeline(name="p", steps=[script', "Step 'nowhere': there is no script"),
    ],
)
def test_author_errors_show_their_line(function: str, line: str, said: str, tmp_path: Path) -> None:
    target = write(tmp_path, f"wrong_{function}.py", WRONG)
    number = next(n for n, text in enumerate(WRONG.splitlines(), 1) if text.startswith(line))
    with pytest.raises(UserError) as caught:
        loaded = load(f"{target}:{function}")
        compile_pipeline(loaded.pipeline, source=loaded.source, base=loaded.base)
    told = explain(caught.value)[1]
    assert told.startswith(f"error: wrong_{function}.py, line {number}: {said}"), told


def test_the_source_line_of_a_step_is_not_part_of_its_value(tmp_path: Path) -> None:
    one, other = (load(write(tmp_path, f"nightly_{name}.py", GOOD)).pipeline.steps[0] for name in ("here", "there"))
    assert isinstance(one, ProcessingStep) and isinstance(other, ProcessingStep)
    assert (one.place, other.place) == ("nightly_here.py, line 13", "nightly_there.py, line 13")
    same = other.model_copy(update={"program": one.program})
    assert same == one and same.place == other.place
    assert "_place" not in one.model_dump() and "_place" not in repr(one) and "_place" not in one.model_dump_json()


def test_settings_are_read_as_attributes(tmp_path: Path) -> None:
    settings = load(write(tmp_path, "nightly_asked.py", GOOD)).settings
    assert not hasattr(settings, "nothing") and getattr(settings, "nothing", 3) == 3 and not hasattr(settings, "_one")
    assert copy.deepcopy(settings) == settings


RAISING = """
from drivetrain.components import Input, component
from drivetrain import Cluster, Pipeline, step

class Bad:
    def __getattr__(self, name):
        raise RuntimeError("not now")
    def __repr__(self):
        raise RuntimeError("no repr")

class Lazy:
    @property
    def __class__(self):
        raise RuntimeError("not configured")

lazy = Lazy()

class Empty:
    def __len__(self):
        raise RuntimeError("no len")
    def cluster(self):
        return Cluster(nonsense=3)

class Loud(Exception):
    def __str__(self):
        raise RuntimeError("no text")

@component
def load(raw: Input, rows: int = 3) -> None:
    ...

def loud():
    raise Loud

def author() -> Pipeline:
    return GIVEN
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Bad()", "author() returned <a Bad, whose repr raises RuntimeError>; it must return a Pipeline."),
        ("step(load, raw=Bad())", "is a Bad, which a pipeline cannot carry."),
        ("step(Bad())", "whose repr raises RuntimeError>): not a component."),
        ("step(load, raw='x', after=[Bad()])", "after=<a Bad, whose repr raises RuntimeError>: no step."),
        ("step(load, raw='x', cluster=Bad())", "step(load): cluster is <a Bad, whose repr raises RuntimeError>"),
        ("step(load, raw='x', image=Bad())", "ProcessingStep.image is <a Bad, whose repr raises RuntimeError>"),
        ("Empty().cluster()", "Cluster.nonsense does not exist. Allowed: "),
        ("loud()", "Loud, whose message raises RuntimeError"),
    ],
)
def test_an_object_with_a_failing_repr_does_not_hide_the_error(
    given: str, said: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"raising_{request.node.callspec.indices['given']}"
    target = write(tmp_path, f"{name}.py", RAISING.replace("GIVEN", given))
    with pytest.raises(Exception) as caught:
        load(target)
    code, told = explain(caught.value)
    assert code == 2 and told.startswith(f"error: {name}.py, line ") and said in told


PARAMETERS = """
from drivetrain import Pipeline, Settings, step
from drivetrain.components import component

class Own(Settings):
    rows: int = 3

@component
def load(rows: int, text: str) -> None: ...

def typed(rows: int = 3, *, text: str) -> Pipeline:
    \"\"\"A pipeline.

    Args:
        rows: how many.
    \"\"\"
    return Pipeline(name="p", steps=[step(load, rows=rows, text=text)])

def untyped(rows=3) -> Pipeline: ...
def both(settings: Own, rows: int = 3) -> Pipeline: ...
def many(*rows: int) -> Pipeline: ...
def taken(deployment: str = "") -> Pipeline: ...
def method(copy: int = 1) -> Pipeline: ...
def strange(rows: typing.TextIO = None) -> Pipeline: ...
def wrong(rows: int = "many") -> Pipeline: ...
def unread(rows: "int |" = 3) -> Pipeline: ...
def no_type(rows: {"x": 1} = 3) -> Pipeline: ...
""".replace("from drivetrain import", "import typing\nfrom drivetrain import", 1)


def test_the_parameters_of_the_function_are_settings(tmp_path: Path) -> None:
    target = f"{write(tmp_path, 'typed_parameters.py', PARAMETERS)}:typed"
    (tmp_path / "typed_parameters.yaml").write_text("rows: 5\n")
    loaded = load(target, overrides=["text=7"])  # a text stays one
    assert dict(loaded.pipeline.steps[0].parameters) == {"rows": 5, "text": "7"}
    assert loading.settings_of(target).model_fields["rows"].description == "how many."
    for override, said in {
        "rows=many": r"Setting rows \(from --set\) is 'many'",
        "row=1": r"Did you mean 'rows'\? Allowed: deployment, local, rows, text",
    }.items():
        with pytest.raises(UserError, match=said):
            load(target, overrides=["text=x", override])
    with pytest.raises(UserError, match="Setting text is required"):
        load(target)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("untyped", "its parameter 'rows' has no type"),
        ("both", "it takes settings: Own beside other parameters"),
        ("many", "cannot be given by name"),
        ("taken", "its parameter cannot be called 'deployment'"),
        ("method", "its parameter cannot be called 'copy'"),
        ("strange", "Parameter 'rows' of strange() cannot be a setting: its type is <"),
        ("unread", "unread(): the types of its parameters cannot be read: SyntaxError"),
        ("no_type", "Parameter 'rows' of no_type() cannot be a setting: its type is {'x': 1}. Allowed: str, int"),
        ("wrong", "The default of setting rows in wrong is 'many'"),
    ],
)
def test_parameters_that_cannot_be_settings_are_refused_with_their_line(
    function: str, said: str, tmp_path: Path
) -> None:
    target = write(tmp_path, f"parameters_{function}.py", PARAMETERS)
    number = next(n for n, text in enumerate(PARAMETERS.splitlines(), 1) if text.startswith(f"def {function}"))
    with pytest.raises(SpecError) as caught:
        load(f"{target}:{function}")
    told = explain(caught.value)[1]
    assert told.startswith(f"error: parameters_{function}.py, line {number}: ") and said in told, told


def test_a_file_of_a_package_is_imported_alone(tmp_path: Path) -> None:
    target = write(tmp_path, "nightly_inner.py", "from .other import name\n")
    expected = r"line 1: ImportError: .*\. Import what lies beside it without the dot .*, or call dt\.run\(FUNCTION\)"
    with pytest.raises(UserError, match=expected):
        load(target)


HELPED = """
from drivetrain.components import Output, component
from drivetrain import Pipeline, step
from {helper} import ROWS

@component
def load(data: Output, rows: int) -> None:
    ...

def nightly() -> Pipeline:
    return Pipeline(name="{name}", steps=[step(load, rows=ROWS)])
"""


def rows_of(target: str) -> object:
    found = load(target).pipeline.steps[0]
    assert isinstance(found, ProcessingStep)
    return found.parameters["rows"]


def test_an_edited_file_is_loaded_again(tmp_path: Path) -> None:
    target = write(tmp_path, "edited_once.py", GOOD)
    assert load(target).pipeline.name == "nightly"
    write(tmp_path, "edited_once.py", GOOD.replace('"nightly"', '"weekday"'))  # as long, and within the same second
    assert load(target).pipeline.name == "weekday"


def test_an_edited_module_beside_the_file_is_loaded_again(tmp_path: Path) -> None:
    write(tmp_path, "beside_edited.py", "ROWS = 3")
    target = write(tmp_path, "with_beside.py", HELPED.format(helper="beside_edited", name="p"))
    assert rows_of(target) == 3
    write(tmp_path, "beside_edited.py", "ROWS = 4")
    assert rows_of(target) == 4


def test_an_edited_module_of_a_folder_without_init_is_loaded_again(tmp_path: Path) -> None:
    (tmp_path / "parts_of_it").mkdir()
    write(tmp_path / "parts_of_it", "rows.py", "ROWS = 3")
    target = write(tmp_path, "with_parts.py", HELPED.format(helper="parts_of_it.rows", name="p"))
    assert rows_of(target) == 3
    write(tmp_path / "parts_of_it", "rows.py", "ROWS = 4")
    assert rows_of(target) == 4


def test_a_module_that_the_function_imports_is_loaded_again(tmp_path: Path) -> None:
    write(tmp_path, "late_rows.py", "ROWS = 3")
    text = HELPED.format(helper="late_rows", name="p").replace("from late_rows import ROWS\n", "")
    target = write(tmp_path, "with_late.py", text.replace("    return", "    from late_rows import ROWS\n    return"))
    assert rows_of(target) == 3
    write(tmp_path, "late_rows.py", "ROWS = 4")
    assert rows_of(target) == 4


def test_an_edited_module_behind_a_link_is_loaded_again(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "mine").mkdir()
    write(tmp_path / "shared", "rows.py", "ROWS = 3")
    (tmp_path / "mine" / "linked_rows.py").symlink_to("../shared/rows.py")
    target = write(tmp_path / "mine", "with_link.py", HELPED.format(helper="linked_rows", name="p"))
    assert rows_of(target) == 3
    write(tmp_path / "shared", "rows.py", "ROWS = 4")
    assert rows_of(target) == 4


def test_an_unchanged_file_keeps_its_module(tmp_path: Path) -> None:
    target = Path(write(tmp_path, "left_alone.py", GOOD))
    assert loading.import_file(target) is loading.import_file(target)


def test_a_file_that_failed_is_tried_again(tmp_path: Path) -> None:
    target = write(tmp_path, "mended.py", "ROWS = 1\nraise ValueError('not yet')")
    with pytest.raises(UserError, match="not yet"):
        load(target)
    write(tmp_path, "mended.py", GOOD)
    assert load(target).pipeline.name == "nightly"


def test_equal_module_names_in_two_folders_are_kept_apart(tmp_path: Path) -> None:
    targets: list[str] = []
    for number, name in enumerate(["north", "south"]):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "rows_here.py", f"ROWS = {number}")
        targets.append(write(tmp_path / name, "of_a_team.py", HELPED.format(helper="rows_here", name=name)))
    assert [rows_of(target) for target in [*targets, *targets]] == [0, 1, 0, 1]
