"""Counts the engine's instructions and allocations, and compares them with those recorded in Tests/Budget/figures.txt.

Each scenario of Tests/Budget is run separately under callgrind, which counts the instructions of its measured part; the
program itself counts allocations. The same build always gives the same counts: hashes have a fixed seed, and memcpy and
similar functions do not use features that only some processors have (nor `rep movsb`, of which callgrind counts every
byte as an instruction). So any difference comes from the code, the compiler or glibc.

The cost of operations with many objects of each kind is measured as well: see costs.py.

Fails if a figure exceeds the record by more than a tolerance, and also if it is far below, so that improvements are
recorded. Skipped, with a message, only if counting is not possible.

    python3 .ci/budget.py [--record] [--junit FILE]      after `make build`
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import costs

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / ".build/release/Budget"
FOLDER = ROOT / ".build/budget"
FIGURES = ROOT / "Tests/Budget/figures.txt"
RECORD = "make budget RECORD=1"

ABOVE = 0.05
BELOW = 0.15
# For allocations, of which there are often almost none: for each 1,000 units.
ALLOCATIONS_SLACK = 0.1
SECONDS = 60

ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": os.environ.get("PATH", os.defpath),
    "SWIFT_BACKTRACE": "enable=no",
    "SWIFT_DETERMINISTIC_HASHING": "1",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM",
}


class Fault(Exception):
    """Counting failed; the text gives the reason."""


@dataclass
class Figure:
    unit: str
    # For each unit, and for each 1,000 units, respectively.
    instructions: float
    allocations: float


def run(command: list[str], seconds: int = SECONDS) -> str:
    try:
        done = subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise Fault(f"{' '.join(command)} did not finish within {seconds} s.") from None
    if done.returncode != 0:
        raise Fault(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def obstacle() -> str | None:
    """The reason if counting is not possible on this machine."""
    machine = recorded_tools().rpartition(" on ")[2]
    if machine and machine != platform.machine():
        return f"the figures were recorded on {machine}, and this machine is {platform.machine()}"
    try:
        run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"])
    except (OSError, Fault) as error:
        return f"valgrind does not work here: {error}"
    return None


def count(program: Path, name: str, unit: str) -> Figure:
    """Runs one scenario."""
    out = FOLDER / f"{name}.out"
    command = ["valgrind", "--tool=callgrind", "--toggle-collect=count_instructions", f"--callgrind-out-file={out}"]
    units, allocations = map(int, run([*command, str(program), name]).split())
    total = re.search(r"^totals: (\d+)$", out.read_text(), re.MULTILINE)
    if units == 0 or not total or int(total[1]) == 0:
        raise Fault(f"{name}: nothing was counted; see {out.relative_to(ROOT)}.")
    return Figure(unit, int(total[1]) / units, 1000 * allocations / units)


def prepare() -> Path:
    """The program in a form that valgrind can read."""
    if not PROGRAM.exists():
        raise Fault(f"{PROGRAM.relative_to(ROOT)} is missing; run make build first.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    # valgrind cannot read a newer compiler's debug information; function names are kept.
    program = FOLDER / "Budget"
    run(["objcopy", "--strip-debug", str(PROGRAM), str(program)])
    return program


def measure(pool: ThreadPoolExecutor, program: Path):
    """Starts all scenarios. Returns a function that waits for their figures."""
    scenarios = [line.split("\t")[:2] for line in run([str(program)]).splitlines()]
    counts = [pool.submit(count, program, name, unit) for name, unit in scenarios]
    return lambda: {name: counted.result() for (name, _), counted in zip(scenarios, counts)}


def measure_costs(pool: ThreadPoolExecutor, program: Path, names: costs.Names):
    """Like `measure`, for the cost of operations with many objects. The result also lists what could not be counted."""
    counts = {cell: pool.submit(costs.count, run, program, FOLDER, *cell) for cell in names.cells()}

    def result():
        faults, done = [], []
        for (crowd, size), counted in counts.items():
            try:
                done.append((crowd, size, counted.result()))
            except Fault as fault:
                faults.append(f"nothing was counted with {size:,} {crowd}: {fault}")
        return *costs.gather(done), faults

    return result


def read() -> dict[str, Figure]:
    """The recorded figures."""
    figures = {}
    for line in FIGURES.read_text().splitlines() if FIGURES.exists() else []:
        if line and not line.startswith("#"):
            name, unit, instructions, allocations = line.split()
            figures[name] = Figure(unit, float(instructions), float(allocations))
    return figures


def tools() -> str:
    """What the counts depend on besides the code."""
    told = subprocess.run(["swift", "--version"], capture_output=True, text=True).stdout
    swift = re.search(r"Swift version [\d.]+", told)
    return f"{swift[0] if swift else 'unknown Swift'}, glibc {platform.libc_ver()[1]}, on {platform.machine()}"


def recorded_tools() -> str:
    text = FIGURES.read_text() if FIGURES.exists() else ""
    line = re.search(r"^# Recorded with (.*, glibc .*, on \w+)$", text, re.MULTILINE)
    return line[1] if line else ""


def write(figures: dict[str, Figure]) -> None:
    lines = [
        "# The engine's cost: instructions for each unit, and allocations for each 1,000 units.",
        f"# Written by `{RECORD}` (.ci/budget.py); checked by `make test`.",
        f"# Recorded with {tools()}",
        "#",
        f"# {'scenario':16} {'unit':10} {'instructions':>14} {'allocations':>13}",
    ]
    lines += [f"{n:18} {f.unit:10} {f.instructions:14.2f} {f.allocations:13.3f}" for n, f in figures.items()]
    FIGURES.write_text("\n".join(lines) + "\n")


def compare(name: str, figure: Figure | None, kept: Figure | None) -> str | None:
    """The problems with a scenario's figures, as sentences."""
    if figure is None:
        return f"{name} is on record, but no scenario has that name; remove it with {RECORD}."
    if kept is None or kept.unit != figure.unit:
        return f"{name} has no figures on record; record them with {RECORD}."
    faults = []
    for what, now, then, slack in (
        (f"instructions per {figure.unit}", figure.instructions, kept.instructions, 0),
        (f"allocations per 1,000 × {figure.unit}", figure.allocations, kept.allocations, ALLOCATIONS_SLACK),
    ):
        change = f"{name}: {now:,.2f} {what}, but {then:,.2f} are on record"
        if then > 0:
            change += f" ({now / then - 1:+.1%})"
        if now > then * (1 + ABOVE) + slack:
            faults.append(
                f"{change}; the tolerance is {ABOVE:.0%}. To find the cause: callgrind_annotate --inclusive=yes "
                f".build/budget/{name}.out | swift demangle. If the increase is justified, record it with {RECORD} "
                "and explain it in the commit message."
            )
        elif now < then * (1 - BELOW) - slack:
            faults.append(f"{change}. Record this improvement with {RECORD}, so that it is not lost unnoticed.")
    return " ".join(faults) or None


