// Rows 15 and 16 of the library's guarantees: cold and shared publishers, multicast and connections.

import Streams
import StreamsTestSupport
import Testing

@Suite("Cold and shared, multicast")
struct MulticastTests {
    @Test("row 15: a cold scan over Deferred subjects starts afresh for each subscriber")
    func cold() {
        nonisolated(unsafe) var subjects: [PassthroughSubject<Int, Never>] = []
        let cold = Deferred { () -> PassthroughSubject<Int, Never> in
            subjects.append(PassthroughSubject())
            return subjects.last!
        }.scan(10, +)
        let first = cold.record()
        subjects[0].send(sequence: 1...2)
        let second = cold.record()
        subjects[0].send(sequence: 3...4)
        subjects[1].send(sequence: 1...2, completion: .finished)
        #expect(first.events == [11, 13, 16, 20].asEvents())
        #expect(second.events == [11, 13].asEvents(completion: .finished))
    }

    @Test("row 15: over one shared subject, one that arrives after 1 2 sees 13 17 while the first sees 11 13 16 20")
    func shared() {
        let subject = PassthroughSubject<Int, Never>()
        let scan = subject.scan(10, +)
        let first = scan.record()
        subject.send(sequence: 1...2)
        let second = scan.record()
        subject.send(sequence: 3...4)
        #expect(first.values == [11, 13, 16, 20] && second.values == [13, 17])
    }

    /// Sends 1 and 2 to the first subscriber, 3 and 4 to both.
    private func late<S: Subject>(
        _ make: @escaping @Sendable () -> S
    ) -> (first: [Int], second: [Int]) where S.Output == Int, S.Failure == Never {
        let subject = PassthroughSubject<Int, Never>()
        let multicast = subject.scan(10, +).multicast(make)
        let first = multicast.record()
        let connection = multicast.connect()
        subject.send(sequence: 1...2)
        let second = multicast.record()
        subject.send(sequence: 3...4)
        withExtendedLifetime(connection) {}
        return (first.values, second.values)
    }

    @Test("row 16: what a late subscriber sees depends on the subject")
    func lateSubscribers() {
        let passthrough = late { PassthroughSubject() }
        #expect(passthrough.first == [11, 13, 16, 20] && passthrough.second == [16, 20])
        let current = late { CurrentValueSubject(0) }
        #expect(current.first == [0, 11, 13, 16, 20] && current.second == [13, 16, 20])
        let buffer = late { BufferSubject(limit: .max) }
        #expect(buffer.first == [11, 13, 16, 20] && buffer.second == [11, 13, 16, 20])
    }

    @Test("row 16: releasing what connect() returned disconnects, and it can be connected again")
    func dropDisconnects() {
        let subject = PassthroughSubject<Int, Never>()
        let multicast = subject.multicast(subject: PassthroughSubject())
        let recorder = multicast.record()
        subject.send(1)
        var connection: (any Cancellable)? = multicast.connect()
        subject.send(2)
        connection = nil
        subject.send(3)
        connection = multicast.connect()
        subject.send(4)
        connection?.cancel()
        subject.send(5)
        #expect(recorder.events == [2, 4].asEvents())
    }

    @Test("row 16: autoconnect connects with the first subscriber and disconnects after the last")
    func autoconnects() {
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var log: [String] = []
        let shared = subject.handleEvents(
            receiveSubscription: { _ in log.append("+") }, receiveCancel: { log.append("-") }
        ).multicast { PassthroughSubject() }.autoconnect()
        #expect(log == [])
        let first = shared.record()
        let second = shared.record()
        subject.send(1)
        first.cancel()
        first.cancel()
        subject.send(2)
        #expect(log == ["+"])
        second.cancel()
        #expect(log == ["+", "-"])
        let third = Recorder<Int, Never>(demand: .unlimited)
        nonisolated(unsafe) var name = ""
        third.onSubscription = { _, subscription in name = "\(subscription)" }
        shared.subscribe(third)
        subject.send(3)
        #expect(log == ["+", "-", "+"])
        #expect(first.values == [1] && second.values == [1, 2] && third.values == [3])
        // As in Combine, the subscription's description is that of the connected publisher.
        #expect(name == "Multicast")
    }

    @Test("row 16: a subscriber that cancels during the connection leaves no connection")
    func cancelledWhileConnecting() {
        nonisolated(unsafe) var cancelled = 0
        let shared = (1...9).publisher.merge(with: Empty(completeImmediately: false))
            .handleEvents(receiveCancel: { cancelled += 1 }).share()
        let recorder = Recorder<Int, Never>(demand: .unlimited)
        recorder.onValue = { recorder, value in
            if value == 3 { recorder.cancel() }
            return .none
        }
        shared.subscribe(recorder)
        #expect(recorder.values == [1, 2, 3] && cancelled == 1)
    }

    @Test("row 16: share has one upstream, lives by its subscribers, and sends late ones the end")
    func shares() {
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var subscriptions = 0
        nonisolated(unsafe) var values: [Int] = []
        let kept = subject.handleEvents(receiveSubscription: { _ in subscriptions += 1 }).share()
            .sink { values.append($0) }
        subject.send(1)
        #expect(values == [1])
        kept.cancel()
        let shared = subject.handleEvents(receiveSubscription: { _ in subscriptions += 1 }).share()
        let recorders = [shared.record(), shared.record()]
        subject.send(sequence: 2...3, completion: .finished)
        #expect(recorders.allSatisfy { $0.events == [2, 3].asEvents(completion: .finished) })
        #expect(shared.record().events == [].asEvents(completion: .finished))
        #expect(subscriptions == 2 && shared == shared)
    }

    @Test("row 16: makeConnectable delivers nothing until it is connected")
    func makesConnectable() {
        let connectable = (1...3).publisher.makeConnectable()
        let recorders = [connectable.record(), connectable.record()]
        #expect(recorders.allSatisfy { $0.events == [] })
        let connection = connectable.connect()
        #expect(recorders.allSatisfy { $0.events == (1...3).asEvents(completion: .finished) })
        withExtendedLifetime(connection) {}
    }

    @Test("a subject releases upstreams that have ended or were disconnected")
    func letsGoOfUpstreams() {
        final class Source: Subscription {
            func request(_ demand: Subscribers.Demand) {}
            func cancel() {}
        }
        let subject = PassthroughSubject<Int, Never>()
        weak var source: Source?
        do {
            let subscription = Source()
            source = subscription
            let subscriber = AnySubscriber(subject)
            subscriber.receive(subscription: subscription)
            subscriber.receive(completion: .finished)
        }
        #expect(source == nil)
    }
}
