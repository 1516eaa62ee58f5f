// SubscribingTests: where a subscription begins, and what is requested before it has begun.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct SubscribingTests {
    /// More is requested before the broker has processed the subscription.
    @Test(arguments: DeliveryTests.placements)
    func creditRightBehindASubscriptionCounts(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        for text in ["a", "b", "c", "d"] { publisher.fireAndForget("t", text) }
        let subscriber = broker.connect(at)
        subscriber.send { buffer in
            Array("t?replay=all".utf8).withUnsafeBytes { route in
                FrameWriter.requestStream(
                    stream: 1, initialN: 1, metadata: route, data: UnsafeRawBufferPointer(start: nil, count: 0),
                    fragment: 1 << 20, into: &buffer)
            }
            FrameWriter.requestN(stream: 1, n: 2, into: &buffer)
        }
        #expect(subscriber.received() == ["1:a", "1:b", "1:c"])
    }

    /// The sequence belonged to another topic: everything in this one is new to the subscriber.
    @Test(arguments: DeliveryTests.placements)
    func aTokenOfAnotherEpochBeginsAtTheOldest(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let publisher = broker.connect(from)
        for text in ["a", "b", "c"] { publisher.fireAndForget("t", text) }
        let epoch = broker.shards.lazy.compactMap { $0.topics["t"] }.first!.epoch
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?from=3&epoch=\(epoch ^ 1)&meta=on", stream: 1)
        subscriber.subscribe("t?from=3&epoch=\(epoch)&meta=on", stream: 3)
        #expect(subscriber.received().sorted() == ["1:[1]a", "1:[2]b", "1:[3]c", "3:[3]c"])
    }

    /// The topic has another epoch, or never reached that sequence: a message reports it, or else the end.
    @Test(arguments: DeliveryTests.placements)
    func anEndTellsOfAGapThatNoMessageTold(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let (publisher, subscriber) = (broker.connect(from), broker.connect(at))
        let options = ["epoch=5&from=3", "from=3", "from=1", "replay=all"]
        for (index, option) in options.enumerated() {
            subscriber.subscribe("a?\(option)&meta=on", stream: UInt32(2 * index + 1))
            subscriber.subscribe("b?\(option)&meta=on", stream: UInt32(2 * index + 101))
        }
        publisher.fireAndForget("b", "x")
        for topic in ["a", "b"] { publisher.publish("$SYS.topic.complete?name=\(topic)", "", stream: 7) }
        let reported = subscriber.received().sorted()
        #expect(reported.filter { !$0.hasPrefix("10") } == ["1:[0]|", "3:[0]|", "5:|", "7:|"])
        #expect(
            reported.filter { $0.hasPrefix("10") }
                == [1, 3, 5, 7].flatMap { ["10\($0):[1]x", "10\($0):|"] })
    }

    @Test func aFailureTellsOfAGapThatNoMessageTold() {
        let broker = TestBroker()
        let (publisher, subscriber) = (broker.connect(), broker.connect())
        subscriber.subscribe("t?epoch=5&from=3&meta=on", stream: 1)
        subscriber.subscribe("t?from=3&meta=on", stream: 3)
        let epoch = broker.shards[0].topics["t"]!.epoch
        publisher.publish("$SYS.topic.fail?name=t&message=no", "")
        #expect(
            subscriber.received().sorted() == [
                "1:! 201 topic failed: no (the topic restarted with epoch \(epoch) and lost the requested messages)",
                "3:! 201 topic failed: no (the requested message did not exist yet)",
            ])
    }
}
