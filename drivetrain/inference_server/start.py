"""Serve a model by its own code: `python start.py MODEL_FOLDER CODE_FOLDER SCRIPT [HOST]`.

SCRIPT is a module of CODE_FOLDER with SageMaker's hooks (hooks.py). The server listens on $SAGEMAKER_BIND_TO_PORT
(8080) of HOST, by default of this machine alone.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

OURS = "drivetrain"


def main() -> None:
    """Import the server under its own name, forget that name, which may be another one's to the model, and begin."""
    folder = Path(__file__).resolve().parent
    sys.path[:] = [each for each in sys.path if each != str(folder)]
    sys.modules[OURS] = package = ModuleType(OURS)
    package.__path__ = [str(folder.parent)]
    server = importlib.import_module(f"{OURS}.{folder.name}.server")
    for name in [name for name in sys.modules if name.partition(".")[0] == OURS]:
        del sys.modules[name]
    server.main(*sys.argv[1:])


if __name__ == "__main__":
    main()
