"""Run by the Python of the new environment: a hook saves the gradient of a tiny model, and smdebug reads it back.

Exit code 0 where these are the numbers that torch computed.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path


def main() -> str | None:
    """Say what is wrong with the hook; None if nothing is."""
    import numpy as np
    import smdebug.pytorch as smd  # pyright: ignore[reportMissingImports]
    import torch
    from smdebug.trials import create_trial  # pyright: ignore[reportMissingImports]

    logging.disable(logging.INFO)
    model = torch.nn.Linear(3, 2)
    with tempfile.TemporaryDirectory() as temporary:
        place = str(Path(temporary) / "trial")
        every_step = smd.SaveConfig(save_interval=1)
        hook = smd.Hook(place, save_config=every_step, include_collections=["gradients"])
        hook.register_module(model)
        model(torch.ones(4, 3)).sum().backward()
        hook.close()
        saved = create_trial(place).tensor("gradient/Linear_weight").value(0)
    computed = model.weight.grad
    assert computed is not None
    return None if np.array_equal(saved, computed.numpy()) else f"it saved {saved}, and torch computed {computed}"


if __name__ == "__main__":
    sys.exit(main())
