"""Plants faults in the broker's sources, one at a time, and tells which tests catch each. `make faults` calls it.

    faults.py [--only PATTERN] [--new]   plants faults (those of that name, those not caught yet), writes the table
    faults.py --check                    builds nothing: does every fault still have its place in the sources?

The faults stand in Tests/Faults/*.toml. They are planted in a copy of the tree, .build/faults/tree, which has a build
folder of its own, so that each costs one incremental build. The tests that a fault names are run first; those of its
module, of Core and over the wire only where these let it pass. What came of each is kept beside the copy, and
Tests/Faults/results.md is written from that.
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
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "Tests/Faults"
RESULTS = LIST / "results.md"
WORK = ROOT / ".build/faults"
TREE = WORK / "tree"
BUILD = WORK / "build"
OUTCOMES = WORK / "outcomes.json"
# What passed without a fault, by a digest of the sources and tests, and how long that took.
BASELINE = WORK / "baseline.json"

SWIFT_FLAGS = ["--scratch-path", str(BUILD), "--explicit-target-dependency-import-check", "error"]
# What is run of a module's faults where the tests that they name let them pass.
MODULES = {
    "Replay": ["ReplayTests", "CoreTests"],
    "RSocket": ["RSocketTests", "CoreTests"],
    "HTTP2": ["HTTP2Tests", "GRPCTests", "PlainTests", "CoreTests"],
    "Core": ["CoreTests"],
    "Access": ["AccessTests", "CoreTests"],
    "Bytes": ["BytesTests", "CoreTests"],
}
# Suites that take long.
SLOW = {"PropertyTests", "LedgerTests", "FuzzTests"}
BUILD_LIMIT = 1800
# The tests that a fault names may take this many times what those of all chosen faults together took without any, and
# so many seconds at least. More is a hang, which counts as caught. All others may take REST_LIMIT seconds.
PATIENCE, LEAST = 2, 60
REST_LIMIT = 600
# Seconds that tests go on for once one has failed: it has caught the fault, and others may tell more of it.
MORE = 3
# A fault that allocates without end is to end its test, not the machine. Bytes of address space.
MEMORY = 8 << 30


@dataclass
class Fault:
    name: str
    file: str
    # The lines as they are, and as the fault has them.
    right: str
    wrong: str
    harm: str
    # Suites or tests that are to catch it, as `swift test --filter` and `pytest -k` take them.
    tests: list[str]
    wire: str

    @property
    def module(self) -> str:
        return Path(self.file).parts[1]

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join([self.file, self.right, self.wrong]).encode()).hexdigest()[:16]


class Trouble(Exception):
    """A sentence for the person who runs this."""


def load() -> list[Fault]:
    faults = []
    for path in sorted(LIST.glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text()).items():
            wire = entry.pop("wire", "")
            try:
                faults.append(Fault(name=name, tests=entry.pop("tests", []), wire=wire, **entry))
            except TypeError as error:
                raise Trouble(f"{path.relative_to(ROOT)}: {name}: {error}")
    names = [fault.name for fault in faults]
    for name in {name for name in names if names.count(name) > 1}:
        raise Trouble(f"Two faults are called {name}; give one another name.")
    return faults


# The check that builds nothing

def breaches(faults: list[Fault]):
    swift = "\n".join(path.read_text() for path in (ROOT / "Tests").rglob("*.swift"))
    targets = {path.name for path in (ROOT / "Tests").iterdir()} | set(sum(MODULES.values(), []))
    wire = "\n".join(path.name + path.read_text() for path in (ROOT / "Tests/wire").glob("test_*.py"))
    for fault in faults:
        source = ROOT / fault.file
        count = source.read_text().count(fault.right) if source.exists() else 0
        if count != 1:
            yield f"{fault.name}: its lines occur {count} times in {fault.file}; they are to occur exactly once"
        if fault.right == fault.wrong or not fault.harm.endswith("."):
            yield f"{fault.name}: it changes nothing, or does not say in a sentence what it would do to a user"
        if fault.module not in MODULES:
            yield f"{fault.name}: no tests are known for {fault.module}"
        if not fault.tests and not fault.wire:
            yield f"{fault.name}: it names no test that is to catch it"
        for test in fault.tests:
            if test not in targets and not re.search(rf"(struct|class|func) +{re.escape(test)}\b", swift):
                yield f"{fault.name}: there is no test called {test}"
        for word in re.findall(r"\w+", fault.wire):
            if word not in ("and", "or", "not") and word not in wire:
                yield f"{fault.name}: no wire test has {word} in its name"
    listed = set(re.findall(r"^\| `([\w-]+)` \|", RESULTS.read_text(), re.M)) if RESULTS.exists() else set()
    if differing := sorted({fault.name for fault in faults} ^ listed):
        yield f"results.md is not that of the list; run `make faults ONLY='{'|'.join(differing)}'`"


# The copy

def synchronise() -> None:
    """Makes the copy like the tree. What is the same is not touched, so that it is not built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    wanted = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for name in wanted:
        target = TREE / name
        content = (ROOT / name).read_bytes()
        if name == "Package.swift":
            # Tests that no fault needs are not built, nor what they alone depend on.
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


