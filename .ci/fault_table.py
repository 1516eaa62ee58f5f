"""The list of planted faults, Tests/Faults/*.toml, and the table of what noticed each, Tests/Faults/results.md. The
table is written by faults.py, and is also where that finds what came of earlier runs.
"""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "Tests/Faults"
RESULTS = LIST / "results.md"

# What is run of a module's faults where the tests that they name let them pass.
MODULES = {
    "Replay": ["ReplayTests", "CoreTests"],
    "RSocket": ["RSocketTests", "CoreTests"],
    "HTTP2": ["HTTP2Tests", "CoreTests"],
    "Core": ["CoreTests"],
    "Access": ["AccessTests", "CoreTests", "ServerTests"],
    "Bytes": ["BytesTests", "CoreTests"],
    "Server": ["ServerTests"],
    "TLS": ["TLSTests"],
}
# What the simulator drives, and the seeds that it is given: 0 and those that follow.
SIMULATED = {"Replay", "RSocket", "HTTP2", "Core", "Bytes"}
SEEDS = 300
UNTRIED = "no verdict yet"


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
    # Why the simulator does not notice it, if it does not.
    unseen: str

    @property
    def module(self) -> str:
        layer, target = Path(self.file).parts[1:3]
        return "Core" if layer == "Peers" else target

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join([self.right, self.wrong]).encode()).hexdigest()[:16]


@dataclass
class Verdict:
    # As the table has them; nothing where it was not tried.
    caught: str = ""
    simulator: str = ""
    date: str = ""

    @property
    def is_caught(self) -> bool:
        return self.caught.startswith("`")

    @property
    def is_noticed(self) -> bool:
        return self.simulator.startswith("seed ")


class Trouble(Exception):
    """A sentence for the person who runs this."""


def load() -> list[Fault]:
    faults = []
    for path in sorted(LIST.glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text()).items():
            given = {"tests": [], "wire": "", "unseen": ""} | entry
            try:
                faults.append(Fault(name=name, **given))
            except TypeError as error:
                raise Trouble(f"{path.relative_to(ROOT)}: {name}: {error}")
    names = [fault.name for fault in faults]
    for name in {name for name in names if names.count(name) > 1}:
        raise Trouble(f"Two faults are called {name}; give one another name.")
    return faults


# The table

# A row ends with what the fault was that was planted, and when.
ROW = re.compile(r"^\| `[\w-]+` \| [^|]* \| ([^|]*) \| ([^|]*) <!-- (\w+) ([\d-]+) --> \|$", re.M)


def verdicts() -> dict[str, Verdict]:
    """What came of the faults that were planted, by their digests."""
    text = RESULTS.read_text() if RESULTS.exists() else ""
    return {digest: Verdict(caught, simulator, date) for caught, simulator, digest, date in ROW.findall(text)}


def row(fault: Fault, verdict: Verdict | None) -> str:
    if verdict is None:
        return f"| `{fault.name}` | {fault.harm} | {UNTRIED} | |"
    simulator = verdict.simulator
    if not verdict.is_noticed:
        simulator = f"— {fault.unseen}" if fault.unseen else simulator or "—"
    return (f"| `{fault.name}` | {fault.harm} | {verdict.caught} | {simulator} "
            f"<!-- {fault.digest} {verdict.date} --> |")


def figures(faults: list[Fault], known: dict[str, Verdict]):
    tried = [known[fault.digest] for fault in faults if fault.digest in known]
    caught = sum(verdict.is_caught for verdict in tried)
    dates = sorted(verdict.date for verdict in tried)
    if not tried:
        yield "None was tried."
        return
    yield (f"{len(faults)} faults, {caught} caught by tests, {len(tried) - caught} not, {len(faults) - len(tried)} "
           f"without a verdict; planted between {dates[0]} and {dates[-1]}.")
    driven = [fault for fault in faults if fault.module in SIMULATED]
    noticed = sorted(
        int(re.findall(r"\d+", known[fault.digest].simulator)[0]) for fault in driven
        if fault.digest in known and known[fault.digest].is_noticed)
    if noticed:
        yield (f"The simulator drives what {len(driven)} of them are planted in, and notices {len(noticed)}: half of "
               f"these by seed {noticed[len(noticed) // 2]}, all by seed {noticed[-1]}.")


def table(faults: list[Fault], known: dict[str, Verdict]) -> str:
    lines = [
        "# Planted faults and what caught them", "",
        "Written by `make faults`, not by hand. Of each fault the first tests that caught it are named, of those that",
        "were run: the tests that it names, then over the wire what it names, then its module's and the engine's.",
        f"Beside them stands what the simulator says of it: the first of the seeds from 0 to {SEEDS - 1} that failed,",
        "and what was wrong then; or, behind a dash, why it notices nothing.", "",
        *figures(faults, known), ""]
    for module in sorted({fault.module for fault in faults}):
        lines += [f"## {module}", "", "| fault | what it would do | caught by | simulator |", "|---|---|---|---|"]
        lines += [row(fault, known.get(fault.digest)) for fault in faults if fault.module == module]
        lines.append("")
    return "\n".join(lines)


# The check that builds nothing

def misplaced(fault: Fault, swift: str, wire: str):
    source = ROOT / fault.file
    count = source.read_text().count(fault.right) if source.exists() else 0
    if count != 1:
        yield f"its lines occur {count} times in {fault.file}; they are to occur exactly once"
    if fault.right == fault.wrong or not fault.harm.endswith(".") or "|" in fault.harm + fault.unseen:
        yield "it changes nothing, or does not say in a sentence what it would do to a user"
    if fault.module not in MODULES:
        yield f"no tests are known for {fault.module}"
    if not fault.tests and not fault.wire:
        yield "it names no test that is to catch it"
    targets = {path.name for path in (ROOT / "Tests").glob("*/*Tests")} | set(sum(MODULES.values(), []))
    for test in fault.tests:
        if test not in targets and not re.search(rf"(struct|class|func) +{re.escape(test)}\b", swift):
            yield f"there is no test called {test}"
    for word in re.findall(r"\w+", fault.wire):
        if word not in ("and", "or", "not") and word not in wire:
            yield f"no wire test has {word} in its name"


def unanswered(fault: Fault, verdict: Verdict | None):
    """Why what is known of a fault is not enough."""
    if verdict is None or verdict.caught == UNTRIED:
        yield f"it has not been planted as it stands: run `make faults ONLY='^{fault.name}$'`"
        return
    if not verdict.is_caught:
        yield "no test catches it: write one, or mend the fault if it does no harm, and run `make faults NEW=1`"
    if fault.module in SIMULATED and not fault.unseen and not verdict.is_noticed:
        yield "the simulator does not notice it: teach it, and run `make faults SIM=1 NEW=1`; or say why in `unseen`"
    if fault.unseen and verdict.is_noticed:
        yield "the simulator does notice it: take away `unseen`"


def breaches(faults: list[Fault]):
    swift = "\n".join(path.read_text() for path in (ROOT / "Tests").rglob("*.swift"))
    wire = "\n".join(path.name + path.read_text() for path in (ROOT / "Tests/EndToEnd").glob("test_*.py"))
    known = verdicts()
    found = False
    for fault in faults:
        for breach in [*misplaced(fault, swift, wire), *unanswered(fault, known.get(fault.digest))]:
            found = True
            yield f"{fault.name}: {breach}"
    if not found and RESULTS.read_text() != table(faults, known):
        yield "results.md is not what the runner makes of the list: run `make faults NEW=1`"
