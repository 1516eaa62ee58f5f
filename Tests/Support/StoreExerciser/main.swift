// store-exerciser: writes a random workload to a store, and compares stores with what a workload has left. Tests run it
// as a process of its own, to record what it writes, to let writes fail, and to end it.

Exerciser.main(CommandLine.arguments)
