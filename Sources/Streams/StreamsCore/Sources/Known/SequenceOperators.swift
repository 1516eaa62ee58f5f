// Operators of a sequence's publisher whose result can be computed immediately, as a sequence or a value.
//
// Combine computes all these operators when they are applied, which never returns for an infinite sequence. Here the
// operators that call a closure or build a new sequence are chosen only if the context requires their return type, in a
// declaration or by using one of its properties. Otherwise the general operators of `Publisher` are chosen, which
// compute on demand.

extension Publishers.Sequence {
    /// Like `Publisher.setFailureType`, specialized for sequences.
    public func setFailureType<E: Error>(to error: E.Type) -> Publishers.Sequence<Elements, E> {
        Publishers.Sequence<Elements, E>(sequence: sequence)
    }

    /// Like `Publisher.dropFirst`, specialized for sequences.
    public func dropFirst(_ count: Int = 1) -> Publishers.Sequence<DropFirstSequence<Elements>, Failure> {
        Publishers.Sequence<DropFirstSequence<Elements>, Failure>(sequence: sequence.dropFirst(count))
    }

    /// Like `Publisher.prefix`, specialized for sequences.
    public func prefix(_ maxLength: Int) -> Publishers.Sequence<PrefixSequence<Elements>, Failure> {
        Publishers.Sequence<PrefixSequence<Elements>, Failure>(sequence: sequence.prefix(maxLength))
    }

    /// Like `Publisher.ignoreOutput`, specialized for sequences.
    public func ignoreOutput() -> Empty<Elements.Element, Failure> { Empty() }

    /// Like `Publisher.allSatisfy`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func allSatisfy(_ predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.allSatisfy(predicate))
    }

    /// Like `Publisher.tryAllSatisfy`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func tryAllSatisfy(_ predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        .init(Result<Bool, any Error> { try sequence.allSatisfy(predicate) })
    }

    /// Like `Publisher.contains`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func contains(where predicate: (Output) -> Bool) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.contains(where: predicate))
    }

    /// Like `Publisher.tryContains`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func tryContains(where predicate: (Output) throws -> Bool) -> Result<Bool, any Error>.Publisher {
        .init(Result<Bool, any Error> { try sequence.contains(where: predicate) })
    }

    /// Like `Publisher.collect`, specialized for sequences.
    public func collect() -> Result<[Output], Failure>.Publisher {
        Result<[Output], Failure>.Publisher(Array(sequence))
    }

    /// Like `Publisher.compactMap`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func compactMap<T>(_ transform: (Output) -> T?) -> Publishers.Sequence<[T], Failure> {
        .init(sequence: sequence.compactMap(transform))
    }

    /// Like `Publisher.drop`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func drop(
        while predicate: (Output) -> Bool
    ) -> Publishers.Sequence<DropWhileSequence<Elements>, Failure> {
        .init(sequence: sequence.drop(while: predicate))
    }

    /// Like `Publisher.filter`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func filter(_ isIncluded: (Output) -> Bool) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.filter(isIncluded))
    }

    /// Like `Publisher.map`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func map<T>(_ transform: (Output) -> T) -> Publishers.Sequence<[T], Failure> {
        .init(sequence: sequence.map(transform))
    }

    /// Like `Publisher.prefix`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func prefix(while predicate: (Output) -> Bool) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.prefix(while: predicate))
    }

    /// Like `Publisher.reduce`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func reduce<T>(
        _ initial: T, _ next: @escaping @Sendable (T, Output) -> T
    ) -> Result<T, Failure>.Publisher {
        Result<T, Failure>.Publisher(sequence.reduce(initial, next))
    }

    /// Like `Publisher.tryReduce`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func tryReduce<T>(
        _ initial: T, _ next: @escaping @Sendable (T, Output) throws -> T
    ) -> Result<T, any Error>.Publisher {
        .init(Result<T, any Error> { try sequence.reduce(initial, next) })
    }

    /// Like `Publisher.replaceNil`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func replaceNil<T>(with output: T) -> Publishers.Sequence<[Output], Failure> where Output == T? {
        .init(sequence: sequence.map { $0 ?? output })
    }

    /// Like `Publisher.scan`, but evaluated immediately. Chosen only if the context requires this type.
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
    /// Like `Publisher.min`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func min(by areInIncreasingOrder: (Output, Output) -> Bool) -> Output?.Publisher {
        .init(sequence.min(by: areInIncreasingOrder))
    }

    /// Like `Publisher.max`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func max(by areInIncreasingOrder: (Output, Output) -> Bool) -> Output?.Publisher {
        .init(sequence.max(by: areInIncreasingOrder))
    }

    /// Like `Publisher.first`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func first(where predicate: (Output) -> Bool) -> Output?.Publisher {
        .init(sequence.first(where: predicate))
    }
}

