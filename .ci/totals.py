"""Summarizes the test reports (JUnit XML) of a `make test`: the failed tests, and totals for each suite and overall.

Fails if a report is missing, contains no tests or contains a failure: a suite that did not run has not passed.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SUITES = {"Swift tests": "swift.xml", "Swift tests, client": "swift-client.xml", "budget": "budget.xml",
          "wire tests": "wire.xml", "wire tests, TLS": "wire-tls.xml"}
# Lines shown of a failed test's output: the end of a log may be the only clue.
LINES = 6


def count(root: ElementTree.Element, failed: int) -> tuple[int, int, int]:
    """The numbers of passed, failed and skipped tests."""
    # Not the number of cases: a test that was retried is listed twice, without a failure the first time.
    tests = sum(int(suite.get("tests", 0)) for suite in root.iter("testsuite"))
    skipped = sum(case.find("skipped") is not None for case in root.iter("testcase"))
    return tests - failed - skipped, failed, skipped


def failures(root: ElementTree.Element) -> list[str]:
    """The name of each failed test, followed by the beginning of its output."""
    found = []
    for case in root.iter("testcase"):
        told = [element for kind in ("failure", "error") for element in case.findall(kind)]
        if told:
            text = "\n".join(f"{element.get('message', '')}\n{element.text or ''}" for element in told)
            lines = [line for line in text.splitlines() if line.strip()][:LINES]
            found.append("\n    ".join([f"{case.get('classname', '')} {case.get('name', '')}", *lines]))
    return found


def main(folder: Path) -> int:
    total = [0, 0, 0]
    complete = True
    for name, file in SUITES.items():
        report = folder / file
        root = ElementTree.parse(report).getroot() if report.exists() else ElementTree.Element("none")
        failed = failures(root)
        counts = count(root, len(failed))
        if sum(counts) == 0:
            print(f"{name}: FAILED: no tests were run")
            complete = False
            continue
        for failure in failed:
            print(f"{name}, FAILED: {failure}")
        print("{}: {} passed, {} failed, {} skipped".format(name, *counts))
        total = [a + b for a, b in zip(total, counts)]
    print("total: {} passed, {} failed, {} skipped".format(*total))
    return 0 if complete and total[1] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
