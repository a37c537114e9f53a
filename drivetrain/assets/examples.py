"""Data that come with the package, for the ready pipelines: `example:digits`."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping
from pathlib import Path

import drivetrain
from drivetrain.base.errors import UserError, did_you_mean


def example(name: str) -> Mapping[str, Path | bytes]:
    """Files of `example:NAME` by their names, those in a folder as NAME/FILE: data, programs (in the package they end
    with .txt, since they are none of its modules), a CSV with the rows that table() of a module gives, or the folder
    that its files() gives.

    Raises:
        UserError: there are no such data.
    """
    folder = Path(drivetrain.__file__).parent / "pipelines" / "data"
    known = {path.name.partition(".")[0]: path for path in folder.iterdir() if not path.match("[_R]*")}
    if name not in known:
        raise UserError(f"No example data {name!r}. {did_you_mean(name, known)}")
    path = known[name]
    if path.is_dir():
        return {f"{name}/{file.name.removesuffix('.txt')}": file for file in sorted(path.iterdir())}
    if path.suffix != ".py":
        return {path.name: path}
    module = importlib.import_module(f"drivetrain.pipelines.data.{name}")
    if hasattr(module, "files"):
        return {f"{name}/{file}": content for file, content in module.files().items()}
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(module.table())
    return {f"{name}.csv": text.getvalue().encode()}
