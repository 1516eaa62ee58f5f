// PatternOutputTests: subscriptions to patterns whose connections have no room, and what topics have lost before the
// subscriptions noticed.

import Testing

@testable import Core

@Suite struct PatternOutputTests {
    private func broker(_ shards: Int, _ change: (inout Limits) -> Void) -> TestBroker {
        var limits = Limits()
        change(&limits)
        return TestBroker(shards: shards, limits: limits)
    }

    /// A message that does not fit into what is left of the output keeps its turn. Otherwise, shorter messages of other
    /// topics would overtake it again and again.
    @Test(arguments: DeliveryTests.placements)
    func aLongMessageKeepsItsTurn(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards) { $0.output = 400 }
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*")
        subscriber.window = 0
        for _ in 0..<20 { publisher.fireAndForget("t.short", "x") }
        publisher.fireAndForget("t.long", String(repeating: "y", count: 300))
        let long = "t.long:" + String(repeating: "y", count: 300)
        // The socket takes little at a time, so that there is always room for a short message.
        for _ in 0..<100 { subscriber.read(150) }
        subscriber.read(.max)
        let received = subscriber.received()
        #expect(received.count == 21)
        // At most what was in the output already, and one turn.
        let place = received.firstIndex { $0.hasSuffix(long) }
        #expect(place.map { $0 <= 6 } == true, "\(received.map { $0.prefix(20) })")
    }

    /// A topic that has been quiet for a while still owes the report of what was lost after its last delivery.
    @Test(arguments: DeliveryTests.placements)
    func whatWasLostBeforeARestIsReported(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let (publisher, subscriber) = (broker.connect(from), broker.connect(at))
        subscriber.subscribe("t.*?buffer=1&overflow=drop-newest", n: 1)
        for text in ["1", "2", "3"] { publisher.fireAndForget("t.a", text) }
        subscriber.requestN(1)
        broker.advance(seconds: 20)
        publisher.fireAndForget("t.a", "4")
        subscriber.requestN(1)
        #expect(
            subscriber.received().filter { $0.hasPrefix("1:") } == ["1:[1]t.a:1", "1:[2]t.a:2", "1:[4-1]t.a:4"])
    }

    /// A subscription that waited for output space once is released when it ends.
    @Test func anEndedSubscriptionThatWaitedIsReleased() {
        let broker = broker(1) { $0.output = 400 }
        let publisher = broker.connect()
        let subscriber = broker.connect()
        subscriber.subscribe("t.*")
        weak let subscription = broker.shards[0].parts.tables.streams.at(0)
        #expect(subscription?.kind == .pattern)
        subscriber.window = 0
        for _ in 0..<20 { publisher.fireAndForget("t.a", "x") }
        subscriber.read(.max)
        #expect(subscriber.received().count == 20)
        subscriber.cancel()
        broker.advance(seconds: 1)
        #expect(subscription == nil)
    }

    /// What a topic loses at the moment at which a subscription gets a cursor again is reported as dropped, and does
    /// not wait.
    @Test(arguments: DeliveryTests.placements)
    func aNewCursorDoesNotWaitForWhatIsLost(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards) { ($0.retain, $0.retainBytes) = (1, 600) }
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?buffer=1", n: 1)
        let text = String(repeating: "x", count: 100)
        publisher.fireAndForget("t.a", text)
        #expect(subscriber.received().count == 1)
        broker.advance(seconds: 20)
        publisher.channel("t.a", text)
        publisher.items(["0" + text])
        let cursors = broker.shards[at].views.attached.flatMap(\.members)
        for cursor in cursors { #expect(cursor.cursor.cursor >= cursor.view.lost) }
        #expect(cursors.count == 1)
        subscriber.requestN(100)
        let received = subscriber.received()
        #expect(received.count == 1 && received[0].hasPrefix("1:[3-1]t.a:0x"), "\(received)")
    }
}
