"""Arrays with facts about them in one file: a .npz archive that numpy reads, too, with the same bytes for the same
content, and without pickles. `facts.json` in it is JSON in UTF-8.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy

_FACTS = "facts.json"
# A damaged archive says one of these: the last two of another compression, and of an encrypted member.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    NotImplementedError,
    RuntimeError,
)


def packed_arrays(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """The content of a file."""
    file = io.BytesIO()
    # The fastest level: the second one takes half more time for a hundredth less.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"), default=str)
        archive.writestr(zipfile.ZipInfo(_FACTS), text.encode(), zipfile.ZIP_DEFLATED)
        for name, values in arrays.items():
            content = io.BytesIO()
            numpy().lib.format.write_array(content, numpy().ascontiguousarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_DEFLATED)
    return file.getvalue()


def unpacked_arrays(
    content: bytes, path: str, kind: str, form: int, advice: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and the arrays of a file's content; `path` is its name for messages.

    Raises:
        InputError: it is damaged, or of another kind or format.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            facts: object = json.loads(archive.read(_FACTS))
            names = [name for name in archive.namelist() if name != _FACTS]
            arrays = {
                name.removesuffix(".npy"): numpy().lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in names
            }
    except _DAMAGED as error:
        raise InputError(f"{path} is damaged ({str(error)[:80] or type(error).__name__}). {advice}") from None
    found = cast("dict[str, Any]", facts if isinstance(facts, dict) else {})
    if found.get("kind") != kind:
        raise InputError(f"{path} is no {kind}. {advice}")
    if found.get("format") != form:
        raise InputError(f"{path} has format {found.get('format')!r}; this version reads {form}. {advice}")
    return found, arrays
