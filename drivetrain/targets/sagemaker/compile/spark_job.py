"""A Processing job in SageMaker's Spark image, by the contract of the SDK's PySparkProcessor.

    smspark-submit /opt/ml/processing/input/code/start.py --code SHA256 TARGET ARGUMENT ...

The program is the start file, as everywhere. Settings of Spark are the input `conf` with configuration.json, in the
form of EMR's classifications. https://github.com/aws/sagemaker-spark-container/blob/master/src/smspark/cli.py

The image's URI in a region, and what it is documented to hold, stand with their sources in ../spark.json. It starts
YARN and HDFS on all hosts of the job and gives the program to spark-submit on the first one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.assets.assets import Asset
from drivetrain.assets.image import SPARK_SUBMIT, Image, is_pyspark, missing
from drivetrain.base.errors import InputError, SpecError, UserError, did_you_mean
from drivetrain.data.spark_settings import read_settings
from drivetrain.spec.steps import JobStep
from drivetrain.targets.sagemaker.compile import Constant, Generated
from drivetrain.targets.sagemaker.images import JOB_IMAGE, has_gpu

CONFIGURATION, FILE = "conf", "configuration.json"
# As START_COMMAND: what runs first stands in the definition, and starts nothing but the start file of this hash. Spark
# reads the file again, which nobody but this container can have changed.
_CHECKED = (
    *("python3", "-I", "-S", "-c"),
    "import sys,os,hashlib as h;s,p,*c=sys.argv[1:];h.sha256(open(p,'rb').read()).hexdigest()==s or "
    "sys.exit('error: '+p+' is not the file that was deployed');os.execvp(c[0],c)",
)


def submit(folder: str, sha256: str) -> list[str]:
    """The entry point: give the start file to Spark, where it has this hash."""
    start = f"{folder}/start.py"
    return [*map(Constant, _CHECKED), Generated(sha256), *map(Constant, (start, SPARK_SUBMIT, start))]


@dataclass(frozen=True)
class SparkJob:
    """The parts of a job on Spark beside its program: `inputs` are names and URIs."""

    inputs: tuple[tuple[str, str], ...] = ()
    assets: tuple[Asset, ...] = ()


def spark_job(step: JobStep, root: str, image: str) -> SparkJob | None:
    """The settings of Spark as configuration.json; None of a step whose image is no managed one.

    Args:
        root: URI of the pipeline's own folder.
        image: URI of the step's image.

    Raises:
        SpecError: invalid settings, or settings that are known only when the pipeline runs.
    """
    if not is_spark_image(image):
        return None
    given = step.parameters.get("spark_settings")
    if given is None:
        return SparkJob()
    if not isinstance(given, str):
        raise SpecError(
            f"Step {step.name!r}: spark_settings is a reference, and {FILE} is written when the pipeline is compiled. "
            "Give a text."
        )
    try:
        settings = read_settings(given)
    except InputError as error:
        raise SpecError(f"Step {step.name!r}: {error}") from None
    content = json.dumps([{"Classification": "spark-defaults", "Properties": dict(settings)}], sort_keys=True).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    uri = f"{root}/data/{sha256}/"  # where roles may read, and destroy looks
    return SparkJob(((CONFIGURATION, Generated(uri)),), (Asset(uri + FILE, sha256, content),))


def image_for(step: JobStep, region: str, machines: Sequence[str]) -> tuple[Image, tuple[str, ...]]:
    """The managed Spark image in a region, and what of a step's needs it lacks.

    Raises:
        SpecError: the region has none; it runs on none of the machines; the step needs another PySpark.
    """
    try:
        image = spark_image(region)
        for machine in machines:
            has_gpu(machine)  # raises if the processor is not x86-64
        lacking = missing(step.program.needs, image)
    except UserError as error:
        raise SpecError(f"Step {step.name!r}: {error}") from None
    if other := [need for need in lacking if is_pyspark(need)]:
        raise SpecError(
            f"Step {step.name!r} needs {other[0]}, and SageMaker's newest Spark image has {image.packages['pyspark']}. "
            f"Allow that, or give the step an image of your own with Python 3.11, Java 17 and PySpark (image='...')."
        )
    return image, lacking


def spark_image(region: str) -> Image:
    """The newest managed Spark image, in a region.

    Raises:
        UserError: none is documented for the region.
    """
    table = _table()
    account = table["accounts"].get(region)
    if account is None:
        raise UserError(
            f"No Spark image is documented for region {region!r}. {did_you_mean(region, table['accounts'])} For "
            f"another one, give an image's URI: {JOB_IMAGE}."
        )
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    uri = f"{account}.dkr.ecr.{region}.{suffix}/{table['repository']}:{table['tag']}"
    return Image.of(uri, {**table, "framework": "spark", "version": table["spark"]}, gpu=False)


def is_spark_image(uri: str) -> bool:
    """Return True if an image is one of SageMaker's for Spark, of any version."""
    return uri.rpartition("/")[2].partition(":")[0] == _table()["repository"]


@cache
def _table() -> dict[str, Any]:
    return json.loads(Path(__file__).parents[1].joinpath("spark.json").read_bytes())
