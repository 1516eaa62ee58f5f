// Runs of the simulator: seeds that failed once, a fixed series, and a few new seeds.

import Foundation
import Simulator
import Testing

@Suite struct SimulationTests {
    /// The number of seeds to run from the series, set by `SIM_SEEDS=2000`, for example.
    private static let row = environment("SIM_SEEDS") ?? 150
    /// The first of the new seeds. `.ci/test` derives it from the commit, so that each test of a commit has the same.
    private static let base = environment("SIM_FROM").map(UInt64.init) ?? .random(in: 1...999_999) * 1_000_000

    private static func environment(_ name: String) -> Int? {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) }
    }

    private static let kept: [(seed: UInt64, required: Set<Feature>)] = {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("seeds.txt")
        guard let text = try? String(contentsOf: file, encoding: .utf8) else { return [] }
        return text.split(separator: "\n").compactMap { line in
            let words = line.prefix { $0 != " " }.split(separator: "+")
            guard let seed = words.first.flatMap({ UInt64($0) }) else { return nil }
            return (seed, Set(words.dropFirst().compactMap { Feature(rawValue: String($0)) }))
        }
    }()

    private func expectToPass(_ seed: UInt64, required: Set<Feature> = []) {
        let outcome = Simulation.run(seed: seed, required: required)
        guard let fault = outcome.fault else { return }
        Issue.record(
            "seed \(seed), step \(outcome.step): \(fault)\n\(outcome.plan)\nagain: \(outcome.command)")
    }

    @Test func seedsThatFailedOncePass() {
        for (seed, required) in Self.kept { expectToPass(seed, required: required) }
    }

    /// The series is split into parts that run in parallel.
    @Test(arguments: 0..<4)
    func theSameRowOfSeedsPasses(_ part: Int) {
        for seed in stride(from: part, to: Self.row, by: 4) { expectToPass(UInt64(seed)) }
    }

    @Test(arguments: 0..<2)
    func newSeedsPass(_ part: Int) {
        for index in 0..<25 { expectToPass(Self.base + UInt64(part * 1000 + index)) }
    }

    /// The first three failed once.
    @Test(arguments: 0..<3)
    func nodesOfAClusterAgree(_ part: Int) {
        for seed in [38, 412, 1003 as UInt64][part...part] + (part * 8..<part * 8 + 8).map({ UInt64($0) }) {
            let outcome = ClusterSimulation.run(seed: seed)
            guard let fault = outcome.fault else { continue }
            Issue.record("seed \(seed), step \(outcome.step): \(fault)\nagain: \(outcome.command) --cluster")
        }
    }

    /// The first two failed once.
    @Test(arguments: 0..<2)
    func brokersOfAClusterAgree(_ part: Int) {
        for seed in [17, 850 as UInt64][part...part] + (part * 5..<part * 5 + 5).map({ UInt64($0) }) {
            let outcome = BrokersSimulation.run(seed: seed)
            guard let fault = outcome.fault else { continue }
            Issue.record("seed \(seed), step \(outcome.step): \(fault)\nagain: \(outcome.command) --brokers")
        }
    }

    /// All of these failed once.
    @Test(arguments: [23, 66, 92 as UInt64])
    func brokersOfAClusterAgreeOnPatterns(seed: UInt64) {
        let outcome = BrokersSimulation.run(seed: seed, withPatterns: true)
        guard let fault = outcome.fault else { return }
        Issue.record(
            "seed \(seed), step \(outcome.step): \(fault)\nagain: \(outcome.command) --brokers --with patterns")
    }

    /// A cluster's run is the same each time, too.
    @Test func aSeedOfAClusterReplays() {
        var lines: [[String]] = [[], []]
        for index in 0..<2 { _ = BrokersSimulation.run(seed: 17) { lines[index].append($0) } }
        #expect(lines[0] == lines[1] && lines[0].count > 20)
    }

    /// Two runs are identical: every event, and every byte in both directions.
    @Test func aSeedReplays() {
        for seed: UInt64 in [3, 40, 77] {
            var lines: [[String]] = [[], []]
            let outcomes = (0..<2).map { index in Simulation.run(seed: seed) { lines[index].append($0) } }
            #expect(outcomes[0].hash == outcomes[1].hash && lines[0] == lines[1])
            #expect(outcomes[0].published > 0)
            // Printing changes nothing.
            #expect(Simulation.run(seed: seed).hash == outcomes[0].hash)
        }
    }

    @Test func seedsDiffer() {
        #expect(Set((0..<20).map { Simulation.run(seed: $0).hash }).count == 20)
    }

    /// A run can be restricted to the permitted features.
    @Test func aRunCanBeNarrowedDown() {
        let outcome = Simulation.run(seed: 5, permitted: [.fireAndForget, .shards])
        #expect(outcome.fault == nil && !outcome.plan.contains("channels") && !outcome.plan.contains("resets"))
    }

    /// The memory bound allows for what idle clients cost, and not much more.
    @Test(arguments: Idle.allCases)
    func whoIsIdleCostsWhatTheBoundAllows(_ kind: Idle) {
        guard let bytes = kind.measured() else { return }
        #expect(bytes <= kind.allowed)
    }

    /// The series is worth running: messages are published and received.
    @Test func messagesArePublishedAndReceived() {
        let outcomes = (0..<40).map { Simulation.run(seed: $0) }
        #expect(outcomes.reduce(0) { $0 + $1.published } > 500)
        #expect(outcomes.reduce(0) { $0 + $1.received } > 500)
        #expect(outcomes.reduce(0) { $0 + $1.resumed } > 20)
    }
}
