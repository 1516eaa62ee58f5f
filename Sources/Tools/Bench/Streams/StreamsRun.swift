// StreamsRun: `bench streams`, the throughput of the library's shareReplay next to a naive one. Both alternate within
// each round, so that other load on the machine affects both; the ratio is what counts.

import Glibc
import Streams

enum StreamsRun {
    private static let subscribers = 10
    private static let capacity = 16

    /// How the subscribers request values.
    private enum Asking: CaseIterable {
        case everything, batches, oneByOne

        var name: String {
            switch self {
            case .everything: "no limit"
            case .batches: "64 at a time"
            case .oneByOne: "one at a time"
            }
        }
        var size: Int {
            switch self {
            case .everything: 0
            case .batches: 64
            case .oneByOne: 1
            }
        }
    }

    /// `bench streams [ROUNDS]`. Prints the CPU time in ns per value to all subscribers, for the median and the best
    /// round, and the median of the ratios.
    static func run(rounds: Int, values: Int) {
        print("shareReplay(capacity: \(capacity)) to \(subscribers) subscribers, \(values) values, \(rounds) rounds;")
        print("ns of CPU time per value for all subscribers, median (best)")
        for asking in Asking.allCases {
            var ours: [Double] = []
            var naive: [Double] = []
            for round in 0..<rounds {
                // Alternate rounds run in reverse order, so that neither always follows the other.
                for turn in 0..<2 {
                    if (round + turn) % 2 == 0 {
                        ours.append(measure(values, asking) { $0.shareReplay(capacity: capacity) })
                    } else {
                        naive.append(measure(values, asking) { NaiveShareReplay(upstream: $0, capacity: capacity) })
                    }
                }
            }
            let ratios = zip(ours, naive).map { $1 / $0 }
            print(
                "  demand \(asking.name): shareReplay \(text(ours)), lock and array \(text(naive)), "
                    + "\(rounded(median(ratios))) times the throughput")
        }
    }

    private static func measure<P: Streams.Publisher>(
        _ count: Int, _ asking: Asking, _ share: (Hose) -> P
    ) -> Double where P.Output == Int, P.Failure == Never {
        let hose = Hose()
        let shared = share(hose)
        let counters = (0..<subscribers).map { _ in Counter(batch: asking.size) }
        for counter in counters { shared.subscribe(counter) }
        let start = now()
        for value in 0..<count { hose.send(value) }
        let end = now()
        hose.finish()
        precondition(
            counters.allSatisfy { $0.count == count && $0.sum == count * (count - 1) / 2 && $0.hasEnded },
            "a value was lost")
        return Double(end - start) / Double(count)
    }

    /// CPU time of this thread, which does all the work, in ns.
    private static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    private static func median(_ figures: [Double]) -> Double {
        let sorted = figures.sorted()
        return sorted[sorted.count / 2]
    }

    private static func text(_ figures: [Double]) -> String {
        "\(rounded(median(figures))) (\(rounded(figures.min() ?? 0)))"
    }

    private static func rounded(_ figure: Double) -> String { "\((figure * 10).rounded() / 10)" }
}

/// The upstream: does as little as possible, and is the same for both implementations.
private final class Hose: Streams.Publisher {
    typealias Output = Int
    typealias Failure = Never

    private var subscriber: AnySubscriber<Int, Never>?

    func receive<S: Subscriber>(subscriber: S) where S.Input == Int, S.Failure == Never {
        self.subscriber = AnySubscriber(subscriber)
        subscriber.receive(subscription: Subscriptions.empty)
    }

    func send(_ value: Int) { _ = subscriber?.receive(value) }

    func finish() { subscriber?.receive(completion: .finished) }
}

/// Counts values, and requests a new batch when a whole batch has been received.
private final class Counter: Subscriber, @unchecked Sendable {
    private let batch: Int
    private(set) var count = 0
    private(set) var sum = 0
    private(set) var hasEnded = false

    /// - Parameter batch: 0 for unbounded demand.
    init(batch: Int) { self.batch = batch }

    func receive(subscription: any Streams.Subscription) {
        subscription.request(batch == 0 ? .unlimited : .max(batch))
    }

    func receive(_ input: Int) -> Subscribers.Demand {
        count += 1
        sum += input
        return batch > 0 && count % batch == 0 ? .max(batch) : .none
    }

    func receive(completion: Subscribers.Completion<Never>) { hasEnded = true }
}
