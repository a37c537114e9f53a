"""Apply, read and destroy against SeaweedFS, the store of a stock Kubeflow Pipelines: a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from tests.fixtures.kubeflow_pipelines.place import Place
from tests.fixtures.kubeflow_pipelines.server import pipelines_api
from tests.fixtures.s3_server import environment, variables
from tests.fixtures.weed import weed_server

pytestmark = pytest.mark.slow


def test_a_pipeline_is_applied_read_and_destroyed(tmp_path: Path) -> None:
    with pipelines_api() as cluster, environment(variables(weed_server())):
        place = Place(tmp_path, cluster, weed_server())
        objects, folder = place.deployer().objects, f"s3://{place.bucket}/"
        place.apply()
        wanted = place.wanted()
        there = objects.listed(folder)
        assert {asset.uri: len(objects.read(asset.uri) or b"") for asset in wanted.assets}.items() <= there.items()
        assert place.deployer().plan(wanted).is_empty
        assert objects.read(f"{folder}pipelines/nightly/none") is None is objects.part(f"{folder}none", 3)
        for content, end in ((b"", b""), (b"ab", b"ab"), (b"abcdef", b"def")):
            objects.write(f"{folder}log", content)
            assert objects.part(f"{folder}log", 3) == end
        objects.delete([f"{folder}log"])
        deployer = place.deployer()
        deployer.destroy(deployer.remains("nightly"), lambda line: None)
        assert objects.listed(folder) == {}
        with pytest.raises(UserError, match="404 NoSuchBucket"):
            objects.listed("s3://no-such-bucket/")
