// Budget: drives the engine through scenarios of a fixed course, so that what they cost can be counted without a clock.
// Without an argument it lists them, one a line: name, unit and what it is. With a name it runs that scenario, the part
// to be counted within `count_instructions`, and prints how many units were done and how often memory was allocated
// meanwhile. `.ci/budget.py` runs it under callgrind.

import Glibc

exit(Budget.run(Array(CommandLine.arguments.dropFirst())))
