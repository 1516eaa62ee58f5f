// Sequence publishers.

extension Publishers {
    /// Publishes the elements of a sequence on demand. Each subscriber receives them from the first element on.
    public struct Sequence<Elements: Swift.Sequence, Failure: Error>: Publisher {
        public typealias Output = Elements.Element

        /// The published sequence.
        public let sequence: Elements

        /// Publishes the elements of a sequence.
        public init(sequence: Elements) { self.sequence = sequence }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            SequenceMachine.start(subscriber, sequence, end: .finished)
        }
    }
}

extension Publishers.Sequence: Equatable where Elements: Equatable {}

extension Sequence {
    /// A publisher of these elements.
    public var publisher: Publishers.Sequence<Self, Never> { Publishers.Sequence(sequence: self) }
}

struct SequenceMachine<Elements: Sequence, Failure: Error>: StreamMachine {
    typealias Signal = Never
    typealias Output = Elements.Element

    fileprivate var iterator: Elements.Iterator
    /// Read ahead, so that the completion comes with the last element and not with the next demand.
    fileprivate var next: Output?
    fileprivate let end: Subscribers.Completion<Failure>

    /// Delivers to a subscriber.
    static func start<S: Subscriber>(
        _ subscriber: S, _ elements: Elements, end: Subscribers.Completion<Failure>
    ) where S.Input == Output, S.Failure == Failure {
        var iterator = elements.makeIterator()
        if let first = iterator.next() {
            let machine = SequenceMachine(iterator: iterator, next: first, end: end)
            SequenceRunner(machine, elements, subscriber).begin()
        } else {
            subscriber.receive(subscription: Subscriptions.empty)
            subscriber.receive(completion: end)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        while outlet.demand > .none, !outlet.isOver, let value = next {
            outlet.send(value)
            // Computed only if needed: after a cancellation, the sequence must not compute another element.
            if !outlet.isOver { next = iterator.next() }
        }
        if next == nil { outlet.send(completion: end) }
    }

    mutating func receive(_ signal: Never, _ outlet: Outlet<Output, Failure>) {}
}

private final class SequenceRunner<Elements: Sequence, Downstream: Subscriber>:
    Runner<SequenceMachine<Elements, Downstream.Failure>, Downstream>, @unchecked Sendable
where Downstream.Input == Elements.Element {
    private let elements: Elements

    /// The description is as long as the sequence, so it is computed only when it is read.
    override var description: String { "\(elements)" }

    init(
        _ machine: SequenceMachine<Elements, Downstream.Failure>, _ elements: Elements, _ downstream: Downstream
    ) {
        self.elements = elements
        super.init(machine, name: "", downstream: downstream)
    }
}
