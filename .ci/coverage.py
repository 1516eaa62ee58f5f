"""Runs the Swift tests and prints the line coverage of each module. Called by `make coverage`.

    coverage.py [--filter TESTS] [--missing MODULE]

With --missing, the uncovered lines of that module are listed too. Only the Swift tests count, not the wire tests.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / ".build/coverage"
FLAGS = [
    *("--enable-code-coverage", "--scratch-path", str(SCRATCH)),
    *("--explicit-target-dependency-import-check", "error"),
]
PROFILE = SCRATCH / "debug/codecov/default.profdata"


def tests(chosen: str | None) -> bool:
    environment = os.environ | {"SWIFT_BACKTRACE": "enable=no"}
    run = ["swift", "test", "--skip-build", "--disable-xctest", *FLAGS, *(["--filter", chosen] if chosen else [])]
    # Measuring coverage takes time and memory, too.
    run += ["--skip", "Allocation"]
    return all(
        subprocess.run(command, cwd=ROOT, env=environment).returncode == 0
        for command in (["swift", "build", "--build-tests", *FLAGS], run))


def exported() -> list[dict]:
    # The llvm-cov next to the compiler understands the compiler's profile format.
    tool = Path(shutil.which("swift")).resolve().parent / "llvm-cov"
    program = next((SCRATCH / "debug").glob("*PackageTests.xctest"))
    output = subprocess.run(
        [tool, "export", "-skip-functions", "-skip-expansions", f"-instr-profile={PROFILE}", program, ROOT / "Sources"],
        check=True, capture_output=True, text=True).stdout
    return json.loads(output)["data"][0]["files"]


def missing(file: dict) -> list[str]:
    """The line ranges with a count of 0, as `12` or `12-14`."""
    found = []
    segments = file["segments"]
    for (line, _, count, counted, *_), after in zip(segments, segments[1:]):
        if counted and count == 0:
            last = max(line, after[0] - (after[1] == 1))
            found.append(f"{line}" if last == line else f"{line}-{last}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", help="run only these tests")
    parser.add_argument("--missing", help="list the uncovered lines of this module")
    options = parser.parse_args()
    PROFILE.unlink(missing_ok=True)
    passed = tests(options.filter)
    if not PROFILE.exists():
        return 1
    sums = defaultdict(lambda: [0, 0])
    for file in exported():
        path = Path(file["filename"]).relative_to(ROOT / "Sources")
        lines = file["summary"]["lines"]
        sums[path.parts[1]][0] += lines["covered"]
        sums[path.parts[1]][1] += lines["count"]
        if path.parts[1] == options.missing and lines["covered"] < lines["count"]:
            print(f"{path}: {lines['covered']} of {lines['count']} lines; missing {', '.join(missing(file))}")
    print(f"{'module':14}{'lines':>8}{'covered':>9}{'':>8}")
    for module, (covered, count) in sorted(sums.items()):
        print(f"{module:14}{count:8,}{covered:9,}{covered / count:8.1%}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
