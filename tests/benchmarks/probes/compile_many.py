"""In our environment: milliseconds to build and compile a pipeline file, wall and CPU, as JSON.

    python compile_many.py sagemaker digits.py 1
    python compile_many.py sagemaker chain.py 5 steps=500 steps=1000

With several settings they take turns. `import` says how long it took before to import the compiler and the file (as
kfp_compile.py says it of kfp). Garbage is collected between the rounds and not within them, as `timeit` does: where a
collection of all objects happens to fall is no growth.
"""

import gc
import importlib
import json
import sys
import time
from pathlib import Path

begun = time.perf_counter()
from drivetrain.authoring.loading import import_file, load  # noqa: E402 - the import is measured


def main() -> None:
    name, file, rounds, *settings = sys.argv[1:]
    target = importlib.import_module(f"drivetrain.targets.{name}.compile.compile")
    import_file(Path(file).resolve())
    imported = time.perf_counter() - begun
    wall: dict[str, list[float]] = {setting: [] for setting in settings or [""]}
    cpu: dict[str, list[float]] = {setting: [] for setting in wall}
    for _ in range(int(rounds)):
        for setting in wall:
            gc.collect()
            gc.disable()
            started, used = time.perf_counter(), time.process_time()
            loaded = load(file, None, [setting] if setting else [])
            target.compile_pipeline(loaded.pipeline, loaded.source, loaded.base, here=True).text  # noqa: B018
            wall[setting].append(1000 * (time.perf_counter() - started))
            cpu[setting].append(1000 * (time.process_time() - used))
            gc.enable()
    print(json.dumps({"import": imported, "wall": wall, "cpu": cpu}))


if __name__ == "__main__":
    main()
