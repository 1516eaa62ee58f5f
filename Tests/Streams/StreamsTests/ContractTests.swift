// Row 1: the contract between publishers, subscribers and subscriptions. Every publisher of the library keeps the
// order; the matrix shows it for operators, and this file for sources.

import Foundation
import Streams
import StreamsTestSupport
import Testing

private enum Broken: Error { case once }

/// The events of a subject, one at a time: values, and the end.
private enum Kind: CaseIterable {
    case passthrough, currentValue, buffer, shared
}

@Suite("row 1: subscribe, subscription, request, values, at most one completion; nothing after it, nor after cancel")
struct ContractTests {
    private struct Source: @unchecked Sendable {
        let publisher: AnyPublisher<Int, Broken>
        let send: (Int) -> Void
        let end: (Subscribers.Completion<Broken>) -> Void

        init(_ kind: Kind) {
            func of<S: Subject>(_ subject: S, _ publisher: some Publisher<Int, Broken>) -> Source
            where S.Output == Int, S.Failure == Broken {
                Source(publisher: publisher.eraseToAnyPublisher(), send: subject.send, end: subject.send(completion:))
            }
            let passthrough = PassthroughSubject<Int, Broken>()
            let current = CurrentValueSubject<Int, Broken>(0)
            let buffer = BufferSubject<Int, Broken>(limit: 10)
            self =
                switch kind {
                case .passthrough: of(passthrough, passthrough)
                case .currentValue: of(current, current)
                case .buffer: of(buffer, buffer)
                case .shared: of(passthrough, passthrough.shareReplay(capacity: 10))
                }
        }

        init(
            publisher: AnyPublisher<Int, Broken>, send: @escaping (Int) -> Void,
            end: @escaping (Subscribers.Completion<Broken>) -> Void
        ) {
            (self.publisher, self.send, self.end) = (publisher, send, end)
        }
    }

    @Test("the order of events, and one end at most", arguments: Kind.allCases)
    fileprivate func order(kind: Kind) {
        let source = Source(kind)
        let recorder = source.publisher.record(demand: .none)
        #expect(recorder.history == [.subscription])
        recorder.request(.max(2))
        for value in 1...3 { source.send(value) }
        let expected = kind == .currentValue ? [0, 1] : [1, 2]
        #expect(recorder.values == expected)
        recorder.request(.unlimited)
        source.end(.failure(.once))
        source.end(.finished)
        source.send(4)
        #expect(recorder.completion == .failure(.once))
        #expect(recorder.history.filter { $0 == .finished || $0 == .failure(.once) }.count == 1)
        #expect(recorder.history.last == .failure(.once))
    }

    @Test("a demand of none, or one after the end, changes nothing", arguments: Kind.allCases)
    fileprivate func uselessDemand(kind: Kind) {
        let source = Source(kind)
        let recorder = source.publisher.record(demand: .none)
        recorder.request(.none)
        source.send(1)
        #expect(recorder.history == [.subscription])
        recorder.request(.unlimited)
        source.end(.finished)
        let history = recorder.history
        recorder.request(.unlimited)
        recorder.cancel()
        #expect(recorder.history == history && recorder.completion == .finished)
    }

    @Test("nothing after cancel, which may be repeated", arguments: Kind.allCases)
    fileprivate func cancelled(kind: Kind) {
        let source = Source(kind)
        let recorder = source.publisher.record(demand: .max(1))
        source.send(1)
        let before = recorder.history
        recorder.cancel()
        recorder.cancel()
        recorder.request(.unlimited)
        source.send(2)
        source.end(.finished)
        #expect(recorder.history == before)
    }

    @Test("demand adds up: requested and returned", arguments: Kind.allCases)
    fileprivate func additive(kind: Kind) {
        let source = Source(kind)
        let recorder = source.publisher.record(demand: .none)
        recorder.onValue = { recorder, _ in recorder.values.count == 2 ? .max(2) : .none }
        recorder.request(.max(1))
        recorder.request(.max(2))
        for value in 1...9 { source.send(value) }
        #expect(recorder.values.count == 5)
    }

    @Test("a late subscriber gets a subscription, and the end", arguments: [Kind.passthrough, .currentValue])
    fileprivate func late(kind: Kind) {
        let source = Source(kind)
        source.send(1)
        source.end(.finished)
        #expect(source.publisher.record(demand: .none).history == [.subscription, .finished])
    }

