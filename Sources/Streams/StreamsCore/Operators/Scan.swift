// scan: combines each value with the preceding result.

extension Publisher {
    /// Combines each value with the preceding result, initially `initial`, using `next`, and publishes each result.
    public func scan<Result>(
        _ initial: Result, _ next: @escaping @Sendable (Result, Output) -> Result
    ) -> Publishers.Scan<Self, Result> {
        Publishers.Scan(upstream: self, initialResult: initial, nextPartialResult: next)
    }

    /// Like `scan`. If `next` throws, upstream is cancelled and the stream fails with that error.
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

/// Passes on upstream's subscription. Values come one at a time, so the state needs no lock.
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
