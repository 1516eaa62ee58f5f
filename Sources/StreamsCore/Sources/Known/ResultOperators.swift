// Operators of a result's publisher whose result is known at once: they are applied when they are written. As in
// Combine.

extension Result.Publisher {
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher { map(predicate) }

    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    public func contains(where predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher { map(predicate) }

    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    public func collect() -> Result<[Output], Failure>.Publisher { map { [$0] } }
    public func count() -> Result<Int, Failure>.Publisher { map { _ in 1 } }
    public func first() -> Self { self }
    public func last() -> Self { self }
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }

    public func tryMin(
        by areInIncreasingOrder: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(areInIncreasingOrder) }

    public func tryMax(
        by areInIncreasingOrder: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher { checked(areInIncreasingOrder) }

    public func ignoreOutput() -> Empty<Output, Failure> { Empty() }
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Self { self }

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

    public func replaceEmpty(with output: Output) -> Self { self }
    public func retry(_ times: Int) -> Self { self }

    public func replaceError(with output: Output) -> Result<Output, Never>.Publisher {
        if case .success(let value) = result { Result<Output, Never>.Publisher(value) } else { .init(output) }
    }

    public func map<T>(_ transform: (Output) -> T) -> Result<T, Failure>.Publisher {
        Result<T, Failure>.Publisher(result.map(transform))
    }

    public func tryMap<T>(_ transform: (Output) throws -> T) -> Result<T, any Error>.Publisher {
        Result<T, any Error>.Publisher(Result<T, any Error> { try transform(try result.get()) })
    }

    public func mapError<E: Error>(_ transform: (Failure) -> E) -> Result<Output, E>.Publisher {
        Result<Output, E>.Publisher(result.mapError(transform))
    }

    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Failure>.Publisher {
        map { next(initial, $0) }
    }

    public func tryReduce<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryMap { try next(initial, $0) }
    }

    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Failure>.Publisher {
        reduce(initial, next)
    }

    public func tryScan<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryReduce(initial, next)
    }
}

extension Result.Publisher where Output: Equatable {
    public func contains(_ output: Output) -> Result<Bool, Failure>.Publisher { map { $0 == output } }
    public func removeDuplicates() -> Self { self }
}

extension Result.Publisher where Output: Comparable {
    public func min() -> Self { self }
    public func max() -> Self { self }
}

extension Result.Publisher where Failure == Never {
    public func setFailureType<E: Error>(to failureType: E.Type) -> Result<Output, E>.Publisher {
        switch result {
        case .success(let value): Result<Output, E>.Publisher(value)
        }
    }
}
