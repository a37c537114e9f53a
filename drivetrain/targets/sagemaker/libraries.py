"""SageMaker's own distributed libraries: on which machines they run, in which regions, and which image holds them.

    machine_problem("smddp", "pytorch", "ml.g5.xlarge")  # why not, and what to use instead
    library_image("eu-west-1").uri                       # 658645717510.dkr.ecr.eu-west-1.amazonaws.com/smdistri...

They are not public: what is refused here would fail on the service after minutes of waiting. The table and its sources
are in libraries.json.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.assets.image import Image
from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.images import JOB_IMAGE

# Name and version of an image of AWS's: pytorch-training:2.8.0-gpu-..., smdistributed-modelparallel:2.5.1-gpu-...
_STOCK = re.compile(
    r"/(?P<name>pytorch|pytorch-training|tensorflow-training|smdistributed-modelparallel)"
    r":(?P<version>\d+\.\d+(\.\d+)?)-(?P<processor>cpu|gpu|cu\d+)"
)
_OWN = "smdistributed-modelparallel"
_PYTHON = re.compile(r"-py(\d)(\d+)-")
_OLDEST_PYTHON = (3, 11)


def machine_problem(library: str, framework: str, machine: str) -> str | None:
    """Why a library does not run on an instance type, and what to use instead; None where it does."""
    found = _library(library)
    if machine in found["machines"]:
        return None
    return (
        f"{machine!r} does not run {found['title']}. Allowed: {', '.join(found['machines'])}. "
        f"Or, on any machine: {_instead(library, framework)}."
    )


def region_problem(library: str, framework: str, region: str) -> str | None:
    """Why no image with a library is in a region, and what to use instead; None where there is one."""
    table = _table()
    if region in table["regions"]:
        return None
    return (
        f"{region!r} has no image with {_library(library)['title']}. Allowed: {', '.join(table['regions'])}. "
        f"Or, in any region: {_instead(library, framework)}."
    )


def image_problem(library: str, framework: str, image: str | None) -> str | None:
    """Why a library cannot be used with the user's `image` (None: the stock one), and what to use instead; None if it
    can. The content of images that are not AWS's is not checked.
    """
    found = _library(library)
    versions = found["versions"].get(framework, [])
    if image is None:
        newest = found["newest_python"].get(framework, "")
        if _numbers(newest) >= _OLDEST_PYTHON:
            return None
        return (
            f"no image of AWS's with {found['title']} for {framework} has Python 3.11, which drivetrain's programs "
            f"need: the newest ({framework} {versions[0]}) has {newest}. Give an image of your own that holds it "
            f"({JOB_IMAGE}); or use {_instead(library, framework)}."
        )
    stock = _STOCK.search(image)
    if stock is None:
        return None
    name = image.rpartition("/")[2]
    of_smp, entry = stock["name"] == _OWN, _table()["image"]
    in_line = library in entry["holds"] if of_smp else library != "smp" and stock["processor"] == "gpu"
    if not in_line or stock["version"] not in versions:
        example = f", such as {_OWN}:{entry['tag']}" if library in entry["holds"] else ""
        return (
            f"{name!r} holds no {found['title']}. Allowed are AWS's images of {framework} {', '.join(versions)} for "
            f"GPUs{example}, or one of your own. Or use {_instead(library, framework)}."
        )
    python = _PYTHON.search(name)
    if python and (int(python[1]), int(python[2])) < _OLDEST_PYTHON:
        return (
            f"{name!r} has Python {python[1]}.{python[2]}, and drivetrain's programs need 3.11. Give a newer one, or "
            f"one of your own; or use {_instead(library, framework)}."
        )
    return None


def library_image(region: str) -> Image:
    """The newest image that holds the libraries, in a region.

    Raises:
        UserError: the region has none.
    """
    if problem := region_problem("smp", "pytorch", region):
        raise UserError(problem)
    table = _table()
    entry = table["image"]
    uri = f"{table['account']}.dkr.ecr.{region}.amazonaws.com/{entry['repository']}:{entry['tag']}"
    return Image.of(uri, entry, gpu=True)


def _instead(library: str, framework: str) -> str:
    return _library(library)["instead"].get(framework) or _library(library)["instead"]["pytorch"]


def _library(name: str) -> dict[str, Any]:
    return _table()["libraries"][name]


@cache
def _table() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("libraries.json").read_bytes())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)
