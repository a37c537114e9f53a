"""SageMaker's managed Spark image: its URI in a region, and what it is documented to hold.

    spark_image("eu-west-1").uri   # 571004829621.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-spark-processing:3.5-cpu-...

Its entry point is smspark-submit, which starts YARN and HDFS on all hosts of the job and gives a program to
spark-submit on the first one. The table and its sources are in spark.json.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.assets.image import Image
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.targets.sagemaker.images import JOB_IMAGE


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
    return json.loads(Path(__file__).with_name("spark.json").read_bytes())
