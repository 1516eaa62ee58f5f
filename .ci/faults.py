"""Plants faults in the broker's sources, one at a time, and reports which tests catch each. Called by `make faults`.

    faults.py [--only PATTERN] [--new]   plants faults (matching PATTERN, not caught yet) and writes the table
    faults.py --simulator [--only PATTERN] [--new]   runs only the simulator (--new: faults not detected by it yet)
    faults.py --check                    builds nothing: checks that every fault matches the sources and is caught

The faults are listed in Tests/Faults/*.toml. They are planted in a copy of the tree, .build/faults/tree, which has its
own build folder, so that each costs one incremental build. The tests that a fault names are run first; those of its
module and of Core are run only if these do not catch it. Whatever the tests find, the simulator then runs a number of
seeds if it exercises the module. The results are in Tests/Faults/results.md.
"""

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from fault_table import MODULES, RESULTS, ROOT, SEEDS, SIMULATED, UNTRIED, Fault, Trouble, Verdict
from fault_table import breaches, load, table, verdicts

WORK = ROOT / ".build/faults"
TREE = WORK / "tree"
BUILD = WORK / "build"
# Tests that passed without a fault, by a digest of the sources and tests, and how long they took.
BASELINE = WORK / "baseline.json"

SWIFT_FLAGS = ["--scratch-path", str(BUILD), "--explicit-target-dependency-import-check", "error"]
# Slow suites.
SLOW = {"PropertyTests", "LedgerTests", "FuzzTests"}
BUILD_LIMIT = 1800
# The time limit for the tests that a fault names: PATIENCE times what those of all chosen faults took without any
# fault, and at least LEAST seconds. More is a hang, which counts as caught. Other tests may take REST_LIMIT seconds.
PATIENCE, LEAST = 2, 60
REST_LIMIT = 600
# Seconds for which tests continue after the first failure, because others may give more information.
MORE = 3
# Limit for the address space, in bytes: a fault that allocates endlessly must stop its test, not the machine.
MEMORY = 8 << 30
# Characters of the simulator's message that the table shows.
SENTENCE = 110


# The copy

