// forebay: the command-line client of the broker.

import Glibc

exit(Program.run(Program.words()))
