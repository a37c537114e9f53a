"""Objects of scikit-learn as bytes, in the format of skops: no pickle, and equal bytes for equal objects.

https://skops.readthedocs.io/en/stable/persistence.html: skops builds objects of its own list of types (scikit-learn's
public classes, numpy's, plain values) and of `TYPES`, and refuses a file with any other type before it builds one.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError

TYPES = (
    "numpy.dtype",
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    # Boosted histograms check numbers by a partial of it. Of other functions skops builds numpy's and scipy's alone.
    "functools.partial",
    "sklearn.utils.validation.check_array",
)
_SCHEMA = "schema.json"
# Bytes of an array's file that have its type.
_HEADER = 1024


def to_bytes(made: Any) -> bytes:
    """The objects as a file."""
    import skops.io

    return canonical(skops.io.dumps(made))


def from_bytes(saved: bytes, name: str) -> Any:
    """The objects of a file.

    Args:
        name: of the file, for messages.

    Raises:
        InputError: it has a type that is not allowed, or is damaged.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.loads(saved, trusted=list(TYPES))
    except UntrustedTypesFoundException as error:
        said = " ".join(str(error).split()).partition(" Pass the types")[0]
        raise InputError(f"{name} was changed and is not loaded: {said:.200} Restore it, or train again.") from None
    except (zipfile.BadZipFile, AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name} is damaged ({error!r:.120}). Restore it, or train again.") from None


def canonical(saved: bytes) -> bytes:
    """The same objects with other bytes, which depend on nothing else.

    skops calls arrays by their addresses in memory, writes the address of each object, by which one that occurs twice
    is built once, and copies what memory held between the fields of a tree's nodes. Here arrays have numbers, equal
    ones the same, each object is built where it occurs, and there are zeros between fields.
    """
    names: dict[bytes, str] = {}
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        schema = json.loads(archive.read(_SCHEMA))
        ahead: list[Any] = [schema]
        while ahead:
            node = ahead.pop()
            if isinstance(node, list):
                ahead += node
            elif isinstance(node, dict):
                if isinstance(node.get("__id__"), int):
                    del node["__id__"]
                if isinstance(node.get("file"), str):
                    node["file"] = names.setdefault(_filled(archive.read(node["file"])), f"{len(names)}.npy")
                ahead += node.values()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        files = {_SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}
        for name, content in (files | {name: content for content, name in names.items()}).items():
            archive.writestr(zipfile.ZipInfo(name), content)  # of 1980-01-01
    return made.getvalue()


def _filled(content: bytes) -> bytes:
    """An array's file, with zeros between the fields of its rows."""
    if b"'|V" not in content[:_HEADER]:  # an unnamed field of bytes, in the array's type
        return content
    array = np.load(io.BytesIO(content), allow_pickle=False)
    clean, file = np.zeros(array.shape, array.dtype), io.BytesIO()  # (zeros_like fills the fields alone)
    for name in array.dtype.names:
        clean[name] = array[name]
    np.save(file, clean, allow_pickle=False)
    return file.getvalue()
