// Operators of Just that are evaluated when they are applied, because the value is known. The result is another
// constant publisher, as in Combine.

extension Just {
    /// Like `Publisher.allSatisfy`, but evaluated immediately.
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Just<Bool> { Just<Bool>(predicate(output)) }

    /// Like `Publisher.tryAllSatisfy`, but evaluated immediately.
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// Like `Publisher.contains`, but evaluated immediately.
    public func contains(where predicate: (Output) -> Bool) -> Just<Bool> { Just<Bool>(predicate(output)) }

    /// Like `Publisher.tryContains`, but evaluated immediately.
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// Like `Publisher.collect`, but evaluated immediately.
    public func collect() -> Just<[Output]> { Just<[Output]>([output]) }
    /// Like `Publisher.count`, but evaluated immediately.
    public func count() -> Just<Int> { Just<Int>(1) }
    /// Like `Publisher.first`, but evaluated immediately.
    public func first() -> Just<Output> { self }
    /// Like `Publisher.last`, but evaluated immediately.
    public func last() -> Just<Output> { self }
    /// Like `Publisher.min`, but evaluated immediately.
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Just<Output> { self }
    /// Like `Publisher.max`, but evaluated immediately.
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Just<Output> { self }
    /// Like `Publisher.ignoreOutput`, but evaluated immediately.
    public func ignoreOutput() -> Empty<Output, Never> { Empty() }
    /// Like `Publisher.removeDuplicates`, but evaluated immediately.
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Just<Output> { self }
    /// Like `Publisher.replaceError`, but evaluated immediately.
    public func replaceError(with output: Output) -> Just<Output> { self }
    /// Like `Publisher.replaceEmpty`, but evaluated immediately.
    public func replaceEmpty(with output: Output) -> Just<Output> { self }
    /// Like `Publisher.retry`, but evaluated immediately.
    public func retry(_ times: Int) -> Just<Output> { self }

    /// Like `Publisher.tryRemoveDuplicates`, but evaluated immediately.
    public func tryRemoveDuplicates(
        by predicate: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher {
        // The value has no neighbor and is compared with itself, so that an error that the comparison throws is
        // reported.
        tryMap { value in
            _ = try predicate(value, value)
            return value
        }
    }

    // Operators that may remove the value.

    /// Like `Publisher.dropFirst`, but evaluated immediately.
    public func dropFirst(_ count: Int = 1) -> Output?.Publisher {
        precondition(count >= 0, "The number of values to drop cannot be negative.")
        return kept(if: count == 0)
    }

    /// Like `Publisher.drop`, but evaluated immediately.
    public func drop(while predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: !predicate(output)) }
    /// Like `Publisher.first`, but evaluated immediately.
    public func first(where predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }
    /// Like `Publisher.last`, but evaluated immediately.
    public func last(where predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }
    /// Like `Publisher.filter`, but evaluated immediately.
    public func filter(_ isIncluded: (Output) -> Bool) -> Output?.Publisher { kept(if: isIncluded(output)) }
    /// Like `Publisher.prefix`, but evaluated immediately.
    public func prefix(while predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }

    /// Like `Publisher.prefix`, but evaluated immediately.
    public func prefix(_ maxLength: Int) -> Output?.Publisher {
        precondition(maxLength >= 0, "The number of values cannot be negative.")
        return kept(if: maxLength > 0)
    }

    /// Like `Publisher.output`, but evaluated immediately.
    public func output(at index: Int) -> Output?.Publisher {
        precondition(index >= 0, "An index cannot be negative.")
        return kept(if: index == 0)
    }

    /// Like `Publisher.output`, but evaluated immediately.
    public func output<R: RangeExpression>(in range: R) -> Output?.Publisher where R.Bound == Int {
        let places = range.relative(to: 0..<Int.max)
        return kept(if: places.lowerBound == 0 && !places.isEmpty)
    }

    /// Like `Publisher.compactMap`, but evaluated immediately.
    public func compactMap<T>(_ transform: (Output) -> T?) -> T?.Publisher { T?.Publisher(transform(output)) }

    private func kept(if condition: Bool) -> Output?.Publisher { Output?.Publisher(condition ? output : nil) }

    // Operators that transform the value.

    /// Like `Publisher.map`, but evaluated immediately.
    public func map<T>(_ transform: (Output) -> T) -> Just<T> { Just<T>(transform(output)) }

    /// Like `Publisher.tryMap`, but evaluated immediately.
    public func tryMap<T>(_ transform: (Output) throws -> T) -> Result<T, any Error>.Publisher {
        Result.Publisher(Result { try transform(output) })
    }

    /// Like `Publisher.mapError`, but evaluated immediately.
    public func mapError<E: Error>(_ transform: (Never) -> E) -> Result<Output, E>.Publisher {
        Result.Publisher(output)
    }

    /// Like `Publisher.setFailureType`, but evaluated immediately.
    public func setFailureType<E: Error>(to failureType: E.Type) -> Result<Output, E>.Publisher {
        Result.Publisher(output)
    }

    /// Like `Publisher.reduce`, but evaluated immediately.
    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Never>.Publisher {
        Result.Publisher(next(initial, output))
    }

    /// Like `Publisher.tryReduce`, but evaluated immediately.
    public func tryReduce<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryMap { try next(initial, $0) }
    }

    /// Like `Publisher.scan`, but evaluated immediately.
    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Never>.Publisher {
        reduce(initial, next)
    }

    /// Like `Publisher.tryScan`, but evaluated immediately.
    public func tryScan<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryReduce(initial, next)
    }

    /// Like `Publisher.prepend`, but evaluated immediately.
    public func prepend(_ elements: Output...) -> Publishers.Sequence<[Output], Never> { prepend(elements) }

    /// Like `Publisher.prepend`, but evaluated immediately.
    public func prepend<S: Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<[Output], Never> where S.Element == Output {
        Publishers.Sequence(sequence: elements + [output])
    }

    /// Like `Publisher.append`, but evaluated immediately.
    public func append(_ elements: Output...) -> Publishers.Sequence<[Output], Never> { append(elements) }

    /// Like `Publisher.append`, but evaluated immediately.
    public func append<S: Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<[Output], Never> where S.Element == Output {
        Publishers.Sequence(sequence: [output] + elements)
    }
}

extension Just where Output: Comparable {
    /// Like `Publisher.min`, but evaluated immediately.
    public func min() -> Just<Output> { self }
    /// Like `Publisher.max`, but evaluated immediately.
    public func max() -> Just<Output> { self }
}

extension Just where Output: Equatable {
    /// Like `Publisher.contains`, but evaluated immediately.
    public func contains(_ output: Output) -> Just<Bool> { Just<Bool>(self.output == output) }
    /// Like `Publisher.removeDuplicates`, but evaluated immediately.
    public func removeDuplicates() -> Just<Output> { self }
}
