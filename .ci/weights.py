"""Write tests/weights.json: how long each file of tests takes, for those that take more than two seconds.

    python .ci/weights.py build/tests/*.xml

The workers begin with the longest (tests/conftest.py). Wrong or missing numbers cost some waiting at the end and no
more, so this needs to be run only when the suite has changed much. Of two suites that run a file the longer counts.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
AT_LEAST_S = 2


def seconds(report: Path, root: Path) -> Counter[str]:
    """The seconds of each file in a JUnit report, whose class names are a file's path with dots."""
    total: Counter[str] = Counter()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        parts = case.get("classname", "").split(".")
        for length in range(len(parts), 0, -1):  # a class of the file may follow its name
            path = "/".join(parts[:length]) + ".py"
            if (root / path).is_file():
                total[path] += float(case.get("time", "0"))
                break
    return total


def weights(reports: list[Path], root: Path) -> dict[str, int]:
    longest: Counter[str] = Counter()
    for report in reports:
        longest |= seconds(report, root)
    return {path: round(longest[path]) for path in sorted(longest) if longest[path] > AT_LEAST_S}


def main() -> None:
    found = weights([Path(name) for name in sys.argv[1:]], ROOT)
    if not found:
        sys.exit("No times: name JUnit reports of this tree, such as build/tests/test.xml.")
    (ROOT / "tests" / "weights.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
