"""What serves every framework imports none: neither at import time nor by what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
# One implementation of a group; and helpers of torch's recipes, which make tensors of pictures.
OF_TORCH = {
    "drivetrain.training.group.gloo",
    "drivetrain.training.input_pipeline.augmentation",
    "drivetrain.training.input_pipeline.images",
}
ROOMS = ("group", "input_pipeline", "loop", "checkpointing", "metric_states", "metrics", "evaluation", "prediction")
MODULES = ("config", "framework", "layout", "model_folder", "outputs", "plugins", "process", "recipe", "strategy")
PROGRAM = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "tensorflow", "keras"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(sys.argv) - 1)
"""


def test_it_is_imported_where_torch_and_tensorflow_are_blocked() -> None:
    training = ROOT / "drivetrain/training"
    files = [file for room in ROOMS for file in (training / room).rglob("*.py")]
    files += [training / f"{name}.py" for name in MODULES]
    files += (ROOT / "drivetrain/training_scripts/readers").glob("*.py")
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files}
    names |= {f"drivetrain.training_scripts.{name}" for name in ("train", "evaluate", "predict", "launch")}
    wanted = sorted(names - OF_TORCH)
    assert len(wanted) > 120
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *wanted], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(wanted)
