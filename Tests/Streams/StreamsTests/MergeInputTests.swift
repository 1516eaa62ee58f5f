// Row 18 of the library's guarantees: what MergeInput requests from its publishers, and in which order its subscribers
// receive what they requested. JoiningTests has its lifetimes, StressTests its threads.

import Streams
import StreamsTestSupport
import Testing

/// A publisher that sends what the test says, and counts what was requested.
private final class CountingSource: Publisher, Subscription, @unchecked Sendable {
    typealias Output = Int
    typealias Failure = Never

    private(set) var asked = 0
    private(set) var sent = 0
    private(set) var isCancelled = false
    private var subscriber: (any Subscriber<Int, Never>)?

    func receive<S: Subscriber>(subscriber: S) where S.Input == Int, S.Failure == Never {
        self.subscriber = subscriber
        subscriber.receive(subscription: self)
    }

    func request(_ demand: Subscribers.Demand) { asked += demand.max ?? 1_000_000 }

    func cancel() {
        isCancelled = true
        subscriber = nil
    }

    func send(_ value: Int) {
        sent += 1
        if let more = subscriber?.receive(value) { request(more) }
    }

    func finish() {
        subscriber?.receive(completion: .finished)
        subscriber = nil
    }
}

/// What a MergeInput does, written down as simply as possible.
private struct MergeModel {
    struct Member {
        var demand = 0
        var received: [Int] = []
        /// By source.
        var waiting: [Int: [Int]] = [:]
        var turns: [Int] = []
        /// For each source, how many of its values came before this subscriber, or were received by it.
        var taken: [Int: Int] = [:]
        var isOver = false

        mutating func deliver() {
            while demand > 0, !turns.isEmpty {
                let source = turns.removeFirst()
                let value = waiting[source]!.removeFirst()
                if !waiting[source]!.isEmpty { turns.append(source) }
                received.append(value)
                taken[source, default: 0] += 1
                demand += MergeModel.returned(for: value) - 1
            }
        }
    }

    let buffer: Int
    var asked: [Int] = []
    var sent: [Int] = []
    var ended: Set<Int> = []
    var members: [Member] = []

    /// The demand that a subscriber returns for a value.
    static func returned(for value: Int) -> Int { value % 7 == 0 ? 2 : 0 }

    var openSources: [Int] { asked.indices.filter { !ended.contains($0) } }
    var openMembers: [Int] { members.indices.filter { !members[$0].isOver } }

    mutating func addSource() {
        asked.append(0)
        sent.append(0)
    }

    mutating func addMember() {
        var member = Member()
        for source in sent.indices { member.taken[source] = sent[source] }
        members.append(member)
    }

    mutating func send(_ value: Int, from source: Int) {
        sent[source] += 1
        for index in openMembers {
            if members[index].waiting[source, default: []].isEmpty { members[index].turns.append(source) }
            members[index].waiting[source, default: []].append(value)
            members[index].deliver()
        }
    }

    mutating func request(_ demand: Int, by member: Int) {
        members[member].demand += demand
        members[member].deliver()
    }

    /// Each source is asked for what the slowest subscriber has room for.
    mutating func ask() {
        for source in openSources {
            let slowest = openMembers.map { members[$0].taken[source, default: 0] }.min()
            if let slowest { asked[source] = max(asked[source], slowest + buffer) }
        }
    }
}

@Suite("row 18: MergeInput under demand")
struct MergeInputTests {
    private func recorder(_ demand: Subscribers.Demand = .none) -> Recorder<Int, Never> {
        let recorder = Recorder<Int, Never>(demand: demand)
        recorder.onValue = { _, value in .max(MergeModel.returned(for: value)) }
        return recorder
    }

