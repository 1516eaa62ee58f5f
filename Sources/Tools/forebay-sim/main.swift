// forebay-sim: runs the simulator. Without flags it runs new seeds for ten seconds.

import Glibc

exit(Program.run(Array(CommandLine.arguments.dropFirst())))
