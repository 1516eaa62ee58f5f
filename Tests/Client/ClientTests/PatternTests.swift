// Subscriptions to patterns: the topic that a message names, and the positions in the topics.

import Bytes
import ForebayWire
import RSocket
import Testing

@testable import Client

/// An entry of composite metadata.
private func entry(_ mime: StaticString, _ content: [UInt8]) -> [UInt8] {
    bytes { out in content.withUnsafeBytes { CompositeMetadata.appendEntry(name: "\(mime)", $0, into: &out) } }
}

private func topicEntry(_ name: String) -> [UInt8] { entry(MessageInfo.topicMime, Array(name.utf8)) }

/// The broker's entry with these figures.
private let position = entry(
    MessageInfo.mime, hex("0000000000000007 0000000000000008 0000000000000001 0000000000000009"))

private func info(_ metadata: [UInt8], ofPattern: Bool) -> MessageInfo? {
    metadata.withUnsafeBytes { MessageInfo(metadata: $0, ofPattern: ofPattern) }
}

@Suite struct PatternMetadataTests {
    /// The bytes in Protocol/reference.md.
    @Test func theTopicIsReadFromTheSecondEntry() throws {
        let metadata =
            hex("1e") + Array("application/vnd.forebay.message".utf8)
            + hex("000020 0000000000000007 0000000000000008 0000000000000001 0000000000000009")
            + hex("1c") + Array("application/vnd.forebay.topic".utf8) + hex("000009") + Array("orders.eu".utf8)
        #expect(metadata == position + topicEntry("orders.eu"))
        let read = MessageInfo(epoch: 7, sequence: 8, timestamp: 1, dropped: 9, topic: "orders.eu")
        #expect(info(metadata, ofPattern: true) == read)
    }

    private static let other = entry("x/y", [1])
    private static let similar = entry("application/vnd.forebay.topiC", [0x61])
    private static let forged = topicEntry("forged")

    /// Metadata, the topic that it names in a subscription to a pattern, and what of it the publisher sent.
    @Test(
        arguments: [
            (position, nil, []),
            (position + topicEntry("a") + other, "a", other),
            (position + topicEntry("a") + forged, "a", forged),
            (position + topicEntry("a") + position + forged, "a", forged),
            (position + other + forged, nil, other + forged),
            (position + topicEntry(""), "", []),
            (position + entry(MessageInfo.topicMime, [0xff]), nil, entry(MessageInfo.topicMime, [0xff])),
            (position + similar, nil, similar),
            (position + [0x1c], nil, []),
        ] as [([UInt8], String?, [UInt8])])
    func onlyTheBrokersEntryNamesTheTopic(metadata: [UInt8], topic: String?, given: [UInt8]) throws {
        let read = try #require(info(metadata, ofPattern: true))
        #expect(read.topic == topic)
        #expect(metadata.withUnsafeBytes { read.removeOwn(from: $0) } == given)
    }

    /// In a subscription to one topic, such an entry is the publisher's, wherever it is.
    @Test func aPublisherCannotNameATopic() throws {
        let metadata = position + Self.forged
        let read = try #require(info(metadata, ofPattern: false))
        #expect(read.topic == nil)
        #expect(metadata.withUnsafeBytes { read.removeOwn(from: $0) } == Self.forged)
        #expect(info(Self.forged, ofPattern: true) == nil)
    }

    @Test(arguments: [("orders.*", "orders.eu"), ("orders.>", "orders.eu"), ("orders.eu", nil)])
    func theRequestDecides(name: String, topic: String?) throws {
        let connection = RSocketConnection(now: 0)
        _ = try connection.subscribe(name, SubscribeOptions(), n: 1)
        let frame = payload(1, "x", metadata: position + topicEntry("orders.eu"))
        frame.withUnsafeBytes { bytes in
            connection.space(bytes.count).copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
        }
        connection.arrived(frame.count, now: 0)
        guard case .message(_, let message) = try connection.next() else {
            Issue.record("the message was not reported")
            return
        }
        #expect(message.info?.topic == topic)
    }
}

@Suite struct PatternPositionTests {
    private enum Step {
        /// A message: its topic, epoch, sequence, dropped; and what it implies.
        case message(String, UInt64, UInt64, dropped: UInt64 = 0, TopicPosition.Arrival)
        case lost
    }

