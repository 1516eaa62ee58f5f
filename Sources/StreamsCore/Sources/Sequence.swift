// Sequences as publishers.

extension Publishers {
    /// Publishes the elements of a sequence, as fast as they are asked for, to each subscriber from the first one on.
    public struct Sequence<Elements: Swift.Sequence, Failure: Error>: Publisher {
        public typealias Output = Elements.Element

        /// What is published.
        public let sequence: Elements

        /// Publishes the elements of a sequence.
        public init(sequence: Elements) { self.sequence = sequence }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            SequenceMachine.start(subscriber, sequence.makeIterator(), name: "\(sequence)", end: .finished)
        }
    }
}

extension Publishers.Sequence: Equatable where Elements: Equatable {}

extension Sequence {
    /// A publisher of these elements.
    public var publisher: Publishers.Sequence<Self, Never> { Publishers.Sequence(sequence: self) }
}

struct SequenceMachine<Iterator: IteratorProtocol, Failure: Error>: StreamMachine {
    typealias Signal = Never
    typealias Output = Iterator.Element

    fileprivate var iterator: Iterator
    /// Looked at in advance: the end comes with the last element, not with the demand after it.
    fileprivate var next: Iterator.Element?
    fileprivate let end: Subscribers.Completion<Failure>

    /// Delivers to a subscriber.
    static func start<S: Subscriber>(
        _ subscriber: S, _ iterator: Iterator, name: @autoclosure () -> String, end: Subscribers.Completion<Failure>
    ) where S.Input == Output, S.Failure == Failure {
        var iterator = iterator
        if let first = iterator.next() {
            let machine = SequenceMachine(iterator: iterator, next: first, end: end)
            Runner(machine, name: name(), downstream: subscriber).begin()
        } else {
            subscriber.receive(subscription: Subscriptions.empty)
            subscriber.receive(completion: end)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        while outlet.demand > .none, !outlet.isOver, let value = next {
            outlet.send(value)
            // Not before it is needed: who cancels is not to have made the sequence compute one more.
            if !outlet.isOver { next = iterator.next() }
        }
        if next == nil { outlet.send(completion: end) }
    }

    mutating func receive(_ signal: Never, _ outlet: Outlet<Output, Failure>) {}
}
