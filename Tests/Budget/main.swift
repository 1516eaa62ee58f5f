// Budget: runs fixed scenarios on the engine, whose cost is counted without a clock. Without an argument it lists them,
// one per line: name, unit and description. With a name it runs that scenario, with the part to be counted within
// `count_instructions`, and prints the number of units and of allocations. `.ci/budget.py` runs it under callgrind.

import Glibc

exit(Budget.run(Array(CommandLine.arguments.dropFirst())))
