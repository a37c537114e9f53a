from __future__ import annotations

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.torch.precision import PRECISIONS, SMALLEST_LOSS_SCALE, LossScale, precision_of

FINE, OVERFLOWN = torch.tensor(3.0), torch.tensor(float("inf"))


def test_a_typo() -> None:
    with pytest.raises(InputError, match=r"no precision 'bf61'\. Did you mean 'bf16'\?"):
        precision_of("bf61")


def test_what_is_stored_is_never_half() -> None:
    assert {name for name, precision in PRECISIONS.items() if precision.is_mixed} == {"bf16", "fp16"}
    assert all(precision.parameters in (torch.float32, torch.float64) for precision in PRECISIONS.values())


def test_only_tf32_rounds_to_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)  # torch's own choice
    before = torch.get_float32_matmul_precision()
    try:
        precision_of("fp32").set_up()
        assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("highest", False)
        precision_of("tf32").set_up()
        assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", True)
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_scale_halves_at_once_and_doubles_after_patience() -> None:
    scale = LossScale(8.0, patience=3)
    taken = [scale.accepts(norm) for norm in (OVERFLOWN, FINE, FINE, OVERFLOWN, FINE, FINE)]
    assert taken == [False, True, True, False, True, True]
    assert scale.value == 2.0
    assert scale.accepts(FINE)
    assert (scale.value, scale.good_steps) == (4.0, 0)
    assert not scale.accepts(torch.tensor(float("nan")))


def test_it_is_restored() -> None:
    scale, other = LossScale(8.0), LossScale()
    scale.accepts(FINE)
    other.load_state(scale.state())
    assert other.state() == scale.state() == {"value": 8.0, "good_steps": 1}


def test_gradients_that_overflow_at_any_scale() -> None:
    scale = LossScale()
    with pytest.raises(InputError, match=r"precision fp16: gradients are not finite, whatever the scale.*bf16"):
        for _ in range(100):
            assert not scale.accepts(OVERFLOWN)
    assert scale.value == SMALLEST_LOSS_SCALE / 2
