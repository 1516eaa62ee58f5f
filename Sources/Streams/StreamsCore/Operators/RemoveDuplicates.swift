// removeDuplicates: drops values that equal the preceding one.

extension Publisher {
    /// Publishes the values that differ from the preceding one.
    public func removeDuplicates() -> Publishers.RemoveDuplicates<Self> where Output: Equatable & SendableMetatype {
        removeDuplicates { $0 == $1 }
    }

    /// Publishes the values that `predicate` does not consider equal to the last one published.
    public func removeDuplicates(
        by predicate: @escaping @Sendable (Output, Output) -> Bool
    ) -> Publishers.RemoveDuplicates<Self> {
        Publishers.RemoveDuplicates(upstream: self, predicate: predicate)
    }

    /// Like `removeDuplicates(by:)`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryRemoveDuplicates(
        by predicate: @escaping @Sendable (Output, Output) throws -> Bool
    ) -> Publishers.TryRemoveDuplicates<Self> {
        Publishers.TryRemoveDuplicates(upstream: self, predicate: predicate)
    }
}

extension Publishers {
    /// See `Publisher.removeDuplicates`.
    public struct RemoveDuplicates<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Output, Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Output, Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Output?, Output, Failure, Output, Failure>(nil) { [predicate] last, value in
                if let last, predicate(last, value) { return .skip }
                last = value
                return .send(value)
            }
            upstream.subscribe(Operator(behavior, name: "RemoveDuplicates", downstream: subscriber))
        }
    }

    /// See `Publisher.tryRemoveDuplicates`.
    public struct TryRemoveDuplicates<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Output, Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Output, Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Output?, Output, Upstream.Failure, Output, any Error>(trying: nil) {
                [predicate] last, value in
                if let last, try predicate(last, value) { return .skip }
                last = value
                return .send(value)
            }
            upstream.subscribe(Operator(behavior, name: "TryRemoveDuplicates", downstream: subscriber))
        }
    }
}
