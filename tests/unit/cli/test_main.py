from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from drivetrain.cli import main
from drivetrain.cli.main import COMMANDS

HEAVY = ("torch", "tensorflow", "kfp", "sagemaker", "boto3", "botocore", "numpy", "pyarrow", "pandas", "sklearn")
EVERY = [(name,) for name in COMMANDS] + [
    *[("runs", name) for name in ("list", "show", "compare", "logs", "stop", "resume", "callback", "report", "track")],
    *[("runs", name) for name in ("tag", "name", "note", "delete", "prune")],
    *[("checkpoints", name) for name in ("list", "show", "verify", "export")],
    ("evaluations", "show"),
    *[("models", name) for name in ("list", "show", "compare", "approve", "reject", "predict")],
    *[("prices", name) for name in ("show", "update")],
    *[("schema", name) for name in ("settings", "definition", "patch", "rules")],
    *[("triggers", name) for name in ("list", "replay")],
]

# Groups themselves, and commands that take nothing, need none.
EXEMPLARY = [
    command
    for command in EVERY
    if command[0] in ("run", "show", "compile", "diff", "import", "check", "plan", "apply", "pull", "start")
    or command[0] in ("destroy", "serve", "infra")
    or command[:2] in [("runs", name) for name in ("list", "show", "compare", "logs", "stop")]
    or (command[0] in ("prices", "schema", "triggers") and len(command) > 1)
]


