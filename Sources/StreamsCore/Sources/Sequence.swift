// Sequences as publishers.

extension Publishers {
    /// Publishes the elements of a sequence, as fast as they are asked for, to each subscriber from the first one on.
    public struct Sequence<Elements: Swift.Sequence, Failure: Error>: Publisher {
        public typealias Output = Elements.Element

        public let sequence: Elements

        public init(sequence: Elements) { self.sequence = sequence }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let machine = SequenceMachine<Elements.Iterator, Failure>(sequence.makeIterator())
            Runner(machine, name: "\(sequence)", downstream: subscriber).begin()
        }
    }
}

extension Publishers.Sequence: Equatable where Elements: Equatable {}

extension Sequence {
    /// A publisher of these elements.
    public var publisher: Publishers.Sequence<Self, Never> { Publishers.Sequence(sequence: self) }
}

private struct SequenceMachine<Iterator: IteratorProtocol, Failure: Error>: StreamMachine {
    typealias Signal = Never
    typealias Output = Iterator.Element

    private var iterator: Iterator
    /// Looked at in advance: the end comes with the last element, not with the demand after it.
    private var next: Iterator.Element?

    init(_ iterator: Iterator) {
        self.iterator = iterator
        next = self.iterator.next()
    }

    mutating func start(_ outlet: Outlet<Output, Failure>) {
        if next == nil { outlet.send(completion: .finished) }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        while outlet.demand > .none, !outlet.isOver, let value = next {
            outlet.send(value)
            // Not before it is needed: who cancels is not to have made the sequence compute one more.
            if !outlet.isOver { next = iterator.next() }
        }
        if next == nil { outlet.send(completion: .finished) }
    }

    mutating func receive(_ signal: Never, _ outlet: Outlet<Output, Failure>) {}
}
