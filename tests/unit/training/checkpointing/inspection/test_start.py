"""What the program needs to start."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_but_python_is_loaded(three) -> None:
    """It starts in a moment, and in a container without torch."""
    code = (
        "import sys; from drivetrain.training_scripts.checkpoints import run; code = run(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    out = three.folder.parent / "w.safetensors"
    for arguments in (["list"], ["show"], ["verify"], ["export", "--out", str(out)]):
        command = [sys.executable, "-c", code, arguments[0], str(three.folder), *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & {"torch", "numpy", "safetensors", "pickle", "botocore", "boto3", "asyncio"}, arguments