extension Publishers.Sequence where Elements.Element: Equatable {
    /// Like `Publisher.removeDuplicates`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func removeDuplicates() -> Publishers.Sequence<[Output], Failure> {
        var values: [Output] = []
        for value in sequence where values.last != value { values.append(value) }
        return .init(sequence: values)
    }

    /// Like `Publisher.contains`, specialized for sequences.
    public func contains(_ output: Output) -> Result<Bool, Failure>.Publisher {
        Result<Bool, Failure>.Publisher(sequence.contains(output))
    }
}

extension Publishers.Sequence where Failure == Never, Elements.Element: Comparable {
    /// Like `Publisher.min`, specialized for sequences.
    public func min() -> Output?.Publisher { .init(sequence.min()) }
    /// Like `Publisher.max`, specialized for sequences.
    public func max() -> Output?.Publisher { .init(sequence.max()) }
}

extension Publishers.Sequence where Elements: Collection, Failure == Never {
    /// Like `Publisher.first`, specialized for sequences.
    public func first() -> Output?.Publisher { .init(sequence.first) }

    /// Like `Publisher.output`, specialized for sequences.
    public func output(at index: Elements.Index) -> Output?.Publisher {
        .init(sequence.indices.contains(index) ? sequence[index] : nil)
    }
}

extension Publishers.Sequence where Elements: Collection {
    /// Like `Publisher.count`, specialized for sequences.
    public func count() -> Result<Int, Failure>.Publisher { Result<Int, Failure>.Publisher(sequence.count) }

    /// Like `Publisher.output`, specialized for sequences.
    public func output(in range: Range<Elements.Index>) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: sequence.indices.filter(range.contains).map { sequence[$0] })
    }
}

extension Publishers.Sequence where Elements: BidirectionalCollection, Failure == Never {
    /// Like `Publisher.last`, specialized for sequences.
    public func last() -> Output?.Publisher { .init(sequence.last) }

    /// Like `Publisher.last`, but evaluated immediately. Chosen only if the context requires this type.
    @_disfavoredOverload
    public func last(where predicate: (Output) -> Bool) -> Output?.Publisher {
        .init(sequence.last(where: predicate))
    }
}

extension Publishers.Sequence where Elements: RandomAccessCollection, Failure == Never {
    /// Like `Publisher.output`, specialized for sequences.
    public func output(at index: Elements.Index) -> Output?.Publisher {
        .init(sequence.startIndex <= index && index < sequence.endIndex ? sequence[index] : nil)
    }

    /// Like `Publisher.count`, specialized for sequences.
    public func count() -> Just<Int> { Just(sequence.count) }
}

extension Publishers.Sequence where Elements: RandomAccessCollection {
    /// Like `Publisher.output`, specialized for sequences.
    public func output(in range: Range<Elements.Index>) -> Publishers.Sequence<[Output], Failure> {
        .init(sequence: Array(sequence[range.clamped(to: sequence.startIndex..<sequence.endIndex)]))
    }

    /// Like `Publisher.count`, specialized for sequences.
    public func count() -> Result<Int, Failure>.Publisher { Result<Int, Failure>.Publisher(sequence.count) }
}

extension Publishers.Sequence where Elements: RangeReplaceableCollection {
    /// Like `Publisher.prepend`, specialized for sequences.
    public func prepend(_ elements: Output...) -> Publishers.Sequence<Elements, Failure> { prepend(elements) }

    /// Like `Publisher.prepend`, specialized for sequences.
    public func prepend<S: Swift.Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<Elements, Failure> where S.Element == Output {
        var result = Elements()
        result.append(contentsOf: elements)
        result.append(contentsOf: sequence)
        return .init(sequence: result)
    }

    /// Like `Publisher.prepend`, specialized for sequences.
    public func prepend(_ publisher: Publishers.Sequence<Elements, Failure>) -> Publishers.Sequence<Elements, Failure> {
        .init(sequence: publisher.sequence + sequence)
    }

    /// Like `Publisher.append`, specialized for sequences.
    public func append(_ elements: Output...) -> Publishers.Sequence<Elements, Failure> { append(elements) }

    /// Like `Publisher.append`, specialized for sequences.
    public func append<S: Swift.Sequence>(
        _ elements: S
    ) -> Publishers.Sequence<Elements, Failure> where S.Element == Output {
        .init(sequence: sequence + elements)
    }

    /// Like `Publisher.append`, specialized for sequences.
    public func append(_ publisher: Publishers.Sequence<Elements, Failure>) -> Publishers.Sequence<Elements, Failure> {
        .init(sequence: sequence + publisher.sequence)
    }
}
