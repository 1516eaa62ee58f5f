// Operators of an optional's publisher that are evaluated when they are applied, because the value is known. As in
// Combine, an aggregate of no value is no value, except for `collect`.

extension Optional.Publisher {
    /// Like `Publisher.allSatisfy`, but evaluated immediately.
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Bool?.Publisher { map(predicate) }
    /// Like `Publisher.contains`, but evaluated immediately.
    public func contains(where predicate: (Output) -> Bool) -> Bool?.Publisher { map(predicate) }
    /// Like `Publisher.collect`, but evaluated immediately.
    public func collect() -> [Output]?.Publisher { [Output]?.Publisher(output.map { [$0] } ?? []) }
    /// Like `Publisher.count`, but evaluated immediately.
    public func count() -> Int?.Publisher { map { _ in 1 } }
    /// Like `Publisher.first`, but evaluated immediately.
    public func first() -> Self { self }
    /// Like `Publisher.last`, but evaluated immediately.
    public func last() -> Self { self }
    /// Like `Publisher.min`, but evaluated immediately.
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    /// Like `Publisher.max`, but evaluated immediately.
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    /// Like `Publisher.ignoreOutput`, but evaluated immediately.
    public func ignoreOutput() -> Empty<Output, Never> { Empty() }
    /// Like `Publisher.removeDuplicates`, but evaluated immediately.
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Self { self }
    /// Like `Publisher.replaceError`, but evaluated immediately.
    public func replaceError(with output: Output) -> Self { self }
    /// Like `Publisher.replaceEmpty`, but evaluated immediately.
    public func replaceEmpty(with output: Output) -> Just<Output> { Just(self.output ?? output) }
    /// Like `Publisher.retry`, but evaluated immediately.
    public func retry(_ times: Int) -> Self { self }

    /// Like `Publisher.dropFirst`, but evaluated immediately.
    public func dropFirst(_ count: Int = 1) -> Self {
        precondition(count >= 0, "The number of values to drop cannot be negative.")
        return filter { _ in count == 0 }
    }

    /// Like `Publisher.drop`, but evaluated immediately.
    public func drop(while predicate: (Output) -> Bool) -> Self { filter { !predicate($0) } }
    /// Like `Publisher.first`, but evaluated immediately.
    public func first(where predicate: (Output) -> Bool) -> Self { filter(predicate) }
    /// Like `Publisher.last`, but evaluated immediately.
    public func last(where predicate: (Output) -> Bool) -> Self { filter(predicate) }
    /// Like `Publisher.prefix`, but evaluated immediately.
    public func prefix(while predicate: (Output) -> Bool) -> Self { filter(predicate) }

    /// Like `Publisher.filter`, but evaluated immediately.
    public func filter(_ isIncluded: (Output) -> Bool) -> Self {
        Self(output.flatMap { isIncluded($0) ? $0 : nil })
    }

    /// Like `Publisher.prefix`, but evaluated immediately.
    public func prefix(_ maxLength: Int) -> Self {
        precondition(maxLength >= 0, "The number of values cannot be negative.")
        return filter { _ in maxLength > 0 }
    }

    /// Like `Publisher.output`, but evaluated immediately.
    public func output(at index: Int) -> Self {
        precondition(index >= 0, "An index cannot be negative.")
        return filter { _ in index == 0 }
    }

    /// Like `Publisher.output`, but evaluated immediately.
    public func output<R: RangeExpression>(in range: R) -> Self where R.Bound == Int {
        let places = range.relative(to: 0..<Int.max)
        return filter { _ in places.lowerBound == 0 && !places.isEmpty }
    }

    /// Like `Publisher.map`, but evaluated immediately.
    public func map<T>(_ transform: (Output) -> T) -> T?.Publisher { T?.Publisher(output.map(transform)) }
    /// Like `Publisher.compactMap`, but evaluated immediately.
    public func compactMap<T>(_ transform: (Output) -> T?) -> T?.Publisher { T?.Publisher(output.flatMap(transform)) }

    /// Like `Publisher.reduce`, but evaluated immediately.
    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> T?.Publisher {
        map { next(initial, $0) }
    }

    /// Like `Publisher.scan`, but evaluated immediately.
    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> T?.Publisher { map { next(initial, $0) } }
}

extension Optional.Publisher where Wrapped: Equatable {
    /// Like `Publisher.contains`, but evaluated immediately.
    public func contains(_ output: Output) -> Bool?.Publisher { map { $0 == output } }
    /// Like `Publisher.removeDuplicates`, but evaluated immediately.
    public func removeDuplicates() -> Self { self }
}

extension Optional.Publisher where Wrapped: Comparable {
    /// Like `Publisher.min`, but evaluated immediately.
    public func min() -> Self { self }
    /// Like `Publisher.max`, but evaluated immediately.
    public func max() -> Self { self }
}
