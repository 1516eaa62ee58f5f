// Options: the command line of bench.

import CBench
import EventLoop

struct Options {
    var rounds = 5
    var isQuick = false
    var cases = Catalogue.cases.map(\.name)
    var systems = System.allCases
    var json: String?
    /// Where brokers store what they write. By convention, /var/tmp is on a disk.
    var directory = "/var/tmp"
    /// How many messages a publisher at full speed may be ahead; nil for the case's value.
    var lag: Int?
    var programs: [System: String] = [:]
    var brokerCPUs: [Int]
    var generatorCPU: Int

    static let usage = """
        usage: bench [options]
               bench streams [ROUNDS]

        Compares Forebay with NATS, Redis, Mosquitto and a byte pump without framing, and its HTTP listener with
        a gRPC server in Python, nghttpd and h2o: CPU time per delivery, latencies, memory, stored messages.
        Each figure comes from a new broker on its own CPU; the systems alternate. `bench streams` compares
        shareReplay of the Swift library with a naive implementation.

        options:
          --case NAME[,NAME…]      only these cases (see --list)
          --system NAME[,NAME…]    only these systems: \(System.allCases.map(\.rawValue).joined(separator: ", "))
          --rounds N               figures per case and system (default 5)
          --quick                  short measurements and smaller numbers, for development; not reliable
          --lag N                  at full speed, how many messages a publisher may be ahead of the slowest
                                   subscriber that reads (default: 1 MiB of payload, 64 to 8,192 messages)
          --json FILE              also write every figure to FILE
          --directory DIR          where the systems store messages, on a disk (default: /var/tmp); they are
                                   removed afterwards
          --forebayd PATH, --nats PATH, --redis PATH, --mosquitto PATH, --nghttpd PATH, --h2o PATH
                                   paths of the programs; --grpcio PATH: a Python that has grpcio
          --broker-cpus A[,B]      CPUs of the broker (default: all but the last)
          --generator-cpu C        CPU of the load generator (default: the last)
          --list                   print the cases
          -h, --help               print this

        """

    /// - Parameter directory: the directory of the bench program.
    init(_ words: [String], directory: String) throws(BenchError) {
        var buffer = [Int32](repeating: 0, count: 1024)
        let count = cb_cpus(&buffer, Int32(buffer.count))
        let cpus = buffer.prefix(max(0, Int(count))).map(Int.init)
        guard let last = cpus.last else { throw BenchError("cannot determine the available CPUs") }
        generatorCPU = last
        brokerCPUs = cpus.count > 1 ? Array(cpus.dropLast()) : cpus
        programs = [
            .forebay: directory + "/forebayd", .pump: directory + "/bench", .lmdb: directory + "/bench",
            .redis: "/usr/bin/redis-server",
            .mosquitto: "/usr/sbin/mosquitto", .nats: ".venv-bench/bin/nats-server",
            .grpcio: ".venv-bench/bin/python", .nghttpd: "/usr/sbin/nghttpd", .h2o: "/usr/bin/h2o",
        ]
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--quick" {
                isQuick = true
                continue
            }
            guard let value = rest.popFirst() else {
                throw BenchError("there is no option \(word), or its value is missing")
            }
            try set(word, value)
        }
    }

    private mutating func set(_ word: String, _ value: String) throws(BenchError) {
        let list = value.split(separator: ",").map(String.init)
        switch word {
        case "--rounds":
            guard let number = Int(value), (1...1000).contains(number) else {
                throw BenchError("--rounds takes a number from 1 to 1000, not \(value)")
            }
            rounds = number
        case "--lag":
            guard let number = Int(value), (1...1_000_000).contains(number) else {
                throw BenchError("--lag takes a number from 1 to 1,000,000, not \(value)")
            }
            lag = number
        case "--case":
            if let unknown = list.first(where: { name in !Catalogue.cases.contains { $0.name == name } }) {
                throw BenchError("there is no case \(unknown); see bench --list")
            }
            cases = list
        case "--system":
            systems = []
            for name in list {
                guard let system = System(rawValue: name) else { throw BenchError("there is no system \(name)") }
                systems.append(system)
            }
        case "--json": json = value
        case "--directory": directory = Files.absolute(value)
        case "--broker-cpus": brokerCPUs = try Options.cpus(list)
        case "--generator-cpu": generatorCPU = try Options.cpus(list)[0]
        case "--forebayd": programs[.forebay] = value
        default:
            guard let system = System(rawValue: String(word.dropFirst(2))), word.hasPrefix("--") else {
                throw BenchError("there is no option \(word); see bench --help")
            }
            programs[system] = value
        }
    }

    private static func cpus(_ list: [String]) throws(BenchError) -> [Int] {
        let numbers = list.compactMap { Int($0) }
        guard numbers.count == list.count, !numbers.isEmpty else {
            throw BenchError("a CPU is a number of 0 or more; separate several by commas")
        }
        return numbers
    }
}
