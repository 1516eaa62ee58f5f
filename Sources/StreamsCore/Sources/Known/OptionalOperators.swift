// Operators of an optional's publisher whose result is known at once: they are applied when they are written. As in
// Combine, where what sums up no value is no value, except for `collect`.

extension Optional.Publisher {
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Bool?.Publisher { map(predicate) }
    public func contains(where predicate: (Output) -> Bool) -> Bool?.Publisher { map(predicate) }
    public func collect() -> [Output]?.Publisher { [Output]?.Publisher(output.map { [$0] } ?? []) }
    public func count() -> Int?.Publisher { map { _ in 1 } }
    public func first() -> Self { self }
    public func last() -> Self { self }
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Self { self }
    public func ignoreOutput() -> Empty<Output, Never> { Empty() }
    public func removeDuplicates(by predicate: (Output, Output) -> Bool) -> Self { self }
    public func replaceError(with output: Output) -> Self { self }
    public func replaceEmpty(with output: Output) -> Just<Output> { Just(self.output ?? output) }
    public func retry(_ times: Int) -> Self { self }

    public func dropFirst(_ count: Int = 1) -> Self {
        precondition(count >= 0, "The number of values to be dropped cannot be negative.")
        return filter { _ in count == 0 }
    }

    public func drop(while predicate: (Output) -> Bool) -> Self { filter { !predicate($0) } }
    public func first(where predicate: (Output) -> Bool) -> Self { filter(predicate) }
    public func last(where predicate: (Output) -> Bool) -> Self { filter(predicate) }
    public func prefix(while predicate: (Output) -> Bool) -> Self { filter(predicate) }

    public func filter(_ isIncluded: (Output) -> Bool) -> Self {
        Self(output.flatMap { isIncluded($0) ? $0 : nil })
    }

    public func prefix(_ maxLength: Int) -> Self {
        precondition(maxLength >= 0, "A number of values cannot be negative.")
        return filter { _ in maxLength > 0 }
    }

    public func output(at index: Int) -> Self {
        precondition(index >= 0, "Places are counted from 0.")
        return filter { _ in index == 0 }
    }

    public func output<R: RangeExpression>(in range: R) -> Self where R.Bound == Int {
        let places = range.relative(to: 0..<Int.max)
        return filter { _ in places.lowerBound == 0 && !places.isEmpty }
    }

    public func map<T>(_ transform: (Output) -> T) -> T?.Publisher { T?.Publisher(output.map(transform)) }
    public func compactMap<T>(_ transform: (Output) -> T?) -> T?.Publisher { T?.Publisher(output.flatMap(transform)) }

    public func reduce<T>(_ initial: T, _ next: (T, Output) -> T) -> T?.Publisher {
        map { next(initial, $0) }
    }

    public func scan<T>(_ initial: T, _ next: (T, Output) -> T) -> T?.Publisher { map { next(initial, $0) } }
}

extension Optional.Publisher where Wrapped: Equatable {
    public func contains(_ output: Output) -> Bool?.Publisher { map { $0 == output } }
    public func removeDuplicates() -> Self { self }
}

extension Optional.Publisher where Wrapped: Comparable {
    public func min() -> Self { self }
    public func max() -> Self { self }
}