def run(command: list[str], limit: float, log: Path, enough: bytes | None = None) -> tuple[int | None, str]:
    """The command's exit code, nil if it was not done in time, and what it printed. Once it has printed `enough` it is
    given little more time."""
    environment = os.environ | {
        "SWIFT_BACKTRACE": "enable=no", "FOREBAYD": str(BUILD / "debug/forebayd"),
        "FOREBAY": str(BUILD / "debug/forebay"), "PYTHONDONTWRITEBYTECODE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["nice", *command], cwd=TREE, env=environment, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))
        try:
            deadline = time.monotonic() + limit
            while (code := process.poll()) is None and time.monotonic() < deadline:
                time.sleep(0.2)
                if enough and enough in log.read_bytes():
                    deadline, enough = min(deadline, time.monotonic() + MORE), None
        finally:
            # Also what it started and left behind.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    return code, log.read_text(errors="replace")


def build(product: str = "forebayPackageTests") -> str | None:
    """Builds the tests or another product; what was wrong if that failed."""
    code, text = run(["swift", "build", "--product", product, *SWIFT_FLAGS], BUILD_LIMIT, WORK / "build.log")
    if code == 0:
        return None
    errors = [line for line in text.splitlines() if "error:" in line]
    return errors[0] if errors else f"it was not built: see {WORK / 'build.log'}"


# The tests

def swift_tests(names: list[str], limit: float) -> list[str]:
    """Runs Swift tests and returns which failed."""
    # As `swift test` starts it, without planning a build each time.
    code, text = run(
        [str(BUILD / "debug/forebayPackageTests.xctest"), "--testing-library", "swift-testing", "--filter",
         f"(^|[./])({'|'.join(names)})([./(]|$)"],
        limit, WORK / "test.log", enough=b" recorded an issue ")
    if code == 0:
        if not re.search(r"Test run with [1-9]", text):
            raise Trouble(f"No test is called {' or '.join(names)}.")
        return []
    # By the file and the function that the issue is told of.
    failed = re.findall(r"Test `?(\w[\w ,-]*?)`?\(.* recorded an issue.*? at (\w+)\.swift:", text)
    if failed:
        return sorted({f"{file}.{name}" for name, file in failed})
    # Those under way when it ended; without the suites' names, which the output does not tell.
    begun = re.findall(r"Test (\w+)\(.*started\.$", text, re.M)
    ended = set(re.findall(r"Test (\w+)\(.*(?:passed|failed) after", text))
    how = "not done in time" if code is None else "crash"
    return [f"{how}: {name}" for name in sorted({name for name in begun if name not in ended})] or [how]


def wire_tests(expression: str, limit: float) -> list[str]:
    report = WORK / "wire.xml"
    report.unlink(missing_ok=True)
    code, text = run(
        [str(ROOT / ".venv/bin/python"), "-m", "pytest", "-o", "addopts=", "-q", "-n", "2", "-k", expression,
         "-p", "no:cacheprovider", f"--junitxml={report}", "Tests/wire"], limit, WORK / "wire.log")
    if code == 0:
        return []
    if code == 5:
        raise Trouble(f"No wire test is called {expression}.")
    failed = failures(report, lambda case: f"{case.get('classname').split('.')[-1]}.{case.get('name')}") \
        if report.exists() and code == 1 else []
    return list(dict.fromkeys(re.sub(r"\[.*", "", name) for name in failed)) or [
        "not done in time: wire tests" if code is None else "the broker does not start"]


def failures(report: Path, name) -> list[str]:
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except ElementTree.ParseError:
        # The process ended while it wrote this.
        return []
    return [name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]


def digest_of_copy() -> str:
    digest = hashlib.sha256()
    for folder in ("Sources", "Tests"):
        for path in sorted((TREE / folder).rglob("*")):
            if path.is_file() and path.suffix in (".swift", ".c", ".h", ".py", ".json") and "Faults" not in path.parts:
                digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def expect_to_pass(runner, choice) -> float:
    """Runs tests without a fault, which are to pass then, and returns how long that took. What has passed with the same
    sources before is not run again."""
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
        # A machine under load may have a test fail once.
    raise Trouble(f"Without any fault these fail: {', '.join(failed[:5])}.")


def named(fault: Fault, quick: bool = False) -> list[list[str]]:
    """The tests that a fault names, the quick ones first, or alone."""
    choices = [[name for name in fault.tests if (name in SLOW) == slow] for slow in (False, True)[:1 if quick else 2]]
    return [choice for choice in choices if choice]


def rest(fault: Fault) -> list[str]:
    return [name for name in MODULES[fault.module] if name not in fault.tests]


def attempt(fault: Fault, limits: dict, quick: bool) -> dict | None:
    """Plants the fault and looks for a test that catches it; nil if it is not known whether one does."""
    source = TREE / fault.file
    text = source.read_text()
    source.write_text(text.replace(fault.right, fault.wrong))
    try:
        if wrong := build():
            return {"broken": wrong}
        for tests in named(fault, quick):
            if caught := swift_tests(tests, limits[swift_tests]):
                return {"caught": caught}
        if quick:
            return None
        if fault.wire:
            if wrong := build("forebayd") or build("forebay"):
                return {"broken": wrong}
            if caught := wire_tests(fault.wire, limits[wire_tests]):
                return {"caught": caught}
        return {"caught": swift_tests(rest(fault), REST_LIMIT), "beyond": True}
    finally:
        source.write_text(text)


# What came of it

def summary(caught: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in caught[:3])
    return shown + (f" and {len(caught) - 3} more" if len(caught) > 3 else "")


def verdict(outcome: dict | None) -> str:
    if outcome is None:
        return "no verdict yet"
    if "broken" in outcome:
        return "**does not compile**"
    return summary(outcome["caught"]) or "**survived**"


def write_table(faults: list[Fault], outcomes: dict) -> None:
    tried = [outcomes[fault.digest] for fault in faults if fault.digest in outcomes]
    caught = sum(bool(outcome.get("caught")) for outcome in tried)
    dates = sorted(outcome["date"] for outcome in tried)
    lines = [
        "# Planted faults and what caught them", "",
        "Written by `make faults`, not by hand. Of each fault the first tests that caught it are named, of those that",
        "were run: the tests that it names, then over the wire what it names, then its module's and the engine's.", "",
        f"{len(faults)} faults, {caught} caught, {len(tried) - caught} not, "
        f"{len(faults) - len(tried)} without a verdict; "
        f"planted between {dates[0]} and {dates[-1]}." if dates else "None was tried.", ""]
    for module in sorted({fault.module for fault in faults}):
        lines += [f"## {module}", "", "| fault | what it would do | caught by |", "|---|---|---|"]
        for fault in faults:
            if fault.module == module:
                lines.append(f"| `{fault.name}` | {fault.harm} | {verdict(outcomes.get(fault.digest))} |")
        lines.append("")
    RESULTS.write_text("\n".join(lines))


def prepare(chosen: list[Fault], quick: bool) -> dict:
    """Builds the copy, and finds out how long the tests that the faults name take without one."""
    WORK.mkdir(parents=True, exist_ok=True)
    synchronise()
    if wrong := build():
        raise Trouble(f"Without any fault the tree does not compile: {wrong}")
    limits = {}
    if tests := sorted({name for fault in chosen for choice in named(fault, quick) for name in choice}):
        limits[swift_tests] = max(LEAST, PATIENCE * expect_to_pass(swift_tests, tests))
    if wire := sorted({fault.wire for fault in chosen if fault.wire and not quick}):
        if wrong := build("forebayd") or build("forebay"):
            raise Trouble(f"Without any fault the programs are not built: {wrong}")
        limits[wire_tests] = max(LEAST, PATIENCE * expect_to_pass(wire_tests, " or ".join(f"({w})" for w in wire)))
    return limits


def plant(faults: list[Fault], chosen: list[Fault], outcomes: dict, quick: bool) -> int:
    limits = prepare(chosen, quick)
    for place, fault in enumerate(chosen, 1):
        began = time.monotonic()
        if outcome := attempt(fault, limits, quick):
            date = time.strftime("%Y-%m-%d", time.gmtime())
            outcomes[fault.digest] = outcome | {"name": fault.name, "date": date}
        OUTCOMES.write_text(json.dumps(outcomes, indent=1))
        write_table(faults, outcomes)
        seconds = time.monotonic() - began
        print(f"{place}/{len(chosen)} {fault.name} ({seconds:.0f} s): {verdict(outcome)}", flush=True)
    # What caught a fault beyond the tests that it names has to pass without it, too.
    tried = [(fault, outcomes.get(fault.digest, {})) for fault in chosen]
    beyond = sorted({name for fault, outcome in tried for name in rest(fault) if outcome.get("beyond")})
    if beyond and not build():
        expect_to_pass(swift_tests, beyond)
    caught = sum(bool(outcome.get("caught")) for _, outcome in tried)
    print(f"{len(chosen)} faults planted, {caught} caught; the table stands in {RESULTS.relative_to(ROOT)}")
    return 0 if caught == len(chosen) else 1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="only check the list against the sources")
    parser.add_argument("--only", default="", help="the faults whose names match this regular expression")
    parser.add_argument("--new", action="store_true", help="those alone that were not caught yet as they stand")
    parser.add_argument("--quick", action="store_true", help="run the quick tests alone that the faults name")
    options = parser.parse_args()
    # So that the copy is put right on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        faults = load()
        if options.check:
            found = list(breaches(faults))
            print("\n".join([*found, f"faults: {len(faults)} in the list, {len(found)} to be looked at"]))
            return 1 if found else 0
        outcomes = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
        chosen = [fault for fault in faults if re.search(options.only, fault.name)]
        if options.new:
            chosen = [fault for fault in chosen if not outcomes.get(fault.digest, {}).get("caught")]
        if options.quick:
            chosen = [fault for fault in chosen if named(fault, quick=True)]
        return plant(faults, chosen, outcomes, options.quick)
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
