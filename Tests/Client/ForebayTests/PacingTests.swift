// Pacing: a producer on one side of a broker waits for a consumer's demand on the other side. Broker, producer and
// consumer are processes; the last two count in shared memory.

import Foundation
import Testing

@testable import Forebay
@testable import pacer

/// Set FOREBAY_HEAVY=1 for the full sizes; see CONTRIBUTING.md.
private let isHeavy = getenv("FOREBAY_HEAVY") != nil

/// The number of bytes by which each of the three processes may grow after a fifth of the run.
private let growth = 4 << 20

struct Pace: CustomTestStringConvertible, Sendable {
    var wire: Wire
    /// `subscribe` or `iterate`.
    var form: String
    var window: Int

    var count: Int {
        if isHeavy { return window == 1 ? 100_000 : 10_000_000 }
        return window == 1 ? 1_000 : 20_000
    }

    var testDescription: String { "\(form) \(count) over \(wire), \(window) at a time" }

    static let all = Wire.allCases.flatMap { wire in
        ["subscribe", "iterate"].flatMap { form in
            [1, 64].map { Pace(wire: wire, form: form, window: $0) }
        }
    }
}

/// The memory of processes, in bytes.
private struct Memory {
    private var early: [pid_t: Int] = [:]
    private var late: [pid_t: Int] = [:]

    mutating func sample(_ processes: [ChildProcess], isEarly: Bool) {
        for process in processes {
            guard let bytes = process.residentBytes, bytes > 0 else { continue }
            if isEarly {
                early[process.pid] = max(early[process.pid] ?? 0, bytes)
            } else {
                late[process.pid] = max(late[process.pid] ?? 0, bytes)
            }
        }
    }

    /// Figures before and after, and whether they are flat.
    func check(_ process: ChildProcess) -> (text: String, isFlat: Bool) {
        // A short run may end before it is sampled.
        guard let early = early[process.pid], let late = late[process.pid] else { return ("not seen", !isHeavy) }
        return ("\(early >> 10) to \(late >> 10) KiB", late - early <= growth)
    }
}

@Suite(.serialized) struct PacingTests {
    @Test(arguments: Pace.all) func theProducerIsPaced(_ pace: Pace) async throws {
        let counters = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString).path
        defer { unlink(counters) }
        let shared = try #require(PaceCounters(counters))
        let broker = try Daemon()
        try await within(.seconds(isHeavy ? 3600 : 120)) { try await run(pace, broker, counters, shared) }
    }

    private func run(_ pace: Pace, _ broker: Daemon, _ file: String, _ shared: PaceCounters) async throws {
        let buffer = pace.window
        let common = [broker.url(pace.wire), "\(pace.count)", file]
        let consumer = try ChildProcess("pacer", [pace.form] + common + ["\(pace.window)", "\(buffer)"])
        // The subscription exists before the channel: it blocks from the first message on.
        while consumer.poll() == nil, figure("subscriptions", broker) != 1 {
            try await Task.sleep(for: .milliseconds(5))
        }
        let began = ContinuousClock.now
        let producer = try ChildProcess("pacer", ["produce"] + common)
        let processes = [broker.process, producer, consumer]
        var memory = Memory()
        while producer.poll() == nil || consumer.poll() == nil {
            let made = shared.made
            if made > 0 { memory.sample(processes, isEarly: made < pace.count / 5) }
            try await Task.sleep(for: .milliseconds(2))
        }
        let time = ContinuousClock.now - began
        #expect(try await producer.end() == 0, "\(producer.read() ?? "")")
        #expect(try await consumer.end() == 0, "\(consumer.read() ?? "")")
        #expect(shared.made == pace.count)
        // Messages produced and not requested are in the subscription's buffer, or opened the channel. Messages under a
        // grant held for more than a second, as on a machine that stalls, come on top; the broker counts them.
        let overshoot = try #require(figure("overshoot", broker))
        let lead = shared.lead
        #expect(lead <= buffer + 1 + overshoot, "\(lead) were produced ahead of requests, \(overshoot) late")
        var figures: [String] = []
        for (name, process) in zip(["broker", "producer", "consumer"], processes) {
            let (text, isFlat) = memory.check(process)
            #expect(isFlat, "the memory of the \(name) went from \(text)")
            figures.append("\(name) \(text)")
        }
        if isHeavy {
            print("\(pace.testDescription): \(time), \(shared.lead) ahead, \(figures.joined(separator: ", "))")
        }
    }

    /// A figure of the topic.
    private func figure(_ name: String, _ broker: Daemon) -> Int? {
        guard let text = try? describe("pace", port: broker.port(.rsocket)),
            let json = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        else { return nil }
        return json[name] as? Int
    }
}
