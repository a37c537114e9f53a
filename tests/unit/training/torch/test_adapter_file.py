"""An adapter that is handed on apart may be read by whom its siblings may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivetrain.training.torch.models import transformers_model
from tests.fixtures import tiny_transformers as tiny


@pytest.mark.slow
def test_its_permissions_follow_the_umask(tmp_path: Path) -> None:
    from drivetrain.training_scripts.recipes.huggingface import Recipe

    start = tiny.model(tmp_path / "llama")
    recipe = Recipe(pretrained=str(start), head="causal_lm", length=8, lora_rank=2, adapter="apart")
    model = recipe._built()
    adapters = {name: each for name, each in model.state_dict().items() if transformers_model.is_adapter(name)}
    before = os.umask(0o027)
    try:
        recipe.save_beside(tmp_path, adapters)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("adapter_*")}
    assert modes == {"adapter_model.safetensors": 0o640, "adapter_config.json": 0o640}
