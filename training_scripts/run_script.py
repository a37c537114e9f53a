"""One process of a user's own script: what Python does with `python SCRIPT ARGUMENTS`, and a word when it fails.

    python -m drivetrain.training_scripts.run_script train.py --epochs 3
    python -m drivetrain.training_scripts.run_script ./run.sh --epochs 3

A Python file runs in this process as `__main__`, so that its traceback reaches the launcher; nothing of the script
need know. Any other file becomes this process (its first line says what runs it).
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import signal
import sys
import types
from pathlib import Path

from drivetrain.training_scripts.failure import FAILED, record_failure
from drivetrain.training_scripts.parent import die_with_parent


def main() -> None:
    die_with_parent(signal.SIGKILL)
    script, *arguments = sys.argv[1:]
    if not script.endswith(".py"):
        os.execv(script if "/" in script else f"./{script}", [script, *arguments])
    path = os.path.abspath(script)
    # As `python train.py` has them: other modules find the script's folder, and itself as __main__ (pickles, spawned
    # workers).
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(path)
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    try:
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SystemExit as end:
        if isinstance(end.code, str):  # sys.exit("message")
            record_failure(end)
        raise
    except Exception as error:
        frames = error.__traceback__
        error.__traceback__ = frames.tb_next if frames else None  # without this file's own
        record_failure(error)
        sys.stdout.flush()
        sys.excepthook(type(error), error, error.__traceback__)  # perhaps one of the script's own
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
