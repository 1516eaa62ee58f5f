// bench: compares Forebay with other systems. `bench --help` explains it.

import Glibc

exit(Program.run(Array(CommandLine.arguments.dropFirst())))
