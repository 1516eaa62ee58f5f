// RequestsRun: HTTP/2 requests made by h2load as fast as they are answered: publishes by POST to Forebay, and a file of
// the same size from file servers. Measures the server's CPU time per request.

import EventLoop
import Glibc

/// Requests at full speed.
struct Requests {
    var connections = 10
    /// Concurrent requests per connection.
    var streams = 32
    /// Bytes of a published body, or of the file.
    var body = 128
}

extension Bench {
    private static let h2load = "/usr/bin/h2load"
    /// How long h2load may overrun its time, in nanoseconds.
    private static let tardiness: UInt64 = 10_000_000_000

    func run(_ requests: Requests, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker, directory) throws(BenchError) in
            try Files.write(String(repeating: "x", count: requests.body), to: directory + "/" + Launch.file)
            let base = "http://127.0.0.1:\(broker.subscriberPort)/"
            var words = [
                Bench.h2load, "--clients=\(requests.connections)", "--max-concurrent-streams=\(requests.streams)",
            ]
            if contender.system.servesFiles {
                words.append(base + Launch.file)
            } else {
                words += ["--data=" + Launch.file, base + "v1/topics/\(contender.system.wire.name(0))/messages"]
            }
            _ = try load(words, for: budget.warmUp, directory)
            let meter = ResourceMeter(broker)
            let (count, generator) = try load(words, for: budget.paced, directory)
            var (figure, cpu, seconds) = meter.figure()
            figure[.generator] = generator / seconds
            // Not available for another process.
            figure[.generatorWaited] = nil
            figure[.cpuPerRequest] = cpu / count
            figure[.requestsPerCPUSecond] = count / cpu * 1e9
            figure[.requestsPerSecond] = count / seconds
            return figure
        }
    }

    /// Runs h2load for `time` nanoseconds; returns the number of successful requests and h2load's CPU time in seconds.
    private func load(
        _ words: [String], for time: UInt64, _ directory: String
    ) throws(BenchError) -> (count: Double, cpu: Double) {
        let log = directory + "/h2load"
        unlink(log)
        let arguments = [words[0], "--duration=\(time / 1_000_000)ms"] + words.dropFirst()
        let id = try BrokerProcess.spawn(arguments, cpus: [generatorCPU], directory: directory, log: log)
        let deadline = Clock.monotonic() + time + Bench.tardiness
        var status: Int32 = 0
        var usage = rusage()
        while wait4(id, &status, WNOHANG, &usage) == 0 {
            if Clock.monotonic() > deadline {
                kill(id, SIGKILL)
                waitpid(id, &status, 0)
                throw BenchError("h2load did not terminate")
            }
            poll(nil, 0, 5)
        }
        let text = Machine.text(ofFile: log) ?? ""
        let count = try Bench.succeeded(text)
        let cpu = [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
        return (Double(count), cpu)
    }

    /// Parses h2load's summary of requests: all requests must have succeeded.
    static func succeeded(_ text: String) throws(BenchError) -> Int {
        for line in text.split(separator: "\n") where line.hasPrefix("requests: ") {
            var counts: [Substring: Int] = [:]
            for part in line.dropFirst("requests: ".count).split(separator: ",") {
                let words = part.split(separator: " ")
                if words.count == 2 { counts[words[1]] = Int(words[0]) }
            }
            guard let done = counts["done"], let succeeded = counts["succeeded"], done == succeeded, done > 0 else {
                throw BenchError("not every request succeeded: \(line)")
            }
            return succeeded
        }
        throw BenchError("h2load printed no result: \(Connector.printable(Array(text.utf8)))")
    }
}
