// Program: the simulator's command line and output.

import Glibc
import Simulator

enum Program {
    private static let usage = """
        usage: forebay-sim [--seed N | --from N] [--seeds COUNT | --seconds S] [--features LIST] [--with LIST]
                   [--cluster | --brokers] [--trace] [--hash]

          --seed N         run only this seed
          --from N         begin with this seed; the default differs each time
          --seeds COUNT    run this number of seeds
          --seconds S      run seeds for S seconds; default 10
          --features LIST  use only these features, separated by commas: \
        \(Feature.allCases.map(\.rawValue).joined(separator: ","))
          --with LIST      give every run these rare features: overload, store, times, numbers,
                           store-failures, crashes, patterns
          --cluster        run nodes that share topics over a model of NATS, instead of a broker with clients
          --brokers        run whole brokers with clients that share topics over a model of NATS; of --with, only
                           patterns counts
          --trace          print every event
          --hash           print the hash of each run's events

        Exits with 1 at the first seed that fails; it prints the violated rule and how to run the seed again.

        """

    private struct Arguments {
        var from: UInt64?
        var seeds: Int?
        var seconds: Double?
        var permitted = Feature.usual
        var required: Set<Feature> = []
        /// What to run, if not a broker with clients.
        var cluster: String?
        var isTracing = false
        var isHashing = false
        var features: String?
    }

    static func run(_ words: [String]) -> Int32 {
        guard let arguments = parse(words) else {
            write(usage)
            return words.contains("-h") || words.contains("--help") ? 0 : 2
        }
        reportCrashes()
        let began = now()
        var seed = arguments.from ?? newSeed()
        var count = 0
        var published = 0
        var received = 0
        var resumed = 0
        var mostHeap = 0
        while true {
            if let seeds = arguments.seeds, count >= seeds { break }
            if arguments.seeds == nil, now() - began >= arguments.seconds ?? 10 { break }
            crashing = seed
            let print: ((String) -> Void)? = arguments.isTracing ? { write($0 + "\n") } : nil
            let outcome =
                switch arguments.cluster {
                case "--cluster": ClusterSimulation.run(seed: seed, print: print)
                case "--brokers":
                    BrokersSimulation.run(
                        seed: seed, withPatterns: arguments.required.contains(.patterns), print: print)
                default:
                    Simulation.run(
                        seed: seed, permitted: arguments.permitted, required: arguments.required, print: print)
                }
            if arguments.isHashing { write("\(seed) \(hex(outcome.hash))\n") }
            if let fault = outcome.fault {
                write("seed \(seed) failed at step \(outcome.step): \(fault)\n")
                write("  \(outcome.plan)\n")
                let features = arguments.features.map { " --features \($0)" } ?? ""
                let required = arguments.required.map(\.rawValue).sorted().joined(separator: ",")
                let with = (arguments.cluster.map { " \($0)" } ?? "") + (required.isEmpty ? "" : " --with \(required)")
                let commit = commit().map { ", at commit \($0)" } ?? ""
                write("  again: \(outcome.command)\(features)\(with)\(commit)\n")
                return 1
            }
            count += 1
            published += outcome.published
            received += outcome.received
            resumed += outcome.resumed
            mostHeap = max(mostHeap, outcome.mostHeap)
            seed &+= 1
        }
        let time = (now() - began).rounded()
        write("\(count) seeds from \(seed &- UInt64(count)) passed in \(Int(time)) s: ")
        write("\(published) messages published, \(received) received, \(resumed) sessions resumed, ")
        write(mostHeap == 0 ? "memory was not measured\n" : "\(mostHeap >> 10) KiB allocated at peak\n")
        return 0
    }

    private static func parse(_ words: [String]) -> Arguments? {
        var arguments = Arguments()
        var rest = words[...]
        while let word = rest.popFirst() {
            switch word {
            case "--cluster", "--brokers": arguments.cluster = word
            case "--trace": arguments.isTracing = true
            case "--hash": arguments.isHashing = true
            case "--seed":
                guard let seed = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                arguments.from = seed
                arguments.seeds = 1
            case "--from":
                guard let seed = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                arguments.from = seed
            case "--seeds":
                guard let count = rest.popFirst().flatMap({ Int($0) }) else { return nil }
                arguments.seeds = count
            case "--seconds":
                guard let seconds = rest.popFirst().flatMap({ Double($0) }) else { return nil }
                arguments.seconds = seconds
            case "--features":
                guard let list = rest.popFirst(), let features = features(list) else { return nil }
                arguments.permitted = features
                arguments.features = list
            case "--with":
                guard let features = rest.popFirst().flatMap(features) else { return nil }
                arguments.required = features
            default: return nil
            }
        }
        return arguments
    }

    private static func features(_ list: String) -> Set<Feature>? {
        let names = list.split(separator: ",").map { Feature(rawValue: String($0)) }
        return names.contains(nil) ? nil : Set(names.compactMap { $0 })
    }

    /// The commit of the working directory, if it is a clone: with another commit, the same seed may produce another
    /// run.
    private static func commit() -> String? {
        guard let git = popen("git describe --always --dirty 2>/dev/null", "r") else { return nil }
        defer { pclose(git) }
        var line = [CChar](repeating: 0, count: 100)
        guard fgets(&line, 100, git) != nil else { return nil }
        return String(decoding: line.prefix { $0 != 10 && $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    /// A seed with room for many consecutive ones, and short enough to be passed on.
    private static func newSeed() -> UInt64 { UInt64.random(in: 1...999_999) * 1_000_000 }

    private static func hex(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static func reportCrashes() {
        for number in [SIGILL, SIGTRAP, SIGSEGV, SIGABRT, SIGBUS] { signal(number, reportCrash) }
    }
}

/// The current seed, in case the process crashes.
nonisolated(unsafe) private var crashing: UInt64 = 0

/// Called by a signal handler: allocates no memory.
private func reportCrash(_ number: Int32) {
    var digits: (UInt64, UInt64, UInt64) = (0, 0, 0)
    withUnsafeMutableBytes(of: &digits) { text in
        var place = text.count - 1
        text[place] = 10
        var rest = crashing
        repeat {
            place -= 1
            text[place] = UInt8(48 + rest % 10)
            rest /= 10
        } while rest > 0
        let words: StaticString = "\nThe engine stopped the process. To run it again: forebay-sim --seed "
        _ = Glibc.write(2, words.utf8Start, words.utf8CodeUnitCount)
        _ = Glibc.write(2, text.baseAddress! + place, text.count - place)
    }
    signal(number, SIG_DFL)
    raise(number)
}

private func write(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
        var rest = UnsafeRawBufferPointer(bytes)
        while let start = rest.baseAddress, rest.count > 0 {
            let count = Glibc.write(1, start, rest.count)
            guard count > 0 else { return }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }
}
