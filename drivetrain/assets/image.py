"""The content of images, and the needs of a step that an image lacks.

missing(("torch", "safetensors"), image)     # ("safetensors",)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from drivetrain.base.records import dataclass
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import MAKE_MODELS_OF_FUNCTIONS
from drivetrain.spec.steps import JobStep, ProcessingStep, is_our_training
from drivetrain.spec.values import Reference

TRANSFORM_DATA = "drivetrain.components.transform_data"
"""The step whose `engine` says whether it runs on Spark."""
SPARK_SUBMIT = "smspark-submit"
"""The command that starts a program in SageMaker's managed Spark image."""


@dataclass(frozen=True)
class Image:
    """An image whose content is known.

    `python` is its CPython (`3.12`); `glibc` the newest C library that wheels may ask for (manylinux_2_34);
    `packages` what it is documented to hold, normal name -> version, None where the version is not documented.
    """

    uri: str
    framework: str
    version: str
    gpu: bool
    python: str
    glibc: tuple[int, int]
    packages: Mapping[str, str | None] = field(hash=False, repr=False)

    @classmethod
    def of(cls, uri: str, entry: Mapping[str, Any], *, gpu: bool) -> Image:
        """An image by its entry in a table of images."""
        known = {name: entry[name] for name in ("framework", "version", "python", "packages")}
        return cls(uri=uri, gpu=gpu, glibc=(entry["glibc"][0], entry["glibc"][1]), **known)


def runs_on_spark(step: JobStep) -> bool:
    """Return True if a processing step's program needs Spark, and so Java: it says so in its needs, or transforms
    tables with it. So does one whose engine is only known when the pipeline runs: where Spark is, Polars runs, too."""
    if not isinstance(step, ProcessingStep):
        return False
    if step.program.target.partition(":")[0] == TRANSFORM_DATA:
        engine = step.parameters.get("engine")
        return engine == "spark" or isinstance(engine, Reference)
    return any(map(is_pyspark, step.program.needs))


def says_framework(step: JobStep) -> bool:
    """Return True if a step says which framework it runs on: it needs one, trains by one of our strategies, is
    started by a launcher, or makes a model of functions, which may need one."""
    return (
        is_our_training(step)
        or step.program.target in MAKE_MODELS_OF_FUNCTIONS
        or "launcher" in step.parameters
        or not {"torch", "tensorflow"}.isdisjoint(step.program.needs)
    )


def framework_of(step: JobStep, graph: Graph) -> str:
    """The framework that a step's program runs on; torch, whose images run plain Python, too, where nothing says which.

    Raises:
        UserError: it would be several.
    """
    if not says_framework(step):
        return "torch"
    from drivetrain.resolving.frameworks import framework_of_step

    return framework_of_step(step, graph)


def is_pyspark(need: str) -> bool:
    """Return True if a requirement is one of PySpark."""
    return re.match(r"pyspark(?![\w.-])", need) is not None


def missing(needs: Collection[str], image: Image) -> tuple[str, ...]:
    """The needs that an image does not meet, sorted; they have to travel.

    A need is a requirement (`pyarrow`, `pyarrow>=19`). It is met when the image is documented to hold the
    distribution, in a version that will do where the need names versions.

    Raises:
        UserError: a need is not a requirement.
    """
    if not needs:
        return ()
    from drivetrain.assets.requirements import SAME_MODULE, parse

    lacking: set[str] = set()
    for need in needs:
        requirement = parse(need)
        if not requirement.applies(image.python):
            continue
        name = requirement.name if requirement.name in image.packages else SAME_MODULE.get(requirement.name, "")
        version, held = image.packages.get(name), name in image.packages
        if not held or not (requirement.any_version or (version is not None and requirement.allows(version))):
            lacking.add(requirement.text)
    return tuple(sorted(lacking))
