"""`drivetrain init`: a working project to start from."""

from __future__ import annotations

import json
import re
import shlex
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
_IGNORED = ".drivetrain/\n__pycache__/\n"
_REQUIREMENTS = """\
# drivetrain is not on PyPI: a package of that name there is not ours.
{source}
pytest==9.2.0
"""
# What can be replaced by nobody: a wheel with its hash, a commit.
_PINNED = r"(?:drivetrain(?:\[[\w,-]+\])? ?@ ?)?(https://[^\s#]+\.whl#sha256=[0-9a-f]{64}|git\+(?:https|ssh)://[^\s@#]+(?:@[^\s@#]+)?@[0-9a-f]{40})"


@app.command()
def init(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="Where to write it  [default: this folder]", show_default=False)
    ] = Path(),
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
      drivetrain init --drivetrain dist/drivetrain-0.1.0-py3-none-any.whl
      drivetrain init --drivetrain "git+https://host/drivetrain@COMMIT"
    """
    from drivetrain.base.files import write_text

    texts = {
        _PLACES.get(file.name, file.name.removesuffix(".txt")): file.read_text(encoding="utf-8")
        for file in sorted(TEMPLATE.iterdir())
        if file.is_file()
    }
    texts[".gitignore"] = _IGNORED
    wheel, requirement = _checked(source) if source is not None else _installed()
    if requirement is None:
        del texts[_PLACES["pipeline.yml"]]
    else:
        texts["requirements.txt"] = _REQUIREMENTS.format(source=requirement)
    if wheel is not None:
        texts[f"wheels/{wheel.name}"] = ""
    if there := sorted(name for name in texts if (folder / name).exists()):
        raise UserError(
            f"{folder} has {', '.join(there)} already, and nothing is overwritten. Give a folder that is new or empty."
        )
    for name, text in texts.items():
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}. Give another folder.") from None
        if wheel is not None and name.endswith(wheel.name):
            (folder / name).write_bytes(wheel.read_bytes())
        else:
            write_text(folder / name, text)
    if as_json:
        say_json({"folder": str(folder), "files": list(texts)})
        return
    say(f"Wrote {len(texts)} files into {folder}:")
    for name in texts:
        say(f"  {name}")
    if requirement is None:
        say(
            "No CI: it could not install drivetrain, which is not on PyPI. Give --drivetrain WHEEL|REQUIREMENT for one."
        )
    change = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    say(f"\nTry it: {change}drivetrain run pipeline.py")


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
