"""A lifecycle configuration of Studio: its script runs when a space starts."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import CfnOutput
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from drivetrain.infra.options import Spaces
from drivetrain.targets.sagemaker.permissions.names import Names

SCRIPT = Path(__file__).parent / "start.sh"
MAX_BYTES = 16_384
"""The most bytes of the script in base64: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateStudioLifecycleConfig.html"""

HASH = 8


def script(spaces: Spaces) -> str:
    """The script, which installs that wheel."""
    first, _, rest = SCRIPT.read_text(encoding="utf-8").partition("\n")
    given = {"DRIVETRAIN_SOURCE": spaces.source, "DRIVETRAIN_SHA256": spaces.sha256}
    return "\n".join((first, *(f"{name}={shlex.quote(value)}" for name, value in given.items()), rest))


class Studio(Construct):
    """The configuration, to be attached to a domain or a profile.

    Its content and tags can only be made, never changed, so what differs in them has another name: CloudFormation
    replaces nothing whose name stays.
    """

    def __init__(self, scope: Construct, names: Names, spaces: Spaces, tags: Mapping[str, str]) -> None:
        """Args:
        tags: those that the stack puts on it.
        """
        super().__init__(scope, "Studio")
        content = base64.b64encode(script(spaces).encode()).decode()
        assert len(content) <= MAX_BYTES
        digest = hashlib.sha256(json.dumps([content, sorted(tags.items())]).encode()).hexdigest()
        self.config = sagemaker.CfnStudioLifecycleConfig(
            self,
            "Start",
            studio_lifecycle_config_name=names.named(f"start-{digest[:HASH]}", 63),
            studio_lifecycle_config_app_type="JupyterLab",
            studio_lifecycle_config_content=content,
        )
        CfnOutput(self, "Configuration", value=self.config.attr_studio_lifecycle_config_arn)
