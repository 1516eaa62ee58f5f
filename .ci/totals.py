"""Adds up the test reports (JUnit XML) of one `make test` and prints one line of totals for each and for all.

Fails if a report is missing, holds no test, or tells of a failure: a suite that did not run has not passed.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SUITES = {"Swift tests": "swift.xml", "budget": "budget.xml", "wire tests": "wire.xml",
          "wire tests, TLS": "wire-tls.xml"}


def count(report: Path) -> tuple[int, int, int]:
    """How many tests passed, failed and were skipped."""
    failed = skipped = 0
    root = ElementTree.parse(report).getroot()
    # Not the number of cases: one that was tried again is there twice, without a failure the first time.
    tests = sum(int(suite.get("tests", 0)) for suite in root.iter("testsuite"))
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
    return tests - failed - skipped, failed, skipped


def main(folder: Path) -> int:
    total = [0, 0, 0]
    complete = True
    for name, file in SUITES.items():
        report = folder / file
        counts = count(report) if report.exists() else (0, 0, 0)
        if sum(counts) == 0:
            print(f"{name}: FAILED: no test was run")
            complete = False
            continue
        print("{}: {} passed, {} failed, {} skipped".format(name, *counts))
        total = [a + b for a, b in zip(total, counts)]
    print("total: {} passed, {} failed, {} skipped".format(*total))
    return 0 if complete and total[1] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
