// min, max, contains, allSatisfy: one answer about a whole stream. These operators request unlimited values, and cancel
// upstream as soon as the answer is known.

extension Publisher where Output: Comparable & SendableMetatype {
    /// Publishes the least value when upstream finishes; nothing if there was no value.
    public func min() -> Publishers.Comparison<Self> { max { $0 > $1 } }
    /// Publishes the greatest value when upstream finishes; nothing if there was no value.
    public func max() -> Publishers.Comparison<Self> { max { $0 < $1 } }
}

extension Publisher {
    /// Publishes the least value in the given order when upstream finishes; nothing if there was no value.
    public func min(by areInIncreasingOrder: @escaping @Sendable (Output, Output) -> Bool)
        -> Publishers.Comparison<Self>
    {
        max { areInIncreasingOrder($1, $0) }
    }

    /// Publishes the greatest value in the given order when upstream finishes; nothing if there was no value.
    public func max(by areInIncreasingOrder: @escaping @Sendable (Output, Output) -> Bool)
        -> Publishers.Comparison<Self>
    {
        Publishers.Comparison(upstream: self, areInIncreasingOrder: areInIncreasingOrder)
    }

    /// Like `min(by:)`. If `areInIncreasingOrder` throws, upstream is cancelled and the stream fails with that error.
    public func tryMin(
        by areInIncreasingOrder: @escaping @Sendable (Output, Output) throws -> Bool
    ) -> Publishers.TryComparison<Self> {
        tryMax { try areInIncreasingOrder($1, $0) }
    }

    /// Like `max(by:)`. If `areInIncreasingOrder` throws, upstream is cancelled and the stream fails with that error.
    public func tryMax(
        by areInIncreasingOrder: @escaping @Sendable (Output, Output) throws -> Bool
    ) -> Publishers.TryComparison<Self> {
        Publishers.TryComparison(upstream: self, areInIncreasingOrder: areInIncreasingOrder)
    }

    /// Publishes true as soon as a value equals `output`, or false when upstream finishes.
    public func contains(_ output: Output) -> Publishers.Contains<Self> where Output: Equatable {
        Publishers.Contains(upstream: self, output: output)
    }

    /// Publishes true as soon as `predicate` returns true for a value, or false when upstream finishes.
    public func contains(where predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.ContainsWhere<Self> {
        Publishers.ContainsWhere(upstream: self, predicate: predicate)
    }

    /// Like `contains(where:)`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryContains(
        where predicate: @escaping @Sendable (Output) throws -> Bool
    ) -> Publishers.TryContainsWhere<Self> {
        Publishers.TryContainsWhere(upstream: self, predicate: predicate)
    }

    /// Publishes false as soon as `predicate` returns false for a value, or true when upstream finishes.
    public func allSatisfy(_ predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.AllSatisfy<Self> {
        Publishers.AllSatisfy(upstream: self, predicate: predicate)
    }

    /// Like `allSatisfy`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryAllSatisfy(_ predicate: @escaping @Sendable (Output) throws -> Bool)
        -> Publishers.TryAllSatisfy<Self>
    {
        Publishers.TryAllSatisfy(upstream: self, predicate: predicate)
    }
}

extension Publishers {
    /// See `Publisher.max(by:)`.
    public struct Comparison<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let areInIncreasingOrder: @Sendable (Upstream.Output, Upstream.Output) -> Bool

        public init(
            upstream: Upstream, areInIncreasingOrder: @escaping @Sendable (Upstream.Output, Upstream.Output) -> Bool
        ) {
            self.upstream = upstream
            self.areInIncreasingOrder = areInIncreasingOrder
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(nil) {
                [areInIncreasingOrder] greatest, value in
                if let known = greatest, !areInIncreasingOrder(known, value) { return .more }
                greatest = value
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "Comparison", downstream: subscriber))
        }
    }

    /// See `Publisher.tryMax(by:)`.
    public struct TryComparison<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let areInIncreasingOrder: @Sendable (Upstream.Output, Upstream.Output) throws -> Bool

        public init(
            upstream: Upstream,
            areInIncreasingOrder: @escaping @Sendable (Upstream.Output, Upstream.Output) throws -> Bool
        ) {
            self.upstream = upstream
            self.areInIncreasingOrder = areInIncreasingOrder
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(
                trying: nil
            ) {
                [areInIncreasingOrder] greatest, value in
                if let known = greatest, try !areInIncreasingOrder(known, value) { return .more }
                greatest = value
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryComparison", downstream: subscriber))
        }
    }

    /// See `Publisher.contains`.
    public struct Contains<Upstream: Publisher>: Publisher where Upstream.Output: Equatable {
        public typealias Output = Bool
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let output: Upstream.Output

        public init(upstream: Upstream, output: Upstream.Output) {
            self.upstream = upstream
            self.output = output
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Bool, Upstream.Output, Upstream.Failure, Output, Failure>(false) {
                [output] isFound, value in
                isFound = value == output
                return isFound ? .enough : .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "Contains", downstream: subscriber))
        }
    }

    /// See `Publisher.contains(where:)`.
    public struct ContainsWhere<Upstream: Publisher>: Publisher {
        public typealias Output = Bool
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Bool, Upstream.Output, Upstream.Failure, Output, Failure>(false) {
                [predicate] isFound, value in
                isFound = predicate(value)
                return isFound ? .enough : .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "ContainsWhere", downstream: subscriber))
        }
    }

    /// See `Publisher.tryContains(where:)`.
    public struct TryContainsWhere<Upstream: Publisher>: Publisher {
        public typealias Output = Bool
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Bool, Upstream.Output, Upstream.Failure, Output, Failure>(trying: false) {
                [predicate] isFound, value in
                isFound = try predicate(value)
                return isFound ? .enough : .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryContainsWhere", downstream: subscriber))
        }
    }

    /// See `Publisher.allSatisfy`.
    public struct AllSatisfy<Upstream: Publisher>: Publisher {
        public typealias Output = Bool
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Bool, Upstream.Output, Upstream.Failure, Output, Failure>(true) {
                [predicate] holds, value in
                holds = predicate(value)
                return holds ? .more : .enough
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "AllSatisfy", downstream: subscriber))
        }
    }

    /// See `Publisher.tryAllSatisfy`.
    public struct TryAllSatisfy<Upstream: Publisher>: Publisher {
        public typealias Output = Bool
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Bool, Upstream.Output, Upstream.Failure, Output, Failure>(trying: true) {
                [predicate] holds, value in
                holds = try predicate(value)
                return holds ? .more : .enough
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryAllSatisfy", downstream: subscriber))
        }
    }
}

extension Publishers.Contains: Equatable where Upstream: Equatable {}
