"""Assets on their way to a bucket: how large they are, and which of them it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError

# What one PUT takes. Larger data does not belong into a deployment: it lies in S3, and settings name it.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html
MAX_SINGLE_PUT = 5 * 1024**3


def size_of(asset: Asset) -> int:
    """Bytes of an asset."""
    return _size(asset.content)


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def refuse_too_large(content: bytes | Path) -> None:
    """
    Raises:
        UserError: it is larger than one request takes.
    """
    if (size := _size(content)) > MAX_SINGLE_PUT:
        raise UserError(
            f"{content} has {size:,} bytes; {MAX_SINGLE_PUT:,} at most go up with a pipeline. Put it into the bucket "
            "yourself (aws s3 cp), and give its s3:// URI in the settings."
        )


def missing(assets: Sequence[Asset], listed: Callable[[str], Mapping[str, int]]) -> tuple[Asset, ...]:
    """Those that are not in the bucket, or have another size there.

    Args:
        listed: gives URI -> size of the objects below a folder's URI; asked once a folder that no other one holds.
    """
    folders = {asset.uri.rpartition("/")[0] + "/" for asset in assets}
    sizes: dict[str, int] = {}
    for folder in sorted(folders):
        if not any(folder != other and folder.startswith(other) for other in folders):
            sizes |= listed(folder)
    return tuple(asset for asset in assets if sizes.get(asset.uri) != size_of(asset))
