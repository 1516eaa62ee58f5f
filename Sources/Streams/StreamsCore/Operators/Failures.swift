// mapError, setFailureType, assertNoFailure, replaceError: handling of failures. The first three have no state, so,
// like map, they use upstream's subscription.

extension Publisher {
    /// Converts upstream's failure into a different failure.
    public func mapError<NewFailure: Error>(
        _ transform: @escaping @Sendable (Failure) -> NewFailure
    ) -> Publishers.MapError<Self, NewFailure> {
        Publishers.MapError(upstream: self, transform)
    }

    /// Traps when upstream fails.
    /// - Parameters:
    ///   - prefix: printed before the failure.
    ///   - file: the file to which the trap is attributed.
    ///   - line: the line to which the trap is attributed.
    public func assertNoFailure(
        _ prefix: String = "", file: StaticString = #file, line: UInt = #line
    ) -> Publishers.AssertNoFailure<Self> {
        Publishers.AssertNoFailure(upstream: self, prefix: prefix, file: file, line: line)
    }

    /// Publishes `output` instead of a failure, then finishes. `output` waits for demand.
    public func replaceError(with output: Output) -> Publishers.ReplaceError<Self> {
        Publishers.ReplaceError(upstream: self, output: output)
    }
}

extension Publisher where Failure == Never {
    /// Changes the failure type of a stream that cannot fail.
    public func setFailureType<E: Error>(to failureType: E.Type) -> Publishers.SetFailureType<Self, E> {
        Publishers.SetFailureType(upstream: self)
    }
}

extension Publishers {
    /// See `Publisher.mapError`.
    public struct MapError<Upstream: Publisher, Failure: Error>: Publisher {
        public typealias Output = Upstream.Output

        public let upstream: Upstream
        public let transform: @Sendable (Upstream.Failure) -> Failure

        public init(upstream: Upstream, transform: @escaping @Sendable (Upstream.Failure) -> Failure) {
            self.upstream = upstream
            self.transform = transform
        }

        public init(upstream: Upstream, _ transform: @escaping @Sendable (Upstream.Failure) -> Failure) {
            self.init(upstream: upstream, transform: transform)
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                FailureChange(downstream: subscriber, failure: transform, description: "MapError"))
        }
    }

    /// See `Publisher.setFailureType`.
    public struct SetFailureType<Upstream: Publisher, Failure: Error>: Publisher where Upstream.Failure == Never {
        public typealias Output = Upstream.Output

        public let upstream: Upstream

        public init(upstream: Upstream) { self.upstream = upstream }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                FailureChange<S, Never>(downstream: subscriber, failure: { $0 }, description: "SetFailureType"))
        }

        public func setFailureType<E: Error>(to failure: E.Type) -> Publishers.SetFailureType<Upstream, E> {
            Publishers.SetFailureType<Upstream, E>(upstream: upstream)
        }
    }

    /// See `Publisher.assertNoFailure`.
    public struct AssertNoFailure<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Never

        public let upstream: Upstream
        public let prefix: String
        public let file: StaticString
        public let line: UInt

        public init(upstream: Upstream, prefix: String, file: StaticString, line: UInt) {
            self.upstream = upstream
            self.prefix = prefix
            self.file = file
            self.line = line
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Never {
            let stop: @Sendable (Upstream.Failure) -> Never = { [prefix, file, line] failure in
                preconditionFailure("\(prefix)\(prefix.isEmpty ? "" : ": ")\(failure)", file: file, line: line)
            }
            upstream.subscribe(
                FailureChange<S, Upstream.Failure>(
                    downstream: subscriber, failure: { stop($0) }, description: "AssertNoFailure"))
        }
    }

    /// See `Publisher.replaceError`.
    public struct ReplaceError<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Never

        public let output: Upstream.Output
        public let upstream: Upstream

        public init(upstream: Upstream, output: Output) {
            self.upstream = upstream
            self.output = output
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Never {
            let behavior = ReplaceErrorBehavior<Output, Upstream.Failure>(output: output)
            upstream.subscribe(Operator(behavior, name: "ReplaceError", downstream: subscriber))
        }
    }
}

extension Publishers.SetFailureType: Equatable where Upstream: Equatable {}
extension Publishers.ReplaceError: Equatable where Upstream: Equatable, Upstream.Output: Equatable {}

private struct FailureChange<Downstream: Subscriber, Failure: Error>: Subscriber, TurnPassing,
    CustomStringConvertible
{
    let downstream: Downstream
    let failure: @Sendable (Failure) -> Downstream.Failure
    let description: String
    let combineIdentifier = CombineIdentifier()

    func receive(subscription: any Subscription) { downstream.receive(subscription: subscription) }
    func receive(_ input: Downstream.Input) -> Subscribers.Demand { downstream.receive(input) }
    func receive(completion: Subscribers.Completion<Failure>) {
        downstream.receive(completion: completion.mapFailure(failure))
    }
    var turnSubscriber: (any TurnSubscriber)? { downstream.turns }
}

private struct ReplaceErrorBehavior<Value, InputFailure: Error>: OperatorBehavior {
    let output: Value
    private var hasFailed = false

    init(output: Value) { self.output = output }

    mutating func receive(_ input: Value, _ outlet: Outlet<Value, Never>) {
        if !hasFailed { outlet.send(input) }
    }

    mutating func receive(completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Value, Never>) {
        switch completion {
        case .finished: outlet.send(completion: .finished)
        case .failure:
            hasFailed = true
            deliver(outlet)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Value, Never>) {
        if hasFailed { deliver(outlet) } else { outlet.requestUpstream(demand) }
    }

    private func deliver(_ outlet: Outlet<Value, Never>) {
        guard outlet.demand > .none else { return }
        outlet.send(output)
        outlet.send(completion: .finished)
    }
}
