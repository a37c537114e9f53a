"""Which tests a change can reach, in small trees planted for it and in this one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.changed import ROOT, Tree, changed_files, main, reached_tests

LINKED = ("components", "pipelines", "training_scripts")
Plant = Callable[[dict[str, str]], Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    def planted(files: dict[str, str]) -> Path:
        for name, text in ({"pyproject.toml": "", "drivetrain/__init__.py": ""} | files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        for name in LINKED:
            (tmp_path / "drivetrain" / name).symlink_to(f"../{name}")
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
        ):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)
        return tmp_path

    return planted


PACKAGES = {"components/__init__.py": "", "pipelines/__init__.py": "", "training_scripts/__init__.py": ""}
# Name of the case -> the files, and the one that changes. `tests/test_yes.py` is to be reached, `test_no.py` is not.
CASES: dict[str, tuple[dict[str, str], str]] = {
    "an import of an import": (
        {
            "components/a.py": "",
            "components/b.py": "import drivetrain.components.a",
            "tests/test_yes.py": "from drivetrain.components import b",
            "tests/test_no.py": "import drivetrain.components",
        },
        "components/a.py",
    ),
    "an import in a function, of a name": (
        {
            "components/a.py": "",
            "tests/test_yes.py": "def test():\n    from drivetrain.components.a import name",
            "tests/test_no.py": "if TYPE_CHECKING:\n    from drivetrain.components.a import name",
        },
        "components/a.py",
    ),
    "the package above": (
        {
            "components/a.py": "",
            "components/__init__.py": "import drivetrain.components.a\ndef f():\n    import drivetrain.components.c",
            "components/c.py": "",
            "components/b.py": "",
            "tests/test_yes.py": "import drivetrain.components.b",
            "tests/test_no.py": "import other",
        },
        "components/a.py",
    ),
    "what the package above imports later": (
        {
            "components/__init__.py": "def f():\n    import drivetrain.components.c",
            "components/c.py": "",
            "components/b.py": "",
            "tests/test_yes.py": "from drivetrain.components import f",
            "tests/test_no.py": "import drivetrain.components.b",
        },
        "components/c.py",
    ),
    "a name of a lazy package": (
        {
            "drivetrain/__init__.py": "if TYPE_CHECKING:\n    from drivetrain.pipelines.a import A\n"
            "    from drivetrain.pipelines.b import B\ndef __getattr__(name): ...",
            "pipelines/a.py": "",
            "pipelines/b.py": "",
            "tests/test_yes.py": "from drivetrain import A",
            "tests/test_no.py": "from drivetrain import B",
        },
        "pipelines/a.py",
    ),
    "any name of a lazy package": (
        {
            "drivetrain/__init__.py": "if TYPE_CHECKING:\n    from drivetrain.pipelines.a import A\n"
            "def __getattr__(name): ...",
            "pipelines/a.py": "",
            "tests/test_yes.py": "import drivetrain as dt",
            "tests/test_no.py": "",
        },
        "pipelines/a.py",
    ),
    "a program by its module": (
        {
            "training_scripts/launch.py": "",
            "components/train.py": "words = ['-m', 'drivetrain.training_scripts.launch']",
            "tests/test_yes.py": "target = 'drivetrain.components.train:train'",
            "tests/test_no.py": "'''Of drivetrain.components.train.'''",
        },
        "training_scripts/launch.py",
    ),
    "a program in a text": (
        {
            "components/a.py": "",
            "tests/test_yes.py": "run('import drivetrain.components.a, sys')",
            "tests/test_no.py": "run('import drivetrain')",
        },
        "components/a.py",
    ),
    "a family by its name": (
        {
            "training_scripts/strategies/__init__.py": "",
            "training_scripts/strategies/ddp.py": "",
            "training_scripts/plugins.py": "import_module(f'drivetrain.training_scripts.{family}.{name}')",
            "training_scripts/train.py": "from drivetrain.training_scripts import plugins\nload('strategies', name)",
            "training_scripts/read.py": "from drivetrain.training_scripts import plugins\nload('readers', name)",
            "tests/test_yes.py": "import drivetrain.training_scripts.train",
            "tests/test_no.py": "import drivetrain.training_scripts.read",
        },
        "training_scripts/strategies/ddp.py",
    ),
    "a family of a package": (
        {
            "pipelines/types/__init__.py": "import_module(f'{__name__}.{kind}')",
            "pipelines/types/one.py": "",
            "pipelines/types/two.py": "",
            "tests/test_yes.py": "from drivetrain.pipelines.types import found",
            "tests/test_no.py": "from drivetrain.pipelines.types import two",
        },
        "pipelines/types/one.py",
    ),
    "a name that is put together": (
        {
            "components/metrics/__init__.py": "",
            "components/metrics/a.py": "",
            "tests/test_yes.py": "import_module(f'drivetrain.components.metrics.{name}')",
            "tests/test_no.py": "import_module(f'drivetrain.components.{name}')",
        },
        "components/metrics/a.py",
    ),
    "a file of Python by its name": (
        {
            "pipelines/server.py": "",
            "components/server.py": "",
            "pipelines/start.py": "Path(__file__).with_name('server.py')",
            "tests/test_yes.py": "import drivetrain.pipelines.start",
            "tests/test_no.py": "import drivetrain.components.server",
        },
        "pipelines/server.py",
    ),
    "data by their name": (
        {
            "pipelines/shapes.json": "",
            "pipelines/a.py": "Path(__file__).with_name('shapes.json')",
            "pipelines/b.py": "",
            "tests/test_yes.py": "import drivetrain.pipelines.a",
            "tests/test_no.py": "import drivetrain.pipelines.b",
        },
        "pipelines/shapes.json",
    ),
    "data that nobody names": (
        {
            "pipelines/data/table.csv": "",
            "pipelines/a.py": "",
            "tests/test_yes.py": "import drivetrain.pipelines.a",
            "tests/test_no.py": "import drivetrain.components",
        },
        "pipelines/data/table.csv",
    ),
    "a conftest above": (
        {
            "components/a.py": "",
            "tests/unit/conftest.py": "import drivetrain.components.a",
            "tests/unit/deep/test_yes.py": "",
            "tests/test_no.py": "",
        },
        "components/a.py",
    ),
    "a fixture": (
        {"tests/fixtures/a.py": "", "tests/test_yes.py": "from tests.fixtures.a import b", "tests/test_no.py": ""},
        "tests/fixtures/a.py",
    ),
    "plug-ins of a suite": (
        {
            "tests/contract/readers/mnist.py": "",
            "tests/contract/test_yes.py": "Path(__file__).with_name('readers').glob('*.py')",
            "tests/contract/test_no.py": "Path(__file__).with_name('places').glob('*.py')",
        },
        "tests/contract/readers/mnist.py",
    ),
    "the file that it mirrors": (
        {"components/yes.py": "", "tests/unit/components/test_yes.py": "", "tests/unit/components/test_no.py": ""},
        "components/yes.py",
    ),
    "the file of the library that it mirrors": (
        {"drivetrain/cli/yes.py": "", "tests/unit/cli/test_yes.py": "", "tests/unit/cli/test_no.py": ""},
        "drivetrain/cli/yes.py",
    ),
    "a page": (
        {"docs/plan.md": "", "tests/test_yes.py": "ROOT / 'docs' / 'plan.md'", "tests/test_no.py": "'docs'"},
        "docs/plan.md",
    ),
    "all files of folders": (
        {
            "components/a.py": "",
            "tests/test_yes.py": "for name in ('components', 'pipelines'):\n    (ROOT / name).rglob('*.py')",
            "tests/test_no.py": "rglob('components')",
        },
        "components/a.py",
    ),
    "the test itself": ({"tests/test_yes.py": "", "tests/test_no.py": ""}, "tests/test_yes.py"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_change_reaches_what_uses_it(plant: Plant, case: str) -> None:
    files, changed = CASES[case]
    root = plant(PACKAGES | files)
    assert {Path(path).stem for path in reached_tests(root, {changed})} == {"test_yes"}


def test_the_nearest_comes_first(plant: Plant) -> None:
    files = {f"components/{name}.py": f"import drivetrain.components.{uses}" for name, uses in ("ba", "cb")}
    tests = {f"tests/test_{name}.py": f"import drivetrain.components.{name}" for name in "cab"}
    root = plant(PACKAGES | files | tests | {"components/a.py": ""})
    assert reached_tests(root, {"components/a.py"}) == {
        "tests/test_a.py": 1,
        "tests/test_b.py": 2,
        "tests/test_c.py": 3,
    }


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt", "tests/conftest.py"])
def test_some_files_mean_everything(plant: Plant, file: str) -> None:
    assert reached_tests(plant(PACKAGES), {file, "components/__init__.py"}) == {"tests": 0}


def test_changed_new_and_deleted_files_are_found(plant: Plant) -> None:
    uses = {f"tests/test_{name}.py": f"import drivetrain.components.{name}" for name in ("kept", "gone", "new", "same")}
    root = plant(PACKAGES | uses | {f"components/{name}.py": "" for name in ("kept", "gone", "same")})
    (root / "components/kept.py").write_text("edited = 1")
    (root / "components/gone.py").unlink()
    (root / "components/new.py").touch()
    changed = changed_files(root, "HEAD")
    assert changed == {"components/kept.py", "components/gone.py", "components/new.py"}
    assert {Path(path).stem for path in reached_tests(root, changed)} == {"test_kept", "test_gone", "test_new"}


def test_a_deleted_test_is_not_run(plant: Plant) -> None:
    root = plant(PACKAGES | {"tests/test_gone.py": ""})
    (root / "tests/test_gone.py").unlink()
    assert reached_tests(root, changed_files(root, "HEAD")) == {}


@pytest.mark.nightly
def test_changes_in_this_tree_reach_the_expected_tests() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    tree = Tree(ROOT, files)
    for changed, test in {
        "drivetrain/data/schema.py": "tests/unit/components/test_prepare_data_types.py",
        "drivetrain/targets/sagemaker/images.json": "tests/unit/targets/sagemaker/test_images.py",
        "training_scripts/strategies/ddp.py": "tests/distributed/test_strategies_equal_one_process.py",
        "training_scripts/recipes/digits_cnn.py": "tests/contract/test_recipes.py",
        "drivetrain/cli/definition/show.py": "tests/unit/cli/definition/test_show.py",
        "docs/own_script.md": "tests/contract/test_own_script_page.py",
        "tests/golden/retraining.json": "tests/golden/test_golden.py",
    }.items():
        assert test in tree.reached([changed]), changed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--within", "-1"], "--within -1; allowed are whole numbers from 0"),
        (["--base", "nosuch"], "--base nosuch is no revision of this repository"),
        (["--list"], "components/broken.py, line 2: invalid syntax; mend it first"),
    ],
)
def test_unusable_arguments_are_reported(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    root = plant(PACKAGES)
    (root / "components/broken.py").write_text("a = 1\nb = = 2\n")
    monkeypatch.setattr("tests.changed.ROOT", root)
    monkeypatch.setattr("sys.argv", ["changed", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
