// MarblePublisher: streams from marble diagrams on a virtual clock, and comparison of received events with a diagram.

import StreamsCore

extension VirtualTimeScheduler {
    /// A publisher of the drawn events; for each subscriber, they start with its subscription. A value without demand
    /// waits, and so do the events after it: these are late, not lost.
    public func publisher<Value, Failure>(
        _ marbles: Marbles<Value, Failure>, frame: VirtualTime.Stride = 1
    ) -> MarblePublisher<Value, Failure> {
        MarblePublisher(marbles: marbles, frame: frame, scheduler: self)
    }

    /// Makes a subject send the drawn events, starting now. The subject decides what happens to values without demand.
    public func play<S: Subject & Sendable>(
        _ marbles: Marbles<S.Output, S.Failure>, on subject: S, frame: VirtualTime.Stride = 1
    ) where S.Output: Sendable {
        let start = now
        for mark in marbles.marks {
            schedule(after: start.advanced(by: frame.times(mark.frame))) {
                switch mark.event {
                case .value(let value): subject.send(value)
                case .completion(let completion): subject.send(completion: completion)
                }
            }
        }
    }
}

extension VirtualTime.Stride {
    func times(_ count: Int) -> Self { .nanoseconds(magnitude * count) }
}

/// See `VirtualTimeScheduler.publisher`.
public struct MarblePublisher<Output, Failure: Error>: Publisher {
    /// The events and their frames.
    public let marbles: Marbles<Output, Failure>
    /// The duration of one column of the diagram.
    public let frame: VirtualTime.Stride
    /// The scheduler on whose clock the events occur.
    public let scheduler: VirtualTimeScheduler

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        subscriber.receive(subscription: Inner(self, downstream: subscriber))
    }

    private final class Inner<Downstream: Subscriber>: Subscription, CustomStringConvertible, @unchecked Sendable
    where Downstream.Input == Output, Downstream.Failure == Failure {
        private let lock = Lock()
        private var marks: ArraySlice<Marbles<Output, Failure>.Mark>
        private var downstream: Downstream?
        private var demand = Subscribers.Demand.none
        private var isDelivering = false
        private let due: (Marbles<Output, Failure>.Mark) -> Bool

        init(_ publisher: MarblePublisher, downstream: Downstream) {
            let (frame, scheduler) = (publisher.frame, publisher.scheduler)
            let start = scheduler.now
            marks = publisher.marbles.marks[...]
            self.downstream = downstream
            due = { start.advanced(by: frame.times($0.frame)) <= scheduler.now }
            for time in Set(marks.map(\.frame)).sorted() {
                scheduler.schedule(after: start.advanced(by: frame.times(time))) { self.deliver() }
            }
        }

        func request(_ demand: Subscribers.Demand) {
            lock.with { self.demand += demand }
            deliver()
        }

        func cancel() {
            let held = lock.with {
                marks = []
                return downstream.take()
            }
            _ = held
        }

        private func next() -> (event: Subscribers.Event<Output, Failure>, downstream: Downstream)? {
            lock.with {
                guard let mark = marks.first, let downstream, due(mark) else { return nil }
                if case .value = mark.event {
                    guard demand > .none else { return nil }
                    demand -= 1
                } else {
                    self.downstream = nil
                }
                marks.removeFirst()
                return (mark.event, downstream)
            }
        }

        private func deliver() {
            let isMine = lock.with {
                defer { isDelivering = true }
                return !isDelivering
            }
            guard isMine else { return }
            while let (event, downstream) = next() {
                switch event {
                case .value(let value):
                    let more = downstream.receive(value)
                    lock.with { demand += more }
                case .completion(let completion): downstream.receive(completion: completion)
                }
            }
            lock.with { isDelivering = false }
        }

        var description: String { "Marbles" }
    }
}

extension Recorder where Input: Equatable, Failure: Equatable {
    /// Compares the received events and their times with a marble diagram that starts at time zero.
    ///
    ///     #expect(recorder.difference(from: try Marbles("--a--b|")) == nil)
    ///
    /// - Returns: nil if they match; otherwise a description with both diagrams and the events between frames.
    public func difference(from expected: Marbles<Input, Failure>, frame: VirtualTime.Stride = 1) -> String? {
        var marks: [Marbles<Input, Failure>.Mark] = []
        var strays = ""
        for (entry, time) in timedHistory {
            guard let event = entry.event else { continue }
            marks.append(Marbles.Mark(frame: time.nanoseconds / frame.magnitude, event: event))
            if time.nanoseconds % frame.magnitude != 0 { strays += "\n  between frames, at \(time): \(event)" }
        }
        let received = Marbles(marks: marks)
        if received == expected, strays.isEmpty { return nil }
        return "The events differ:\n  received: \(received)\n  expected: \(expected)\(strays)"
    }
}
