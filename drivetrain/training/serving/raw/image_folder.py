"""A picture's file in place of its pixels: as the body of a request, or as `picture` in base64."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.picture_files import decoded

NAMES = ("picture",)
TYPES = {"image/jpeg": "picture", "image/png": "picture", "application/x-image": "picture"}
"""Content types whose body is one row."""


def columns(values: Mapping[str, Any], options: Mapping[str, Any], fitted: Mapping[str, Any]) -> dict[str, Any]:
    """
    Args:
        values: `picture`, one a row: bytes, or base64.
        options: the reader's.

    Raises:
        InputError: a value that is no picture.
    """
    wanted = {name: options[name] for name in ("size", "fit", "channels")}
    images = [
        decoded(io.BytesIO(_bytes(row, picture)), f"row {row}: its picture", **wanted)
        for row, picture in enumerate(values["picture"], start=1)
    ]
    return {"image": np.stack(images)}


def _bytes(row: int, picture: object) -> bytes:
    if isinstance(picture, bytes | bytearray):
        return bytes(picture)
    if isinstance(picture, str):
        try:
            return base64.b64decode(picture, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise InputError(f"row {row}: picture is {picture!r:.60}; allowed is a file's content in base64.")
