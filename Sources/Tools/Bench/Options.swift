// Options: the command line of bench.

import CBench
import EventLoop

struct Options {
    var rounds = 5
    var isQuick = false
    var cases = Catalogue.cases.map(\.name)
    var systems = System.allCases
    var json: String?
    /// How many messages a publisher at full speed may be ahead; nil for the case's value.
    var lag: Int?
    var programs: [System: String] = [:]
    var brokerCPUs: [Int]
    var generatorCPU: Int

    static let usage = """
        usage: bench [options]
               bench streams [ROUNDS]

        Measures Forebay beside NATS, Redis, Mosquitto and a byte pump that frames nothing, and its HTTP beside
        a gRPC server in Python, nghttpd and h2o: CPU time per delivery, latencies, memory. Each figure has a
        broker of its own, on a CPU of its own; the systems take turns. `bench streams` measures shareReplay
        of the Swift library beside a naive one.

        options:
          --case NAME[,NAME…]      these cases only (see --list)
          --system NAME[,NAME…]    these systems only: \(System.allCases.map(\.rawValue).joined(separator: ", "))
          --rounds N               figures per case and system (default 5)
          --quick                  short figures and smaller numbers, for development: they say little
          --lag N                  at full speed, how many messages a publisher may be ahead of its slowest
                                   reading subscriber (default: 1 MiB of payload, 64 to 8,192 messages)
          --json FILE              write every figure there as well
          --forebayd PATH, --nats PATH, --redis PATH, --mosquitto PATH, --nghttpd PATH, --h2o PATH
                                   where the programs are; --grpcio PATH: a Python that has grpcio
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
        guard let last = cpus.last else { throw BenchError("cannot tell which CPUs there are") }
        generatorCPU = last
        brokerCPUs = cpus.count > 1 ? Array(cpus.dropLast()) : cpus
        programs = [
            .forebay: directory + "/forebayd", .pump: directory + "/bench", .redis: "/usr/bin/redis-server",
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
                throw BenchError("there is no option \(word), or it needs a value")
            }
            try set(word, value)
        }
    }

    private mutating func set(_ word: String, _ value: String) throws(BenchError) {
        let list = value.split(separator: ",").map(String.init)
        switch word {
        case "--rounds":
            guard let number = Int(value), (1...1000).contains(number) else {
                throw BenchError("--rounds \(value) is no number from 1 to 1000")
            }
            rounds = number
        case "--lag":
            guard let number = Int(value), (1...1_000_000).contains(number) else {
                throw BenchError("--lag \(value) is no number from 1 to 1,000,000")
            }
            lag = number
        case "--case":
            if let unknown = list.first(where: { name in !Catalogue.cases.contains { $0.name == name } }) {
                throw BenchError("there is no case \(unknown): see bench --list")
            }
            cases = list
        case "--system":
            systems = []
            for name in list {
                guard let system = System(rawValue: name) else { throw BenchError("there is no system \(name)") }
                systems.append(system)
            }
        case "--json": json = value
        case "--broker-cpus": brokerCPUs = try Options.cpus(list)
        case "--generator-cpu": generatorCPU = try Options.cpus(list)[0]
        case "--forebayd": programs[.forebay] = value
        default:
            guard let system = System(rawValue: String(word.dropFirst(2))), word.hasPrefix("--") else {
                throw BenchError("there is no option \(word): see bench --help")
            }
            programs[system] = value
        }
    }

    private static func cpus(_ list: [String]) throws(BenchError) -> [Int] {
        let numbers = list.compactMap { Int($0) }
        guard numbers.count == list.count, !numbers.isEmpty else {
            throw BenchError("a CPU is a number from 0, several are separated by commas")
        }
        return numbers
    }
}
