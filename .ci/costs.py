"""What the engine's operations cost beside 1,000, 10,000 and 100,000 of whatever their cost could depend on.

Tests/Budget makes a crowd of one kind ready, and does each operation a few times; only that is counted. The cost must
not grow with the crowd: that of 100,000 may be a quarter more than that of 1,000, and a little, which is room for what
grows by the logarithm, and for tables of other sizes. The figures themselves are kept in Tests/Budget/costs.txt, and as
a table for people in Bench/costs.md.
"""

import re
import statistics
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "Tests/Budget/costs.txt"
DOCUMENT = ROOT / "Bench/costs.md"
SIZES = [1_000, 10_000, 100_000]
# By which an operation may cost more beside a larger crowd, or than it did when it was recorded: a part, and so many
# instructions.
PART = 0.25
SLACK = 2_000
# Of one crowd, which takes some 20 alone.
SECONDS = 240
DUMP = re.compile(r"^desc: Trigger: Client Request: (\S+)$.*?^totals: (\d+)$", re.MULTILINE | re.DOTALL)

# By crowd, operation and size: instructions of one, or of one for each of the crowd.
Costs = dict[tuple[str, str], dict[int, float]]


class Names:
    """What there is to count, as the program tells it, with titles for people."""

    def __init__(self, listing: str):
        self.crowds, self.operations = {}, {}
        for line in listing.splitlines():
            kind, name, title = line.split("\t")
            (self.crowds if kind == "crowd" else self.operations)[name] = title

    def cells(self):
        """The largest first, so that none of them is left alone at the end."""
        return [(crowd, size) for size in reversed(SIZES) for crowd in self.crowds]


def count(run, program: Path, folder: Path, crowd: str, size: int) -> dict[str, tuple[float, int]]:
    """The operations beside one crowd: instructions, and for how many units those are. `run` runs a command."""
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
    # All quarters of the second count: things may be due in one of them.
    mean = {"tick": statistics.fmean}
    return {name: (mean.get(name, min)(each) / int(units[name]), int(units[name])) for name, each in counted.items()}


def gather(cells) -> tuple[Costs, dict[tuple[str, str], int]]:
    """`cells` yields crowd, size, and what `count` returned. The second are units of one."""
    costs, shared = defaultdict(dict), {}
    for crowd, size, counted in cells:
        for operation, (cost, units) in counted.items():
            costs[crowd, operation][size] = cost
            shared[crowd, operation] = units > 1
    return costs, shared


# Where something is due for each of the crowd in the second that is counted, once: the reservations of channels end,
# and the connections that subscribers came on have just been used. That is the cost of events, in slices of a tick.
GROWING = {(crowd, "tick") for crowd in ("channels", "waiting", "subscribers", "block", "full")}


def complaints(costs: Costs, shared, kept: Costs, record: str):
    """What is wrong with which crowd and operation."""
    for cell in {**costs, **kept}:
        crowd, operation = cell
        name, now, then = f"{crowd}, {operation}", costs.get(cell), kept.get(cell)
        if not now:
            yield f"{name} is on record and is counted no more; forget it with {record}."
            continue
        slack = 0 if shared[cell] else SLACK
        first = now.get(SIZES[0])
        for size in () if cell in GROWING else SIZES[1:]:
            if first is not None and size in now and now[size] > first * (1 + PART) + slack:
                yield (f"{name}: {now[size]:,.0f} instructions beside {size:,}, where it is {first:,.0f} beside "
                       f"{SIZES[0]:,}; it must not grow. See where they go: callgrind_annotate --inclusive=yes "
                       f".build/budget/costs-{crowd}-{size}.out.N | swift demangle.")
        for size in SIZES if then else []:
            if size in now and size in then and now[size] > then[size] * (1 + PART) + slack:
                yield (f"{name}: {now[size]:,.0f} instructions beside {size:,}, where {then[size]:,.0f} are on "
                       f"record; if they are worth it, record them with {record}.")
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
        "# What operations cost beside a crowd of 1,000, 10,000 and 100,000: instructions.",
        f"# Written by `{record}`, which .ci/costs.py carries out; compared by `make test`.",
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
        "# The cost of an operation next to many others",
        "",
        f"Written by `{record}`: thousands of instructions of the engine, without the kernel. Each operation runs",
        "next to 1,000, 10,000 and 100,000 of one kind. `make test` fails if it costs more than a quarter above its",
        "cost next to 1,000.",
        "",
        "The cost of a message that all of them receive, or that each of them has to count, is given per member",
        "(*each*). A tick is the mean of the four ticks in a second in which nothing is due. A dash means that it",
        "could not be counted in time.",
        "",
        "| next to | " + " | ".join(heads) + " |",
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
