"""`drivetrain init`: a working project to start from."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json

app = App()
TEMPLATE = Path(__file__).with_name("template")
# File of the template -> its place in the project, where that is another one. Programs of the template are no modules
# of ours, so their names end otherwise.
_PLACES = {"pipeline.yml": ".github/workflows/pipeline.yml"}
_TEST = '''"""The pipeline runs here as it does in the cloud: pytest test_pipeline.py"""

from pathlib import Path

import drivetrain as dt

PIPELINE = Path(__file__).with_name("pipeline.py")


def test_the_pipeline_runs(tmp_path: Path) -> None:
    run = dt.run(PIPELINE, home=tmp_path, quiet=True)
    assert {outcome}, run.reason
'''
_SUCCEEDED = 'run.status == "Succeeded"'
_WITHOUT_MODEL = 'run.status == "Failed" and "is approved" in str(run.reason)'
_IGNORED = ".drivetrain/\n__pycache__/\n"
_REQUIREMENTS = """\
# drivetrain is not on PyPI: a package of that name there is not ours.
{source}
pytest==9.2.0
"""
_OF_CHECKOUT = "# Install it from your checkout first: pip install CHECKOUT"
# What can be replaced by nobody: a wheel with its hash, a commit.
_PINNED = r"(?:drivetrain(?:\[[\w,-]+\])? ?@ ?)?(https://[^\s#]+\.whl#sha256=[0-9a-f]{64}|git\+(?:https|ssh)://[^\s@#]+(?:@[^\s@#]+)?@[0-9a-f]{40})"


@app.command()
def init(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="Where to write it  [default: this folder]", show_default=False)
    ] = Path(),
    ready: Annotated[
        str | None,
        Option("--from", metavar="NAME", bare="", help="A ready pipeline to copy; without a name: list them"),
    ] = None,
    source: Annotated[
        str | None,
        Option("--drivetrain", metavar="WHEEL|REQUIREMENT", help="What CI installs  [default: what is installed here]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a small project that works: data, pipeline, tests, CI.

    Nothing that is there is overwritten. drivetrain is not on PyPI, so CI installs it from a wheel, which is copied
    into the project, or from an address that cannot change (of a wheel with its hash, or of a commit).

    \b
    Examples:
      drivetrain init customers
      drivetrain init --from churn my_churn
      drivetrain init --from
      drivetrain init --drivetrain dist/drivetrain-0.1.0-py3-none-any.whl
      drivetrain init --drivetrain "git+https://host/drivetrain@COMMIT"
    """
    if ready == "":
        from drivetrain.authoring.ready import ready_pipelines

        if as_json:
            return say_json([{"pipeline": name, "description": text} for name, text in ready_pipelines().items()])
        return say(f"{_listed()}\n\nCopy one: drivetrain init --from NAME FOLDER")
    contents: dict[str, bytes | Path] = {
        _PLACES.get(file.name, file.name.removesuffix(".txt")): file
        for file in sorted(TEMPLATE.iterdir())
        if file.is_file()
    }
    contents[".gitignore"] = _IGNORED.encode()
    needs: list[str] = []
    if ready is not None:
        del contents["customers.csv"]
        copied, needs = _copied(ready)
        contents |= copied
    wheel, requirement = _checked(source) if source is not None else _installed()
    if requirement is None:
        del contents[_PLACES["pipeline.yml"]]
    listed = _REQUIREMENTS.format(source=requirement or _OF_CHECKOUT)
    contents["requirements.txt"] = "".join([listed, *needs]).encode()
    if wheel is not None:
        contents[f"wheels/{wheel.name}"] = wheel
    if there := sorted(name for name in contents if (folder / name).exists()):
        raise UserError(
            f"{folder} has {', '.join(there)} already, and nothing is overwritten. Give a folder that is new or empty."
        )
    for name, content in contents.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}. Give another folder.") from None
    if as_json:
        say_json({"folder": str(folder), "files": list(contents)})
        return
    say(f"Wrote {len(contents)} files into {folder}:")
    for name in contents:
        say(f"  {name}")
    if requirement is None:
        say(
            "No CI: it could not install drivetrain, which is not on PyPI. Give --drivetrain WHEEL|REQUIREMENT for one."
            " Elsewhere install your checkout, then requirements.txt."
        )
    change = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    say(f"\nTry it: {change}drivetrain run pipeline.py")


