// The lines of operators with a scheduler. Those that wait run in virtual time: `stage.settle` lets it pass.

import Streams
import StreamsTestSupport

extension Line {
    /// An operator on a virtual clock, which goes on a little after each step.
    private init<P: Publisher>(
        _ name: String, _ finished: String, failed: String? = nil, reach: Reach = .demand(),
        _ traits: Set<Trait> = [], on apply: @escaping (AnyPublisher<Int, TestError>, VirtualTimeScheduler) -> P
    ) {
        self.init(name, finished, failed: failed, reach: reach, traits) { upstream, stage in
            let scheduler = VirtualTimeScheduler()
            stage.settle = { scheduler.advance(by: 100) }
            return apply(upstream, scheduler)
        }
    }

    /// What asks for everything at once, and drops what comes before it is asked for, `TimeTests` has: debounce,
    /// throttle, collect(byTime). `SchedulerTests` has `subscribe(on:)` with a scheduler that takes its time, which
    /// makes demand and cancellation late by intent.
    static let timing: [Line] = [
        Line("receive(on:)", "1 2 2 3 4 |") { $0.receive(on: $1) },
        Line("receive(on: immediate)", "1 2 2 3 4 |") { $0.receive(on: ImmediateScheduler.shared) },
        Line("subscribe(on: immediate)", "1 2 2 3 4 |") { $0.subscribe(on: ImmediateScheduler.shared) },
        Line("delay", "1 2 2 3 4 |") { $0.delay(for: 3, scheduler: $1) },
        Line("delay(immediate)", "1 2 2 3 4 |") { $0.delay(for: 3, scheduler: ImmediateScheduler.shared) },
        Line("timeout", "1 2 2 3 4 |") { $0.timeout(100_000, scheduler: $1) },
        Line("measureInterval", "0 0 0 0 0 |") {
            $0.measureInterval(using: ImmediateScheduler.shared).map(\.magnitude)
        },
        Line("collect(byTimeOrCount, immediate)", "1 2 2 3 4 |", reach: .demand(times: 2)) {
            $0.collect(.byTimeOrCount(ImmediateScheduler.shared, 10, 2)).map { $0.reduce(0, +) }
        },
    ]
}
