"""Machines that have disks of their own (NVMe), so that no volume is made, paid or encrypted by a key for them.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ResourceConfig.html (VolumeSizeInGB, VolumeKmsKeyId)
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/InstanceStorage.html
"""

from __future__ import annotations

import re

_FAMILIES = re.compile(
    r"(c5d|c[68]gd|c6id|g4dn|g5|g6|g6e|g7|g7e|i3en|m5d|m[68]gd|m6id|p3dn|p[456].*|r5d|r[68]gd|r6id|trn.*)"
)


def has_own_disk(instance_type: str) -> bool:
    """Return True if machines of a type such as `ml.g5.xlarge` have disks of their own."""
    return _FAMILIES.fullmatch(instance_type.removeprefix("ml.").partition(".")[0]) is not None