    @Test("an end during the delivery of a value waits until that is over", arguments: Kind.allCases)
    fileprivate func endFromWithin(kind: Kind) {
        let source = Source(kind)
        let recorder = source.publisher.record(demand: .unlimited)
        nonisolated(unsafe) var isReceiving = false
        recorder.onValue = { _, _ in
            isReceiving = true
            source.end(.finished)
            isReceiving = false
            return .none
        }
        recorder.onCompletion = { _, _ in #expect(!isReceiving) }
        source.send(1)
        #expect(recorder.completion == .finished)
    }

    @Test("an AnyCancellable cancels once, also when released, and is compared by identity")
    func anyCancellable() {
        nonisolated(unsafe) var count = 0
        var cancellable: AnyCancellable? = AnyCancellable { count += 1 }
        cancellable?.cancel()
        cancellable?.cancel()
        cancellable = nil
        #expect(count == 1)
        var set: Set<AnyCancellable> = []
        var list: [AnyCancellable] = []
        let other = AnyCancellable { count += 1 }
        other.store(in: &set)
        other.store(in: &set)
        AnyCancellable(other).store(in: &list)
        #expect(set.count == 1 && list.count == 1)
        list = []
        #expect(count == 2)
    }

    @Test("an AnySubscriber of closures, of a subscriber, of a subject")
    func anySubscriber() {
        nonisolated(unsafe) var log: [String] = []
        let closures = AnySubscriber<Int, Never>(
            receiveSubscription: { $0.request(.max(1)) },
            receiveValue: {
                log.append("\($0)")
                return $0 < 2 ? .max(1) : .none
            },
            receiveCompletion: { log.append("\($0)") })
        [1, 2, 3].publisher.subscribe(closures)
        #expect(log == ["1", "2"])
        let recorder = Recorder<Int, Never>(demand: .unlimited)
        [1, 2].publisher.subscribe(AnySubscriber(recorder))
        #expect(recorder.events == [1, 2].asEvents(completion: .finished))
        #expect(AnySubscriber(recorder).combineIdentifier == recorder.combineIdentifier)
        let subject = PassthroughSubject<Int, Never>()
        let behind = subject.record()
        [1, 2].publisher.subscribe(AnySubscriber(subject))
        #expect(behind.events == [1, 2].asEvents(completion: .finished))
    }

    @Test("a subject passes its subscribers' demand to its publisher, until it is cancelled")
    func subjectSubscribes() {
        let upstream = PassthroughSubject<Int, Never>()
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        let attached = upstream.handleEvents(receiveRequest: { asked.append($0) }).subscribe(subject)
        #expect(asked == [])
        let recorder = subject.record(demand: .max(2))
        #expect(asked == [.unlimited])
        upstream.send(1)
        attached.cancel()
        upstream.send(2)
        #expect(recorder.values == [1])
    }

    @Test("identifiers are unique, and an object has one for life")
    func identifiers() {
        #expect(Set((0..<1000).map { _ in CombineIdentifier() }).count == 1000)
        let object = Recorder<Int, Never>()
        #expect(CombineIdentifier(object) == object.combineIdentifier)
    }

    @Test("a completion as JSON, and as a value")
    func completion() throws {
        typealias Completion = Subscribers.Completion<Code>
        struct Code: Error, Codable, Hashable { let number: Int }
        let both: [Completion] = [.finished, .failure(Code(number: 4))]
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let encoded = try encoder.encode(both)
        #expect(
            String(decoding: encoded, as: UTF8.self) == #"[{"success":true},{"error":{"number":4},"success":false}]"#)
        #expect(try JSONDecoder().decode([Completion].self, from: encoded) == both)
        #expect(Set(both).count == 2)
    }

    @Test("a connection that is erased, and a void subject")
    func erased() {
        let subject = PassthroughSubject<Void, Never>()
        nonisolated(unsafe) var count = 0
        let cancellable = AnyPublisher(subject.eraseToAnyPublisher()).sink { count += 1 }
        subject.send()
        subject.send(())
        #expect(count == 2)
        cancellable.cancel()
        subject.send()
        #expect(count == 2)
    }
}
