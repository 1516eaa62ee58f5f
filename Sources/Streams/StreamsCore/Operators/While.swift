// prefix(while:) and drop: the values before, or from, a certain value.

extension Publisher {
    /// Publishes values until `predicate` returns false for one, then finishes without that value.
    public func prefix(while predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.PrefixWhile<Self> {
        Publishers.PrefixWhile(upstream: self, predicate: predicate)
    }

    /// Like `prefix(while:)`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryPrefix(while predicate: @escaping @Sendable (Output) throws -> Bool)
        -> Publishers.TryPrefixWhile<Self>
    {
        Publishers.TryPrefixWhile(upstream: self, predicate: predicate)
    }

    /// Drops values until `predicate` returns false for one, and publishes that value and all later ones.
    public func drop(while predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.DropWhile<Self> {
        Publishers.DropWhile(upstream: self, predicate: predicate)
    }

    /// Like `drop(while:)`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryDrop(while predicate: @escaping @Sendable (Output) throws -> Bool) -> Publishers.TryDropWhile<Self> {
        Publishers.TryDropWhile(upstream: self, predicate: predicate)
    }

    /// Publishes all values except the first `count`, at least 0.
    public func dropFirst(_ count: Int = 1) -> Publishers.Drop<Self> { Publishers.Drop(upstream: self, count: count) }
}

extension Publishers {
    /// See `Publisher.prefix(while:)`.
    public struct PrefixWhile<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Output, Failure, Output, Failure>(()) { [predicate] _, value in
                predicate(value) ? .send(value) : .finish
            }
            upstream.subscribe(Operator(behavior, name: "PrefixWhile", downstream: subscriber))
        }
    }

    /// See `Publisher.tryPrefix(while:)`.
    public struct TryPrefixWhile<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Output, Upstream.Failure, Output, any Error>(trying: ()) {
                [predicate] _, value in
                try predicate(value) ? .send(value) : .finish
            }
            upstream.subscribe(Operator(behavior, name: "TryPrefixWhile", downstream: subscriber))
        }
    }

    /// See `Publisher.drop(while:)`.
    public struct DropWhile<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Bool, Output, Failure, Output, Failure>(true) { [predicate] isDropping, value in
                if isDropping { isDropping = predicate(value) }
                return isDropping ? .skip : .send(value)
            }
            upstream.subscribe(Operator(behavior, name: "DropWhile", downstream: subscriber))
        }
    }

    /// See `Publisher.tryDrop(while:)`.
    public struct TryDropWhile<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Bool, Output, Upstream.Failure, Output, any Error>(trying: true) {
                [predicate] isDropping, value in
                if isDropping { isDropping = try predicate(value) }
                return isDropping ? .skip : .send(value)
            }
            upstream.subscribe(Operator(behavior, name: "TryDropWhile", downstream: subscriber))
        }
    }

    /// See `Publisher.dropFirst`.
    public struct Drop<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let count: Int

        /// - Parameters:
        ///   - upstream: the publisher whose first values are dropped.
        ///   - count: the number of values to drop, at least 0.
        public init(upstream: Upstream, count: Int) {
            precondition(count >= 0, "The number of values to drop cannot be negative.")
            self.upstream = upstream
            self.count = count
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                Operator(DropBehavior<Output, Failure>(remaining: count), name: "Drop", downstream: subscriber))
        }
    }
}

extension Publishers.Drop: Equatable where Upstream: Equatable {}

private struct DropBehavior<Value, Failure: Error>: OperatorBehavior {
    var remaining: Int

    /// Requests all values to drop together, not one by one.
    mutating func start(_ outlet: Outlet<Value, Failure>) { outlet.requestUpstream(.max(remaining)) }

    mutating func receive(_ input: Value, _ outlet: Outlet<Value, Failure>) {
        if remaining > 0 { remaining -= 1 } else { outlet.send(input) }
    }
}
