// Subscriptions to patterns: the topic that a message names.

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
