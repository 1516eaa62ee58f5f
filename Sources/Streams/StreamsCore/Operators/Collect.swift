// collect by count, and replaceEmpty: operators that may have a value to deliver after upstream has finished.

extension Publisher {
    /// Publishes values in arrays of `count`, at least 1. When upstream finishes, a shorter array with the remaining
    /// values follows; after a failure it does not.
    public func collect(_ count: Int) -> Publishers.CollectByCount<Self> {
        Publishers.CollectByCount(upstream: self, count: count)
    }

    /// Publishes `output` if upstream finishes without a value. `output` waits for demand.
    public func replaceEmpty(with output: Output) -> Publishers.ReplaceEmpty<Self> {
        Publishers.ReplaceEmpty(upstream: self, output: output)
    }
}

extension Publishers {
    /// See `Publisher.collect`.
    public struct CollectByCount<Upstream: Publisher>: Publisher {
        public typealias Output = [Upstream.Output]
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let count: Int

        /// - Parameters:
        ///   - upstream: the publisher whose values are collected.
        ///   - count: the number of values in an array, at least 1.
        public init(upstream: Upstream, count: Int) {
            precondition(count > 0, "A collected array must have at least one value.")
            self.upstream = upstream
            self.count = count
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = CollectBehavior<Upstream.Output, Failure>(count: count)
            upstream.subscribe(Operator(behavior, name: "CollectByCount", downstream: subscriber))
        }
    }

    /// See `Publisher.replaceEmpty`.
    public struct ReplaceEmpty<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let output: Upstream.Output
        public let upstream: Upstream

        public init(upstream: Upstream, output: Output) {
            self.upstream = upstream
            self.output = output
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = ReplaceEmptyBehavior<Output, Failure>(last: output)
            upstream.subscribe(Operator(behavior, name: "ReplaceEmpty", downstream: subscriber))
        }
    }
}

extension Publishers.CollectByCount: Equatable where Upstream: Equatable {}
extension Publishers.ReplaceEmpty: Equatable where Upstream: Equatable, Upstream.Output: Equatable {}

private struct CollectBehavior<Value, Failure: Error>: OperatorBehavior {
    let count: Int
    private var values: [Value] = []
    private var hasFinished = false

    init(count: Int) { self.count = count }

    mutating func receive(_ input: Value, _ outlet: Outlet<[Value], Failure>) {
        guard !hasFinished else { return }
        values.append(input)
        if values.count == count { deliver(outlet) }
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ outlet: Outlet<[Value], Failure>) {
        if case .finished = completion, !values.isEmpty {
            hasFinished = true
            if outlet.demand > .none { deliver(outlet) }
        } else {
            outlet.send(completion: completion)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<[Value], Failure>) {
        if hasFinished { deliver(outlet) } else { outlet.requestUpstream(demand * count) }
    }

    private mutating func deliver(_ outlet: Outlet<[Value], Failure>) {
        let array = values
        values = []
        outlet.send(array)
        if hasFinished { outlet.send(completion: .finished) }
    }
}

private struct ReplaceEmptyBehavior<Value, Failure: Error>: OperatorBehavior {
    let last: Value
    private var isEmpty = true
    private var hasFinished = false

    init(last: Value) { self.last = last }

    mutating func receive(_ input: Value, _ outlet: Outlet<Value, Failure>) {
        guard !hasFinished else { return }
        isEmpty = false
        outlet.send(input)
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ outlet: Outlet<Value, Failure>) {
        if case .finished = completion, isEmpty {
            hasFinished = true
            deliver(outlet)
        } else {
            outlet.send(completion: completion)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Value, Failure>) {
        if hasFinished { deliver(outlet) } else { outlet.requestUpstream(demand) }
    }

    private func deliver(_ outlet: Outlet<Value, Failure>) {
        guard outlet.demand > .none else { return }
        outlet.send(last)
        outlet.send(completion: .finished)
    }
}
