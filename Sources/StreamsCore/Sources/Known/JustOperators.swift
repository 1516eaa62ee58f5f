// Operators of Just whose result is known at once: they are applied when they are written, and what is left of them is
// a value. As in Combine.

extension Just {
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Just<Bool> { Just<Bool>(predicate(output)) }

    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    public func contains(where predicate: (Output) -> Bool) -> Just<Bool> { Just<Bool>(predicate(output)) }

    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    public func collect() -> Just<[Output]> { Just<[Output]>([output]) }
    public func count() -> Just<Int> { Just<Int>(1) }
    public func first() -> Just<Output> { self }
    public func last() -> Just<Output> { self }
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Just<Output> { self }
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Just<Output> { self }
    public func ignoreOutput() -> Empty<Output, Never> { Empty() }
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Just<Output> { self }
    public func replaceError(with output: Output) -> Just<Output> { self }
    public func replaceEmpty(with output: Output) -> Just<Output> { self }
    public func retry(_ times: Int) -> Just<Output> { self }

    public func tryRemoveDuplicates(
        by predicate: (Output, Output) throws -> Bool
    ) -> Result<Output, any Error>.Publisher {
        // There is nothing to compare the value with but itself; a comparison that throws is not passed over.
        tryMap { value in
            _ = try predicate(value, value)
            return value
        }
    }

    // Maybe nothing is left.

    public func dropFirst(_ count: Int = 1) -> Output?.Publisher {
        precondition(count >= 0, "The number of values to be dropped cannot be negative.")
        return kept(if: count == 0)
    }

    public func drop(while predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: !predicate(output)) }
    public func first(where predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }
    public func last(where predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }
    public func filter(_ isIncluded: (Output) -> Bool) -> Output?.Publisher { kept(if: isIncluded(output)) }
    public func prefix(while predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }

    public func prefix(_ maxLength: Int) -> Output?.Publisher {
        precondition(maxLength >= 0, "A number of values cannot be negative.")
        return kept(if: maxLength > 0)
    }

    public func output(at index: Int) -> Output?.Publisher {
        precondition(index >= 0, "Places are counted from 0.")
        return kept(if: index == 0)
    }

    public func output<R: RangeExpression>(in range: R) -> Output?.Publisher where R.Bound == Int {
        let places = range.relative(to: 0..<Int.max)
        return kept(if: places.lowerBound == 0 && !places.isEmpty)
    }

    public func compactMap<T>(_ transform: (Output) -> T?) -> T?.Publisher { T?.Publisher(transform(output)) }

    private func kept(if condition: Bool) -> Output?.Publisher { Output?.Publisher(condition ? output : nil) }

    // Something else is made of it.

    public func map<T>(_ transform: (Output) -> T) -> Just<T> { Just<T>(transform(output)) }

    public func tryMap<T>(_ transform: (Output) throws -> T) -> Result<T, any Error>.Publisher {
        Result.Publisher(Result { try transform(output) })
    }

    public func mapError<E: Error>(_ transform: (Never) -> E) -> Result<Output, E>.Publisher {
        Result.Publisher(output)
    }

    public func setFailureType<E: Error>(to failureType: E.Type) -> Result<Output, E>.Publisher {
        Result.Publisher(output)
    }

    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Never>.Publisher {
        Result.Publisher(next(initial, output))
    }

    public func tryReduce<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryMap { try next(initial, $0) }
    }

    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Never>.Publisher {
        reduce(initial, next)
    }

    public func tryScan<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryReduce(initial, next)
    }

    public func prepend(_ elements: Output...) -> Publishers.Sequence<[Output], Never> { prepend(elements) }

    public func prepend<S: Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<[Output], Never> where S.Element == Output {
        Publishers.Sequence(sequence: elements + [output])
    }

    public func append(_ elements: Output...) -> Publishers.Sequence<[Output], Never> { append(elements) }

    public func append<S: Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<[Output], Never> where S.Element == Output {
        Publishers.Sequence(sequence: [output] + elements)
    }
}

extension Just where Output: Comparable {
    public func min() -> Just<Output> { self }
    public func max() -> Just<Output> { self }
}

extension Just where Output: Equatable {
    public func contains(_ output: Output) -> Just<Bool> { Just<Bool>(self.output == output) }
    public func removeDuplicates() -> Just<Output> { self }
}
