// PatternBufferTests: `buffer` and `overflow` in subscriptions to patterns count for each topic, from its first message
// on.

import Testing

@testable import Core

@Suite struct PatternBufferTests {
    @Test(arguments: DeliveryTests.placements)
    func eachTopicHasABufferOfItsOwn(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?buffer=2", n: 1)
        for text in 1...5 { publisher.fireAndForget("t.a", "\(text)") }
        for text in 1...2 { publisher.fireAndForget("t.b", "\(text)") }
        subscriber.requestN(100)
        #expect(
            subscriber.received() == [
                "1:[1]t.a:1", "1:[4-2]t.a:4", "1:[1]t.b:1", "1:[5]t.a:5", "1:[2]t.b:2",
            ])
    }

    /// The first messages of a new topic arrive like all others.
    @Test(arguments: DeliveryTests.placements)
    func aNewTopicHasABufferFromItsFirstMessageOn(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?buffer=2", n: 1, stream: 1)
        subscriber.subscribe("t.*?buffer=2&overflow=drop-newest&replay=all", n: 1, stream: 3)
        subscriber.subscribe("t.*?overflow=latest&replay=all", n: 1, stream: 5)
        subscriber.subscribe("t.*?buffer=2&overflow=fail", n: 1, stream: 7)
        publisher.fireAndForget("t.a", ["1", "2", "3", "4", "5"])
        for stream: UInt32 in [1, 3, 5, 7] { subscriber.requestN(100, stream: stream) }
        let received = subscriber.received()
        func on(_ stream: Int) -> [String] { received.filter { $0.hasPrefix("\(stream):") } }
        #expect(on(1) == ["1:[1]t.a:1", "1:[4-2]t.a:4", "1:[5]t.a:5"])
        #expect(on(3) == ["3:[1]t.a:1", "3:[2]t.a:2", "3:[3]t.a:3"])
        #expect(on(5) == ["5:[1]t.a:1", "5:[5-3]t.a:5"])
        #expect(
            on(7) == [
                "7:[1]t.a:1", "7:[2]t.a:2", "7:[3]t.a:3",
                "7:! 201 overflow: topic 't.a': the buffer of 2 messages was full",
            ])
    }

    /// A replay with `latest` begins with the newest message; older ones do not count as dropped.
    @Test(arguments: DeliveryTests.placements)
    func latestCountsNoOlderMessages(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        for text in 1...5 { publisher.fireAndForget("t.a", "\(text)") }
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?overflow=latest&replay=all", stream: 1)
        subscriber.subscribe("t.*?overflow=latest&replay=3", stream: 3)
        subscriber.subscribe("t.*?overflow=latest&since=2001-01-01T00:00:00Z", stream: 5)
        #expect(subscriber.received().sorted() == [1, 3, 5].map { "\($0):[5]t.a:5" })
    }

    @Test(arguments: DeliveryTests.placements)
    func anOverflowNamesTheTopic(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        let (subscriber, watcher) = (broker.connect(at), broker.connect())
        watcher.subscribe("$SYS.events")
        subscriber.subscribe("t.*?buffer=1&overflow=fail", n: 1)
        for text in 1...3 { publisher.fireAndForget("t.a", "\(text)") }
        subscriber.requestN(100)
        #expect(
            subscriber.received() == [
                "1:[1]t.a:1", "1:[2]t.a:2",
                "1:! 201 overflow: topic 't.a': the buffer of 1 message was full",
            ])
        publisher.fireAndForget("t.b", "1")
        #expect(subscriber.received() == [])
        let events = watcher.received().filter { $0.contains(#""event":"overflow""#) }
        #expect(events.count == 1 && events[0].contains(#""topic":"t.a","pattern":"t.*""#))
    }
}
