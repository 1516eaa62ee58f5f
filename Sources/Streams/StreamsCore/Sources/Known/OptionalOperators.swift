// Operators of an optional's publisher whose result is known at once: they are applied when they are written. As in
// Combine, where what sums up no value is no value, except for `collect`.

extension Optional.Publisher {
    /// As `Publisher.allSatisfy`, done at once: the value, or that there is none, is known.
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Bool?.Publisher { map(predicate) }
    /// As `Publisher.contains`, done at once: the value, or that there is none, is known.
    public func contains(where predicate: (Output) -> Bool) -> Bool?.Publisher { map(predicate) }
    /// As `Publisher.collect`, done at once: the value, or that there is none, is known.
    public func collect() -> [Output]?.Publisher { [Output]?.Publisher(output.map { [$0] } ?? []) }
    /// As `Publisher.count`, done at once: the value, or that there is none, is known.
    public func count() -> Int?.Publisher { map { _ in 1 } }
    /// As `Publisher.first`, done at once: the value, or that there is none, is known.
    public func first() -> Self { self }
    /// As `Publisher.last`, done at once: the value, or that there is none, is known.
    public func last() -> Self { self }
    /// As `Publisher.min`, done at once: the value, or that there is none, is known.
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    /// As `Publisher.max`, done at once: the value, or that there is none, is known.
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    /// As `Publisher.ignoreOutput`, done at once: the value, or that there is none, is known.
    public func ignoreOutput() -> Empty<Output, Never> { Empty() }
    /// As `Publisher.removeDuplicates`, done at once: the value, or that there is none, is known.
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Self { self }
    /// As `Publisher.replaceError`, done at once: the value, or that there is none, is known.
    public func replaceError(with output: Output) -> Self { self }
    /// As `Publisher.replaceEmpty`, done at once: the value, or that there is none, is known.
    public func replaceEmpty(with output: Output) -> Just<Output> { Just(self.output ?? output) }
    /// As `Publisher.retry`, done at once: the value, or that there is none, is known.
    public func retry(_ times: Int) -> Self { self }

    /// As `Publisher.dropFirst`, done at once: the value, or that there is none, is known.
    public func dropFirst(_ count: Int = 1) -> Self {
        precondition(count >= 0, "The number of values to be dropped cannot be negative.")
        return filter { _ in count == 0 }
    }

    /// As `Publisher.drop`, done at once: the value, or that there is none, is known.
    public func drop(while predicate: (Output) -> Bool) -> Self { filter { !predicate($0) } }
    /// As `Publisher.first`, done at once: the value, or that there is none, is known.
    public func first(where predicate: (Output) -> Bool) -> Self { filter(predicate) }
    /// As `Publisher.last`, done at once: the value, or that there is none, is known.
    public func last(where predicate: (Output) -> Bool) -> Self { filter(predicate) }
    /// As `Publisher.prefix`, done at once: the value, or that there is none, is known.
    public func prefix(while predicate: (Output) -> Bool) -> Self { filter(predicate) }

    /// As `Publisher.filter`, done at once: the value, or that there is none, is known.
    public func filter(_ isIncluded: (Output) -> Bool) -> Self {
        Self(output.flatMap { isIncluded($0) ? $0 : nil })
    }

    /// As `Publisher.prefix`, done at once: the value, or that there is none, is known.
    public func prefix(_ maxLength: Int) -> Self {
        precondition(maxLength >= 0, "A number of values cannot be negative.")
        return filter { _ in maxLength > 0 }
    }

    /// As `Publisher.output`, done at once: the value, or that there is none, is known.
    public func output(at index: Int) -> Self {
        precondition(index >= 0, "Places are counted from 0.")
        return filter { _ in index == 0 }
    }

    /// As `Publisher.output`, done at once: the value, or that there is none, is known.
    public func output<R: RangeExpression>(in range: R) -> Self where R.Bound == Int {
        let places = range.relative(to: 0..<Int.max)
        return filter { _ in places.lowerBound == 0 && !places.isEmpty }
    }

    /// As `Publisher.map`, done at once: the value, or that there is none, is known.
    public func map<T>(_ transform: (Output) -> T) -> T?.Publisher { T?.Publisher(output.map(transform)) }
    /// As `Publisher.compactMap`, done at once: the value, or that there is none, is known.
    public func compactMap<T>(_ transform: (Output) -> T?) -> T?.Publisher { T?.Publisher(output.flatMap(transform)) }

    /// As `Publisher.reduce`, done at once: the value, or that there is none, is known.
    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> T?.Publisher {
        map { next(initial, $0) }
    }

    /// As `Publisher.scan`, done at once: the value, or that there is none, is known.
    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> T?.Publisher { map { next(initial, $0) } }
}

extension Optional.Publisher where Wrapped: Equatable {
    /// As `Publisher.contains`, done at once: the value, or that there is none, is known.
    public func contains(_ output: Output) -> Bool?.Publisher { map { $0 == output } }
    /// As `Publisher.removeDuplicates`, done at once: the value, or that there is none, is known.
    public func removeDuplicates() -> Self { self }
}

extension Optional.Publisher where Wrapped: Comparable {
    /// As `Publisher.min`, done at once: the value, or that there is none, is known.
    public func min() -> Self { self }
    /// As `Publisher.max`, done at once: the value, or that there is none, is known.
    public func max() -> Self { self }
}
