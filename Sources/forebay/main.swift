// forebay: the command-line client of the broker.

import Glibc

exit(Program.run(Array(CommandLine.arguments.dropFirst())))
