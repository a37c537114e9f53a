from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.operations import stand_ins


def test_local_replacements_are_read_and_errors_name_the_setting(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text('{"ModelName": "m"}')
    given = {"deploy": str(tmp_path / "out.json"), "spark": ""}
    assert stand_ins.stubs(given, "local.stubs") == {"deploy": {"ModelName": "m"}, "spark": {}}
    with pytest.raises(UserError, match=r"^local\.stubs a=gone\.json: No such file"):
        stand_ins.stubs({"a": "gone.json"}, "local.stubs")
    with pytest.raises(UserError, match=r"^local\.image_commands i: the command is empty"):
        stand_ins.image_commands({"i": ""}, "local.image_commands")
    assert stand_ins.data({"s3://b/dt=1/": str(tmp_path)}, "local.data") == {"s3://b/dt=1/": str(tmp_path)}
    with pytest.raises(UserError, match=r"^local\.data 's3://b/x=gone': there is no file or folder 'gone'"):
        stand_ins.data({"s3://b/x": "gone"}, "local.data")
    with pytest.raises(UserError, match=r"^local\.data 's3://b/x': give s3://BUCKET/KEY=PATH"):
        stand_ins.data({"s3://b/x": ""}, "local.data")
