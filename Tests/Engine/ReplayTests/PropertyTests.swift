// Random operation sequences, by seed, on a Subscription and on the naive model. A failure names its seed:
// `REPLAY_SEED=<seed> swift test --filter PropertyTests` runs only that one.

import ForebayWire
import Glibc
import Replay
import Testing

struct PropertyTests {
    struct Plan: Sendable, CustomTestStringConvertible {
        var policy: Overflow
        var shape: Driver.Shape
        var testDescription: String { "\(policy.name), \(shape)" }
    }

    static let plans = Overflow.allCases.flatMap { policy in
        [Driver.Shape.batches, .anyOrder].map { Plan(policy: policy, shape: $0) }
    }

    @Test(arguments: plans) func equalsTheModel(_ plan: Plan) {
        run(count: 3000, tag: UInt64(plan.policy.rawValue) << 8 | (plan.shape == .batches ? 1 : 0)) { random in
            try Driver.run(&random, plan.policy, plan.shape, steps: random.int(5...60))
        }
    }

    /// Long sequences on larger buffers, so that the limit on the number of ranges is reached.
    @Test(arguments: [Overflow.dropNewest, .replaceNewest]) func equalsTheModelAtManyRanges(_ policy: Overflow) {
        var met = 0
        run(count: 80, tag: 0xABBA << 8 | UInt64(policy.rawValue)) { random in
            let model = try Driver.run(&random, policy, .manyRanges, steps: 400)
            met += model.refusedForRanges + model.replacedForRanges
        }
        if getenv("REPLAY_SEED") == nil { #expect(met > 300) }
    }

    private func run(count: Int, tag: UInt64, _ body: (inout Random) throws -> Void) {
        let single = getenv("REPLAY_SEED").flatMap { UInt64(String(cString: $0)) }
        for index in 0..<UInt64(single == nil ? count : 1) {
            let seed = single ?? (tag << 32 | index)
            var random = Random(seed: seed)
            do {
                try body(&random)
            } catch {
                Issue.record("seed \(seed): \(error)")
                return
            }
        }
    }
}