    @Test("random sources, subscribers and demand behave like the model", arguments: [1, 2, 5, 16])
    func model(buffer: Int) {
        for seed in 0..<30 {
            var dice = Dice(seed * 31 + buffer)
            let input = MergeInput<Int>(buffer: buffer)
            var model = MergeModel(buffer: buffer)
            var sources: [CountingSource] = []
            var recorders: [Recorder<Int, Never>] = []
            for step in 0..<300 {
                switch Int.random(in: 0..<20, using: &dice) {
                case 0 where sources.count < 8:
                    sources.append(CountingSource())
                    model.addSource()
                    sources.last!.merge(into: input)
                case 1 where recorders.count < 6:
                    recorders.append(recorder())
                    model.addMember()
                    input.subscribe(recorders.last!)
                case 2 where step % 4 == 0:
                    guard let source = model.openSources.randomElement(using: &dice) else { continue }
                    sources[source].finish()
                    model.ended.insert(source)
                case 3 where step % 4 == 0:
                    guard let member = model.openMembers.randomElement(using: &dice) else { continue }
                    recorders[member].cancel()
                    model.members[member].isOver = true
                case 4..<9:
                    guard let member = model.openMembers.randomElement(using: &dice) else { continue }
                    let demand = Int.random(in: 1...2 * buffer, using: &dice)
                    recorders[member].request(.max(demand))
                    model.request(demand, by: member)
                default:
                    guard let source = model.openSources.randomElement(using: &dice) else { continue }
                    for _ in 0..<Int.random(in: 1...buffer, using: &dice) where model.sent[source] < model.asked[source]
                    {
                        let value = source * 1_000_000 + model.sent[source]
                        sources[source].send(value)
                        model.send(value, from: source)
                        model.ask()
                    }
                }
                model.ask()
                #expect(sources.map(\.asked) == model.asked, "seed \(seed), step \(step)")
                if step % 20 == 19 {
                    #expect(recorders.map(\.values) == model.members.map(\.received), "seed \(seed), step \(step)")
                }
            }
            #expect(recorders.allSatisfy { $0.completion == nil })
            input.cancel()
            for source in model.openSources { #expect(sources[source].isCancelled) }
        }
    }

    @Test("publishers with waiting values take turns, so that a busy one does not delay the others")
    func turns() {
        let input = MergeInput<Int>(buffer: 10)
        let recorder = Recorder<Int, Never>()
        input.subscribe(recorder)
        let sources = (0..<3).map { _ in CountingSource() }
        for source in sources { source.merge(into: input) }
        for value in 0..<10 { sources[0].send(value) }
        sources[1].send(100)
        sources[2].send(200)
        sources[1].send(101)
        recorder.request(.max(4))
        #expect(recorder.values == [0, 100, 200, 1])
        sources[2].send(201)
        recorder.request(.max(4))
        #expect(recorder.values.suffix(4) == [101, 2, 201, 3])
    }

    @Test("the slowest subscriber holds the publishers back, until it leaves")
    func slowest() {
        let input = MergeInput<Int>(buffer: 3)
        let source = CountingSource()
        source.merge(into: input)
        #expect(source.asked == 0)
        let slow = Recorder<Int, Never>()
        let fast = Recorder<Int, Never>(demand: .unlimited)
        input.subscribe(slow)
        input.subscribe(fast)
        for value in 0..<3 { source.send(value) }
        #expect(source.asked == 3 && fast.values == [0, 1, 2] && slow.values == [])
        slow.request(.max(2))
        #expect(source.asked == 5 && slow.values == [0, 1])
        slow.cancel()
        #expect(source.asked == 6)
        source.send(3)
        #expect(fast.values == [0, 1, 2, 3] && source.asked == 7)
        fast.cancel()
        // Nobody receives what was requested before.
        source.send(4)
        let late = Recorder<Int, Never>(demand: .unlimited)
        input.subscribe(late)
        #expect(source.asked == 8)
        source.send(5)
        #expect(late.values == [5])
    }

    @Test("what waits of a publisher that has finished is still delivered")
    func finished() {
        let input = MergeInput<Int>(buffer: 2)
        let recorder = Recorder<Int, Never>(demand: .max(1))
        input.subscribe(recorder)
        [1, 2, 3].publisher.merge(into: input)
        [11, 12].publisher.merge(into: input)
        #expect(recorder.values == [1])
        recorder.request(.max(3))
        #expect(recorder.values == [1, 2, 11, 3])
        recorder.request(.unlimited)
        #expect(recorder.values == [1, 2, 11, 3, 12] && recorder.completion == nil)
    }

    @Test("an endless publisher is not read ahead, and a publisher that sends too much is cut off")
    func bounded() {
        let input = MergeInput<Int>(buffer: 4)
        let recorder = Recorder<Int, Never>(demand: .max(10))
        input.subscribe(recorder)
        nonisolated(unsafe) var count = 0
        (0...).publisher.handleEvents(receiveOutput: { _ in count += 1 }).merge(into: input)
        #expect(recorder.values == Array(0..<10) && count == 14)
        input.cancel()

        let other = MergeInput<Int>(buffer: 4)
        let patient = Recorder<Int, Never>()
        other.subscribe(patient)
        let source = CountingSource()
        source.merge(into: other)
        for value in 0..<100 { source.send(value) }
        patient.request(.unlimited)
        #expect(patient.values == [0, 1, 2, 3])
    }
}
