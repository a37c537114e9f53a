"""A lifecycle configuration of Studio: its script runs when a space starts."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from drivetrain.infra.options import Spaces
from drivetrain.pipelines.targets.sagemaker.permissions.names import Names

SCRIPT = Path(__file__).parent / "start.sh"
MAX_BYTES = 16_384
"""Of the script in base64: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateStudioLifecycleConfig.html"""


def script(spaces: Spaces) -> str:
    """The script, which installs that wheel."""
    first, _, rest = SCRIPT.read_text(encoding="utf-8").partition("\n")
    given = {"DRIVETRAIN_SOURCE": spaces.source, "DRIVETRAIN_SHA256": spaces.sha256}
    return "\n".join((first, *(f"{name}={shlex.quote(value)}" for name, value in given.items()), rest))


class Studio(Construct):
    """The configuration, to be attached to a domain or a profile."""

    def __init__(self, scope: Construct, names: Names, spaces: Spaces) -> None:
        super().__init__(scope, "Studio")
        content = base64.b64encode(script(spaces).encode()).decode()
        assert len(content) <= MAX_BYTES
        self.config = sagemaker.CfnStudioLifecycleConfig(
            self,
            "Start",
            studio_lifecycle_config_name=names.named("start", 63),
            studio_lifecycle_config_app_type="JupyterLab",
            studio_lifecycle_config_content=content,
        )
