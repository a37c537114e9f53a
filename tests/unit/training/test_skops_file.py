"""Equal models have equal bytes, and a file of other types is not loaded."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io

from drivetrain.base.errors import InputError
from drivetrain.training.skops_file import canonical, from_bytes, to_bytes

NODES = np.dtype({"names": ["left", "is_leaf"], "formats": ["<i8", "u1"], "offsets": [0, 8], "itemsize": 16})


def nodes(between: int) -> Any:
    """Nodes of a tree with something in the bytes between the fields."""
    made = np.frombuffer(bytes([between]) * 32, dtype=np.uint8).copy().view(NODES)
    made["left"], made["is_leaf"] = [1, 2], [0, 1]
    return made


def test_equal_objects_have_equal_bytes_wherever_they_lie_in_memory() -> None:
    one, other = ({"nodes": nodes(each), "values": np.arange(3.0), "name": "a" * 9} for each in (0, 7))
    shared = np.arange(3.0)
    assert to_bytes(one) == to_bytes(other)
    assert to_bytes([shared, shared]) == to_bytes([shared, shared.copy()])
    assert to_bytes(one) != to_bytes({**one, "values": np.arange(1.0, 4.0)})


def test_objects_come_back_as_they_were() -> None:
    given = {"nodes": nodes(0), "objects": np.array(["a", None], dtype=object), "tuple": (1, 2.5, "x"), "file": "x.npy"}
    found = from_bytes(to_bytes(given), "model.skops")
    assert found["nodes"].dtype == NODES and found["nodes"].tolist() == [(1, 0), (2, 1)]
    assert found["objects"].tolist() == ["a", None] and found["tuple"] == (1, 2.5, "x") and found["file"] == "x.npy"


def test_a_file_with_a_foreign_type_is_refused_and_builds_nothing(tmp_path: Path) -> None:
    saved = canonical(skops.io.dumps([partial(subprocess.call, ["touch", str(tmp_path / "built")])]))
    with pytest.raises(InputError, match=r"model.skops was changed and is not loaded: .*subprocess.call") as refused:
        from_bytes(saved, "model.skops")
    assert "\n" not in str(refused.value) and not (tmp_path / "built").exists()


@pytest.mark.parametrize("kept", [0, 40, -30])
def test_a_damaged_file_is_one_line(kept: int) -> None:
    saved = to_bytes({"values": np.arange(3.0)})
    with pytest.raises(InputError, match=r"^model.skops is damaged \(.*\)\. Restore it, or train again\.$"):
        from_bytes(saved[:kept], "model.skops")


def test_a_file_that_names_an_array_it_lacks_is_one_line() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        node = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy"}
        archive.writestr("schema.json", json.dumps({**node, "file": "9.npy", "protocol": 0}))
    with pytest.raises(InputError, match=r"model\.skops is damaged"):
        from_bytes(made.getvalue(), "model.skops")
