// scan: each value combined with what came of those before.

extension Publisher {
    /// Publishes, for each value, what `next` makes of it and of the result before, which is `initial` at first.
    public func scan<Result>(
        _ initial: Result, _ next: @escaping @Sendable (Result, Output) -> Result
    ) -> Publishers.Scan<Self, Result> {
        Publishers.Scan(upstream: self, initialResult: initial, nextPartialResult: next)
    }

    /// As `scan`; when `next` throws, upstream is cancelled and the error is the end.
    public func tryScan<Result>(
        _ initial: Result, _ next: @escaping @Sendable (Result, Output) throws -> Result
    ) -> Publishers.TryScan<Self, Result> {
        Publishers.TryScan(upstream: self, initialResult: initial, nextPartialResult: next)
    }
}

extension Publishers {
    /// See `Publisher.scan`.
    public struct Scan<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let initialResult: Output
        public let nextPartialResult: @Sendable (Output, Upstream.Output) -> Output

        public init(
            upstream: Upstream, initialResult: Output,
            nextPartialResult: @escaping @Sendable (Output, Upstream.Output) -> Output
        ) {
            self.upstream = upstream
            self.initialResult = initialResult
            self.nextPartialResult = nextPartialResult
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                Scanner<Upstream.Output, S>(downstream: subscriber, result: initialResult, next: nextPartialResult))
        }
    }

    /// See `Publisher.tryScan`.
    public struct TryScan<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = any Error

        public let upstream: Upstream
        public let initialResult: Output
        public let nextPartialResult: @Sendable (Output, Upstream.Output) throws -> Output

        public init(
            upstream: Upstream, initialResult: Output,
            nextPartialResult: @escaping @Sendable (Output, Upstream.Output) throws -> Output
        ) {
            self.upstream = upstream
            self.initialResult = initialResult
            self.nextPartialResult = nextPartialResult
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == any Error {
            let behavior = TryScanBehavior<Upstream.Output, Output, Upstream.Failure>(
                result: initialResult, next: nextPartialResult)
            upstream.subscribe(Operator(behavior, name: "TryScan", downstream: subscriber))
        }
    }
}

/// The subscription is upstream's: values come one at a time, and the state is nobody else's.
private final class Scanner<Input, Downstream: Subscriber>: Subscriber, CustomStringConvertible, @unchecked Sendable {
    private let downstream: Downstream
    private var result: Downstream.Input
    private let next: (Downstream.Input, Input) -> Downstream.Input

    init(
        downstream: Downstream, result: Downstream.Input, next: @escaping (Downstream.Input, Input) -> Downstream.Input
    ) {
        self.downstream = downstream
        self.result = result
        self.next = next
    }

    func receive(subscription: any Subscription) { downstream.receive(subscription: subscription) }

    func receive(_ input: Input) -> Subscribers.Demand {
        result = next(result, input)
        return downstream.receive(result)
    }

    func receive(completion: Subscribers.Completion<Downstream.Failure>) { downstream.receive(completion: completion) }

    var description: String { "Scan" }
}

private struct TryScanBehavior<Input, Output, InputFailure: Error>: OperatorBehavior {
    var result: Output
    let next: (Output, Input) throws -> Output

    mutating func receive(_ input: Input, _ outlet: Outlet<Output, any Error>) {
        do {
            result = try next(result, input)
            outlet.send(result)
        } catch {
            outlet.send(completion: .failure(error))
        }
    }

    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, any Error>
    ) {
        outlet.send(completion: completion.mapFailure { $0 })
    }
}
