"""In our environment: milliseconds to build and compile a pipeline file, wall and CPU, as JSON.

    python compile_many.py sagemaker digits.py 1
    python compile_many.py sagemaker chain.py 5 steps=500 steps=1000

With several settings they take turns.
"""

import json
import sys
import time

from drivetrain.authoring.loading import load
from drivetrain.targets.target import find_target


def main() -> None:
    name, file, rounds, *settings = sys.argv[1:]
    target = find_target(name)
    wall: dict[str, list[float]] = {setting: [] for setting in settings or [""]}
    cpu: dict[str, list[float]] = {setting: [] for setting in wall}
    for _ in range(int(rounds)):
        for setting in wall:
            begun, used = time.perf_counter(), time.process_time()
            loaded = load(file, None, [setting] if setting else [])
            target.compile(loaded.pipeline, loaded.source, loaded.base, wheels_optional=True).text  # noqa: B018
            wall[setting].append(1000 * (time.perf_counter() - begun))
            cpu[setting].append(1000 * (time.process_time() - used))
    print(json.dumps({"wall": wall, "cpu": cpu}))


if __name__ == "__main__":
    main()
