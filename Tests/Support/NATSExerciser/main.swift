// nats-exerciser: one connection to a real NATS server. Tests run it as a process, write commands to its standard
// input, and read what happens from its standard output.

Exerciser.main(CommandLine.arguments)
