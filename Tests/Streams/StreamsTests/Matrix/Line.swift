// Line: an operator for the matrix. A table of lines is enough to run each operator through each case.

import Streams

/// The surroundings of an operator under test.
final class Stage {
    /// Completes what the operator has deferred, by running its virtual time. Called after each step.
    var waitUntilIdle: () -> Void = {}
}

/// One operator: its name, its output for the values 1 2 2 3 4, and how it is applied.
///
///     Line("map", "2 4 4 6 8 |") { $0.map { $0 * 2 } }
///     Line("prefix", "1 2 |", failed: "1 2 |") { $0.prefix(2) }
struct Line: @unchecked Sendable, CustomStringConvertible {
    static let input = [1, 2, 2, 3, 4]

    /// How many values may be requested from upstream without having arrived.
    enum Reach {
        /// This multiple of the subscriber's demand, plus a constant.
        case demand(times: Int = 1, plus: Int = 0)
        /// Everything: the operator needs all values for its result, and keeps a constant amount of state.
        case everything
    }

    enum Trait {
        /// Creates no subscription: the subscriber sees upstream's errors.
        case transparent
        /// Several subscribers share one upstream subscription.
        case shared
        /// Drops what arrives without demand.
        case lossy
        /// Requests everything at subscription, and so drops what arrives before the subscriber requests anything.
        case eager
        /// Subscribes upstream only when another publisher has ended: cases that drive upstream by hand are left out.
        case late
    }

    let name: String
    /// The events for the input and `finished`, for the input and a failure, and for `finished` alone.
    let finished: String
    let failed: String
    let empty: String
    let reach: Reach
    let traits: Set<Trait>
    /// The type of the resulting publisher, which names the operators in it.
    let type: String
    private let apply: (AnyPublisher<Int, TestError>, Stage) -> (Probe) -> Void

    /// - Parameters:
    ///   - failed: by default `finished` with the failure instead of the end.
    init<P: Publisher>(
        _ name: String, _ finished: String, failed: String? = nil, empty: String = "|",
        reach: Reach = .demand(), _ traits: Set<Trait> = [],
        scheduled apply: @escaping (AnyPublisher<Int, TestError>, Stage) -> P
    ) {
        self.name = name
        self.finished = finished
        self.failed = failed ?? finished.replacing("|", with: "X")
        self.empty = empty
        self.reach = reach
        self.traits = traits
        type = String(reflecting: P.self)
        self.apply = { upstream, stage in
            let publisher = apply(upstream, stage)
            return { publisher.attach($0) }
        }
    }

    init<P: Publisher>(
        _ name: String, _ finished: String, failed: String? = nil, empty: String = "|",
        reach: Reach = .demand(), _ traits: Set<Trait> = [],
        _ apply: @escaping (AnyPublisher<Int, TestError>) -> P
    ) {
        self.init(name, finished, failed: failed, empty: empty, reach: reach, traits) { upstream, _ in apply(upstream) }
    }

    var description: String { name }

    /// Applies the operator.
    func on(_ upstream: some Publisher<Int, TestError>) -> Applied {
        let stage = Stage()
        return Applied(
            stage: stage, isEager: traits.contains(.eager), attach: apply(upstream.eraseToAnyPublisher(), stage))
    }

    /// An operator on its upstream, to be subscribed to.
    struct Applied {
        let stage: Stage
        let isEager: Bool
        let attach: (Probe) -> Void

        /// Attaches a probe, which requests nothing on its own.
        func subscribe() -> Probe {
            let probe = Probe()
            attach(probe)
            stage.waitUntilIdle()
            return probe
        }

        /// Attaches a probe that requests `demand` when it has its subscription, or within `receive(subscription:)` if
        /// values would be lost otherwise.
        func subscribe(
            asking demand: Subscribers.Demand, onValue: @escaping (Probe) -> Subscribers.Demand = { _ in .none }
        ) -> Probe {
            let probe = Probe()
            probe.onValue = onValue
            if isEager { probe.onSubscription = { $0.request(demand) } }
            attach(probe)
            stage.waitUntilIdle()
            if !isEager { probe.request(demand) }
            stage.waitUntilIdle()
            return probe
        }
    }

    func allows(_ asked: Subscribers.Demand, for demand: Subscribers.Demand) -> Bool {
        switch reach {
        case .everything: true
        case .demand(let times, let plus): asked <= demand * times + plus
        }
    }
}

extension Line {
    static let all = passing + combining + timing
}
