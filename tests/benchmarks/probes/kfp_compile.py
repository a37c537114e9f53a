"""In kfp's environment: seconds to import kfp and the pipeline, and to compile it, as JSON."""

import hashlib
import json
import tempfile
import time
from pathlib import Path

begun = time.perf_counter()
import digits  # noqa: E402 - the import is measured
from kfp import compiler  # noqa: E402

imported = time.perf_counter()


def main() -> None:
    taken = []
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        for _ in range(5):
            start = time.perf_counter()
            compiler.Compiler().compile(digits.digits, file.name, pipeline_parameters={"max_digits": 4})
            taken.append(time.perf_counter() - start)
        digest = hashlib.sha256(Path(file.name).read_bytes()).hexdigest()
    print(json.dumps({"import": imported - begun, "compile": taken, "sha256": digest}))


if __name__ == "__main__":
    main()
