"""The colours of curves can be told apart, by the colour-blind too, and stand out from what is behind them."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from drivetrain.telling import asset

LIGHT, DARK = asset("palette.css").split("@media")
# Machado, Oliveira, Fernandes 2009, severity 1.0: linear RGB to what is seen.
SEEN_BY = {
    "all colours": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
Array = npt.NDArray[np.float64]


def linear(color: str) -> Array:
    parts = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(color: Array) -> Array:
    xyz = TO_XYZ @ color / TO_XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sheet", [LIGHT, DARK], ids=["light", "dark"])
def test_curve_colours_are_distinguishable(sheet: str) -> None:
    colors = [linear(color) for color in re.findall(r"--series-\d: (#\w{6})", sheet)]
    assert len(colors) == 6
    for eyes, matrix in SEEN_BY.items():
        seen = [lab(np.clip(np.array(matrix) @ color, 0, 1)) for color in colors]
        assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 25, eyes
    (card,) = re.findall(r"--card: (#\w{6})", sheet)
    lights = [float(TO_XYZ[1] @ color) + 0.05 for color in (linear(card), *colors)]
    assert all(max(lights[0], each) / min(lights[0], each) >= 3 for each in lights[1:])  # WCAG 1.4.11
