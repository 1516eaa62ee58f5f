// Bench: takes single measurements. This file contains what all kinds of cases have in common: a separate broker for
// each measurement, and the meter.

import CBench
import EventLoop
import Glibc

/// How long to measure.
struct Budget {
    /// Warm-up time, which is not measured.
    var warmUp: UInt64
    /// The broker's CPU time to measure over, and the wall time after which the measurement is abandoned.
    var cpu: UInt64
    var wall: UInt64
    /// Wall time of cases that send at a fixed rate.
    var paced: UInt64
    /// The factor by which large numbers (connections, retained messages) are divided.
    var divisor: Int

    private static let second: UInt64 = 1_000_000_000
    static let full = Budget(warmUp: second, cpu: 3 * second, wall: 30 * second, paced: 10 * second, divisor: 1)
    static let quick = Budget(
        warmUp: second / 5, cpu: second / 2, wall: 3 * second, paced: 2 * second, divisor: 10)
}

final class Bench {
    let budget: Budget
    /// Overrides the case's lag.
    let lag: Int?
    let programs: Programs
    /// The CPUs of the brokers, and the generator's CPU.
    let brokerCPUs: [Int]
    let generatorCPU: Int
    /// A directory for what brokers write.
    let scratch: String
    private var started = 0
    /// The limit on open files of this process and of the brokers.
    let openFiles: Int32
    /// Files other than the connections of the case, in either process.
    static let reservedFiles = 200
    /// Half of NATS's messages per second, once measured.
    var halfOfNATS: Double?

    init(_ options: Options, _ programs: Programs) throws(BenchError) {
        budget = options.isQuick ? .quick : .full
        lag = options.lag
        self.programs = programs
        brokerCPUs = options.brokerCPUs
        generatorCPU = options.generatorCPU
        scratch = try Files.scratch(in: options.directory)
        openFiles = cb_open_files(Int32(Catalogue.connections + Bench.reservedFiles))
        if openFiles < 1200 + Int32(Bench.reservedFiles) { throw BenchError("too few open files: raise `ulimit -n`") }
        var cpu = Int32(generatorCPU)
        let result = cb_pin(&cpu, 1)
        if result < 0 { throw BenchError("cannot run on CPU \(generatorCPU): \(SystemError.text(of: -result))") }
    }

    deinit { Files.remove(scratch) }

    /// Takes one measurement.
    func run(_ kind: Case.Kind, _ contender: Contender) throws(BenchError) -> Figure {
        switch kind {
        case .throughput(let throughput):
            var (throughput, contender) = (throughput, contender)
            contender.payload = throughput.payload
            throughput.subscribers = contender.subscribers ?? throughput.subscribers
            return try run(throughput, contender)
        case .requests(let requests): return try run(requests, contender)
        case .latency(let latency): return try run(latency, contender)
        case .acknowledged(var acknowledged):
            if acknowledged.topics > 1 {
                acknowledged.topics /= budget.divisor
                acknowledged.inFlight /= budget.divisor
            }
            return try run(acknowledged, contender)
        case .retained(let messages, let subscribers, let window, let payload):
            return try retained(messages / budget.divisor, subscribers, window: window, payload: payload, contender)
        case .joiners(var joiners):
            joiners.messages /= budget.divisor
            return try run(joiners, contender)
        case .start(let topics): return try start(topics: topics / budget.divisor, contender)
        case .iteration(let messages, let payload):
            return try iteration(messages / budget.divisor, payload: payload, contender)
        case .topics(let payload): return try topics(payload: payload, contender)
        case .patterns(let patterns): return try run(patterns, contender)
        case .fairness(let patterns): return try fairness(patterns, contender)
        case .churn: return try churn(contender)
        case .cluster(let latency): return try cluster(latency, contender)
        case .sharedTopics(let count): return try sharedTopics(count / budget.divisor, contender)
        case .idle(let connections): return try idle(connections / budget.divisor, contender)
        }
    }

    /// Runs `body` with a broker that is stopped afterwards.
    func withBroker(
        _ contender: Contender, _ body: (BrokerProcess) throws(BenchError) -> Figure
    ) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker, _) throws(BenchError) in try body(broker) }
    }

    /// Runs `body` with a broker and its directory. The broker is stopped and the directory is removed afterwards.
    func withBroker(
        _ contender: Contender, _ body: (BrokerProcess, String) throws(BenchError) -> Figure
    ) throws(BenchError) -> Figure {
        let directory = try newDirectory(for: contender)
        defer { Files.remove(directory) }
        guard contender.isShared else {
            let broker = try BrokerProcess(contender, programs, cpus: cpus(contender), directory: directory)
            defer { broker.stop() }
            return try body(broker, directory)
        }
        let upstream = try startUpstream(1, besides: contender.threads, directory)
        defer { upstream.stop() }
        let node = try startNode(contender, upstream, server: 0, directory)
        defer { node.stop() }
        try publishOnce(topics: 1, contender, node)
        return try body(node, directory)
    }

    /// Creates an empty directory. If messages are stored, it must be on a disk.
    func newDirectory(for contender: Contender) throws(BenchError) -> String {
        if contender.storage != nil || contender.isShared, Files.isInMemory(scratch) {
            throw BenchError("\(scratch) is in memory: use --directory to store messages on a disk")
        }
        started += 1
        let directory = "\(scratch)/\(started)"
        guard mkdir(directory, 0o755) == 0 else { throw BenchError("cannot create \(directory)") }
        return directory
    }

    /// One CPU per thread; the generator's CPU is used last.
    func cpus(_ contender: Contender) -> [Int] {
        Array((brokerCPUs + [generatorCPU]).prefix(contender.threads))
    }

    func version(of system: System) -> String {
        let arguments = [programs.path(system)] + system.versionArguments
        return BrokerProcess.firstLine(of: arguments, cpus: brokerCPUs, directory: scratch) ?? "?"
    }
}

/// Measures between two moments.
struct ResourceMeter {
    private let broker: BrokerProcess
    private let wall = Clock.monotonic()
    private let time: CPUTime
    private let generator = ProcessStatistics.time(of: getpid())

    init(_ broker: BrokerProcess) {
        self.broker = broker
        time = ProcessStatistics.time(of: broker.id)
    }

    /// Nanoseconds since the meter was made.
    var elapsed: UInt64 { Clock.monotonic() - wall }

    var brokerCPU: UInt64 { ProcessStatistics.time(of: broker.id).used - time.used }

    /// The resources that the processes used since the meter was made, and the broker's memory.
    func figure() -> (Figure, cpu: Double, seconds: Double) {
        var figure = Figure()
        let wall = Double(elapsed)
        let broker = ProcessStatistics.time(of: self.broker.id)
        let generator = ProcessStatistics.time(of: getpid())
        let cpu = Double(broker.used - time.used)
        let memory = ProcessStatistics.memory(of: self.broker.id)
        figure[.utilisation] = cpu / wall
        figure[.brokerWaited] = Double(broker.waited - time.waited) / wall
        figure[.generator] = Double(generator.used - self.generator.used) / wall
        figure[.generatorWaited] = Double(generator.waited - self.generator.waited) / wall
        figure[.resident] = Double(memory.resident)
        figure[.peak] = Double(memory.peak)
        return (figure, cpu, wall / 1e9)
    }
}