def _listed() -> str:
    """A table of the ready pipelines."""
    from drivetrain.authoring.ready import ready_pipelines
    from drivetrain.telling.terminal import table

    return table(("pipeline", "what it does"), [[name, text] for name, text in ready_pipelines().items()])


def _copied(name: str) -> tuple[dict[str, bytes | Path], list[str]]:
    """The files of a project with a ready pipeline and its data, and the lines of what its steps need.

    Raises:
        UserError: there is no such pipeline.
    """
    from drivetrain.assets.assets import EXAMPLES
    from drivetrain.assets.examples import example
    from drivetrain.authoring.loading import READY, load
    from drivetrain.authoring.ready import ready_pipelines
    from drivetrain.base.errors import nearest
    from drivetrain.operations.needs import needs_of_step
    from drivetrain.resolving.frameworks import recipe_needs
    from drivetrain.spec.pipeline import Graph
    from drivetrain.spec.steps import JobStep

    if name not in (known := ready_pipelines()):
        meant = f" Did you mean {meant!r}?" if (meant := nearest(name, known)) else ""
        print(_listed(), file=sys.stderr)
        raise UserError(f"No ready pipeline {name!r}.{meant} Give one of those above.")
    text = (READY / f"{name}.py").read_text(encoding="utf-8")
    files: dict[str, bytes | Path] = {}
    for data in sorted(set(re.findall(rf'"{EXAMPLES}(\w+)"', text))):
        files |= (found := example(data))
        text = text.replace(f'"{EXAMPLES}{data}"', f'"{next(iter(found)).partition("/")[0]}"')
    text = re.sub(r"^    drivetrain init .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(rf"^(    drivetrain \w+) {name}\b", r"\1 pipeline.py", text, flags=re.MULTILINE)
    outcome = _WITHOUT_MODEL if "find_previous" in text else _SUCCEEDED
    about = (TEMPLATE / "README.md").read_text(encoding="utf-8")
    about = about.replace("# Customers\n\nA pipeline that runs", f"# {name}\n\n{known[name]}\n\nIt runs")
    about = about.replace("customers.csv`: the data", "`, `".join(files) + "`: what it works with")
    about = about.replace(", and one that must fail", "")
    graph = Graph(load(name).pipeline)
    steps = [step for step in graph.steps if isinstance(step, JobStep)]
    every = {need for step in steps for need in needs_of_step(step, graph)}
    needs = sorted(every | {*recipe_needs(graph.pipeline, READY)})
    files |= {"pipeline.py": text.encode(), "README.md": about.encode()}
    files["test_pipeline.py"] = _TEST.format(outcome=outcome).encode()
    return files, [f"{need}\n" for need in needs]


def _checked(source: str) -> tuple[Path | None, str]:
    """A wheel to copy, if it is one, and the line of requirements.txt.

    Raises:
        UserError: neither a wheel of drivetrain nor an address that cannot change.
    """
    if pinned := re.fullmatch(_PINNED, source):
        return None, f"drivetrain @ {pinned.group(1)}"
    wheel = Path(source)
    if re.fullmatch(r"drivetrain-[\w.+-]+\.whl", wheel.name) and wheel.is_file():
        return wheel, f"./wheels/{wheel.name}"
    raise UserError(
        f"--drivetrain {source!r} is no wheel of drivetrain that is here, and no address that cannot change. Allowed: "
        "a file drivetrain-VERSION-....whl, https://....whl#sha256=HASH, git+https://...@COMMIT (40 digits)."
    )


def _installed() -> tuple[Path | None, str | None]:
    """As of `_checked`, of what is installed here; (None, None) if that does not say where CI would find it."""
    try:
        found = json.loads(metadata.distribution("drivetrain").read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return None, None
    address: str = found.get("url", "")
    if "vcs_info" in found:
        address = f"git+{address}@{found['vcs_info'].get('commit_id')}"
    elif address.startswith("file://"):
        address = unquote(urlsplit(address).path)
    else:
        address += f"#sha256={found.get('archive_info', {}).get('hashes', {}).get('sha256')}"
    try:
        return _checked(address)
    except UserError:
        return None, None
