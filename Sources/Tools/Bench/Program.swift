// Program: runs what the command line requests, round by round; within each case the systems alternate.

import CBench
import CLMDB
import EventLoop
import Glibc

enum Program {
    static func run(_ words: [String]) -> Int32 {
        do throws(BenchError) {
            if words.first == "pump" { return try pump(Array(words.dropFirst())) }
            if words.first == "lmdb" {
                print("LMDB \(MDB_VERSION_MAJOR).\(MDB_VERSION_MINOR).\(MDB_VERSION_PATCH)")
                return 0
            }
            if words.first == "streams" { return try streams(Array(words.dropFirst())) }
            if words.contains("--help") || words.contains("-h") {
                print(Options.usage, terminator: "")
                return 0
            }
            if words.contains("--list") {
                for entry in Catalogue.cases { print(Text.pad(entry.name, Catalogue.nameWidth) + entry.title) }
                return 0
            }
            return try measure(Options(words, directory: directory()))
        } catch {
            Text.complain("bench: \(error)")
            return 1
        }
    }

    /// `bench pump PORT` runs the byte pump.
    private static func pump(_ words: [String]) throws(BenchError) -> Int32 {
        guard let port = words.first.flatMap({ UInt16($0) }) else {
            print("one epoll loop in C")
            return 0
        }
        throw BenchError("the pump failed: \(SystemError.text(of: -cb_pump(Int32(port))))")
    }

    /// `bench streams [ROUNDS]` measures the streams library, which needs no other processes.
    private static func streams(_ words: [String]) throws(BenchError) -> Int32 {
        guard let rounds = Int(words.first ?? "9"), (1...1000).contains(rounds) else {
            throw BenchError("bench streams takes a number of rounds, 1 to 1000")
        }
        StreamsRun.run(rounds: rounds, values: 300_000)
        return 0
    }

    private static func measure(_ options: Options) throws(BenchError) -> Int32 {
        _ = signal(SIGPIPE, SIG_IGN)
        let programs = Programs(paths: options.programs.mapValues(Files.absolute))
        let bench = try Bench(options, programs)
        let cases = Catalogue.cases.filter { options.cases.contains($0.name) }.compactMap { entry -> Case? in
            var entry = entry
            entry.contenders.removeAll { !options.systems.contains($0.system) }
            return entry.contenders.isEmpty ? nil : entry
        }
        var results = Results(cases: cases)
        for round in 1...options.rounds {
            for (place, entry) in cases.enumerated() {
                for index in turns(entry.contenders.count, round) {
                    take(bench, entry, index, round, &results.series[place][index])
                }
            }
        }
        results.freeCPUs = options.brokerCPUs.filter { $0 != options.generatorCPU }.count
        results.machine = Machine.describe(bench, options)
        results.systems = System.allCases.filter { system in
            cases.contains { $0.contenders.contains { $0.system == system } }
        }.map { ($0.rawValue, bench.version(of: $0)) }
        results.halfOfNATS = bench.halfOfNATS
        print(results.table(), terminator: "")
        if let path = options.json { try Files.write(results.json(), to: path) }
        return results.series.contains { $0.contains { !$0.failures.isEmpty } } ? 1 : 0
    }

    /// Alternate rounds run in reverse order, so that no system always follows the same other one.
    private static func turns(_ count: Int, _ round: Int) -> [Int] {
        round % 2 == 1 ? Array(0..<count) : (0..<count).reversed()
    }

    private static func take(
        _ bench: Bench, _ entry: Case, _ index: Int, _ round: Int, _ series: inout Series
    ) {
        let contender = entry.contenders[index]
        let name = Text.pad(entry.name, Catalogue.nameWidth)
        let what = "round \(round)  " + name + Text.pad(contender.name, 37)
        do throws(BenchError) {
            let figure = try bench.run(entry.kind, contender)
            series.figures.append(figure)
            let value = figure[entry.compared].map { Text.value($0, entry.compared) } ?? "-"
            Text.complain("\(what)\(entry.compared.rawValue) \(value)")
        } catch {
            series.failures.append(error.description)
            Text.complain("\(what)FAILED: \(error)")
        }
    }

    /// The directory of this program.
    private static func directory() -> String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        let path = String(decoding: buffer.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    }
}
