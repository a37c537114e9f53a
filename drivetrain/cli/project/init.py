"""`drivetrain init`: a working project to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Argument
from drivetrain.cli.options import Json

app = App()
TEMPLATE = Path(__file__).with_name("template")
# File of the template -> its place in the project, where that is another one. Programs of the template are no modules
# of ours, so their names end otherwise.
_PLACES = {"pipeline.yml": ".github/workflows/pipeline.yml"}
_IGNORED = ".drivetrain/\n__pycache__/\n"


@app.command()
def init(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="Where to write it  [default: this folder]", show_default=False)
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write a small project that works: data, pipeline, tests, CI.

    Nothing that is there is overwritten.

    \b
    Examples:
      drivetrain init customers
      drivetrain init
    """
    from drivetrain.base.files import write_text
    from drivetrain.cli.terminal import say, say_json

    texts = {
        _PLACES.get(file.name, file.name.removesuffix(".txt")): file.read_text(encoding="utf-8")
        for file in sorted(TEMPLATE.iterdir())
        if file.is_file()
    }
    texts[".gitignore"] = _IGNORED
    if there := sorted(name for name in texts if (folder / name).exists()):
        raise UserError(
            f"{folder} has {', '.join(there)} already, and nothing is overwritten. Give a folder that is new or empty."
        )
    for name, text in texts.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}. Give another folder.") from None
        write_text(folder / name, text)
    if as_json:
        say_json({"folder": str(folder), "files": list(texts)})
        return
    say(f"Wrote {len(texts)} files into {folder}:")
    for name in texts:
        say(f"  {name}")
    change = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    say(f"\nTry it: {change}drivetrain run pipeline.py")
