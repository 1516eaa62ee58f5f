// Operators of a sequence's publisher whose result is a sequence, or a value, that can be known at once.
//
// Combine computes all of them when they are written; on a sequence without end that never returns. Here those that
// call a closure, or make a sequence of values of their own, are taken only where their type is asked for – by a
// declaration, or by a property of it – and else the operators that any publisher has, which compute when there is
// demand.

extension Publishers.Sequence {
    public func setFailureType<E: Error>(to error: E.Type) -> Publishers.Sequence<Elements, E> {
        Publishers.Sequence<Elements, E>(sequence: sequence)
    }

    public func dropFirst(_ count: Int = 1) -> Publishers.Sequence<DropFirstSequence<Elements>, Failure> {
        Publishers.Sequence<DropFirstSequence<Elements>, Failure>(sequence: sequence.dropFirst(count))
    }

    public func prefix(_ maxLength: Int) -> Publishers.Sequence<PrefixSequence<Elements>, Failure> {
        Publishers.Sequence<PrefixSequence<Elements>, Failure>(sequence: sequence.prefix(maxLength))
    }

    public func ignoreOutput() -> Empty<Elements.Element, Failure> { Empty() }

    @_disfavoredOverload
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.allSatisfy(predicate))
    }

    @_disfavoredOverload
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        .init(Result<Bool, any Error> { try sequence.allSatisfy(predicate) })
    }

    @_disfavoredOverload
    public func contains(where predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.contains(where: predicate))
    }

    @_disfavoredOverload
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        .init(Result<Bool, any Error> { try sequence.contains(where: predicate) })
    }

    public func collect() -> Result<[Output], Failure>.Publisher {
        Result<[Output], Failure>.Publisher(Array(sequence))
    }

    @_disfavoredOverload
    public func compactMap<T>(_ transform: (Output) -> T?) -> Publishers.Sequence<[T], Failure> {
        .init(sequence: sequence.compactMap(transform))
    }

    @_disfavoredOverload
    public func drop(
        while predicate: (Output) -> Bool
    ) -> Publishers.Sequence<DropWhileSequence<Elements>, Failure> {
        .init(sequence: sequence.drop(while: predicate))
    }

    @_disfavoredOverload
    public func filter(_ isIncluded: (Output) -> Bool) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.filter(isIncluded))
    }

    @_disfavoredOverload
    public func map<T>(_ transform: (Output) -> T) -> Publishers.Sequence<[T], Failure> {
        .init(sequence: sequence.map(transform))
    }

    @_disfavoredOverload
    public func prefix(while predicate: (Output) -> Bool) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.prefix(while: predicate))
    }

    @_disfavoredOverload
    public func reduce<T>(
        _ initial: T, _ next: @escaping (T, Output) -> T
    ) -> Result<T, Failure>.Publisher {
        Result<T, Failure>.Publisher(sequence.reduce(initial, next))
    }

    @_disfavoredOverload
    public func tryReduce<T>(
        _ initial: T, _ next: @escaping (T, Output) throws -> T
    ) -> Result<T, any Error>.Publisher {
        .init(Result<T, any Error> { try sequence.reduce(initial, next) })
    }

    @_disfavoredOverload
    public func replaceNil<T>(with output: T) -> Publishers.Sequence<[Output], Failure> where Output == T? {
        .init(sequence: sequence.map { $0 ?? output })
    }

    @_disfavoredOverload
    public func scan<T>(
        _ initial: T, _ next: @escaping (T, Output) -> T
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
    @_disfavoredOverload
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Output?.Publisher {
        .init(sequence.min(by: areInIncreasingOrder))
    }

    @_disfavoredOverload
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Output?.Publisher {
        .init(sequence.max(by: areInIncreasingOrder))
    }

    @_disfavoredOverload
    public func first(where predicate: (Output) -> Bool) -> Output?.Publisher {
        .init(sequence.first(where: predicate))
    }
}

extension Publishers.Sequence where Elements.Element: Equatable {
    @_disfavoredOverload
    public func removeDuplicates() -> Publishers.Sequence<[Output], Failure> {
        var values: [Output] = []
        for value in sequence where values.last != value { values.append(value) }
        return .init(sequence: values)
    }

    public func contains(_ output: Output) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.contains(output))
    }
}

extension Publishers.Sequence where Failure == Never, Elements.Element: Comparable {
    public func min() -> Output?.Publisher { .init(sequence.min()) }
    public func max() -> Output?.Publisher { .init(sequence.max()) }
}

extension Publishers.Sequence where Elements: Collection, Failure == Never {
    public func first() -> Output?.Publisher { .init(sequence.first) }

    public func output(at index: Elements.Index) -> Output?.Publisher {
        .init(sequence.indices.contains(index) ? sequence[index] : nil)
    }
}

extension Publishers.Sequence where Elements: Collection {
    public func count() -> Result<Int, Failure>.Publisher { Result<Int, Failure>.Publisher(sequence.count) }

    public func output(in range: Range<Elements.Index>) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.indices.filter(range.contains).map { sequence[$0] })
    }
}

extension Publishers.Sequence where Elements: BidirectionalCollection, Failure == Never {
    public func last() -> Output?.Publisher { .init(sequence.last) }

    @_disfavoredOverload
    public func last(where predicate: (Output) -> Bool) -> Output?.Publisher {
        .init(sequence.last(where: predicate))
    }
}

extension Publishers.Sequence where Elements: RandomAccessCollection, Failure == Never {
    public func output(at index: Elements.Index) -> Output?.Publisher {
        .init(sequence.startIndex <= index && index < sequence.endIndex ? sequence[index] : nil)
    }

    public func count() -> Just<Int> { Just(sequence.count) }
}

extension Publishers.Sequence where Elements: RandomAccessCollection {
    public func output(in range: Range<Elements.Index>) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: Array(sequence[range.clamped(to: sequence.startIndex..<sequence.endIndex)]))
    }

    public func count() -> Result<Int, Failure>.Publisher { Result<Int, Failure>.Publisher(sequence.count) }
}

extension Publishers.Sequence where Elements: RangeReplaceableCollection {
    public func prepend(_ elements: Output...) -> Publishers.Sequence<Elements, Failure> { prepend(elements) }

    public func prepend<S: Swift.Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<Elements, Failure> where S.Element == Output {
        var result = Elements()
        result.append(contentsOf: elements)
        result.append(contentsOf: sequence)
        return .init(sequence: result)
    }

    public func prepend(_ publisher: Publishers.Sequence<Elements, Failure>) -> Publishers.Sequence<Elements, Failure> {
        .init(sequence: publisher.sequence + sequence)
    }

    public func append(_ elements: Output...) -> Publishers.Sequence<Elements, Failure> { append(elements) }

    public func append<S: Swift.Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<Elements, Failure> where S.Element == Output {
        .init(sequence: sequence + elements)
    }

    public func append(_ publisher: Publishers.Sequence<Elements, Failure>) -> Publishers.Sequence<Elements, Failure> {
        .init(sequence: sequence + publisher.sequence)
    }
}
