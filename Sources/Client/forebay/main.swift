// forebay: the command-line client of the broker.

import Glibc

Program.openStandardDescriptors()
exit(Program.run(Program.words()))
