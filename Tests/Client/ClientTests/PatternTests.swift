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
        // Its messages that still waited alternate with those of the new topic, whose position counts. Those that were
        // waiting when the connection was lost are missing.
        (
            .next,
            [
                .message("a", 1, 7, .next), .message("a", 2, 1, .next), .message("a", 1, 8, .next),
                .message("a", 2, 2, .next), .message("a", 3, 1, .next), .message("a", 1, 10, .behind(1)),
                .message("a", 2, 3, .next), .lost, .message("a", 3, 1, .again), .message("a", 3, 2, .uncertain),
                .message("a", 3, 3, .next),
            ]
        ),
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
        (.next, [.message("a", 1, 7, .next), .lost, .message("b", 1, 1, .next), .message("c", 1, 2, .uncertain)]),
        // Such topics begin where the subscription did.
        (
            .all,
            [
                .message("a", 1, 7, .next), .lost, .message("b", 1, 2, .next),
                .message("c", 1, 9, dropped: 8, .behind(8)),
            ]
        ),
        (
            .last(2),
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

    /// Every topic continues at its position, if all fit into a request.
    @Test(arguments: [SubscribeOptions.Start.next, .last(3), .since(.ago(1)), .all, .since(.at(2))])
    func itContinuesInEachTopic(_ start: SubscribeOptions.Start) {
        var position = SubscriptionPosition(start, ofPattern: true)
        #expect(position.start == start && position.newest == nil)
        position.lost()
        // Other topics lose nothing if they begin again where all began.
        let isRepeatable = start == .all || start == .since(.at(2))
        #expect(position.start == start && position.positions == [] && position.isComplete == isRepeatable)
        for (topic, sequence, time) in [("a", 4, 5), ("b", 2, 9), ("a", 5, 7)] {
            _ = position.receive(info(topic, UInt64(sequence), at: Int64(time)))
        }
        position.lost()
        // Those with the newest messages come first.
        let (a, b) = (
            ResumePosition(topic: "a", epoch: 1, sequence: 6), ResumePosition(topic: "b", epoch: 1, sequence: 3)
        )
        #expect(position.positions == [b, a] && position.newest == 9)
        #expect(position.start == (isRepeatable ? start : .since(.at(9))) && position.isComplete == isRepeatable)
        _ = position.receive(info("b", 3, at: 10))
        #expect(position.positions == [])
    }

    @Test func positionsThatDoNotFitAreLeftOut() {
        var position = SubscriptionPosition(.all, ofPattern: true)
        let name = String(repeating: "x", count: 240)
        for number in 1...9000 {
            let info = MessageInfo(
                epoch: .max, sequence: 1, timestamp: Int64(number), dropped: 0, topic: "\(name).\(number)")
            _ = position.receive(info)
        }
        position.lost()
        #expect((3000..<9000).contains(position.positions.count) && position.start == .since(.at(9000)))
        #expect(position.positions.first?.topic == "\(name).9000" && !position.isComplete)
        var data = ByteBuffer()
        ResumePosition.append(position.positions, to: &data)
        #expect((900_000...1 << 20).contains(data.count))
        // What is received again of the others is recognized.
        let again = MessageInfo(epoch: .max, sequence: 1, timestamp: 1, dropped: 0, topic: "\(name).1")
        #expect(position.receive(again) == .again)
    }

    @Test func positionsAreWrittenAsJSON() {
        var data = ByteBuffer()
        ResumePosition.append(
            [
                ResumePosition(topic: "a.b", epoch: .max, sequence: 7),
                ResumePosition(topic: "\"", epoch: 1, sequence: 2),
            ], to: &data)
        #expect(String(decoding: data.readable, as: UTF8.self) == #"{"a.b":["18446744073709551615",7],"\"":["1",2]}"#)
        data.removeAll()
        ResumePosition.append([], to: &data)
        #expect(Array(data.readable) == Array("{}".utf8))
    }

    /// A broker may have smaller limits than the client assumes.
    @Test(arguments: [ErrorWord.invalid, .tooLarge])
    func aRefusedRequestIsRepeatedWithFewerPositions(_ word: ErrorWord) {
        let refusal = ClientError(.rejected, word.text("There are too many."))
        var position = SubscriptionPosition(.all, ofPattern: true)
        position.lost()
        let hasNone = position.refused(refusal)
        #expect(!hasNone)
        for number in 1...5 { _ = position.receive(info("t\(number)", 1, at: Int64(number))) }
        position.lost()
        #expect(position.start == .all)
        for topics in [["t5", "t4"], ["t5"], []] {
            let isRepeated = position.refused(refusal)
            #expect(isRepeated && position.positions.map(\.topic) == topics)
            #expect(position.start == .since(.at(5)) && !position.isComplete)
        }
        let again = position.refused(refusal)
        #expect(!again)
        #expect(position.receive(info("t1", 3, at: 9)) == .behind(1))
        #expect(position.receive(info("other", 3, at: 9)) == .uncertain)
    }

    @Test func otherRefusalsAreFinal() {
        func mayRepeat(_ error: ClientError, afterMessage: Bool = false) -> Bool {
            var position = SubscriptionPosition(.next, ofPattern: true)
            _ = position.receive(info("t", 1, at: 1))
            position.lost()
            if afterMessage { _ = position.receive(info("t", 2, at: 2)) }
            return position.refused(error)
        }
        let invalid = ErrorWord.invalid.text("There are too many.")
        #expect(mayRepeat(ClientError(.invalid, invalid)))
        #expect(!mayRepeat(ClientError(.invalid, invalid), afterMessage: true))
        // This side's own error.
        #expect(!mayRepeat(ClientError(.overdelivered, invalid)))
        for word in ErrorWord.allCases where ![.invalid, .tooLarge].contains(word) {
            #expect(!mayRepeat(ClientError(.rejected, word.text("x"))))
        }
        var topic = SubscriptionPosition(.next, ofPattern: false)
        _ = topic.receive(info("t", 1, at: 1))
        topic.lost()
        let isRepeated = topic.refused(ClientError(.invalid, invalid))
        #expect(!isRepeated)
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

    /// The positions in topics without new messages are forgotten; the memory is bounded.
    @Test func positionsOfManyTopics() {
        var position = PatternPosition(.all)
        let most = PatternPosition.mostTopics
        // This topic's message is older than the others'.
        for number in 1...2 * most { _ = position.receive(info("t\(number)", 2, at: Int64(number == 9 ? 0 : number))) }
        #expect(position.topicCount == 2 * most)
        _ = position.receive(info("new", 2, at: 7))
        #expect(position.topicCount == most)
        #expect(position.receive(info("t\(most + 1)", 2, at: 1)) == .again)
        for topic in ["t9", "new", "t\(most)"] { #expect(position.receive(info(topic, 3, at: 8)) == .next) }
        position.lost()
        #expect(position.positions.count == most && position.positions.first?.topic == "t\(2 * most)")
        #expect(!position.isComplete && position.start == .since(.at(Int64(2 * most))))
        #expect(position.receive(info("t1", 4, at: .max)) == .uncertain)
    }

    /// Messages of a topic whose position was forgotten are not requested again.
    @Test func positionsOfManyTopicsWithTheSameTime() {
        var position = PatternPosition(.next)
        for number in 0...2 * PatternPosition.mostTopics { _ = position.receive(info("t\(number)", 2, at: 7)) }
        position.lost()
        #expect(position.start == .since(.at(8)))
        for number in 0...2 * PatternPosition.mostTopics { _ = position.receive(info("u\(number)", 2, at: .max)) }
        position.lost()
        #expect(position.start == .since(.at(.max)))
    }

    private func info(_ topic: String, _ sequence: UInt64, at time: Int64) -> MessageInfo {
        MessageInfo(epoch: 1, sequence: sequence, timestamp: time, dropped: 0, topic: topic)
    }
}
