// Operators of Just whose result is known at once: they are applied when they are written, and what is left of them is
// a value. As in Combine.

extension Just {
    /// As `Publisher.allSatisfy`, done at once: the value is known.
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Just<Bool> { Just<Bool>(predicate(output)) }

    /// As `Publisher.tryAllSatisfy`, done at once: the value is known.
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// As `Publisher.contains`, done at once: the value is known.
    public func contains(where predicate: (Output) -> Bool) -> Just<Bool> { Just<Bool>(predicate(output)) }

    /// As `Publisher.tryContains`, done at once: the value is known.
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        tryMap(predicate)
    }

    /// As `Publisher.collect`, done at once: the value is known.
    public func collect() -> Just<[Output]> { Just<[Output]>([output]) }
    /// As `Publisher.count`, done at once: the value is known.
    public func count() -> Just<Int> { Just<Int>(1) }
    /// As `Publisher.first`, done at once: the value is known.
    public func first() -> Just<Output> { self }
    /// As `Publisher.last`, done at once: the value is known.
    public func last() -> Just<Output> { self }
    /// As `Publisher.min`, done at once: the value is known.
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Just<Output> { self }
    /// As `Publisher.max`, done at once: the value is known.
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Just<Output> { self }
    /// As `Publisher.ignoreOutput`, done at once: the value is known.
    public func ignoreOutput() -> Empty<Output, Never> { Empty() }
    /// As `Publisher.removeDuplicates`, done at once: the value is known.
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Just<Output> { self }
    /// As `Publisher.replaceError`, done at once: the value is known.
    public func replaceError(with output: Output) -> Just<Output> { self }
    /// As `Publisher.replaceEmpty`, done at once: the value is known.
    public func replaceEmpty(with output: Output) -> Just<Output> { self }
    /// As `Publisher.retry`, done at once: the value is known.
    public func retry(_ times: Int) -> Just<Output> { self }

    /// As `Publisher.tryRemoveDuplicates`, done at once: the value is known.
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

    /// As `Publisher.dropFirst`, done at once: the value is known.
    public func dropFirst(_ count: Int = 1) -> Output?.Publisher {
        precondition(count >= 0, "The number of values to be dropped cannot be negative.")
        return kept(if: count == 0)
    }

    /// As `Publisher.drop`, done at once: the value is known.
    public func drop(while predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: !predicate(output)) }
    /// As `Publisher.first`, done at once: the value is known.
    public func first(where predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }
    /// As `Publisher.last`, done at once: the value is known.
    public func last(where predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }
    /// As `Publisher.filter`, done at once: the value is known.
    public func filter(_ isIncluded: (Output) -> Bool) -> Output?.Publisher { kept(if: isIncluded(output)) }
    /// As `Publisher.prefix`, done at once: the value is known.
    public func prefix(while predicate: (Output) -> Bool) -> Output?.Publisher { kept(if: predicate(output)) }

    /// As `Publisher.prefix`, done at once: the value is known.
    public func prefix(_ maxLength: Int) -> Output?.Publisher {
        precondition(maxLength >= 0, "A number of values cannot be negative.")
        return kept(if: maxLength > 0)
    }

    /// As `Publisher.output`, done at once: the value is known.
    public func output(at index: Int) -> Output?.Publisher {
        precondition(index >= 0, "Places are counted from 0.")
        return kept(if: index == 0)
    }

    /// As `Publisher.output`, done at once: the value is known.
    public func output<R: RangeExpression>(in range: R) -> Output?.Publisher where R.Bound == Int {
        let places = range.relative(to: 0..<Int.max)
        return kept(if: places.lowerBound == 0 && !places.isEmpty)
    }

    /// As `Publisher.compactMap`, done at once: the value is known.
    public func compactMap<T>(_ transform: (Output) -> T?) -> T?.Publisher { T?.Publisher(transform(output)) }

    private func kept(if condition: Bool) -> Output?.Publisher { Output?.Publisher(condition ? output : nil) }

    // Something else is made of it.

    /// As `Publisher.map`, done at once: the value is known.
    public func map<T>(_ transform: (Output) -> T) -> Just<T> { Just<T>(transform(output)) }

    /// As `Publisher.tryMap`, done at once: the value is known.
    public func tryMap<T>(_ transform: (Output) throws -> T) -> Result<T, any Error>.Publisher {
        Result.Publisher(Result { try transform(output) })
    }

    /// As `Publisher.mapError`, done at once: the value is known.
    public func mapError<E: Error>(_ transform: (Never) -> E) -> Result<Output, E>.Publisher {
        Result.Publisher(output)
    }

    /// As `Publisher.setFailureType`, done at once: the value is known.
    public func setFailureType<E: Error>(to failureType: E.Type) -> Result<Output, E>.Publisher {
        Result.Publisher(output)
    }

    /// As `Publisher.reduce`, done at once: the value is known.
    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Never>.Publisher {
        Result.Publisher(next(initial, output))
    }

    /// As `Publisher.tryReduce`, done at once: the value is known.
    public func tryReduce<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryMap { try next(initial, $0) }
    }

    /// As `Publisher.scan`, done at once: the value is known.
    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> Result<T, Never>.Publisher {
        reduce(initial, next)
    }

    /// As `Publisher.tryScan`, done at once: the value is known.
    public func tryScan<T>(_ initial: T, _ next: (T, Output) throws -> T) -> Result<T, any Error>.Publisher {
        tryReduce(initial, next)
    }

    /// As `Publisher.prepend`, done at once: the value is known.
    public func prepend(_ elements: Output...) -> Publishers.Sequence<[Output], Never> { prepend(elements) }

    /// As `Publisher.prepend`, done at once: the value is known.
    public func prepend<S: Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<[Output], Never> where S.Element == Output {
        Publishers.Sequence(sequence: elements + [output])
    }

    /// As `Publisher.append`, done at once: the value is known.
    public func append(_ elements: Output...) -> Publishers.Sequence<[Output], Never> { append(elements) }

    /// As `Publisher.append`, done at once: the value is known.
    public func append<S: Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<[Output], Never> where S.Element == Output {
        Publishers.Sequence(sequence: [output] + elements)
    }
}

extension Just where Output: Comparable {
    /// As `Publisher.min`, done at once: the value is known.
    public func min() -> Just<Output> { self }
    /// As `Publisher.max`, done at once: the value is known.
    public func max() -> Just<Output> { self }
}

extension Just where Output: Equatable {
    /// As `Publisher.contains`, done at once: the value is known.
    public func contains(_ output: Output) -> Just<Bool> { Just<Bool>(self.output == output) }
    /// As `Publisher.removeDuplicates`, done at once: the value is known.
    public func removeDuplicates() -> Just<Output> { self }
}
