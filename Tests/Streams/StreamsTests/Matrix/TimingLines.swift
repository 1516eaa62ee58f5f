// The lines of operators with a scheduler. Those that wait run in virtual time: `stage.waitUntilIdle` advances it.

import Streams
import StreamsTestSupport

extension Line {
    /// An operator on a virtual clock, which advances a little after each step.
    private init<P: Publisher>(
        _ name: String, _ finished: String, failed: String? = nil, reach: Reach = .demand(),
        _ traits: Set<Trait> = [], on apply: @escaping (AnyPublisher<Int, TestError>, VirtualTimeScheduler) -> P
    ) {
        self.init(name, finished, failed: failed, reach: reach, traits) { upstream, stage in
            let scheduler = VirtualTimeScheduler()
            stage.waitUntilIdle = { scheduler.advance(by: 100) }
            return apply(upstream, scheduler)
        }
    }

    /// Debounce, throttle and collect(byTime) use an immediate scheduler; `TimeTests` tests them over time.
    /// `SchedulerTests` tests `subscribe(on:)` with an asynchronous one, which intentionally delays demand and
    /// cancellation.
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
        Line("collect(byTime, immediate)", "1 2 2 3 4 |", reach: .everything, [.lossy]) {
            $0.collect(.byTime(ImmediateScheduler.shared, 10)).map { $0.reduce(0, +) }
        },
        Line("debounce(immediate)", "1 2 2 3 4 |", reach: .everything, [.lossy, .eager]) {
            $0.debounce(for: 3, scheduler: ImmediateScheduler.shared)
        },
        Line("throttle(immediate)", "1 2 2 3 4 |", reach: .everything, [.lossy, .eager]) {
            $0.throttle(for: 3, scheduler: ImmediateScheduler.shared, latest: true)
        },
    ]
}
