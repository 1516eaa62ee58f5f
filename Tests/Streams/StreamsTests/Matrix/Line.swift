// Line: an operator as the matrix sees it. A table of lines is all that it takes to run an operator through each case.

import Streams

/// What stands around an operator while it is tested.
final class Stage {
    /// Brings to an end what the operator has put off: runs its virtual time. Called after each step.
    var settle: () -> Void = {}
}

/// One operator: its name, what it makes of the values 1 2 2 3 4, and how it is applied.
///
///     Line("map", "2 4 4 6 8 |") { $0.map { $0 * 2 } }
///     Line("prefix", "1 2 |", failed: "1 2 |") { $0.prefix(2) }
struct Line: @unchecked Sendable, CustomStringConvertible {
    static let input = [1, 2, 2, 3, 4]

    /// How much of upstream may be asked for and not have arrived.
    enum Reach {
        /// As much as the subscriber has asked for, this many times, and so many more.
        case demand(times: Int = 1, plus: Int = 0)
        /// Everything: the operator needs it to know its result, and keeps what does not grow with it.
        case everything
    }

    enum Trait {
        /// Has no subscription of its own: what upstream does wrong the subscriber sees.
        case transparent
        /// Several subscribers have one subscription upstream.
        case shared
        /// What comes when the subscriber has not asked for it is dropped.
        case lossy
        /// Asks for everything when it is subscribed to, and so drops what comes before the subscriber asks.
        case eager
        /// Subscribes upstream only when another publisher has ended: cases that drive upstream by hand are left out.
        case late
    }

    let name: String
    /// The events that come of the input and `finished`, of the input and a failure, and of `finished` alone.
    let finished: String
    let failed: String
    let empty: String
    let reach: Reach
    let traits: Set<Trait>
    /// The type of what it makes, which tells of which operators it is.
    let type: String
    private let apply: (AnyPublisher<Int, TestError>, Stage) -> (Probe) -> Void

    /// - Parameters:
    ///   - failed: the same with the failure instead of the end, unless it is given.
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

        /// Attaches a probe, which asks for nothing by itself.
        func subscribe() -> Probe {
            let probe = Probe()
            attach(probe)
            stage.settle()
            return probe
        }

        /// Attaches a probe that asks for so much when it has its subscription, or as soon as it has it if else all is
        /// lost.
        func subscribe(
            asking demand: Subscribers.Demand, onValue: @escaping (Probe) -> Subscribers.Demand = { _ in .none }
        ) -> Probe {
            let probe = Probe()
            probe.onValue = onValue
            if isEager { probe.onSubscription = { $0.request(demand) } }
            attach(probe)
            stage.settle()
            if !isEager { probe.request(demand) }
            stage.settle()
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