def table(figures: dict[str, Figure], kept: dict[str, Figure]) -> None:
    row = "{:16} {:10} {:>12} {:>12} {:>8} {:>18} {:>12}"
    print(row.format("scenario", "unit", "instructions", "on record", "", "allocations/1,000", "on record"))
    for name, now in figures.items():
        then = kept.get(name)
        instructions = ["-", ""]
        allocations = "-"
        if then:
            instructions = [f"{then.instructions:,.2f}", f"{now.instructions / then.instructions - 1:+.1%}"]
            allocations = f"{then.allocations:,.3f}"
        print(
            row.format(
                name, now.unit, f"{now.instructions:,.2f}", *instructions, f"{now.allocations:,.3f}", allocations
            )
        )


def report(file: Path | None, cases: dict[str, str | None], tag: str) -> None:
    """Writes one test case for each entry. Entries with a text count as failed or skipped, according to `tag`."""
    if file is None:
        return
    suite = ElementTree.Element("testsuite", name="budget", tests=str(len(cases)))
    for name, text in cases.items():
        case = ElementTree.SubElement(suite, "testcase", classname="budget", name=name)
        if text:
            ElementTree.SubElement(case, tag, message=text)
    ElementTree.ElementTree(suite).write(file)


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the engine's instructions and allocations.")
    parser.add_argument("--record", action="store_true", help="record the figures instead of comparing them")
    parser.add_argument("--junit", type=Path, help="where to write a test report")
    options = parser.parse_args()
    if reason := None if options.record else obstacle():
        print(f"budget: skipped: {reason}.")
        report(options.junit, {"budget": reason}, "skipped")
        return 0
    try:
        program = prepare()
        names = costs.Names(run([str(program), "costs"]))
        # One measurement at a time on each processor.
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = [measure_costs(pool, program, names), measure(pool, program)]
            (beside, shared, uncounted), figures = [result() for result in results]
    except (Fault, OSError) as error:
        print(f"budget: {error}", file=sys.stderr)
        report(options.junit, {"budget": str(error)}, "failure")
        return 1
    kept = read()
    table(figures, kept)
    if options.record:
        write(figures)
        costs.write(names, beside, shared, RECORD, tools())
        print(f"budget: recorded in {FIGURES.relative_to(ROOT)} and {costs.KEPT.relative_to(ROOT)}")
        return 0
    faults = {name: compare(name, figures.get(name), kept.get(name)) for name in {**figures, **kept}}
    growing = [*uncounted, *costs.complaints(beside, shared, costs.read(), RECORD)]
    faults["costs"] = " ".join(growing) or None
    report(options.junit, faults, "failure")
    wrong = [text for name, text in faults.items() if text and name != "costs"] + growing
    print(f"budget: {len(beside)} operations with many objects, {len(growing)} problems")
    if wrong and recorded_tools() not in ("", tools()):
        wrong.append(f"the figures were recorded with {recorded_tools()}; this is {tools()}.")
    for text in wrong:
        print(f"budget: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
