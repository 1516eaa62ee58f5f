// Operators of a result's publisher that are evaluated when they are applied, because the result is known, as in
// Combine.

extension Result.Publisher {
    /// Like `Publisher.allSatisfy`, but evaluated immediately.
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher { map(predicate) }

    /// Like `Publisher.tryAllSatisfy`, but evaluated immediately.
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// Like `Publisher.contains`, but evaluated immediately.
    public func contains(where predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher { map(predicate) }

    /// Like `Publisher.tryContains`, but evaluated immediately.
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// Like `Publisher.collect`, but evaluated immediately.
    public func collect() -> Result<[Output], Failure>.Publisher { map { [$0] } }
    /// Like `Publisher.count`, but evaluated immediately.
    public func count() -> Result<Int, Failure>.Publisher { map { _ in 1 } }
    /// Like `Publisher.first`, but evaluated immediately.
    public func first() -> Self { self }
    /// Like `Publisher.last`, but evaluated immediately.
    public func last() -> Self { self }
    /// Like `Publisher.min`, but evaluated immediately.
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    /// Like `Publisher.max`, but evaluated immediately.
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }

    /// Like `Publisher.tryMin`, but evaluated immediately.
    public func tryMin(
        by areInIncreasingOrder: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(areInIncreasingOrder) }

    /// Like `Publisher.tryMax`, but evaluated immediately.
    public func tryMax(
        by areInIncreasingOrder: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(areInIncreasingOrder) }

    /// Like `Publisher.ignoreOutput`, but evaluated immediately.
    public func ignoreOutput() -> Empty<Output, Failure> { Empty() }
    /// Like `Publisher.removeDuplicates`, but evaluated immediately.
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Self { self }

    /// Like `Publisher.tryRemoveDuplicates`, but evaluated immediately.
    public func tryRemoveDuplicates(
        by predicate: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(predicate) }

    /// The value has no neighbor and is compared with itself, so that an error that the comparison throws is reported.
    private func checked(_ compare: (Output, Output) throws -> Bool) -> Result<Output, any Error>.Publisher {
        tryMap { value in
            _ = try compare(value, value)
            return value
        }
    }

    /// Like `Publisher.replaceEmpty`, but evaluated immediately.
    public func replaceEmpty(with output: Output) -> Self { self }
    /// Like `Publisher.retry`, but evaluated immediately.
    public func retry(_ times: Int) -> Self { self }

    /// Like `Publisher.replaceError`, but evaluated immediately.
    public func replaceError(with output: Output) -> Result<Output, Never>.Publisher {
        if case .success(let value) = result { Result<Output, Never>.Publisher(value) } else { .init(output) }
    }

    /// Like `Publisher.map`, but evaluated immediately.
    public func map<T>(_ transform: (Output) -> T) -> Result<T, Failure>.Publisher {
        Result<T, Failure>.Publisher(result.map(transform))
    }

    /// Like `Publisher.tryMap`, but evaluated immediately.
    public func tryMap<T>(_ transform: (Output) throws -> T) -> Result<T, any Error>.Publisher {
        Result<T, any Error>.Publisher(Result<T, any Error> { try transform(try result.get()) })
    }

    /// Like `Publisher.mapError`, but evaluated immediately.
    public func mapError<E: Error>(_ transform: (Failure) -> E) -> Result<Output, E>.Publisher {
        Result<Output, E>.Publisher(result.mapError(transform))
    }

    /// Like `Publisher.reduce`, but evaluated immediately.
    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Failure>.Publisher {
        map { next(initial, $0) }
    }

    /// Like `Publisher.tryReduce`, but evaluated immediately.
    public func tryReduce<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryMap { try next(initial, $0) }
    }

    /// Like `Publisher.scan`, but evaluated immediately.
    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Failure>.Publisher {
        reduce(initial, next)
    }

    /// Like `Publisher.tryScan`, but evaluated immediately.
    public func tryScan<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryReduce(initial, next)
    }
}

extension Result.Publisher where Output: Equatable {
    /// Like `Publisher.contains`, but evaluated immediately.
    public func contains(_ output: Output) -> Result<Bool, Failure>.Publisher { map { $0 == output } }
    /// Like `Publisher.removeDuplicates`, but evaluated immediately.
    public func removeDuplicates() -> Self { self }
}

extension Result.Publisher where Output: Comparable {
    /// Like `Publisher.min`, but evaluated immediately.
    public func min() -> Self { self }
    /// Like `Publisher.max`, but evaluated immediately.
    public func max() -> Self { self }
}

extension Result.Publisher where Failure == Never {
    /// Like `Publisher.setFailureType`, but evaluated immediately.
    public func setFailureType<E: Error>(to failureType: E.Type) -> Result<Output, E>.Publisher {
        switch result {
        case .success(let value): Result<Output, E>.Publisher(value)
        }
    }
}
