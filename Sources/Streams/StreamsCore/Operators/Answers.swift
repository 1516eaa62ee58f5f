// min, max, contains, allSatisfy: what can be told of a whole stream. Upstream is asked for everything, and cancelled
// as soon as the answer is known.

extension Publisher where Output: Comparable & SendableMetatype {
    /// Publishes the least value, at the end; nothing if there was none.
    public func min() -> Publishers.Comparison<Self> { max { $0 > $1 } }
    /// Publishes the greatest value, at the end; nothing if there was none.
    public func max() -> Publishers.Comparison<Self> { max { $0 < $1 } }
}

extension Publisher {
    /// Publishes the least value by an order, at the end; nothing if there was none.
    public func min(by areInIncreasingOrder: @escaping @Sendable (Output, Output) -> Bool)
        -> Publishers.Comparison<Self>
    {
        max { areInIncreasingOrder($1, $0) }
    }

    /// Publishes the greatest value by an order, at the end; nothing if there was none.
    public func max(by areInIncreasingOrder: @escaping @Sendable (Output, Output) -> Bool)
        -> Publishers.Comparison<Self>
    {
        Publishers.Comparison(upstream: self, areInIncreasingOrder: areInIncreasingOrder)
    }

    /// As `min(by:)`; when the order throws, upstream is cancelled and the error is the end.
    public func tryMin(
        by areInIncreasingOrder: @escaping @Sendable (Output, Output) throws -> Bool
    ) -> Publishers.TryComparison<Self> {
        tryMax { try areInIncreasingOrder($1, $0) }
    }

    /// As `max(by:)`; when the order throws, upstream is cancelled and the error is the end.
    public func tryMax(
        by areInIncreasingOrder: @escaping @Sendable (Output, Output) throws -> Bool
    ) -> Publishers.TryComparison<Self> {
        Publishers.TryComparison(upstream: self, areInIncreasingOrder: areInIncreasingOrder)
    }

    /// Publishes true as soon as there is a value equal to `output`, else false at the end.
    public func contains(_ output: Output) -> Publishers.Contains<Self> where Output: Equatable {
        Publishers.Contains(upstream: self, output: output)
    }

    /// Publishes true as soon as there is a value that `predicate` is true for, else false at the end.
    public func contains(where predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.ContainsWhere<Self> {
        Publishers.ContainsWhere(upstream: self, predicate: predicate)
    }

    /// As `contains(where:)`; when `predicate` throws, upstream is cancelled and the error is the end.
    public func tryContains(
        where predicate: @escaping @Sendable (Output) throws -> Bool
    ) -> Publishers.TryContainsWhere<Self> {
        Publishers.TryContainsWhere(upstream: self, predicate: predicate)
    }

    /// Publishes false as soon as there is a value that `predicate` is false for, else true at the end.
    public func allSatisfy(_ predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.AllSatisfy<Self> {
        Publishers.AllSatisfy(upstream: self, predicate: predicate)
    }

    /// As `allSatisfy`; when `predicate` throws, upstream is cancelled and the error is the end.
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
