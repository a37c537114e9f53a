"""`drivetrain compile`: a pipeline as the definition that a target takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Home, Set
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import say_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drivetrain.targets.target import Compiled

app = App()


@app.command(name="compile")
def compile_(
    target: Annotated[str, Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].")],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the definition there.")] = None,
    list_code: Annotated[
        bool, Option("--list-code", help="List the files of yours that travel into the containers, and end.")
    ] = False,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    home: Home = None,
    as_json: Annotated[
        bool, Option("--json", help="For scripts: what was compiled or written with its warnings, or what travels.")
    ] = False,
) -> None:
    """Compile a pipeline to what its target takes, such as JSON.

    Nothing is deployed, and no network or credentials are needed. With --output the code and data that the definition
    names are put into the home too, so that `drivetrain run -d FILE` runs it here.

    \b
    Examples:
      drivetrain compile retraining
      drivetrain compile retraining -o retraining.json --set epochs=20
      drivetrain compile digits.py -c production.yaml -o digits.json
      drivetrain compile digits.py --list-code
      drivetrain compile retraining -c kubeflow.yaml -o compiled.yaml
    """
    if list_code:
        if output is not None:
            raise UserError("--list-code and --output are both given. Give one: a list is printed, nothing is written.")
        _list_code(target, config, set_, as_json=as_json)
        return
    from drivetrain.authoring.loading import settings_file
    from drivetrain.operations.operands import compiled_for, load_for

    if output is not None and output.resolve() in {each.resolve() for each in (settings_file(target), config) if each}:
        raise UserError(
            f"--output {output} is the file with the pipeline's settings, which every command reads. Give another "
            "name, such as compiled.yaml."
        )
    loaded, name = load_for(target, config, set_, on)
    built = compiled_for(loaded, name)
    warnings = [*built.notes, *_unpatched(built)]
    objects = None if output is None else _write(output, built, home)
    if as_json:
        written = {"definition": built.text} if objects is None else {"file": str(output), "objects": str(objects)}
        say_json({**written, "warnings": warnings})
        return
    if objects is None:
        sys.stdout.write(built.text)
    else:
        print(
            f"Wrote {output}: {len(built.pipeline.steps)} steps at the top level. "
            f"The {len(built.assets)} objects that it names are in {objects}.",
            file=sys.stderr,
        )
    for note in warnings:
        print(f"warning: {note}", file=sys.stderr)


def _unpatched(built: Compiled) -> list[str]:
    """The images of a SageMaker definition that are not patched any more."""
    definition: Mapping[str, Any] | None = getattr(built, "definition", None)
    if definition is None:
        return []
    from datetime import UTC, datetime

    from drivetrain.targets.sagemaker.images import unpatched

    return list(unpatched(definition, datetime.now(UTC).date()))


def _write(output: Path, definition: Compiled, home: Path | None) -> Path:
    """Write the definition, and what it names into the home; gives the folder of the latter."""
    from drivetrain.base.files import write_text
    from drivetrain.run_store.objects import ObjectStore, put_assets
    from drivetrain.run_store.writer import LedgerWriter

    write_text(output, definition.text)
    folder = local_home(home)
    folder.create()
    with LedgerWriter(folder) as ledger:
        put_assets(ObjectStore(folder.objects), definition.assets, ledger)
    return folder.objects


def _list_code(target: str, config: Path | None, overrides: list[str] | None, *, as_json: bool) -> None:
    """Print path and size of each file that travels, and how much that is of what may."""
    from drivetrain.assets import MAX_SOURCE_BYTES, MAX_SOURCE_FILES, source_files
    from drivetrain.authoring.loading import load

    source = load(target, config, overrides or ()).source
    files = {} if source is None else {file.relative_to(source).as_posix(): file for file in source_files(source)}
    sizes = {name: file.stat().st_size for name, file in files.items()}
    if as_json:
        most = {"most_files": MAX_SOURCE_FILES, "most_bytes": MAX_SOURCE_BYTES}
        say_json({"folder": None if source is None else str(source), "bytes": sizes, **most})
        return
    if source is None:
        print(f"{target} comes with the package: no file of yours travels.", file=sys.stderr)
        return
    for name, size in sizes.items():
        print(f"{size:>10,}  {name}")
    print(
        f"{len(sizes):,} files of at most {MAX_SOURCE_FILES:,}, {sum(sizes.values()):,} bytes of at most "
        f"{MAX_SOURCE_BYTES:,}, below {source}",
        file=sys.stderr,
    )