def synchronise() -> None:
    """Updates the copy from the tree. Unchanged files are not touched, so that they are not rebuilt."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    wanted = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for name in wanted:
        target = TREE / name
        content = (ROOT / name).read_bytes()
        if name == "Package.swift":
            # Tests that no fault needs are not built, nor are their dependencies.
            needed = ", ".join(f'"{name}"' for name in sorted(set(sum(MODULES.values(), []))))
            content += f"\npackage.targets.removeAll {{ $0.isTest && ![{needed}].contains($0.name) }}\n".encode()
        if target.exists() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        shutil.copymode(ROOT / name, target)
    for path in [path for path in TREE.rglob("*") if path.is_file()]:
        if str(path.relative_to(TREE)) not in wanted and "__pycache__" not in path.parts:
            path.unlink()


def run(
    command: list[str], limit: float, log: Path, enough: bytes | None = None, work: float | None = None,
) -> tuple[int | None, str]:
    """Returns the command's exit code (None if it timed out) and its output. Once it has printed `enough`, it gets only
    a little more time. `work` limits the processor time, which does not depend on other programs."""
    environment = os.environ | {
        "SWIFT_BACKTRACE": "enable=no", "FOREBAYD": str(BUILD / "debug/forebayd"),
        "FOREBAY": str(BUILD / "debug/forebay"), "PYTHONDONTWRITEBYTECODE": "1"}

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if work:
            resource.setrlimit(resource.RLIMIT_CPU, (int(work), int(work) + 1))

    with log.open("wb") as out:
        process = subprocess.Popen(
            ["nice", *command], cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=confine)
        try:
            deadline = time.monotonic() + limit
            while (code := process.poll()) is None and time.monotonic() < deadline:
                time.sleep(0.2)
                if enough and enough in log.read_bytes():
                    deadline, enough = min(deadline, time.monotonic() + MORE), None
        finally:
            # Including processes that the command started and left running.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    return None if code == -signal.SIGXCPU else code, log.read_text(errors="replace")


def build(product: str = "forebayPackageTests") -> str | None:
    """Builds the tests or another product. Returns the error if that failed."""
    code, text = run(["swift", "build", "--product", product, *SWIFT_FLAGS], BUILD_LIMIT, WORK / "build.log")
    if code == 0:
        return None
    errors = [line for line in text.splitlines() if "error:" in line]
    return errors[0] if errors else f"the build failed: see {WORK / 'build.log'}"


# The tests

def swift_tests(names: list[str], limit: float) -> list[str]:
    """Runs Swift tests and returns those that failed."""
    # Starts them as `swift test` does, but without planning a build each time.
    code, text = run(
        [str(BUILD / "debug/forebayPackageTests.xctest"), "--testing-library", "swift-testing", "--filter",
         f"(^|[./])({'|'.join(names)})([./(]|$)"],
        limit, WORK / "test.log", enough=b" recorded an issue ")
    if code == 0:
        if not re.search(r"Test run with [1-9]", text):
            raise Trouble(f"No test is named {' or '.join(names)}.")
        return []
    # Named after the file and the function for which the issue is reported.
    failed = re.findall(r"Test `?(\w[\w ,-]*?)`?\(.* recorded an issue.*? at (\w+)\.swift:", text)
    if failed:
        return sorted({f"{file}.{name}" for name, file in failed})
    # The tests running when the process ended, without the names of suites, which the output does not contain.
    begun = re.findall(r"Test (\w+)\(.*started\.$", text, re.M)
    ended = set(re.findall(r"Test (\w+)\(.*(?:passed|failed) after", text))
    how = "timeout" if code is None else "crash"
    return [f"{how}: {name}" for name in sorted({name for name in begun if name not in ended})] or [how]


def wire_tests(expression: str, limit: float) -> list[str]:
    report = WORK / "wire.xml"
    report.unlink(missing_ok=True)
    code, text = run(
        [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-o", "addopts=", "-q", "-n", "2", "-k", expression,
         "-p", "no:cacheprovider", f"--junitxml={report}", "Tests/EndToEnd"], limit, WORK / "wire.log")
    if code == 0:
        return []
    if code == 5:
        raise Trouble(f"No wire test matches {expression}.")
    failed = failures(report, lambda case: f"{case.get('classname').split('.')[-1]}.{case.get('name')}") \
        if report.exists() and code == 1 else []
    return list(dict.fromkeys(re.sub(r"\[.*", "", name) for name in failed)) or [
        "timeout: wire tests" if code is None else "the broker does not start"]


def failures(report: Path, name) -> list[str]:
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except ElementTree.ParseError:
        # The process was killed while writing the report.
        return []
    return [name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]


def simulator(seeds: int, limit: float) -> list[str]:
    """Runs a number of seeds, and returns the first that failed, with its message."""
    code, text = run(
        [str(BUILD / "debug/forebay-sim"), "--from", "0", "--seeds", str(seeds), "--hash"], 10 * limit,
        WORK / "simulator.log", work=limit)
    if code == 0:
        return []
    if told := re.search(r"^seed (\d+) failed at step \d+: (.*)", text, re.M):
        # Without the subscription options in parentheses.
        return [f"seed {told[1]}: " + re.sub(r" \([^()]*\)", "", told[2]).replace("|", "/")]
    passed = len(re.findall(r"^\d+ [0-9a-f]{16}$", text, re.M))
    return [f"seed {passed}: {'it does not terminate' if code is None else 'the engine crashes'}"]


def digest_of_copy() -> str:
    digest = hashlib.sha256()
    for folder in ("Sources", "Tests"):
        for path in sorted((TREE / folder).rglob("*")):
            if path.is_file() and path.suffix in (".swift", ".c", ".h", ".py", ".json") and "Faults" not in path.parts:
                digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def expect_to_pass(runner, choice) -> float:
    """Runs tests, which must pass without a fault, and returns how long they took. Tests that have passed with the same
    sources are not run again."""
    known = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    key = f"{digest_of_copy()} {runner.__name__} {choice}"
    if key in known:
        return known[key]
    for _ in range(2):
        began = time.monotonic()
        failed = runner(choice, 900)
        if not failed:
            known[key] = time.monotonic() - began
            BASELINE.write_text(json.dumps(known, indent=1))
            return known[key]
        # A test may fail once on a busy machine.
    raise Trouble(f"These tests fail without any fault: {', '.join(failed[:5])}.")


def named(fault: Fault, quick: bool = False) -> list[list[str]]:
    """The tests that a fault names: the quick ones first, or only those."""
    choices = [[name for name in fault.tests if (name in SLOW) == slow] for slow in (False, True)[:1 if quick else 2]]
    return [choice for choice in choices if choice]


def rest(fault: Fault) -> list[str]:
    return [name for name in MODULES[fault.module] if name not in fault.tests]


def try_tests(fault: Fault, limits: dict, quick: bool) -> tuple[list[str] | None, bool]:
    """Returns the tests that catch the planted fault (None if they were not run), and whether tests were run besides
    those that it names."""
    for tests in named(fault, quick):
        if caught := swift_tests(tests, limits[swift_tests]):
            return caught, False
    if quick:
        return None, False
    if fault.wire:
        need("forebayd")
        need("forebay")
        if caught := wire_tests(fault.wire, limits[wire_tests]):
            return caught, False
    return swift_tests(rest(fault), REST_LIMIT), True


class Broken(Exception):
    """A fault that does not compile."""


def need(product: str = "forebayPackageTests") -> None:
    if wrong := build(product):
        raise Broken(wrong)


def attempt(fault: Fault, before: Verdict | None, limits: dict, options) -> tuple[Verdict | None, bool]:
    """Plants the fault and runs the tests and the simulator. Results of what was not run are kept from `before`.
    Returns the verdict, and whether any tests were run besides those that the fault names."""
    source = TREE / fault.file
    text = source.read_text()
    source.write_text(text.replace(fault.right, fault.wrong))
    verdict = Verdict(**vars(before)) if before else Verdict(caught=UNTRIED)
    verdict.date = time.strftime("%Y-%m-%d", time.gmtime())
    beyond = False
    try:
        if not options.simulator:
            need()
            caught, beyond = try_tests(fault, limits, options.quick)
            if caught is None:
                return before, False
            verdict.caught = summary(caught) or "**survived**"
        if simulator in limits and fault.module in SIMULATED:
            need("forebay-sim")
            said = simulator(SEEDS, limits[simulator])
            verdict.simulator = shortened(said[0]) if said else f"none of {SEEDS}"
        return verdict, beyond
    except Broken:
        return Verdict("**does not compile**", "", verdict.date), False
    finally:
        source.write_text(text)


# The results

def summary(caught: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in caught[:3])
    return shown + (f" and {len(caught) - 3} more" if len(caught) > 3 else "")


def shortened(sentence: str) -> str:
    return sentence if len(sentence) <= SENTENCE else sentence[:SENTENCE - 1].rstrip() + "…"


def prepare(chosen: list[Fault], options) -> dict:
    """Builds the copy, and measures how long the tests take without a fault."""
    WORK.mkdir(parents=True, exist_ok=True)
    synchronise()
    limits = {}

    def measure(runner, choice, *products: str) -> None:
        for product in products:
            if wrong := build(product):
                raise Trouble(f"{product} does not build without any fault: {wrong}")
        if choice:
            limits[runner] = max(LEAST, PATIENCE * expect_to_pass(runner, choice))

    if not options.simulator:
        tests = sorted({name for fault in chosen for choice in named(fault, options.quick) for name in choice})
        measure(swift_tests, tests, "forebayPackageTests")
        if wire := sorted({fault.wire for fault in chosen if fault.wire and not options.quick}):
            measure(wire_tests, " or ".join(f"({words})" for words in wire), "forebayd", "forebay")
    if not options.quick and any(fault.module in SIMULATED for fault in chosen):
        measure(simulator, SEEDS, "forebay-sim")
    return limits


def plant(faults: list[Fault], chosen: list[Fault], known: dict[str, Verdict], options) -> None:
    limits = prepare(chosen, options) if chosen else {}
    further: set[str] = set()
    for place, fault in enumerate(chosen, 1):
        began = time.monotonic()
        verdict, beyond = attempt(fault, known.get(fault.digest), limits, options)
        if verdict:
            known[fault.digest] = verdict
        if beyond and verdict.is_caught:
            further.update(rest(fault))
        RESULTS.write_text(table(faults, known))
        told = f"{verdict.caught}; simulator: {verdict.simulator or '–'}" if verdict else "no verdict"
        print(f"{place}/{len(chosen)} {fault.name} ({time.monotonic() - began:.0f} s): {told}", flush=True)
    RESULTS.write_text(table(faults, known))
    # Other tests that caught a fault must pass without it, too.
    if further and not build():
        expect_to_pass(swift_tests, sorted(further))


def choose(faults: list[Fault], known: dict[str, Verdict], options) -> list[Fault]:
    chosen = [fault for fault in faults if re.search(options.only, fault.name)]
    if options.simulator:
        chosen = [fault for fault in chosen if fault.module in SIMULATED]
    if options.new:
        new = Verdict()
        chosen = [fault for fault in chosen if not is_done(known.get(fault.digest, new), options)]
    if options.quick:
        chosen = [fault for fault in chosen if named(fault, quick=True)]
    return chosen


def is_done(verdict: Verdict, options) -> bool:
    return verdict.is_noticed if options.simulator else verdict.is_caught


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="only check the list and the table against the sources")
    parser.add_argument("--only", default="", help="only faults whose names match this regular expression")
    parser.add_argument("--new", action="store_true", help="only faults not caught yet in their current form")
    parser.add_argument("--quick", action="store_true", help="run only the quick tests that the faults name")
    parser.add_argument("--simulator", action="store_true", help="run only the simulator")
    options = parser.parse_args()
    # SIGTERM must raise SystemExit, which restores the copy.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        faults = load()
        if options.check:
            found = list(breaches(faults))
            print("\n".join([*found, f"faults: {len(faults)} in the list, {len(found)} problems"]))
            return 1 if found else 0
        known = verdicts()
        chosen = choose(faults, known, options)
        plant(faults, chosen, known, options)
        done = sum(is_done(known.get(fault.digest, Verdict()), options) for fault in chosen)
        # Faults with `unseen` cannot be detected by the simulator.
        owed = sum(not options.simulator or not fault.unseen for fault in chosen)
        print(f"{len(chosen)} faults planted, {done} of {owed} caught; see {RESULTS.relative_to(ROOT)}")
        return 0 if done == owed else 1
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
