"""Serve a model by its own code: `python start.py MODEL_FOLDER CODE_FOLDER SCRIPT [HOST]`.

SCRIPT is a module of CODE_FOLDER with SageMaker's hooks (hooks.py). The server listens on $SAGEMAKER_BIND_TO_PORT
(8080) of HOST, by default of this machine alone.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

NAME = "inference_server"


def main() -> None:
    """Import this folder under its own name, and begin."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[NAME] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    sys.path[:] = [each for each in sys.path if each != str(folder)]  # its modules are not the model's
    importlib.import_module(f"{NAME}.server").main(*sys.argv[1:])


if __name__ == "__main__":
    main()
