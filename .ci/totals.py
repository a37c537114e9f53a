"""Add up what the test families of one CI run reported, and fail when one of them ran nothing.

    python .ci/totals.py build/tests/*.xml

The last line is `N passed, N failed, N skipped`.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

# Its wheels are built or kept by a job of its own, which fails where they cannot be built and says where time ran out.
MAY_SKIP = {"test-horovod"}


def main() -> None:
    total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    idle = []
    for file in map(Path, sys.argv[1:]):
        suites = list(ElementTree.parse(file).getroot().iter("testsuite"))
        found = {name: sum(int(suite.get(name, "0")) for suite in suites) for name in total}
        passed = found["tests"] - found["failures"] - found["errors"] - found["skipped"]
        print(f"{file.stem}: {passed} of {found['tests']} passed, {found['skipped']} skipped")
        if passed == 0 and not (file.stem in MAY_SKIP and found["skipped"] == found["tests"]):
            idle.append(file.stem)
        total = {name: total[name] + found[name] for name in total}
    failed = total["failures"] + total["errors"]
    print(f"{total['tests'] - failed - total['skipped']} passed, {failed} failed, {total['skipped']} skipped")
    if failed or idle or not sys.argv[1:]:
        sys.exit(f"families in which nothing passed: {', '.join(idle) or 'none'}; failed tests: {failed}")


if __name__ == "__main__":
    main()
