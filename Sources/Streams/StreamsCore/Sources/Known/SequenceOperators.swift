// Operators of a sequence's publisher whose result is a sequence, or a value, that can be known at once.
//
// Combine computes all of them when they are written; on a sequence without end that never returns. Here those that
// call a closure, or make a sequence of values of their own, are taken only where their type is asked for – by a
// declaration, or by a property of it – and else the operators that any publisher has, which compute when there is
// demand.

extension Publishers.Sequence {
    /// As `Publisher.setFailureType`, of a sequence that is known.
    public func setFailureType<E: Error>(to error: E.Type) -> Publishers.Sequence<Elements, E> {
        Publishers.Sequence<Elements, E>(sequence: sequence)
    }

    /// As `Publisher.dropFirst`, of a sequence that is known.
    public func dropFirst(_ count: Int = 1) -> Publishers.Sequence<DropFirstSequence<Elements>, Failure> {
        Publishers.Sequence<DropFirstSequence<Elements>, Failure>(sequence: sequence.dropFirst(count))
    }

    /// As `Publisher.prefix`, of a sequence that is known.
    public func prefix(_ maxLength: Int) -> Publishers.Sequence<PrefixSequence<Elements>, Failure> {
        Publishers.Sequence<PrefixSequence<Elements>, Failure>(sequence: sequence.prefix(maxLength))
    }

    /// As `Publisher.ignoreOutput`, of a sequence that is known.
    public func ignoreOutput() -> Empty<Elements.Element, Failure> { Empty() }

    /// As `Publisher.allSatisfy`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.allSatisfy(predicate))
    }

    /// As `Publisher.tryAllSatisfy`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        .init(Result<Bool, any Error> { try sequence.allSatisfy(predicate) })
    }

    /// As `Publisher.contains`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func contains(where predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.contains(where: predicate))
    }

    /// As `Publisher.tryContains`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        .init(Result<Bool, any Error> { try sequence.contains(where: predicate) })
    }

    /// As `Publisher.collect`, of a sequence that is known.
    public func collect() -> Result<[Output], Failure>.Publisher {
        Result<[Output], Failure>.Publisher(Array(sequence))
    }

    /// As `Publisher.compactMap`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func compactMap<T>(_ transform: (Output) -> T?) -> Publishers.Sequence<[T], Failure> {
        .init(sequence: sequence.compactMap(transform))
    }

    /// As `Publisher.drop`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func drop(
        while predicate: (Output) -> Bool
    ) -> Publishers.Sequence<DropWhileSequence<Elements>, Failure> {
        .init(sequence: sequence.drop(while: predicate))
    }

    /// As `Publisher.filter`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func filter(_ isIncluded: (Output) -> Bool) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.filter(isIncluded))
    }

    /// As `Publisher.map`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func map<T>(_ transform: (Output) -> T) -> Publishers.Sequence<[T], Failure> {
        .init(sequence: sequence.map(transform))
    }

    /// As `Publisher.prefix`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func prefix(while predicate: (Output) -> Bool) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.prefix(while: predicate))
    }

    /// As `Publisher.reduce`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func reduce<T>(
        _ initial: T, _ next: @escaping @Sendable (T, Output) -> T
    ) -> Result<T, Failure>.Publisher {
        Result<T, Failure>.Publisher(sequence.reduce(initial, next))
    }

    /// As `Publisher.tryReduce`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func tryReduce<T>(
        _ initial: T, _ next: @escaping @Sendable (T, Output) throws -> T
    ) -> Result<T, any Error>.Publisher {
        .init(Result<T, any Error> { try sequence.reduce(initial, next) })
    }

    /// As `Publisher.replaceNil`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func replaceNil<T>(with output: T) -> Publishers.Sequence<[Output], Failure> where Output == T? {
        .init(sequence: sequence.map { $0 ?? output })
    }

    /// As `Publisher.scan`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func scan<T>(
        _ initial: T, _ next: @escaping @Sendable (T, Output) -> T
    ) -> Publishers.Sequence<[T], Failure> {
        var result = initial
        return .init(
            sequence: sequence.map { value in
                result = next(result, value)
                return result
            })
    }
}

extension Publishers.Sequence where Failure == Never {
    /// As `Publisher.min`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Output?.Publisher {
        .init(sequence.min(by: areInIncreasingOrder))
    }

    /// As `Publisher.max`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Output?.Publisher {
        .init(sequence.max(by: areInIncreasingOrder))
    }

    /// As `Publisher.first`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func first(where predicate: (Output) -> Bool) -> Output?.Publisher {
        .init(sequence.first(where: predicate))
    }
}