def in_new_process(code: str, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("command", EVERY, ids="-".join)
def test_every_command_has_help(drivetrain, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = drivetrain(*command, "--help")
    assert text.startswith(f"Usage: drivetrain {' '.join(command)}")
    assert not [line for line in text.splitlines() if len(line) > 80]
    # Of a value it says what it is, not what Python takes it for; and it is in brackets once.
    assert not [word for word in ("<str>", "<path>", "<int", "<list", "[[") if word in text]
    assert drivetrain(*command, "-h") == text


@pytest.mark.parametrize("command", EXEMPLARY, ids="-".join)
def test_help_has_examples_that_begin_with_the_command(drivetrain, command: tuple[str, ...]) -> None:
    assert f"Examples:\n    drivetrain {' '.join(command)}" in drivetrain(*command, "--help")


# These print what is not for a script to take apart: a JSON Schema as it is, and the script of a shell.
WITHOUT_JSON = {
    ("completion",),
    ("schema", "settings"),
    ("schema", "definition"),
    ("schema", "patch"),
    ("schema", "rules"),
}


def test_every_command_speaks_json() -> None:
    def commands(group: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        if not isinstance(group, click.Group):
            yield words, group
            return
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            yield from commands(found, (*words, name))

    def speaks_json(command: click.Command) -> bool:
        return any("--json" in parameter.opts for parameter in command.params)

    found = dict(commands(main.app, ()))
    assert len(found) > 60
    assert {words for words, command in found.items() if not speaks_json(command)} == WITHOUT_JSON


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prices", "--json"], "'--json'. This is a group of commands; give it after one of them: show, update."),
        (["runs", "--home", "x"], "'--home'. This is a group of commands; give it after one of them: list, show,"),
        (["schema", "--json"], "'--json'. Name a command first."),
        (["--json"], "'--json'. Name a command first."),
        (["schema", "definition", "--json"], "'--json'. Leave it out: what this prints is for programs as it is."),
        (["runs", "list", "--jsn"], "'--jsn'. Did you mean '--json'?"),
    ],
)
def test_a_misplaced_option_names_the_right_place(drivetrain, words: list[str], said: str) -> None:
    assert said in drivetrain.error(*words)


GROUPS = ("checkpoints", "data", "evaluations", "health", "home", "models", "prices", "runs", "schema", "triggers")


def listed(text: str) -> list[str]:
    return text.partition("Commands:\n")[2].splitlines()


def test_help_lists_every_command_with_a_whole_sentence(drivetrain) -> None:
    text = drivetrain("--help")
    below: dict[str, list[str]] = {}
    for line in text.partition("Options:\n")[2].partition("\n\n")[2].splitlines():
        if line.endswith(":"):
            below[line[:-1]] = []
        elif line:
            assert line.endswith(".") and not line.endswith(".."), line
            below[list(below)[-1]].append(line.split()[0])
    assert below == {heading: list(names) for heading, names in main.GROUPS.items()}
    assert drivetrain() == text


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_lists_its_commands_with_whole_sentences(drivetrain, group: str) -> None:
    lines = listed(drivetrain(group, "--help"))
    assert lines
    assert all(line.endswith(".") and not line.endswith("..") for line in lines), lines


def test_every_command_group_is_checked(drivetrain) -> None:
    assert [name for name in sorted(COMMANDS) if listed(drivetrain(name, "--help"))] == list(GROUPS)


def test_every_module_is_a_file_of_the_folder() -> None:
    folder = Path(main.__file__).parent
    assert all((folder / f"{module.replace('.', '/')}.py").is_file() for module in COMMANDS.values())


def test_shells_complete_commands_pipelines_and_runs(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert f"_DRIVETRAIN_COMPLETE={shell}_complete" in drivetrain("completion", shell)
    assert "'bash', 'zsh', 'fish'" in drivetrain.error("completion", "csh")
    drivetrain.run()
    drivetrain("runs", "name", "latest", "best-of-all", "--home", drivetrain.home)
    (drivetrain.folder / "nightly_pipeline.py").touch()
    monkeypatch.setenv("DRIVETRAIN_HOME", str(drivetrain.home))

    def words(line: str) -> list[str]:
        """What bash is told of the last word."""
        with monkeypatch.context() as shell:
            shell.setenv(main.COMPLETE, "bash_complete")
            shell.setenv("COMP_WORDS", line)
            shell.setenv("COMP_CWORD", str(line.count(" ")))
            return [line.partition(",")[2] for line in drivetrain().splitlines() if line]

    assert words("drivetrain ru") == ["run", "runs"]
    assert words("drivetrain runs show bes") == ["best-of-all"]
    assert words("drivetrain run ni") == ["nightly_pipeline.py"] and "retraining" in words("drivetrain run re")
    assert words("drivetrain run --quie") == ["--quiet"]
    assert words("drivetrain runs list --on ku") == words("drivetrain plan --target ku") == ["kubeflow"]
    assert words("drivetrain run retraining --set ep") == ["epochs="] == words("drivetrain plan retraining -s epo")
    assert words("drivetrain run nowhere.py --set e") == words("drivetrain run --set e") == []
    assert "evaluate" in words("drivetrain runs logs latest ev") and words("drivetrain runs logs none ev") == []
    assert words("drivetrain status retr") == []  # which there is no more
    drivetrain.home.joinpath("ledger.db").write_bytes(b"no ledger" * 100)
    assert words("drivetrain runs show l") == []


def test_version(drivetrain) -> None:
    assert drivetrain("--version").startswith("drivetrain 0.")
    assert drivetrain("version") == drivetrain("--version")
    assert '"python"' in drivetrain("version", "--json")


@pytest.mark.parametrize(
    ("before", "now"),
    [("executions", "runs list"), ("status", "runs show"), ("logs", "runs logs"), ("stop", "runs stop")],
)
def test_a_renamed_command_names_its_new_name(drivetrain, before: str, now: str) -> None:
    message = drivetrain.error(before, "retraining", "--follow")
    assert message.startswith(f"error: `drivetrain {before}` is now `drivetrain {now} --on TARGET -p PIPELINE`")
    assert drivetrain(*now.split(), "--help").startswith(f"Usage: drivetrain {now}")


def test_mistyped_words_suggest_the_closest(drivetrain) -> None:
    assert "Did you mean 'compile', 'completion'?" in drivetrain.error("compil")
    assert "Did you mean 'list'?" in drivetrain.error("runs", "lst")
    assert "--definition" in drivetrain.error("run", "--definiton", "x.json")
    assert "Did you mean 'retraining'?" in drivetrain.error("run", "retrainin")
    assert "Did you mean 'retraining'?" in drivetrain.error("check", "retrainin")
    assert "Did you mean 'retraining'?" in drivetrain.error("diff", "retraining", "retrainin")
    assert "Try `drivetrain compile --help`." in drivetrain.error("compile")
    assert "--parallel" in drivetrain.error("run", "retraining", "--parallel", "0")
    assert "namespace" in drivetrain.error("run", "retraining", "--paths", "nowhere")


COMMAND = """
import sys
from drivetrain.cli.main import run
code = run(sys.argv[1:])
print("LOADED", *sys.modules, file=sys.stderr)
sys.exit(code)
"""


# One start for all: what is not loaded at its end, none of them has loaded.
SEVERAL = """
import sys
from drivetrain.cli.main import run
for line in sys.argv[1:]:
    assert run(line.split()) == (2 if "--wrong" in line else 0), line
    print("LOADED", line, *sys.modules, file=sys.stderr)
"""


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    rich = {*HEAVY, "rich"}  # which is for the live progress alone
    light = {*rich, "drivetrain.targets.sagemaker.run.runner"}
    # A list of commands needs nothing that shows runs.
    lists = {*rich, "pydantic", "sqlite3", "yaml", "asyncio", "drivetrain.cli.outcome", "drivetrain.run_store"}
    forbidden = {
        **dict.fromkeys(("--help", "version --wrong"), lists),
        **dict.fromkeys(("list", "show retraining", "compile retraining -o definition.json"), light),
        **dict.fromkeys(("models list", "runs list"), rich),
    }
    done = in_new_process(SEVERAL, *forbidden, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.split("LOADED ")[1:]
    assert len(loaded) == len(forbidden)
    for said, (line, names) in zip(loaded, forbidden.items(), strict=True):
        modules = said.removeprefix(line).split()
        found = {*modules, *(name.partition(".")[0] for name in modules)}
        assert "drivetrain" in found
        assert not found & names, line


TWO_STEPS = """
from drivetrain import Pipeline, Settings, step
from drivetrain.components import Input, Output, component

@component
def one(out: Output, n: int = 1) -> None:
    (out / "a").write_text(str(n))

@component
def two(data: Input) -> dict[str, float]:
    return {"n": float((data / "a").read_text())}

def pipeline(settings: Settings) -> Pipeline:
    first = step(one, n=3)
    return Pipeline(name="two", steps=[first, step(two, data=first["out"])])
"""
# Packages included. It may only shrink: what a run does not need is imported where it is needed.
MOST_MODULES = 113


def test_a_run_of_two_steps_loads_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO_STEPS)
    done = in_new_process(COMMAND, "run", "two.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "two: n 3.000" in done.stdout
    ours = [name for name in done.stderr.split("LOADED ")[1].split() if name.partition(".")[0] == "drivetrain"]
    assert "drivetrain.targets.sagemaker.run.runner" in ours
    assert len(ours) <= MOST_MODULES, ours
    rooms = ("recommend", "registry", "telling.charts", "targets.sagemaker.run.spark", "training", "trackers")
    rooms += ("telling.dag.folding", "targets.sagemaker.document.for_each", "targets.sagemaker.inspection")
    rooms += ("spec.binding",)
    assert [name for name in ours if name.startswith(tuple(f"drivetrain.{room}" for room in rooms))] == []


def test_a_command_loads_no_pydantic_plugin(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO_STEPS)
    (tmp_path / "watcher.py").write_text("raise SystemExit('a plug-in was loaded')")
    info = tmp_path / "watcher-1.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[pydantic]\nwatcher = watcher:plugin\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: watcher\nVersion: 1\n")
    done = in_new_process("from drivetrain.cli.main import main; main()", "compile", "two.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    code = "from drivetrain.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "compile", "retraining"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert error == ""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
def test_a_full_disk_behind_stdout_is_reported(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "compile", "retraining"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    assert (
        done.stderr.partition("LOADED")[0]
        == "error: the output: No space left on device. Make room, or give another place.\n"
    )
    assert done.returncode == 2


def test_a_bug_is_shown_with_its_traceback(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.authoring.ready.ready_pipelines", None)
    drivetrain("list", code=70)
    assert "TypeError: 'NoneType' object is not callable" in drivetrain.err
    assert "Traceback (most recent call last):" in drivetrain.err
    assert drivetrain.err.rstrip().endswith("`drivetrain version`.")


def test_ctrl_c_ends_with_130(drivetrain, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("drivetrain.authoring.ready.ready_pipelines", interrupted)
    drivetrain("list", code=130)


@pytest.mark.parametrize("file", sorted(Path(main.__file__).parent.glob("*.py")), ids=lambda file: file.stem)
def test_examples_name_no_nonexistent_execution(file: Path) -> None:
    """Neither an id of a local run nor one of SageMaker: `latest` works for everybody."""
    examples = [line for line in file.read_text().splitlines() if line.startswith("      drivetrain ")]
    made_up = re.compile(r"\s(\d{8}-\d{4,6}|(?=\w*\d)(?=\w*[a-z])[a-z0-9]{6,12})(\s|$)")
    assert [line for line in examples if made_up.search(line)] == []
