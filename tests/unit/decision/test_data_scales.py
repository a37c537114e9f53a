"""The scales of statistics."""

from __future__ import annotations

import numpy as np
import pytest

from drivetrain.decision.data_scales import KINDS, Scale


def test_back_undoes_a_scale() -> None:
    random = np.random.default_rng(0)
    values = random.random((9, 4, 3))
    values[:, 0] = random.poisson(20, (9, 3))
    scale = Scale.of(values[:-1], KINDS, np.full(9, 500.0))
    assert scale.back(scale.apply(values)[-1]) == pytest.approx(values[-1])


def test_chance_has_the_variance_that_a_scale_says() -> None:
    random = np.random.default_rng(1)
    for kind, drawn in (("count", random.poisson(9, 20_000)), ("share", random.binomial(300, 0.03, 20_000) / 300)):
        values = drawn.reshape(-1, 1, 1).astype(float)
        scale = Scale.of(values, (kind,), np.full(len(values), 300.0))
        least, more = scale.noise(np.ones((len(values) - 1, 1, 1), bool))
        assert scale.apply(values).var() == pytest.approx(least[0, 0], rel=0.1) and more[0, 0] == 0


def test_logarithms_need_values_above_zero() -> None:
    values = np.array([[[1.0, 0.0, np.nan]], [[2.0, 3.0, 4.0]]])
    assert Scale.of(values, ("positive",), np.ones(3)).logarithmic.tolist() == [[True, False, True]]