    private static let cases: [(SubscribeOptions.Start, [Step])] = [
        // Each topic has its own sequences.
        (.next, [.message("a", 1, 7, .next), .message("b", 2, 3, .next), .message("a", 1, 8, .next)]),
        (
            .next,
            [
                .message("a", 1, 7, dropped: 2, .behind(2)), .message("a", 1, 9, .behind(1)),
                .message("a", 1, 12, dropped: 1, .behind(2)),
            ]
        ),
        // A topic that was deleted and created again while the subscription was there.
        (.next, [.message("a", 1, 7, .next), .message("a", 2, 1, .next), .message("a", 3, 4, dropped: 3, .behind(3))]),
        // What has been received is not received again, and what is missing is counted.
        (
            .all,
            [
                .message("a", 1, 7, .next), .message("b", 1, 1, .next), .lost, .message("a", 1, 7, .again),
                .message("b", 1, 4, .behind(2)), .message("a", 1, 8, .next),
            ]
        ),
        (
            .next,
            [
                .message("a", 1, 7, .next), .lost, .message("a", 2, 1, .restarted(previous: 1)),
                .message("a", 2, 2, .next),
            ]
        ),
        // Of a topic without a position, the first message may not be the next one, unless it is the topic's first.
        (.all, [.message("a", 1, 7, .next), .lost, .message("b", 1, 1, .next), .message("c", 1, 2, .uncertain)]),
        (
            .all,
            [
                .message("a", 1, 7, .next), .lost, .message("b", 1, 9, dropped: 4, .behind(nil)),
                .message("b", 1, 10, .next),
            ]
        ),
        // If nothing was received, the same is requested again.
        (.all, [.lost, .message("a", 1, 7, .next)]),
        (.since(.at(5)), [.lost, .message("a", 1, 7, .next)]),
        (.next, [.lost, .message("a", 1, 7, .uncertain)]),
        (.last(2), [.lost, .message("a", 1, 7, .uncertain), .message("a", 1, 8, .next)]),
        (.since(.ago(5)), [.lost, .message("a", 1, 7, .uncertain)]),
    ]

    @Test(arguments: cases)
    private func arrivals(start: SubscribeOptions.Start, steps: [Step]) {
        var position = SubscriptionPosition(start, ofPattern: true)
        for (number, step) in steps.enumerated() {
            switch step {
            case .lost: position.lost()
            case .message(let topic, let epoch, let sequence, let dropped, let arrival):
                let info = MessageInfo(
                    epoch: epoch, sequence: sequence, timestamp: 1, dropped: dropped, topic: topic)
                #expect(position.receive(info) == arrival, "step \(number)")
            }
        }
    }

    @Test func itBeginsAtTheNewestMessage() {
        var position = SubscriptionPosition(.last(3), ofPattern: true)
        #expect(position.start == .last(3) && position.newest == nil)
        for timestamp in [Int64(5), 9, 7] {
            let topic = "t\(timestamp)"
            _ = position.receive(MessageInfo(epoch: 1, sequence: 1, timestamp: timestamp, dropped: 0, topic: topic))
        }
        #expect(position.start == .since(.at(9)) && position.newest == 9)
    }

    @Test func theFirstMessageOfEachTopicAfterALoss() {
        var position = SubscriptionPosition(.next, ofPattern: true)
        func isBack(_ topic: String, _ sequence: UInt64) -> Bool {
            _ = position.receive(MessageInfo(epoch: 1, sequence: sequence, timestamp: 1, dropped: 0, topic: topic))
            return position.isBack
        }
        #expect(!isBack("a", 1))
        position.lost()
        #expect(isBack("a", 2) && !isBack("a", 3) && isBack("b", 7) && !isBack("b", 8))
    }

    /// The positions of other topics are forgotten; the memory is bounded.
    @Test func positionsOfManyTopics() {
        var position = PatternPosition(.next)
        let most = UInt64(PatternPosition.mostTopics)
        for number in 1...most + 10 {
            let info = MessageInfo(epoch: 1, sequence: 2, timestamp: 1, dropped: 0, topic: "t\(number)")
            _ = position.receive(info)
        }
        let last = MessageInfo(epoch: 1, sequence: 2, timestamp: 1, dropped: 0, topic: "t\(most + 10)")
        #expect(position.receive(last) == .again)
        #expect(position.topicCount == Int(most))
    }
}
