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
        [Driver.Shape.batches, .anyOrder, .holes].map { Plan(policy: policy, shape: $0) }
    }

    @Test(arguments: plans) func equalsTheModel(_ plan: Plan) {
        // Looking up each sequence takes long.
        let count = plan.shape == .holes ? 1000 : 3000
        run(count: count, tag: UInt64(plan.policy.rawValue) << 8 | plan.shape.tag) { random in
            try Driver.run(&random, plan.policy, plan.shape, steps: random.int(5...60))
        }
    }

    /// What was lost at the end of a topic is reported with the end, and ends a subscription with the policy `fail`.
    @Test(arguments: Overflow.allCases) func aLossAtTheEndIsReportedOnce(_ policy: Overflow) {
        var subscription = Replay.Subscription(
            start: .next, window: window(1..<1), buffer: 4, overflow: policy)
        subscription.appended(upTo: sequence(3))
        subscription.applyPolicy()
        subscription.topicEnded(.completed, at: sequence(3), lost: 2)
        subscription.topicEnded(.completed, at: sequence(3), lost: 2)
        #expect(subscription.end == nil)
        subscription.handOver(subscription.deliverable(9).count, of: subscription.deliverable(9))
        let replaced: UInt64 = policy == .latest ? 1 : 0
        #expect(subscription.dropped == 2 + replaced && subscription.droppedSinceDelivery == 2)
        let end = subscription.takeEnd()
        #expect(end == (policy == .fail ? .overflow(.lost) : .completed))
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