extension Publishers.Sequence where Elements.Element: Equatable {
    /// As `Publisher.removeDuplicates`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func removeDuplicates() -> Publishers.Sequence<[Output], Failure> {
        var values: [Output] = []
        for value in sequence where values.last != value { values.append(value) }
        return .init(sequence: values)
    }

    /// As `Publisher.contains`, of a sequence that is known.
    public func contains(_ output: Output) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.contains(output))
    }
}

extension Publishers.Sequence where Failure == Never, Elements.Element: Comparable {
    /// As `Publisher.min`, of a sequence that is known.
    public func min() -> Output?.Publisher { .init(sequence.min()) }
    /// As `Publisher.max`, of a sequence that is known.
    public func max() -> Output?.Publisher { .init(sequence.max()) }
}

extension Publishers.Sequence where Elements: Collection, Failure == Never {
    /// As `Publisher.first`, of a sequence that is known.
    public func first() -> Output?.Publisher { .init(sequence.first) }

    /// As `Publisher.output`, of a sequence that is known.
    public func output(at index: Elements.Index) -> Output?.Publisher {
        .init(sequence.indices.contains(index) ? sequence[index] : nil)
    }
}

extension Publishers.Sequence where Elements: Collection {
    /// As `Publisher.count`, of a sequence that is known.
    public func count() -> Result<Int, Failure>.Publisher { Result<Int, Failure>.Publisher(sequence.count) }

    /// As `Publisher.output`, of a sequence that is known.
    public func output(in range: Range<Elements.Index>) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.indices.filter(range.contains).map { sequence[$0] })
    }
}

extension Publishers.Sequence where Elements: BidirectionalCollection, Failure == Never {
    /// As `Publisher.last`, of a sequence that is known.
    public func last() -> Output?.Publisher { .init(sequence.last) }

    /// As `Publisher.last`, computed at once. Taken only where its type is asked for.
    @_disfavoredOverload
    public func last(where predicate: (Output) -> Bool) -> Output?.Publisher {
        .init(sequence.last(where: predicate))
    }
}

extension Publishers.Sequence where Elements: RandomAccessCollection, Failure == Never {
    /// As `Publisher.output`, of a sequence that is known.
    public func output(at index: Elements.Index) -> Output?.Publisher {
        .init(sequence.startIndex <= index && index < sequence.endIndex ? sequence[index] : nil)
    }

    /// As `Publisher.count`, of a sequence that is known.
    public func count() -> Just<Int> { Just(sequence.count) }
}

extension Publishers.Sequence where Elements: RandomAccessCollection {
    /// As `Publisher.output`, of a sequence that is known.
    public func output(in range: Range<Elements.Index>) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: Array(sequence[range.clamped(to: sequence.startIndex..<sequence.endIndex)]))
    }

    /// As `Publisher.count`, of a sequence that is known.
    public func count() -> Result<Int, Failure>.Publisher { Result<Int, Failure>.Publisher(sequence.count) }
}

extension Publishers.Sequence where Elements: RangeReplaceableCollection {
    /// As `Publisher.prepend`, of a sequence that is known.
    public func prepend(_ elements: Output...) -> Publishers.Sequence<Elements, Failure> { prepend(elements) }

    /// As `Publisher.prepend`, of a sequence that is known.
    public func prepend<S: Swift.Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<Elements, Failure> where S.Element == Output {
        var result = Elements()
        result.append(contentsOf: elements)
        result.append(contentsOf: sequence)
        return .init(sequence: result)
    }

    /// As `Publisher.prepend`, of a sequence that is known.
    public func prepend(_ publisher: Publishers.Sequence<Elements, Failure>) -> Publishers.Sequence<Elements, Failure> {
        .init(sequence: publisher.sequence + sequence)
    }

    /// As `Publisher.append`, of a sequence that is known.
    public func append(_ elements: Output...) -> Publishers.Sequence<Elements, Failure> { append(elements) }

    /// As `Publisher.append`, of a sequence that is known.
    public func append<S: Swift.Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<Elements, Failure> where S.Element == Output {
        .init(sequence: sequence + elements)
    }

    /// As `Publisher.append`, of a sequence that is known.
    public func append(_ publisher: Publishers.Sequence<Elements, Failure>) -> Publishers.Sequence<Elements, Failure> {
        .init(sequence: sequence + publisher.sequence)
    }
}
