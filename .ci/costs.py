"""Measures the engine's operations with 1,000, 10,000 and 100,000 of anything that could affect their cost.

Tests/Budget sets up a crowd of one kind and runs each operation a few times; only the operations are counted. The cost
must not grow with the crowd: with 100,000 it may exceed the cost with 1,000 by a quarter plus a constant, which allows
for logarithmic growth and for tables of other sizes. The figures are recorded in Tests/Budget/costs.txt, and as a
readable table in Bench/costs.md.
"""

import re
import statistics
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "Tests/Budget/costs.txt"
DOCUMENT = ROOT / "Bench/costs.md"
SIZES = [1_000, 10_000, 100_000]
# By how much an operation's cost may exceed its cost with the smallest crowd, or its recorded cost: a fraction of it,
# plus a number of instructions.
PART = 0.25
SLACK = 2_000
# Time limit for one crowd, which takes about 20 s if nothing else runs.
SECONDS = 240
DUMP = re.compile(r"^desc: Trigger: Client Request: (\S+)$.*?^totals: (\d+)$", re.MULTILINE | re.DOTALL)

# Instructions by crowd, operation and size: for one operation, or for each member of the crowd.
Costs = dict[tuple[str, str], dict[int, float]]


class Names:
    """The crowds and operations listed by the program, with readable titles."""

    def __init__(self, listing: str):
        self.crowds, self.operations = {}, {}
        for line in listing.splitlines():
            kind, name, title = line.split("\t")
            (self.crowds if kind == "crowd" else self.operations)[name] = title

    def cells(self):
        """The largest crowds come first, so that none of them runs alone at the end."""
        return [(crowd, size) for size in reversed(SIZES) for crowd in self.crowds]


def count(run, program: Path, folder: Path, crowd: str, size: int) -> dict[str, tuple[float, int]]:
    """Counts the operations with one crowd: instructions per unit, and the number of units. `run` runs a command."""
    out = folder / f"costs-{crowd}-{size}.out"
    for old in folder.glob(out.name + "*"):
        old.unlink()
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    told = run([*command, str(program), "costs", crowd, str(size)], SECONDS)
    units = dict(line.split("\t") for line in told.splitlines())
    counted = defaultdict(list)
    for dump in folder.glob(out.name + ".*"):
        if match := DUMP.search(dump.read_text()):
            counted[match[1]].append(int(match[2]))
    # All four ticks of the second count, because work may be due in any of them.
    mean = {"tick": statistics.fmean}
    return {name: (mean.get(name, min)(each) / int(units[name]), int(units[name])) for name, each in counted.items()}


def gather(cells) -> tuple[Costs, dict[tuple[str, str], int]]:
    """`cells` yields crowd, size, and the result of `count`. The second result says which costs are for each member."""
    costs, shared = defaultdict(dict), {}
    for crowd, size, counted in cells:
        for operation, (cost, units) in counted.items():
            costs[crowd, operation][size] = cost
            shared[crowd, operation] = units > 1
    return costs, shared


# Crowds for which the measured second contains one event for each member: the reservations of channels end, and the
# subscribers' connections have just been used. That is the cost of the events, in slices of a tick.
GROWING = {(crowd, "tick") for crowd in ("channels", "waiting", "subscribers", "block", "full", "matching")}


def complaints(costs: Costs, shared, kept: Costs, record: str):
    """Yields a sentence for each violation."""
    for cell in {**costs, **kept}:
        crowd, operation = cell
        name, now, then = f"{crowd}, {operation}", costs.get(cell), kept.get(cell)
        if not now:
            yield f"{name} is on record but is not counted any more; remove it with {record}."
            continue
        slack = 0 if shared[cell] else SLACK
        first = now.get(SIZES[0])
        for size in () if cell in GROWING else SIZES[1:]:
            if first is not None and size in now and now[size] > first * (1 + PART) + slack:
                yield (f"{name}: {now[size]:,.0f} instructions with {size:,}, but {first:,.0f} with {SIZES[0]:,}; the "
                       f"cost must not grow. To find the cause: callgrind_annotate --inclusive=yes "
                       f".build/budget/costs-{crowd}-{size}.out.N | swift demangle.")
        for size in SIZES if then else []:
            if size in now and size in then and now[size] > then[size] * (1 + PART) + slack:
                yield (f"{name}: {now[size]:,.0f} instructions with {size:,}, but {then[size]:,.0f} are on record; if "
                       f"the increase is justified, record it with {record}.")
        if not then:
            yield f"{name} is not on record; record it with {record}."


def read() -> Costs:
    kept = {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else []:
        if line and not line.startswith("#"):
            crowd, operation, *each = line.split()
            kept[crowd, operation] = {size: float(cost) for size, cost in zip(SIZES, each) if cost != "-"}
    return kept


def write(names: Names, costs: Costs, shared, record: str, tools: str) -> None:
    lines = [
        "# The cost of operations with 1,000, 10,000 and 100,000 objects of one kind, in instructions.",
        f"# Written by `{record}` (.ci/costs.py); checked by `make test`.",
        f"# Recorded with {tools}",
        "#",
        f"# {'crowd':14} {'operation':14}" + "".join(f"{size:13}" for size in SIZES),
    ]
    for crowd, operation in ((c, o) for c in names.crowds for o in names.operations if (c, o) in costs):
        each = costs[crowd, operation]
        lines.append(f"{crowd:16} {operation:14}" + "".join(f" {figure(each.get(size)):>12}" for size in SIZES))
    KEPT.write_text("\n".join(lines) + "\n")
    DOCUMENT.write_text(document(names, costs, shared, record))


def figure(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.0f}"


def thousands(cost: float | None) -> str:
    return "–" if cost is None else f"{cost / 1000:,.1f}"


def document(names: Names, costs: Costs, shared, record: str) -> str:
    heads = [names.operations[operation] for operation in names.operations]
    lines = [
        "# The cost of operations with many objects",
        "",
        f"Written by `{record}`: thousands of instructions of the engine, without the kernel. Each operation is",
        "measured with 1,000, 10,000 and 100,000 objects of one kind. `make test` fails if the cost with a larger",
        "number exceeds the cost with 1,000 by more than a quarter.",
        "",
        "The cost of a message that all objects receive, or that each of them must count, is given per object",
        "(*each*). The cost of a tick is the mean of the four ticks in a second in which nothing is due. A dash means",
        "that the operation could not be measured in time.",
        "",
        "| with | " + " | ".join(heads) + " |",
        "|---|" + "---:|" * len(heads),
    ]
    for crowd, title in names.crowds.items():
        for size in SIZES:
            row = []
            for operation in names.operations:
                cost = costs.get((crowd, operation), {}).get(size)
                each = " each" if shared.get((crowd, operation)) and cost is not None else ""
                row.append(thousands(cost) + each)
            lines.append(f"| {size:,} {title} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"
