// Operators of a result's publisher whose result is known at once: they are applied when they are written. As in
// Combine.

extension Result.Publisher {
    /// As `Publisher.allSatisfy`, done at once: the value or the failure is known.
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher { map(predicate) }

    /// As `Publisher.tryAllSatisfy`, done at once: the value or the failure is known.
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// As `Publisher.contains`, done at once: the value or the failure is known.
    public func contains(where predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher { map(predicate) }

    /// As `Publisher.tryContains`, done at once: the value or the failure is known.
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// As `Publisher.collect`, done at once: the value or the failure is known.
    public func collect() -> Result<[Output], Failure>.Publisher { map { [$0] } }
    /// As `Publisher.count`, done at once: the value or the failure is known.
    public func count() -> Result<Int, Failure>.Publisher { map { _ in 1 } }
    /// As `Publisher.first`, done at once: the value or the failure is known.
    public func first() -> Self { self }
    /// As `Publisher.last`, done at once: the value or the failure is known.
    public func last() -> Self { self }
    /// As `Publisher.min`, done at once: the value or the failure is known.
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    /// As `Publisher.max`, done at once: the value or the failure is known.
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }

    /// As `Publisher.tryMin`, done at once: the value or the failure is known.
    public func tryMin(
        by areInIncreasingOrder: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(areInIncreasingOrder) }

    /// As `Publisher.tryMax`, done at once: the value or the failure is known.
    public func tryMax(
        by areInIncreasingOrder: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(areInIncreasingOrder) }

    /// As `Publisher.ignoreOutput`, done at once: the value or the failure is known.
    public func ignoreOutput() -> Empty<Output, Failure> { Empty() }
    /// As `Publisher.removeDuplicates`, done at once: the value or the failure is known.
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Self { self }

    /// As `Publisher.tryRemoveDuplicates`, done at once: the value or the failure is known.
    public func tryRemoveDuplicates(
        by predicate: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(predicate) }

    /// There is nothing to compare the value with but itself; a comparison that throws is not passed over.
    private func checked(_ compare: (Output, Output) throws -> Bool) -> Result<Output, any Error>.Publisher {
        tryMap { value in
            _ = try compare(value, value)
            return value
        }
    }

    /// As `Publisher.replaceEmpty`, done at once: the value or the failure is known.
    public func replaceEmpty(with output: Output) -> Self { self }
    /// As `Publisher.retry`, done at once: the value or the failure is known.
    public func retry(_ times: Int) -> Self { self }

    /// As `Publisher.replaceError`, done at once: the value or the failure is known.
    public func replaceError(with output: Output) -> Result<Output, Never>.Publisher {
        if case .success(let value) = result { Result<Output, Never>.Publisher(value) } else { .init(output) }
    }

    /// As `Publisher.map`, done at once: the value or the failure is known.
    public func map<T>(_ transform: (Output) -> T) -> Result<T, Failure>.Publisher {
        Result<T, Failure>.Publisher(result.map(transform))
    }

    /// As `Publisher.tryMap`, done at once: the value or the failure is known.
    public func tryMap<T>(_ transform: (Output) throws -> T) -> Result<T, any Error>.Publisher {
        Result<T, any Error>.Publisher(Result<T, any Error> { try transform(try result.get()) })
    }

    /// As `Publisher.mapError`, done at once: the value or the failure is known.
    public func mapError<E: Error>(_ transform: (Failure) -> E) -> Result<Output, E>.Publisher {
        Result<Output, E>.Publisher(result.mapError(transform))
    }

    /// As `Publisher.reduce`, done at once: the value or the failure is known.
    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Failure>.Publisher {
        map { next(initial, $0) }
    }

    /// As `Publisher.tryReduce`, done at once: the value or the failure is known.
    public func tryReduce<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryMap { try next(initial, $0) }
    }

    /// As `Publisher.scan`, done at once: the value or the failure is known.
    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Failure>.Publisher {
        reduce(initial, next)
    }

    /// As `Publisher.tryScan`, done at once: the value or the failure is known.
    public func tryScan<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryReduce(initial, next)
    }
}

extension Result.Publisher where Output: Equatable {
    /// As `Publisher.contains`, done at once: the value or the failure is known.
    public func contains(_ output: Output) -> Result<Bool, Failure>.Publisher { map { $0 == output } }
    /// As `Publisher.removeDuplicates`, done at once: the value or the failure is known.
    public func removeDuplicates() -> Self { self }
}

extension Result.Publisher where Output: Comparable {
    /// As `Publisher.min`, done at once: the value or the failure is known.
    public func min() -> Self { self }
    /// As `Publisher.max`, done at once: the value or the failure is known.
    public func max() -> Self { self }
}

extension Result.Publisher where Failure == Never {
    /// As `Publisher.setFailureType`, done at once: the value or the failure is known.
    public func setFailureType<E: Error>(to failureType: E.Type) -> Result<Output, E>.Publisher {
        switch result {
        case .success(let value): Result<Output, E>.Publisher(value)
        }
    }
}
