// bench: measures Forebay beside others. `bench --help` explains it.

import Glibc

exit(Program.run(Array(CommandLine.arguments.dropFirst())))
