"""Read and check what stands on this machine for what only the account has, as settings and options name it.

`called` is what the messages call the option or setting.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import parse
from drivetrain.targets.sagemaker.run.batch_transform.account_models import uri_of


def stubs(given: Mapping[str, str], called: str) -> dict[str, dict[str, Any]]:
    """Step -> the content of its JSON file. An empty text gives nothing but what a step of its type always says.

    Raises:
        UserError: a file that is not there, or does not hold a JSON object.
    """
    found: dict[str, dict[str, Any]] = {}
    for step, name in given.items():
        if not name:
            found[step] = {}
            continue
        path = Path(name)
        try:
            content = parse(path.read_bytes(), str(path))
        except OSError as error:
            raise UserError(f"{called} {step}={name}: {error.strerror}.") from None
        if not isinstance(content, dict):
            raise UserError(f"{called} {step}={name}: the file must hold a JSON object, such as {{}}.")
        found[step] = content
    return found


def image_commands(given: Mapping[str, str], called: str) -> dict[str, tuple[str, ...]]:
    """Image -> its command, split into words as a shell would, and no shell ever sees it. Programs of the working
    folder get their whole path, since the job starts in a folder of its own.

    Raises:
        UserError: an empty command, or one with an open quote.
    """
    found: dict[str, tuple[str, ...]] = {}
    for image, text in given.items():
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise UserError(f"{called} {image}: {text!r}: {str(error).lower()}.") from None
        if not words:
            raise UserError(f"{called} {image}: the command is empty. Give what runs in the image's place.")
        found[image] = tuple(map(_whole_path, words))
    return found


def _whole_path(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if (path.suffix in (".py", ".sh") or "/" in word) and path.is_file() else word


def data(given: Mapping[str, str], called: str) -> dict[str, str]:
    """s3:// URI -> the file or folder that lies there; of `model/NAME` the URI of that model of the account.

    Raises:
        UserError: something that is no S3 URI, or a path that does not exist.
    """
    found: dict[str, str] = {}
    for uri, path in given.items():
        text = f"{uri}={path}" if path else uri
        if not path or not uri.startswith(("s3://", "model/")):
            raise UserError(
                f"{called} {text!r}: give s3://BUCKET/KEY=PATH, with a file or folder of this machine, or "
                "model/NAME=PATH for a model of the account."
            )
        if not Path(path).exists():
            raise UserError(f"{called} {text!r}: there is no file or folder {path!r}.")
        if uri.startswith("model/"):
            uri = uri_of(uri.removeprefix("model/"), is_archive=not Path(path).is_dir())
        found[uri] = path
    return found
